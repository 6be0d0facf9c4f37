"""The status with which an RPC ends that an error of the engine has ended."""

from __future__ import annotations

import grpc

from budgetfrontier.errors import FrontierClosed, FrontierError, FrontierLocked, LeaseExpired, StorageFull


def status_of(error: BaseException) -> grpc.StatusCode:
    """Return the status of an error."""
    if isinstance(error, StorageFull):
        return grpc.StatusCode.RESOURCE_EXHAUSTED
    if isinstance(error, FrontierLocked | FrontierClosed):
        return grpc.StatusCode.UNAVAILABLE
    if isinstance(error, LeaseExpired):
        return grpc.StatusCode.NOT_FOUND
    if isinstance(error, FrontierError):
        return grpc.StatusCode.FAILED_PRECONDITION
    return grpc.StatusCode.INTERNAL
