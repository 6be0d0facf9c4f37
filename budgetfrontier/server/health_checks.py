"""Health checks of a server (grpc.health.v1), answered on the thread of gRPC: a watcher takes no thread from others."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2

from budgetfrontier.server.rpc_calls import Handed, RpcCall

_SERVICE = health_pb2.DESCRIPTOR.services_by_name["Health"]
SERVICE: Final[str] = _SERVICE.full_name
_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


class HealthMethod(NamedTuple):
    """An RPC with one request."""

    name: str
    streams_requests: bool = False


CHECK: Final = HealthMethod("Check")
WATCH: Final = HealthMethod("Watch")


class HealthChecks:
    """The health of a server and of services by their names: they serve, from the start until `stop`."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(("", *names))
        self._lock = threading.Lock()
        self._stopped = False
        self._watching: set[RpcCall] = set()
        """The calls that are told of a change; some may have ended."""
        self._most = 100
        """The number of them at which those that have ended are dropped."""

    def hand_over(self, turn: list[Handed]) -> None:
        """Answer the requests that have arrived."""
        for call, data in turn:
            if data is None:
                continue
            try:
                name = health_pb2.HealthCheckRequest.FromString(data).service
            except DecodeError:
                call.end(grpc.StatusCode.INVALID_ARGUMENT, "this is no HealthCheckRequest")
                continue
            if call.method.name == WATCH.name:
                self._watch(call, name)
            elif name in self._names:
                call.reply([_reply(_NOT_SERVING if self._stopped else _SERVING)], last=True)
            else:
                call.end(grpc.StatusCode.NOT_FOUND, f"there is no service {name!r}")

    def _watch(self, call: RpcCall, name: str) -> None:
        with self._lock:
            if len(self._watching) >= self._most:
                self._watching = {each for each in self._watching if not each.ended}
                self._most = max(100, 2 * len(self._watching))
            if name not in self._names:
                call.reply([_reply(_UNKNOWN)])
            elif self._stopped:
                _say_goodbye(call)
            else:
                call.reply([_reply(_SERVING)])
                self._watching.add(call)

    def stop(self) -> None:
        """Say that nothing is served any more, and end the calls that watch; in any thread."""
        with self._lock:
            self._stopped = True
            watching, self._watching = self._watching, set()
        for call in watching:
            _say_goodbye(call)


def _say_goodbye(call: RpcCall) -> None:
    call.reply([_reply(_NOT_SERVING)])
    call.end(grpc.StatusCode.UNAVAILABLE, "the server is being stopped")


def _reply(status: Any) -> bytes:
    return bytes(health_pb2.HealthCheckResponse(status=status).SerializeToString())
