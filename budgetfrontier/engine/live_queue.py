"""The records of queues in memory, and the totals: every URI changes a dozen fields of each."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, methodcaller

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.engine.native import kernel
from budgetfrontier.storage.encoding import decoder, encode
from budgetfrontier.storage.records import Counters


class StructQueue(QueueRecord, array_like=True, gc=False, eq=False):
    """A QueueRecord with fields that are as cheap to set as a plain object's; it is stored as the record is.

    A Struct sets its fields with code of its own, for Structs that are frozen or known to the garbage collector. This
    one is neither: `set_plainly` gives it the code of `object`, which takes a quarter of the time.
    """


def set_plainly(record: object, field: str) -> None:
    """Let the fields of all records of a class be set by `object`, if this version of msgspec and Python can do that.

    The attributes are given after the creation of the class, which would replace them.
    """
    kind = type(record)
    for name in ("__setattr__", "__delattr__"):
        setattr(kind, name, getattr(object, name))
    try:
        setattr(record, field, getattr(record, field))
    except TypeError:  # "can't apply this __setattr__": the one of Struct does the same
        for name in ("__setattr__", "__delattr__"):
            delattr(kind, name)


set_plainly(StructQueue("", 0), "id")
set_plainly(Counters(), "queued")

_decode_struct = decoder(StructQueue)
_TIMES = (
    *("wake_time", "block", "delayed", "rest", "paced_until", "served", "failed_at", "backoff", "overloaded_until"),
    *("busy_until", "closed_until"),
)


def decode_struct(value: bytes) -> StructQueue:
    """Return the record in a stored value. Times of 0 are not 0.0, which is stored in nine bytes. Raises Damage."""
    queue = _decode_struct(value)
    for name in _TIMES:
        if not getattr(queue, name):
            setattr(queue, name, 0)
    if queue.interval == 0:
        queue.interval = 0
    return queue


def _decode_native(value: bytes) -> QueueRecord:
    assert kernel is not None
    found: QueueRecord | None = kernel.LiveQueue.decode(value)
    return kernel.LiveQueue(*_fields(decode_struct(value))) if found is None else found  # of other lengths, or damaged


LiveQueue: type[QueueRecord] = StructQueue if kernel is None else kernel.LiveQueue
"""The records in memory: those of the kernel have the same fields."""
decode_live: Callable[[bytes], QueueRecord] = decode_struct if kernel is None else _decode_native
encode_live: Callable[[QueueRecord], bytes] = encode if kernel is None else methodcaller("encode")

_fields = attrgetter(*QueueRecord.__struct_fields__)


def record_of(queue: QueueRecord) -> QueueRecord:
    """Return a copy of a queue in memory for use outside the engine."""
    return QueueRecord(*_fields(queue))
