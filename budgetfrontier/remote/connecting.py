"""Failures of a connection: the log lines while a server is waited for, and the failures that do not pass."""

from __future__ import annotations

import logging
import re
import socket
import ssl
from contextlib import suppress
from typing import Any

from budgetfrontier.core.endpoints import addresses
from budgetfrontier.errors import WrongCredentials

PROBE_WITHIN = 2.0
"""Seconds in which a server that has cut a connection without TLS may show that it has TLS."""

FOREVER = 1e6
"""Seconds from which on a caller does not give up."""

_NO_TRUST = re.compile(r"CERTIFICATE_VERIFY_FAILED(?:: (?P<why>[^:;]+))?")
_OTHER_NAME = re.compile(r"Hostname Verification|[Pp]eer name .* is not in peer certificate")
_NO_TLS = re.compile(r"WRONG_VERSION_NUMBER|HTTP_REQUEST|UNEXPECTED_MESSAGE|Cannot check peer: missing selected ALPN")
_NOBODY = re.compile(
    r"refused|No such file|not found|resolution|resolve|unreachable|[Tt]imed? ?out|deadline", re.IGNORECASE
)
_WAY = re.compile(r".*last error: (?:[A-Z_]+: )?(?:(?:ipv[46]|unix):\S+: )?", re.DOTALL)

log = logging.getLogger("budgetfrontier.client")


class Connecting:
    """The failures of the connection of one client. Its methods may be called from any thread."""

    def __init__(self, address: str, *, tls: bool, token: bool, quiet: bool = False) -> None:
        self.address = address
        self._tls, self._token, self._quiet = tls, token, quiet
        self._waits = self._probed = False

    def check(self, failure: Any) -> None:
        """Raise WrongCredentials if the first exchange has failed for a reason that does not pass by itself.

        A server with TLS cuts connections without it: the probe for that takes up to PROBE_WITHIN seconds, once.
        """
        error = self._tls_error(_details(failure)) if self._tls else self._plain_error(_details(failure))
        if error is not None:
            raise error from None

    def waiting(self, failure: Any, left: float) -> None:
        """Log once that the server is waited for, `left` seconds more, unless the caller logs its own waits."""
        if 0 < left < FOREVER and not (self._waits or self._quiet):
            self._waits = True
            seconds = max(1, round(left))
            log.warning("Waiting for the server at %s, %d s at the most: %s", self.address, seconds, reason(failure))

    def answered(self) -> None:
        """Log that the server is there, if it was waited for."""
        if self._waits:
            self._waits = False
            log.info("The server at %s is there", self.address)

    def refused(self) -> WrongCredentials:
        """Return the error for a client whose token is not the server's."""
        why = "has another token" if self._token else "wants a token"
        remedy = "set {option} to the one in the file that the server has as `--token-file`"
        return WrongCredentials(f"the server at {self.address} {why}", remedy, option="token")

    def _tls_error(self, details: str) -> WrongCredentials | None:
        if found := _NO_TRUST.search(details):
            why = found["why"] or "verification failed"
            remedy = "set {option} to a file with the certificates that have signed it, or with itself if none has"
            if "expired" in why:
                remedy = "give the server another (`--tls`); {option} may be right"
            return WrongCredentials(
                f"the certificate of the server at {self.address} is not trusted ({why})", remedy, option="tls"
            )
        if _OTHER_NAME.search(details):
            return WrongCredentials(
                f"the certificate of the server is not for the name in {self.address}",
                "set {option} to a name that it has, or give the server a certificate with this one (`--tls`)",
                option="address",
            )
        if _NO_TLS.search(details):
            return WrongCredentials(
                f"the server at {self.address} has no TLS",
                "leave {option} out, or start the server with `--tls`",
                option="tls",
            )
        return None

    def _plain_error(self, details: str) -> WrongCredentials | None:
        if self._probed or _NOBODY.search(details):
            return None
        self._probed = True
        if not has_tls(self.address):
            return None
        return WrongCredentials(
            f"the server at {self.address} has TLS",
            "set {option} to a file with the certificates that have signed its own, or to True if the system has them",
            option="tls",
        )


def reason(failure: Any) -> str:
    """Return why a connection has failed, without gRPC's details."""
    return _WAY.sub("", _details(failure)) or str(failure.code().name)


def has_tls(address: str) -> bool:
    """Return whether a server answers a TLS handshake, with any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with suppress(OSError, ValueError), _connected(address) as connection, context.wrap_socket(connection):
        return True
    return False


def _connected(address: str) -> socket.socket:
    where = addresses.parsed(address)
    if isinstance(where, addresses.HostPort):
        return socket.create_connection(where, timeout=PROBE_WITHIN)
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(PROBE_WITHIN)
        connection.connect(str(where))
    except BaseException:
        connection.close()
        raise
    return connection


def _details(failure: Any) -> str:
    return failure.details() or ""
