"""The types of a frontier's records: URIs, leases, queues, counters. The names are Heritrix's.

They have no behaviour of their own. The names of `vocabulary` can be imported from here, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final, Self

import msgspec

from budgetfrontier.core.vocabulary import ROW_FIELDS, Admission, CrawlState, Directive, Outcome, QueueState, RunEnd

__all__ = [
    "ROW_FIELDS",
    "Admission",
    "CrawlState",
    "CrawlUri",
    "DeadLetter",
    "Directive",
    "Finish",
    "Lease",
    "Outcome",
    "Process",
    "QueueAnswers",
    "QueueHistory",
    "QueueRecord",
    "QueueState",
    "Run",
    "RunEnd",
    "RunRow",
    "Summary",
    "Tally",
]


class _UrlField(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """The field of CrawlUri that may be given by position: of a class of msgspec, all are keyword-only, or none."""

    url: str


class CrawlUri(_UrlField, array_like=True, gc=False, kw_only=True, frozen=True):
    """A URI and everything that the frontier stores with it.

    Only `url` is required; all other fields are keyword-only. `meta` is plain data (that msgpack can encode), `payload`
    is bytes that the frontier never interprets. `cost` overrides the cost policy, `queue` the queue assignment,
    `precedence` the policy for precedences of URIs; `force` skips deduplication; `not_before` (epoch seconds) schedules
    the URI for later. URIs with a higher `priority` come first, then those with a lower precedence. Values out of range
    are clipped: `cost` to 0 .. 2**32 - 1, `priority` to 1 - 2**31 .. 2**31, `precedence` to 0 .. 127. Fields cannot be
    assigned, as the URI of a lease is the frontier's own record; `msgspec.structs.replace` makes a changed copy.
    """

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
    precedence: int | None = None


class Lease(msgspec.Struct, gc=False, eq=False, frozen=True):
    """A URI handed out to one worker, until `expires` (epoch seconds).

    `delivery` is 1 the first time, and one more after a lease has expired or its process has died. `id` is never
    reused, and no other frontier knows it. Fields cannot be assigned: this is the frontier's own record; `renew` and
    `landed` change `expires` and `landed` in it.
    """

    id: int
    queue: str
    uri: CrawlUri
    cost: int
    expires: float
    delivery: int
    attempt: int = 1
    """1 the first time, and one more after each RETRY."""
    queue_id: int = 0
    key: bytes = b""
    """The key of its pending record. This and `queue_id` are for the engine only."""
    landed: bool = False
    """Whether its download is over, so that it no longer counts towards `per_queue_concurrency`."""


class KeptUrl(msgspec.Struct, kw_only=True):
    """A URL that a frontier keeps. Times are epoch seconds.

    `due` is the time from which it may be leased, None if it is completed; `uri` is the waiting URI, None then. If it
    waits more than once, `uri` is the last one, None once that has ended or was deleted.
    """

    fingerprint: bytes
    """Its key among the URLs that are kept."""
    url: str
    queue: str
    created: int
    due: int | None
    uri: CrawlUri | None = None


class KeptTotals(msgspec.Struct, kw_only=True):
    """The numbers of the URLs that a frontier keeps, all of them or those of one queue."""

    active: int
    """URLs that wait, or are leased."""
    leased: int
    """Leases that are out: several if a URL was scheduled more than once with `force`."""
    completed: int
    queues: int
    """Queues with any such URL."""
    active_queues: int


class StoredLease(Lease, gc=False, eq=False, frozen=True):
    """A lease that was out at a commit. A field more in each Lease would cost every URI a hundred instructions."""

    began: float = 0.0
    """When it was handed out (epoch seconds)."""


Number = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]
"""A stored number to which amounts are added. Outside of these bounds its record is damaged."""
KeyPosition = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
"""A stored number that is part of keys."""
QueueId = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]


class QueueRecord(msgspec.Struct, array_like=True, gc=False):
    """A queue: its state and position, its budgets and its history. Times are epoch seconds, 0.0 for never."""

    queue: str
    id: QueueId
    state: QueueState = QueueState.EXHAUSTED
    precedence: Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)] = 3
    queued: Number = 0
    """URIs pending, including leased ones."""
    enqueued: Number = 0
    """URIs ever added to the queue."""
    balance: Number = 0
    balance_replenish_amount: Number = 0
    total_budget: Number = -1
    expenditure: Number = 0
    """The sum of all charges, penalties included."""
    last_cost: Number = 0
    charges: Number = 0
    penalties: Number = 0
    wake_time: float = 0  # not 0.0, which takes nine bytes in msgpack
    errors: Number = 0
    """Attempts that failed: each FAILURE, RETRY and DEAD, and each SUCCESS that answered with an error status."""
    last_enqueued: str = ""
    last_leased: str = ""
    future: Number = 0
    """URIs scheduled for later in this queue."""
    out: Number = 0
    """Leases that are not finished."""
    reserved: Number = 0
    """The cost of the URIs under these leases."""
    position: KeyPosition = 0
    """Its position in the ring, in the FIFO of its precedence, or in the list of INELIGIBLE or RETIRED queues."""
    row: KeyPosition = 0
    """Its key in the table `active`; 0 if it is not there."""
    by_name: bool = False
    """Whether an operator retired it by name: then no change of settings revives it."""
    block: float = 0
    """A wake time that an operator or a crawler has set for the queue: it is never clipped."""
    revision: Number = 0
    """The revision of the settings from which its budgets were taken."""
    landed: Number = 0
    """Leases not finished that no longer count towards `per_queue_concurrency`."""
    bytes: Number = 0
    """The sum of the sizes of the responses to its URIs, as given to `finish`."""
    last_lease_time: Number = 0
    """The time at which one of its URIs was leased last, in whole seconds."""
    delayed: float = 0
    """A wake time that a `delay` given by name has set: it is never clipped either."""
    rest: float = 0
    """The wake time by politeness, retries and delays alone, as long as `block`, `paced_until` or `closed_until` is the
    later one."""
    urls: Number = 0
    """With `frontier.keep_urls`, the URLs of the queue that are kept."""
    completed: Number = 0
    """With `frontier.keep_urls`, those of them that wait for nothing: they were fetched, given up or deleted."""
    max_completed: Number = 0
    """The queue is retired once so many of its URLs are completed; 0: no limit."""
    interval: float | None = None
    """The least time between two leases that was set for this queue by name, in seconds; None: that of the settings."""
    paced_until: float = 0
    """The wake time that its last lease asked for, because of that interval or of the one of the settings."""
    served: float = 0
    """The time of its last lease, in a frontier that gives queues intervals."""
    own_budget: Number | None = None
    """The total budget that crawlers have asked for by `regulate`; None: none. An adjustment replaces it."""
    failure: str = ""
    """The reason of its last failed attempt, as given to `finish`; "" before the first."""
    failed_at: float = 0
    """The time at which that attempt ended."""
    backoff: float = 0
    """The length of its last back-off in seconds: its host had answered 429 or 503 without a Retry-After."""
    overloaded_until: float = 0
    """The end of the rest that its host was given for its last 429 or 503."""
    dead_prerequisite: Number = 0
    """The number of its last dead letter that is a prerequisite, such as robots.txt; 0 before the first."""
    group: QueueId = 0
    """The id of its group; 0: none."""
    group_revision: Number = 0
    """The revision of the settings by which its group was chosen; 0 before its first turn."""
    parked: KeyPosition = 0
    """Its position among the SNOOZED queues that wait for its group; 0 if it does not wait for that."""
    error_answers: Number = 0
    """The part of `errors` that was a SUCCESS, with an error status."""
    busy_until: float = 0
    """When the bytes received from it will have taken as long as its bandwidth allows."""
    closed_until: float = 0
    """When its crawl windows open, as of its last turn outside of them."""

    @property
    def succeeded(self) -> int:
        """The attempts charged as a SUCCESS, whatever their status."""
        return self.charges - self.errors + self.error_answers

    @property
    def average_cost(self) -> float:
        """The average charge, without penalties; 0.0 before the first."""
        return (self.expenditure - self.penalties) / self.charges if self.charges else 0.0


class GroupRecord(msgspec.Struct, array_like=True, gc=False):
    """A group of queues: its clock, and the sums of what its queues have. Times are epoch seconds, 0.0 for never."""

    name: str
    id: QueueId
    queues: Number = 0
    out: Number = 0
    """Leases of its queues that are not finished."""
    landed: Number = 0
    """Those of them that no longer count as in flight."""
    reserved: Number = 0
    """The cost of the URIs under these leases."""
    expenditure: Number = 0
    bytes: Number = 0
    wake_time: float = 0
    """When the rest ends that the fetches of its queues have earned it."""
    parked: Number = 0
    """SNOOZED queues that wait for it."""
    parked_back: KeyPosition = 0
    """The last position given out among them."""
    row: float | None = None
    """Its wake time in the table `group_wakes`; None if it is not there."""
    busy_until: float = 0
    """When the bytes received from its queues will have taken as long as its bandwidth allows."""


class RunRow(msgspec.Struct, array_like=True, gc=False):
    """A run, from the opening of a frontier to its closing, as it is stored. Times are epoch seconds."""

    began: float
    pid: int
    host: str
    program: str
    ended: float = 0.0
    """The time of its end; 0.0 as long as none is stored."""
    end: RunEnd | None = None
    reason: str = ""
    leased: Number | None = 0
    """The URIs that it handed out, as of its end; None if its frontier was copied before, unknown if it was killed."""
    kernel: str = ""
    """The kernel of its engine: "native" or "Python"."""
    epoch: Number = 0
    """The number of the run in the rows of its totals: the epoch in which it began."""


class Run(msgspec.Struct, kw_only=True):
    """A run, from the opening of a frontier to its closing. Times are epoch seconds.

    `end` is None while it goes on. `leased` is the number of URIs it handed out, None until its end, and if it was
    killed, or its frontier copied before its end.
    """

    number: int
    program: str
    pid: int
    host: str
    began: float
    ended: float | None
    end: RunEnd | None
    reason: str
    leased: int | None
    kernel: str
    """The kernel of its engine: "native" (compiled) or "Python"."""


class Process(msgspec.Struct, kw_only=True):
    """The process that has a frontier open for writing, and how the last one stopped. Times are epoch seconds."""

    alive: bool
    pid: int | None
    """Its pid, 0 if it has none here (on another machine, or in another container); None if no process has it open."""
    host: str = ""
    program: str = ""
    """The name of its program, such as `budgetfrontier crawl`; "" if it only holds the lock, as a repair does."""
    began: float | None = None
    last_call: float | None = None
    """When it last used the frontier, to within ten seconds; None if no process has it open."""
    last_commit: float | None = None
    """The time of the last commit of any process; None if none is known."""
    last_stop: Run | None = None
    """The run that ended last, commands on a stopped crawl aside."""
    server: int | None = None
    """The pid of the server that opens it when somebody uses it; None if there is none, or a process has it open."""
    suspended: bool = False
    """Whether the process was stopped by a signal (state T), such as Ctrl-Z: it does nothing until SIGCONT."""


class Tally(msgspec.Struct, kw_only=True, eq=False):
    """The results of scheduling a batch.

    `reasons` counts the URIs that were refused, by reason: for INVALID ones a short slug, for FULL ones the limit that
    they met, `max_queued`, `max_queue_size`, `bloom.expected` or, if a scheduler for asyncio has one, `maxsize`.
    """

    added: int = 0
    duplicate: int = 0
    full: int = 0
    invalid: int = 0
    reasons: dict[str, int] = {}

    def refuse(self, reason: str) -> None:
        """Count one INVALID URI."""
        self.invalid += 1
        self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def find_full(self, limit: str, count: int = 1) -> None:
        """Count URIs that are FULL because of a limit."""
        self.full += count
        self.reasons[limit] = self.reasons.get(limit, 0) + count

    def add(self, other: Self) -> None:
        """Add the counts of another tally."""
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


class FetchStats(msgspec.Struct, array_like=True, gc=False):
    """The URIs and bytes fetched from a host, from a queue, or with a label.

    A URI counts once an attempt ends it: as a success (SUCCESS) or an error (FAILURE, DEAD). The bytes of all attempts
    count: those of a success, or of any other. A success is novel unless its `finish` says that its payload is not.
    """

    successes: Number = 0
    errors: Number = 0
    novel: Number = 0
    success_bytes: Number = 0
    error_bytes: Number = 0
    novel_bytes: Number = 0

    @property
    def urls(self) -> int:
        """All URIs that were fetched, or given up."""
        return self.successes + self.errors

    @property
    def bytes(self) -> int:
        """The bytes of all attempts."""
        return self.success_bytes + self.error_bytes


class QueueHistory(msgspec.Struct, kw_only=True):
    """The attempts of a queue that ended with details: how often each outcome was, and means of about the last 64.

    Once a count would exceed 65,535, all four are halved. A mean is None before the first attempt that has a value.
    """

    success: int
    retry: int
    failure: int
    """FAILURE and DEAD."""
    disregarded: int
    seconds: float | None
    """The duration of a fetch, of any outcome."""
    links: float | None
    """URIs discovered on a SUCCESS."""
    new: float | None
    """The share of these that were new, so that they were admitted; None also if none was discovered."""
    bytes: float | None
    """The size of the response of a SUCCESS."""


class QueueAnswers(msgspec.Struct, array_like=True, gc=False):
    """The answers to the attempts of a queue that ended with details, as they are stored; `rules.queue_answers`."""

    classes: list[Number] = msgspec.field(default_factory=lambda: [0] * 5)
    """Attempts by the class of their status, from 2xx to 5xx; the last: those without an answer."""
    kinds: dict[str, Number] = {}
    """Errors by kind."""
    added: Number = 0
    """URIs that were admitted to the queue because they were discovered on its own pages."""
    digests: Number = 0
    """The number of digests of contents in the current window, and the bits that their hashes have marked."""
    bitmap: int = 0
    repeated_before: Number | None = None
    """The share of repeated contents in the window before, in percent."""


class Summary(msgspec.Struct, kw_only=True):
    """The counters of a frontier that cost O(1) to read. `summary["queued"]` is the same as `summary.queued`."""

    state: CrawlState
    pause_reason: str | None
    queued: int
    """URIs pending in queues that are neither RETIRED nor INELIGIBLE, including leased ones."""
    in_process: int
    """Leases not finished."""
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
    """The number of queues in each QueueState."""
    bytes: int = 0
    """The sum of the sizes of responses, as given to `finish`."""
    full: int = 0
    """URIs that were refused as FULL."""
    full_reasons: dict[str, int] = {}
    """The same by the limit that they met: `max_queued`, `max_queue_size`, `bloom.expected`."""
    invalid: int = 0
    """URIs that were refused as INVALID."""
    invalid_reasons: dict[str, int] = {}
    """The same by reason, a short slug."""
    given_up: int = 0
    """Attempts that ended as DEAD, also after the last retry."""
    succeeded_expenditure: int = 0
    """The part of `expenditure` that was charged for SUCCESS; the next ones for FAILURE, RETRY and DEAD."""
    failed_expenditure: int = 0
    """Penalties included."""
    retried_expenditure: int = 0
    given_up_expenditure: int = 0
    other_expenditure: int = 0
    """The rest: charged by `mark_seen`, or counted anew by a repair."""
    penalties: int = 0
    """The part of `failed_expenditure` beyond the costs of the URIs."""
    buried: int = 0
    """Dead letters ever made, also replayed and deleted ones."""
    deleted: int = 0
    """URIs, prerequisites aside, that were deleted by commands, and not put back by an undo."""
    dropped: int = 0
    """The same of dead letters that were dropped."""
    dead_prerequisites: int = 0
    """The part of `dead` that are prerequisites."""
    expired: int = 0
    """Deliveries that ended without an outcome: the lease expired, or the process died."""
    robots_denials: int = 0
    """Attempts that ended as DISREGARDED with the reason "robots"."""
    prerequisites: int = 0
    """URIs with the directive HIGHEST, such as robots.txt files, that were finished for good."""
    prerequisites_succeeded: int = 0
    """The part of them that ended as SUCCESS; the next one as DISREGARDED."""
    prerequisites_disregarded: int = 0
    error_answers: dict[str, int] = {}
    """The SUCCESSes, prerequisites aside, that were finished with a status of 400 or more, by status."""
    quota_denials: int = 0
    """URIs, prerequisites aside, that were DISREGARDED before a fetch because a quota was used up."""
    answers_2xx: int = 0
    """Attempts by the class of their status, with the next four; those of prerequisites only if they failed."""
    answers_3xx: int = 0
    answers_4xx: int = 0
    answers_5xx: int = 0
    unanswered: int = 0
    """Attempts that failed without an answer, or that were answered with a status that is in no class."""
    found: int = 0
    """The part of `scheduled` that crawling has found: given to `finish`, or scheduled by a program after it had leased
    a URI. The others were brought: seeds before that, and imports."""

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def keys(self) -> tuple[str, ...]:
        return self.__struct_fields__


SIZES: Final = 1 << 40
"""The sizes of responses are below this, so that no sum of them exceeds 63 bits: a tebibyte."""


class _Ending(msgspec.Struct):
    """The fields of Finish that may be given by position. A dataclass needs no base, but twice the instructions."""

    lease: Lease
    outcome: Outcome = Outcome.SUCCESS


class Finish(_Ending, kw_only=True):
    """One finish of `Frontier.finish_many`: a lease, and the arguments of `Frontier.finish`."""

    fetch_seconds: float | None = None
    crawl_delay: float | None = None
    discovered: Iterable[str | CrawlUri] = ()
    reason: str = ""
    delay: float | None = None
    retire_queue: bool = False
    size: int = 0
    status: int = 0
    novel: bool | None = None
    address: str = ""
    digest: bytes = b""


class DeadLetter(msgspec.Struct, kw_only=True):
    """A URI that has failed for good, with all its fields. `id` is for `replay`; `time` is when it became one."""

    id: int
    queue: str
    uri: CrawlUri
    cost: int
    reason: str
    time: float
    deliveries: int
    attempts: int
