"""A health check of a server: `python -m budgetfrontier.server.health ADDRESS` exits with 0 if it serves."""

from __future__ import annotations

import sys

from budgetfrontier.core.endpoints.addresses import NO_PROXY
from budgetfrontier.errors import MissingExtra

TIMEOUT = 4.0
"""Seconds that the server has to answer."""


def serves(address: str) -> bool:
    """Return whether a server without TLS answers that it serves. Raises MissingExtra."""
    try:
        import grpc
        from grpc_health.v1 import health_pb2, health_pb2_grpc
    except ModuleNotFoundError as error:
        raise MissingExtra("grpc") from error
    with grpc.insecure_channel(address, options=[NO_PROXY]) as channel:
        try:
            reply = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=TIMEOUT)
        except grpc.RpcError:
            return False
    return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)


def main() -> int | str:
    """Return the exit code, or what is wrong."""
    if len(sys.argv) != 2:
        return "usage: python -m budgetfrontier.server.health ADDRESS"
    try:
        return int(not serves(sys.argv[1]))
    except MissingExtra as error:
        return str(error)


if __name__ == "__main__":
    sys.exit(main())
