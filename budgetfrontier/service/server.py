"""The server: sockets, TLS, tokens, health and reflection around the service, and its orderly end."""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from budgetfrontier.errors import FrontierError
from budgetfrontier.service.crawls import Crawls
from budgetfrontier.settings import Settings

GRACE = 5.0
"""Seconds that RPCs in progress have to end when the server is stopped."""
THREADS = 8
"""Threads for health checks and reflection; all else runs on the threads of gRPC and of the crawls."""
LONGEST_MESSAGE = 16 << 20
"""Bytes of a message that is accepted."""


class Offered(NamedTuple):
    """A service that the server offers: its full name, and its handlers for crawls at an address."""

    name: str
    handlers: Callable[[Crawls, str], Any]


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


def serve(
    folder: Path,
    settings: Settings,
    *,
    listen: str,
    services: Sequence[Offered],
    pool: Any = None,
    tls: Tls | None = None,
    token: str | None = None,
    close_after: float = 0.0,
    started: Callable[[str], None] = lambda where: None,
    stop: threading.Event | None = None,
) -> None:
    """Serve the crawls in a folder until `stop` is set. Raises FrontierError if `listen` cannot be bound.

    `pool` has the descriptors of the services, for reflection; `started` is called with the address. A crawl that
    nobody has used for `close_after` seconds is closed until it is used again (0: none is).
    """
    stop = stop or threading.Event()
    folder.mkdir(parents=True, exist_ok=True)
    crawls = Crawls(folder, settings, close_after=close_after)
    server = grpc.server(
        ThreadPoolExecutor(THREADS, thread_name_prefix="rpc"),
        interceptors=[] if token is None else [_Tokens(token)],
        options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", LONGEST_MESSAGE)],
    )
    try:
        if tls is None:
            port = server.add_insecure_port(listen)
        else:
            pair = (tls.key.read_bytes(), tls.certificate.read_bytes())
            port = server.add_secure_port(listen, grpc.ssl_server_credentials([pair]))
    except RuntimeError as e:
        tls_too = "" if tls is None else f", or {tls.key} is not the key of {tls.certificate}"
        raise FrontierError(f"{listen} cannot be listened on{tls_too}: {e}") from e
    address = listen if listen.startswith("unix:") else f"{listen.rpartition(':')[0]}:{port}"
    server.add_generic_rpc_handlers([service.handlers(crawls, address) for service in services])
    checks = health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    names = [service.name for service in services]
    reflection.enable_server_reflection([*names, health.SERVICE_NAME, reflection.SERVICE_NAME], server, pool=pool)
    server.start()
    try:
        for name in ("", *names):
            checks.set(name, health_pb2.HealthCheckResponse.SERVING)
        started(address)
        stop.wait()
        checks.enter_graceful_shutdown()
    finally:
        crawls.stopping.set()
        server.stop(GRACE).wait()
        crawls.close()
