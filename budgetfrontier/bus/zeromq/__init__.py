"""The bus over ZeroMQ (the extra "zmq"): a broker that keeps streams in memory and in a journal, and its clients."""

from __future__ import annotations

from budgetfrontier.errors import MissingExtra

try:
    import zmq as _zmq  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingExtra("zmq") from error
