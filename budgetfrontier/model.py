"""The records of the frontier as types: URIs, leases, queues, tallies. Names are Heritrix's.

Nothing here does any work. What `vocabulary` defines can be imported from here, too.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

import msgspec

from budgetfrontier.vocabulary import ROW_FIELDS, Admission, CrawlState, Directive, Outcome, QueueState

__all__ = [
    "ROW_FIELDS",
    "Admission",
    "CrawlState",
    "CrawlUri",
    "DeadLetter",
    "Directive",
    "Lease",
    "Outcome",
    "QueueRecord",
    "QueueState",
    "Summary",
    "Tally",
]


class _Address(msgspec.Struct, array_like=True, gc=False):
    url: str


class CrawlUri(_Address, array_like=True, gc=False, kw_only=True):
    """A URI and all that the frontier keeps about it.

    Only `url` is needed, the options are keyword-only. `meta` is plain data
    (what msgpack can hold), `payload` is bytes of the embedder's own, never looked into. `cost` overrides the cost
    policy, `queue` the queue assignment; `force` skips deduplication; `not_before` (epoch seconds) schedules the URI
    for later. Higher `priority` goes first. A cost beyond 0 to 2**32 - 1 counts as the nearest of these, a
    priority beyond 1 - 2**31 to 2**31 too.
    """

    # New fields are only ever appended: older records then decode with the defaults.
    via: str | None = None
    hops: str = ""
    source: str | None = None
    method: str = "GET"
    headers: dict[str, str] | None = None
    body: bytes = b""
    meta: Any = None
    payload: bytes | None = None
    force: bool = False
    queue: str | None = None
    directive: Directive = Directive.NORMAL
    priority: int = 0
    cost: int | None = None
    not_before: float | None = None


class Lease(msgspec.Struct, gc=False, eq=False):
    """One URI handed out to one worker, until `expires` (epoch seconds).

    `delivery` is 1 the first time; it grows when a lease expires or its process dies. `id` is never reused.
    """

    id: int
    queue: str
    uri: CrawlUri
    cost: int
    expires: float
    delivery: int
    attempt: int = 1
    """1 the first time, one more after each RETRY."""
    queue_id: int = 0
    key: bytes = b""
    """The key of its pending record; this and `queue_id` are the engine's own."""
    landed: bool = False
    """Its download is over: it no longer counts towards `per_queue_concurrency`."""


Number = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]
"""A stored number that may still be added to: a record with another one is damaged."""
Place = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
"""One that is part of keys."""
RingPlace = Annotated[int, msgspec.Meta(ge=0)]
"""One of schema 1 may begin at 2**63."""
QueueId = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]


class QueueRecord(msgspec.Struct, array_like=True, gc=False):
    """One queue: its place, its money and its history. Times are epoch seconds, 0.0 for never."""

    queue: str
    id: QueueId
    state: QueueState = QueueState.EXHAUSTED
    precedence: Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)] = 3
    queued: Number = 0
    """URIs pending, those that are out included."""
    enqueued: Number = 0
    """URIs ever placed here."""
    balance: Number = 0
    balance_replenish_amount: Number = 0
    total_budget: Number = -1
    expenditure: Number = 0
    """All that was ever charged, penalties included."""
    last_cost: Number = 0
    charges: Number = 0
    penalties: Number = 0
    wake_time: float = 0  # not 0.0, which takes nine bytes
    errors: Number = 0
    last_enqueued: str = ""
    last_leased: str = ""
    future: Number = 0
    """URIs scheduled for later that will come here."""
    out: Number = 0
    """Leases that are out."""
    reserved: Number = 0
    """What those leases will cost."""
    position: RingPlace = 0
    """Place in the ring, in the FIFO of its precedence, or among the retired."""
    row: RingPlace = 0
    """Position under which the table `active` knows it, 0 for none."""
    by_name: bool = False
    """Retired by the operator by name: no change of settings revives it."""
    block: float = 0
    """A wake time that an operator or a delay given by name asked for: never clipped."""
    revision: Number = 0
    """Revision of the settings that its budgets were taken from."""
    landed: Number = 0
    """Leases that are out, but no longer count towards `per_queue_concurrency`."""

    @property
    def average_cost(self) -> float:
        """Charged cost / number of charges, without penalties; 0.0 before the first charge."""
        return (self.expenditure - self.penalties) / self.charges if self.charges else 0.0


class Tally(msgspec.Struct, kw_only=True, eq=False):
    """What became of a batch. `reasons` counts why URIs were INVALID, by a short slug."""

    added: int = 0
    duplicate: int = 0
    full: int = 0
    invalid: int = 0
    reasons: dict[str, int] = {}

    def refuse(self, reason: str) -> None:
        """Count one INVALID URI."""
        self.invalid += 1
        self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def add(self, other: Self) -> None:
        """Count in another tally."""
        self.added += other.added
        self.duplicate += other.duplicate
        self.invalid += other.invalid
        self.full += other.full
        for reason, count in other.reasons.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + count

    def __repr__(self) -> str:
        return (
            f"<Tally added={self.added} duplicate={self.duplicate} invalid={self.invalid} full={self.full}"
            f"{f' reasons={self.reasons}' if self.reasons else ''}>"
        )


class Summary(msgspec.Struct, kw_only=True):
    """The cheap counters of a frontier; `summary["queued"]` and `summary.queued` are the same."""

    state: CrawlState
    pause_reason: str | None
    queued: int
    """URIs pending in queues that are not RETIRED, those out included."""
    in_process: int
    """Leases out."""
    future: int
    """URIs scheduled for later."""
    dead: int
    """Dead letters."""
    seen: int
    """Canonical forms known to deduplication."""
    scheduled: int
    """URIs ever admitted."""
    succeeded: int
    failed: int
    retried: int
    deferred: int
    disregarded: int
    duplicates: int
    expenditure: int
    queues: dict[str, int]
    """How many queues are in each QueueState."""

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def keys(self) -> tuple[str, ...]:
        return self.__struct_fields__


class DeadLetter(msgspec.Struct, kw_only=True):
    """A URI that was given up on, whole. `id` names it to `replay`; `time` is when it died."""

    id: int
    queue: str
    uri: CrawlUri
    cost: int
    reason: str
    time: float
    deliveries: int
    attempts: int
