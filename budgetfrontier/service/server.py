"""The server: sockets, TLS, tokens, health and reflection around the services, and its orderly end."""

from __future__ import annotations

import hmac
import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import grpc

from budgetfrontier.errors import FrontierError
from budgetfrontier.model import RunEnd
from budgetfrontier.protocol import checked_address
from budgetfrontier.service import health_checks, server_reflection, systemd
from budgetfrontier.service.call_stats import MethodStats
from budgetfrontier.service.calls import Handed, Method, Turns
from budgetfrontier.service.crawls import Crawls
from budgetfrontier.service.stopping import Stop
from budgetfrontier.settings import Settings

GRACE = 5.0
"""Seconds that RPCs in progress have to end when the server is stopped."""
THREADS = 1
"""Threads for calls without the token, which are refused; all else runs on the threads of gRPC and of the crawls."""
LONGEST_MESSAGE = 16 << 20
"""Bytes of a message that is accepted."""
LONGEST_PATH = 107 if sys.platform == "linux" else 103
"""Bytes of the path of a Unix socket."""
LOOK_AGAIN = 0.05
"""Seconds between two looks whether calls have ended, or whether somebody has asked for the end at once."""

ServingMetrics = Callable[[Crawls, dict[tuple[str, str], MethodStats]], AbstractContextManager[None]]
"""Serves the metrics of crawls and calls until the end of a `with` block."""

log = logging.getLogger("budgetfrontier.service")


class Offered(NamedTuple):
    """A service that the server offers."""

    name: str
    """Its full name."""
    methods: Sequence[Method]
    hand_over: Callable[[Any, str], Callable[[list[Handed]], None]]
    """Returns what takes the messages of calls, for crawls at an address."""


class Tls(NamedTuple):
    """The files of a server's certificate chain and its key."""

    certificate: Path
    key: Path


class _Tokens(grpc.ServerInterceptor):  # type: ignore[misc]  # gRPC has no types
    """Refuses RPCs without the token, but for health checks."""

    def __init__(self, token: str) -> None:
        self._expected = f"Bearer {token}".encode()

        def refuse(requests: Any, context: Any) -> None:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "the metadata need `authorization: Bearer TOKEN`")

        self._refusal = grpc.stream_stream_rpc_method_handler(refuse)

    def intercept_service(self, continuation: Callable[[Any], Any], details: grpc.HandlerCallDetails) -> Any:
        """Let an RPC pass that has the token."""
        if details.method.startswith("/grpc.health."):
            return continuation(details)
        given = next((value for name, value in details.invocation_metadata if name == "authorization"), "")
        given = given if isinstance(given, bytes) else given.encode()
        return continuation(details) if hmac.compare_digest(given, self._expected) else self._refusal


def serve(folder: Path, settings: Settings, *, close_after: float = 0.0, **options: Any) -> bool:
    """Serve the crawls in a folder, as `serve_crawls` does; `settings` are those of crawls that are created.

    A crawl that nobody has used for `close_after` seconds is closed until it is used again (0: none is).
    """
    folder.mkdir(parents=True, exist_ok=True)
    return serve_crawls(Crawls(folder, settings, close_after=close_after), what=str(folder), **options)


def serve_crawls(
    crawls: Any,
    *,
    what: str,
    listen: str,
    services: Sequence[Offered],
    pool: Any = None,
    tls: Tls | None = None,
    token: str | None = None,
    metrics: ServingMetrics | None = None,
    started: Callable[[str], None] = lambda where: None,
    stop: Stop | None = None,
) -> bool:
    """Serve crawls until somebody asks for the end, and close them; tell whether no call was cut off by it.

    Raises FrontierError if `listen` cannot be bound. `what` names the crawls; `pool` has the descriptors of the
    services, for reflection; `started` is called with the address. systemd is told when the server is ready, and that
    it is alive, if it wants to know.

    At the end streams of requests are ended once what was read of them is answered, clients that wait for URIs get
    none, and other calls have GRACE seconds, or until the end is asked for again.
    """
    stop = stop or Stop()
    server = grpc.server(
        ThreadPoolExecutor(THREADS, thread_name_prefix="rpc"),
        interceptors=[] if token is None else [_Tokens(token)],
        options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", LONGEST_MESSAGE)],
    )
    address = _bind(server, listen, tls)
    turns = {service.name: Turns(service.hand_over(crawls, address)) for service in services}
    for service in services:
        _add(server, service.name, turns[service.name], service.methods)
    checks = health_checks.HealthChecks(turns)
    _add(server, health_checks.SERVICE, Turns(checks.hand_over), (health_checks.CHECK, health_checks.WATCH))
    asked = Turns(server_reflection.Reflection([*turns, health_checks.SERVICE], pool).hand_over)
    _add(server, server_reflection.SERVICE, asked, (server_reflection.INFO,))
    reason: str | None = None
    whole = True
    with ExitStack() as opened:
        is_alive = opened.enter_context(_watched(server))
        server.start()
        try:
            if metrics is not None:
                stats = {(name, method): each for name, turn in turns.items() for method, each in turn.stats.items()}
                opened.enter_context(metrics(crawls, stats))
            started(address)
            systemd.notify(f"READY=1\nSTATUS=serving {what} at {address}")
            reason = _wait(stop, is_alive)
            log.info("the server is being stopped", extra={"event": "stopping", "signal": reason})
            systemd.notify("STOPPING=1")
        finally:
            checks.stop()
            crawls.stopping.set()
            ended = server.stop(GRACE)
            for turn in (*turns.values(), asked):
                turn.stop()
            while not ended.wait(LOOK_AGAIN):
                if stop.wait(0.0) is not None:
                    whole = False
                    server.stop(None).wait()
            crawls.close(end=RunEnd.SIGNAL if reason else RunEnd.EXIT, reason=reason or "")
    log.info("the server has ended", extra={"event": "stopped"})
    return whole


def _add(server: grpc.Server, name: str, turns: Turns, methods: Sequence[Method]) -> None:
    """Let a server offer a service."""
    handlers = {method.name: turns.handler(method) for method in methods}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(name, handlers)])


def _bind(server: grpc.Server, listen: str, tls: Tls | None) -> str:
    """Let a server listen; return the address."""
    checked_address(listen, any_port=True)
    if listen.startswith("unix:"):
        _check_socket(listen, Path(listen.removeprefix("unix:")))
    try:
        if tls is None:
            port = server.add_insecure_port(listen)
        else:
            pair = (tls.key.read_bytes(), tls.certificate.read_bytes())
            for path, data in zip((tls.key, tls.certificate), pair, strict=True):
                if b"-----BEGIN " not in data:
                    raise FrontierError(f"{path} is not in PEM: give `--tls CERTIFICATE KEY` files in PEM")
            port = server.add_secure_port(listen, grpc.ssl_server_credentials([pair]))
    except RuntimeError as e:
        tls_too = "" if tls is None else f", or is {tls.key} not the key of {tls.certificate}"
        raise FrontierError(f"{listen} cannot be listened on; is another server at work there{tls_too}?") from e
    return listen if listen.startswith("unix:") else f"{listen.rpartition(':')[0]}:{port}"


def _check_socket(listen: str, path: Path) -> None:
    """Raise FrontierError, with the cause, for the path of a Unix socket that cannot be listened on."""
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise FrontierError(f"{listen} cannot be listened on: the path of a socket has up to {LONGEST_PATH} bytes")
    if not path.parent.is_dir():
        raise FrontierError(f"{listen} cannot be listened on: there is no folder {path.parent}; create it")
    if path.exists() and not path.is_socket():
        raise FrontierError(f"{listen} cannot be listened on: {path} is no socket; give another path")
    if _is_listened_on(str(path)):  # gRPC would take it
        raise FrontierError(f"another server listens on {listen}: end it, or give another path")


def _is_listened_on(path: str) -> bool:
    """Tell whether a process takes connections on a Unix socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
        return True


def _wait(stop: Stop, is_alive: Callable[[], bool]) -> str:
    """Wait until somebody asks for the end, and return the reason; meanwhile, tell the watchdog of systemd."""
    within = systemd.watchdog()
    while True:
        reason = stop.wait(inf if within is None else within / 3)
        if reason is not None:
            return reason
        if is_alive():
            systemd.notify("WATCHDOG=1")


@contextmanager
def _watched(server: grpc.Server) -> Iterator[Callable[[], bool]]:
    """Yield what tells whether the server's thread still takes calls; on a socket of this user's, if need be."""
    within = systemd.watchdog()
    if within is None:
        yield lambda: True
        return
    with TemporaryDirectory(prefix="budgetfrontier-") as folder:
        address = f"unix:{folder}/watchdog"
        server.add_insecure_port(address)
        with grpc.insecure_channel(address) as channel:
            call = channel.unary_unary(f"/{health_checks.SERVICE}/Alive")

            def is_alive() -> bool:
                try:
                    call(b"", timeout=within / 3, wait_for_ready=True)
                except grpc.RpcError as e:
                    return e.code() is grpc.StatusCode.UNIMPLEMENTED  # which the server's own thread answers
                return True

            yield is_alive
