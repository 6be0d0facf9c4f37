"""The status with which an RPC ends that an error of the engine has ended."""

from __future__ import annotations

import grpc

from budgetfrontier.errors import (
    NO_ROOM,
    FrontierClosed,
    FrontierError,
    FrontierLocked,
    FrontierRemoved,
    LeaseExpired,
    StorageFull,
)
from budgetfrontier.server.crawls import InvalidCrawlId


def status_of(error: BaseException) -> grpc.StatusCode:
    if isinstance(error, StorageFull) or (isinstance(error, OSError) and error.errno in NO_ROOM):
        return grpc.StatusCode.RESOURCE_EXHAUSTED
    if isinstance(error, FrontierLocked | FrontierClosed | FrontierRemoved):
        return grpc.StatusCode.UNAVAILABLE
    if isinstance(error, InvalidCrawlId):
        return grpc.StatusCode.INVALID_ARGUMENT
    if isinstance(error, LeaseExpired):
        return grpc.StatusCode.NOT_FOUND
    if isinstance(error, FrontierError):
        return grpc.StatusCode.FAILED_PRECONDITION
    return grpc.StatusCode.INTERNAL
