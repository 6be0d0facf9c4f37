"""Receivers of alerts on loopback: an HTTP server and an SMTP server, which answer as they are told."""

from __future__ import annotations

import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CERTIFICATE = Path(__file__).parents[2] / "crawler" / "selfsigned.pem"


class Hook(ThreadingHTTPServer):
    """An HTTP server that keeps what is posted, and answers with `status`, or hardly until `released`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Posted)
        self.status, self.slow = 200, False
        self.released = threading.Event()
        self.posted: list[tuple[str, dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook?a=b"


class _Posted(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posted.append((self.path, dict(self.headers), body))
        if self.server.slow:  # a byte now and then: no time-out of a socket ends that
            while not self.server.released.wait(0.02):
                try:
                    self.wfile.write(b"H")
                except OSError:
                    return
            return
        self.send_response(self.server.status)
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


class Mailbox(socketserver.ThreadingTCPServer):
    """An SMTP server that keeps the mail that it accepts. `login` is what it wants to know, user:password.

    `tls`: "always", or "starttls", which it wants before anything else.
    """

    daemon_threads = True

    def __init__(
        self, *, login: bytes = b"", tls: str = "none", certificate: tuple[Path, Path | None] = (CERTIFICATE, None)
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Smtp)
        self.login, self.tls = login, tls
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*certificate)
        self.mail: list[tuple[list[str], Message]] = []

    @property
    def address(self) -> str:
        return f"localhost:{self.server_address[1]}"

    def get_request(self) -> tuple[Any, Any]:
        """Accept a connection, with TLS if it is asked for at once."""
        connection, address = super().get_request()
        if self.tls == "always":
            try:
                connection = self.context.wrap_socket(connection, server_side=True)
            except ssl.SSLError as error:  # the client does not trust it
                raise OSError from error
        return connection, address


class _Smtp(socketserver.StreamRequestHandler):
    server: Mailbox

    def handle(self) -> None:
        """Speak SMTP, as far as a client that sends one message needs it."""
        import base64

        recipients: list[str] = []
        known, safe = not self.server.login, self.server.tls != "starttls"
        self._say("220 ready")
        while line := self.rfile.readline():
            word, _, rest = line.decode().strip().partition(" ")
            match word.upper():
                case "EHLO":
                    self._say("250-here", "250 AUTH PLAIN" if safe else "250 STARTTLS")
                case "STARTTLS" if self.server.tls == "starttls":
                    self._say("220 go on")
                    try:
                        self.request = self.server.context.wrap_socket(self.request, server_side=True)
                    except (ssl.SSLError, ConnectionError):  # the client does not trust it
                        return
                    self.setup()
                    safe = True
                case _ if not safe and word.upper() != "QUIT":
                    self._say("530 STARTTLS first")
                case "AUTH":
                    given = base64.b64decode(rest.rpartition(" ")[2]).replace(b"\0", b":").removeprefix(b":")
                    known = given == self.server.login
                    self._say("235 fine" if known else "535 no")
                case "RCPT" if not known:
                    self._say("550 who are you?")
                case "RCPT":
                    recipients.append(rest.partition("<")[2].rstrip(">"))
                    self._say("250 fine")
                case "DATA":
                    self._say("354 go on")
                    body = b""
                    while (part := self.rfile.readline()) != b".\r\n":
                        body += part
                    self.server.mail.append((recipients, message_from_bytes(body)))
                    self._say("250 taken")
                case "QUIT":
                    self._say("221 bye")
                    return
                case _:
                    self._say("250 fine")

    def finish(self) -> None:
        """Close the connection, with TLS or without."""
        super().finish()
        self.request.close()

    def _say(self, *lines: str) -> None:
        self.wfile.write("".join(f"{line}\r\n" for line in lines).encode())


@contextmanager
def served(server: Hook | Mailbox) -> Iterator[None]:
    """Serve in a thread within the block."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        if isinstance(server, Hook):
            server.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
