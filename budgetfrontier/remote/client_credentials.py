"""The token and the certificates of a client, checked before anything is sent."""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Any

import grpc

from budgetfrontier.core import protocol
from budgetfrontier.core.endpoints import tokens
from budgetfrontier.errors import WrongCredentials, WrongType


def metadata(token: str | None) -> tuple[tuple[str, str], ...]:
    """Return the metadata of calls with a token, which may end with a line break. Raises WrongCredentials."""
    if token is None:
        return ()
    try:
        return ((protocol.TOKEN, f"Bearer {tokens.checked(token)}"),)
    except ValueError as why:
        remedy = "set {option} to the server's, or leave it out"
        raise WrongCredentials(f"the token {why}", remedy, option="token") from None


def certificates(tls: bool | str | os.PathLike[str]) -> Any:
    """Return the credentials for a server with TLS: `True` trusts the system's roots, a file those that it has.

    None for a server without. Raises WrongCredentials for a file that has none, WrongType for what is no path.
    """
    if tls is False:
        return None
    if tls is True:
        return grpc.ssl_channel_credentials(None)
    if not isinstance(tls, str | os.PathLike):
        raise WrongType(f"`tls` is True, False or the path of a file of certificates, not {tls!r:.60}")
    try:
        found = Path(tls).read_bytes()
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(tls)
    except OSError as e:  # that of OpenSSL is one, too
        why = "is no file of certificates in PEM form" if isinstance(e, ssl.SSLError) else e.strerror
        raise WrongCredentials(f"{tls}: {why}", "set {option} to one that can be read", option="tls") from None
    return grpc.ssl_channel_credentials(found)
