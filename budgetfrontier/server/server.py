"""The server: sockets, TLS, tokens, health and reflection around the services, and its orderly end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import grpc

from budgetfrontier.core import protocol
from budgetfrontier.core.endpoints.addresses import HostPort, check_reach, parsed
from budgetfrontier.core.endpoints.sockets import check_path, owner_only
from budgetfrontier.core.endpoints.tokens import TokenFile
from budgetfrontier.core.model import RunEnd
from budgetfrontier.errors import FrontierError
from budgetfrontier.server import health_checks, server_reflection, systemd
from budgetfrontier.server.call_stats import MethodStats
from budgetfrontier.server.crawls import Crawls
from budgetfrontier.server.rpc_calls import Handed, MessageTurns, RpcMethod
from budgetfrontier.server.stopping import Stop
from budgetfrontier.settings import Settings
from budgetfrontier.storage.modes import folder_for

GRACE = 5.0
"""Seconds that RPCs in progress have to end when the server is stopped."""
THREADS = 1
"""Threads for calls without the token, which are refused; all else runs on the threads of gRPC and of the crawls."""
LONGEST_MESSAGE = 16 << 20
"""Bytes of a message that is accepted."""
LOOK_AGAIN = 0.05
"""Seconds between two looks whether calls have ended, or whether somebody has asked for the end at once."""

ANSWERED_WITHIN = 60.0
"""Seconds in which the server has to answer a call of its own before it says that it is ready."""

_NO_LIMIT = (1 << 31) - 1
_OPTIONS = (
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", LONGEST_MESSAGE),
    # Nothing but plain messages: a kilobyte of gzip may be a megabyte, which is made before anybody looks at it.
    ("grpc.compression_enabled_algorithms_bitset", 1),
    # Calls that wait to be taken: above 1,000, gRPC would cancel some at random, and at 3,000 all.
    ("grpc.server.max_pending_requests", _NO_LIMIT),
    ("grpc.server.max_pending_requests_hard_limit", _NO_LIMIT),
)

HandOver = Callable[[list[Handed]], None]
ServingMetrics = Callable[[Crawls, dict[tuple[str, str], MethodStats]], AbstractContextManager[None]]
"""Serves the metrics of crawls and calls until the end of a `with` block."""

log = logging.getLogger("budgetfrontier.service")


class Offered(NamedTuple):
    """A service that the server offers."""

    name: str
    """Its full name."""
    methods: Sequence[RpcMethod]
    hand_over: Callable[[Any, str], AbstractContextManager[HandOver]]
    """Yields a handler of the calls' messages, for crawls at an address, until the end of a `with` block."""


class Tls(NamedTuple):
    """The files of a server's certificate chain and its key."""

    certificate: Path
    key: Path


class _Tokens(grpc.ServerInterceptor):  # type: ignore[misc]  # gRPC has no types
    """Refuses RPCs without the token, but for health checks."""

    def __init__(self, token: TokenFile) -> None:
        self._token = token

        def refuse(requests: Any, context: Any) -> None:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "the metadata need `authorization: Bearer TOKEN`")

        self._refusal = grpc.stream_stream_rpc_method_handler(refuse)

    def intercept_service(self, continuation: Callable[[Any], Any], details: grpc.HandlerCallDetails) -> Any:
        """Let an RPC pass that has the token."""
        if details.method.startswith("/grpc.health."):
            return continuation(details)
        given = next((value for name, value in details.invocation_metadata if name == protocol.TOKEN), "")
        given = given if isinstance(given, bytes) else given.encode()
        scheme, _, token = given.partition(b" ")
        return continuation(details) if scheme == b"Bearer" and self._token.accepts(token) else self._refusal


def serve(folder: Path, settings: Settings, *, close_after: float = 0.0, **options: Any) -> bool:
    """Serve the crawls in a folder, as `serve_crawls` does; `settings` are those of crawls that are created.

    A crawl that nobody has used for `close_after` seconds is closed until it is used again (0: none is).
    """
    with folder_for(folder):
        return serve_crawls(Crawls(folder, settings, close_after=close_after), what=str(folder), **options)


def serve_crawls(
    crawls: Any,
    *,
    what: str,
    listen: str,
    services: Sequence[Offered],
    pool: Any = None,
    tls: Tls | None = None,
    token: TokenFile | None = None,
    anybody: bool = False,
    metrics: ServingMetrics | None = None,
    started: Callable[[str], None] = lambda where: None,
    stop: Stop | None = None,
) -> bool:
    """Serve crawls until somebody asks for the end, and close them; return whether no call was cut off by it.

    Raises FrontierError if `listen` cannot be bound, or is reached by other machines without `token` or `tls`, unless
    `anybody` may use it, or does not answer a call of its own. `what` names the crawls; `pool` has the descriptors of
    the services, for reflection; `started` is called with the address. systemd, if it asks, is notified when the server
    is ready, and that it is alive.

    At the end, streams of requests end once all read ones are answered, clients that wait for URIs get none, and other
    calls have GRACE seconds, or until the end is asked for again.
    """
    stop = stop or Stop()
    reason: str | None = None
    whole = True
    with ExitStack() as opened:
        opened.callback(lambda: crawls.close(end=RunEnd.SIGNAL if reason else RunEnd.EXIT, reason=reason or ""))
        server = grpc.server(
            ThreadPoolExecutor(THREADS, thread_name_prefix="rpc"),
            interceptors=[] if token is None else [_Tokens(token)],
            options=_OPTIONS,
        )
        address = _bind(server, listen, tls, protected=token is not None or tls is not None, anybody=anybody)
        taken = {each.name: opened.enter_context(each.hand_over(crawls, address)) for each in services}
        turns = {name: MessageTurns(hand_over) for name, hand_over in taken.items()}
        for service in services:
            _add(server, service.name, turns[service.name], service.methods)
        checks = health_checks.HealthChecks(turns)
        _add(server, health_checks.SERVICE, MessageTurns(checks.hand_over), (health_checks.CHECK, health_checks.WATCH))
        asked = MessageTurns(server_reflection.Reflection([*turns, health_checks.SERVICE], pool).hand_over)
        _add(server, server_reflection.SERVICE, asked, (server_reflection.INFO,))
        itself = opened.enter_context(_connected_to_itself(server))
        server.start()
        try:
            _check_answers(itself)
            if metrics is not None:
                stats = {(name, method): each for name, turn in turns.items() for method, each in turn.stats.items()}
                opened.enter_context(metrics(crawls, stats))
            started(address)
            systemd.notify(f"READY=1\nSTATUS=serving {what} at {address}")
            reason = _wait(stop, itself)
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
    log.info("the server has ended", extra={"event": "stopped"})
    return whole


def _add(server: grpc.Server, name: str, turns: MessageTurns, methods: Sequence[RpcMethod]) -> None:
    handlers = {method.name: turns.handler(method) for method in methods}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(name, handlers)])


def _bind(server: grpc.Server, listen: str, tls: Tls | None, *, protected: bool, anybody: bool) -> str:
    """Let a server listen; return the address."""
    where = parsed(listen, any_port=True)
    check_reach(
        where, option="--listen", protected=protected, anybody=anybody, remedy="give --token-file or --tls, "
    )  # fmt: skip
    if not isinstance(where, HostPort):
        check_path(where)  # gRPC would take the socket of another server
    with nullcontext() if isinstance(where, HostPort) else owner_only():
        try:
            if tls is None:
                port = server.add_insecure_port(listen)
            else:
                port = server.add_secure_port(listen, grpc.ssl_server_credentials([_key_pair(tls)]))
        except RuntimeError as e:
            tls_too = "" if tls is None else f", or is {tls.key} not the key of {tls.certificate}"
            raise FrontierError(f"{listen} cannot be listened on; is another server at work there{tls_too}?") from e
    return f"{listen.rpartition(':')[0]}:{port}" if isinstance(where, HostPort) else listen


def _key_pair(tls: Tls) -> tuple[bytes, bytes]:
    pair = (tls.key.read_bytes(), tls.certificate.read_bytes())
    for path, data in zip((tls.key, tls.certificate), pair, strict=True):
        if b"-----BEGIN " not in data:
            raise FrontierError(f"{path} is not in PEM: give `--tls CERTIFICATE KEY` files in PEM")
    return pair


def _wait(stop: Stop, itself: grpc.Channel) -> str:
    """Wait until somebody asks for the end, and return the reason; meanwhile, feed the watchdog of systemd."""
    within = systemd.watchdog()
    while True:
        reason = stop.wait(inf if within is None else within / 3)
        if reason is not None:
            return reason
        if within is not None and _is_alive(itself, within / 3):
            systemd.notify("WATCHDOG=1")


@contextmanager
def _connected_to_itself(server: grpc.Server) -> Iterator[grpc.Channel]:
    """Yield a channel to a server, on a socket that this user alone can open."""
    with TemporaryDirectory(prefix="budgetfrontier-") as folder:
        server.add_insecure_port(f"unix:{folder}/itself")
        with grpc.insecure_channel(f"unix:{folder}/itself") as channel:
            yield channel


def _check_answers(itself: grpc.Channel) -> None:
    """Raise FrontierError if a server does not answer a health check, as all calls are answered."""
    call = itself.unary_unary(f"/{health_checks.SERVICE}/{health_checks.CHECK.name}")
    try:
        call(b"", timeout=ANSWERED_WITHIN, wait_for_ready=True)
    except grpc.RpcError as e:
        raise FrontierError(
            f"the server cannot answer calls with grpcio {grpc.__version__} ({e.code().name}: {e.details()}): "
            'install a release of grpcio that the extra "grpc" allows'
        ) from e


def _is_alive(itself: grpc.Channel, within: float) -> bool:
    try:
        itself.unary_unary(f"/{health_checks.SERVICE}/Alive")(b"", timeout=within, wait_for_ready=True)
    except grpc.RpcError as e:
        return e.code() is grpc.StatusCode.UNIMPLEMENTED  # which the server's own thread answers
    return True
