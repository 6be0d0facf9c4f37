"""Reflection (grpc.reflection.v1alpha), answered on gRPC's thread: a stream that is open takes none from others."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import grpc
from google.protobuf.message import DecodeError
from grpc_reflection.v1alpha import reflection, reflection_pb2

from budgetfrontier.server.rpc_calls import Handed

SERVICE: Final[str] = reflection.SERVICE_NAME

_LOG = logging.getLogger("budgetfrontier.service")


class ReflectionMethod(NamedTuple):
    """The RPC, with one reply for each request."""

    name: str = "ServerReflectionInfo"
    streams_requests: bool = True


INFO: Final = ReflectionMethod()


class Reflection:
    """Answers about the services of a server; `pool` has their descriptors."""

    def __init__(self, names: Iterable[str], pool: Any = None) -> None:
        self._servicer = reflection.ReflectionServicer([*names, SERVICE], pool=pool)

    def hand_over(self, turn: list[Handed]) -> None:
        """Answer the requests that have arrived."""
        for call, data in turn:
            if data is None:
                continue
            try:
                request = reflection_pb2.ServerReflectionRequest.FromString(data)
                [reply] = self._servicer.ServerReflectionInfo(iter([request]), None)
            except DecodeError:
                call.end(grpc.StatusCode.INVALID_ARGUMENT, "this is no ServerReflectionRequest")
            except Exception:
                _LOG.exception("a request for reflection failed")
                call.end(grpc.StatusCode.INTERNAL, "the server failed")
            else:
                call.reply([reply.SerializeToString()])
