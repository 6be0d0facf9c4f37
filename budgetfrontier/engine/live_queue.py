"""The records of queues in memory, and the totals: every URI changes a dozen fields of each."""

from __future__ import annotations

from operator import attrgetter

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.storage.encoding import decoder
from budgetfrontier.storage.records import Counters


class LiveQueue(QueueRecord, array_like=True, gc=False, eq=False):
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


set_plainly(LiveQueue("", 0), "id")
set_plainly(Counters(), "queued")

decode_live = decoder(LiveQueue)

_fields = attrgetter(*QueueRecord.__struct_fields__)


def record_of(queue: QueueRecord) -> QueueRecord:
    """Return a copy of a queue in memory for use outside the engine."""
    return QueueRecord(*_fields(queue))
