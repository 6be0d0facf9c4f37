"""Health checks and reflection: they answer whoever else has calls open, and tell who watches that the server stops."""

from __future__ import annotations

from pathlib import Path
from queue import SimpleQueue
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.server.urlfrontier.service_client import Process, serving
from tests.support import PATIENCE

MANY = 20
HEALTH, REFLECTION = "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"
URLFRONTIER = "urlfrontier.URLFrontier"
SERVING, NOT_SERVING, UNKNOWN = (
    health_pb2.HealthCheckResponse.SERVING,
    health_pb2.HealthCheckResponse.NOT_SERVING,
    health_pb2.HealthCheckResponse.SERVICE_UNKNOWN,
)


def asked(name: str = "") -> Any:
    """A request."""
    return health_pb2.HealthCheckRequest(service=name)


def test_a_check_is_answered_whatever_calls_others_have_open(tmp_path: Path) -> None:
    requests: SimpleQueue[bytes | None] = SimpleQueue()
    with serving(tmp_path / "jobs") as client:
        health, reflection = (
            health_pb2_grpc.HealthStub(client.channel),
            reflection_pb2_grpc.ServerReflectionStub(client.channel),
        )
        watching = [health.Watch(asked(name), timeout=PATIENCE) for name in ["", URLFRONTIER, "none"] * MANY]
        assert [next(call).status for call in watching] == [SERVING, SERVING, UNKNOWN] * MANY
        silent = [
            client.channel.stream_stream(path)(iter(requests.get, None), timeout=PATIENCE)
            for path in [f"/{HEALTH}/Check", f"/{HEALTH}/Watch", f"/{REFLECTION}/ServerReflectionInfo"] * MANY
        ]
        for call in silent:
            call.initial_metadata()  # it has begun
        assert [health.Check(asked(name), timeout=PATIENCE).status for name in ("", URLFRONTIER)] == [SERVING] * 2
        assert all(call.is_active() for call in (*watching, *silent))
        with pytest.raises(grpc.RpcError) as error:
            health.Check(asked("none"), timeout=PATIENCE)
        assert error.value.code() is grpc.StatusCode.NOT_FOUND
        names = reflection.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
        listed = {service.name for reply in names for service in reply.list_services_response.service}
        assert listed == {URLFRONTIER, HEALTH, REFLECTION}
        for call in (*watching, *silent):
            call.cancel()
            requests.put(None)


@pytest.mark.parametrize("path", [f"/{HEALTH}/Check", f"/{HEALTH}/Watch", f"/{REFLECTION}/ServerReflectionInfo"])
def test_what_is_no_request_is_refused(path: str, tmp_path: Path) -> None:
    with serving(tmp_path / "jobs") as client, pytest.raises(grpc.RpcError) as error:
        list(client.channel.stream_stream(path)(iter([b"\xff"]), timeout=PATIENCE))
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_who_watches_is_told_that_the_server_stops(tmp_path: Path) -> None:
    with Process(tmp_path / "jobs") as server, server.client() as client:
        call = health_pb2_grpc.HealthStub(client.channel).Watch(asked(), timeout=PATIENCE)
        assert next(call).status == SERVING
        assert server.stop() == 0
        assert next(call).status == NOT_SERVING
        with pytest.raises(grpc.RpcError) as error:
            next(call)
        assert error.value.code() is grpc.StatusCode.UNAVAILABLE
