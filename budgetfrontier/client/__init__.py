"""Clients of `budgetfrontier serve` (the extra "grpc"): a frontier of another process with the methods of `Frontier`.

`RemoteFrontier` is synchronous, `AsyncRemoteFrontier` for asyncio. `calls` has what each method sends and makes of the
replies, without I/O; `link` numbers the calls and translates errors.
"""

from __future__ import annotations

from budgetfrontier.errors import MissingExtra

try:
    import grpc as _grpc  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingExtra("grpc") from error

from budgetfrontier.client.asynchronous import AsyncRemoteFrontier as AsyncRemoteFrontier
from budgetfrontier.client.remote import RemoteFrontier as RemoteFrontier

__all__ = ["AsyncRemoteFrontier", "RemoteFrontier"]
