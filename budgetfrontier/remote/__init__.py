"""Clients of `budgetfrontier serve` (the extra "grpc"): a frontier of another process with the methods of `Frontier`.

`AsyncRemoteFrontier` is for asyncio; `RemoteFrontier` is synchronous, and generated from it. `calls` has the messages
of each method and its result from the replies, without I/O; a transport sends them, and `link` numbers them and
translates errors.
"""

from __future__ import annotations

import os

from budgetfrontier.errors import MissingExtra

_is_ours = "GRPC_VERBOSITY" not in os.environ
if _is_ours:  # errors of calls have what gRPC's core would write to stderr; it reads this at the import
    os.environ["GRPC_VERBOSITY"] = "NONE"
try:
    import grpc as _grpc  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingExtra("grpc") from error
finally:
    if _is_ours:
        del os.environ["GRPC_VERBOSITY"]

from budgetfrontier.remote.asynchronous import AsyncRemoteFrontier as AsyncRemoteFrontier  # noqa: E402
from budgetfrontier.remote.synchronous import RemoteFrontier as RemoteFrontier  # noqa: E402

__all__ = ["AsyncRemoteFrontier", "RemoteFrontier"]
