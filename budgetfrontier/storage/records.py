"""The records of the tables, but for the values of `pending`, and their public forms."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from ipaddress import ip_address
from math import isnan
from typing import Annotated, Any, Protocol

import msgspec

from budgetfrontier.core import uris
from budgetfrontier.core.model import (
    CrawlState,
    DeadLetter,
    Directive,
    FetchStats,
    GroupRecord,
    KeyPosition,
    Number,
    QueueAnswers,
    QueueHistory,
    QueueId,
    QueueRecord,
    QueueState,
    RunRow,
    StoredLease,
)
from budgetfrontier.rules.queue_history import UNIT
from budgetfrontier.storage import keys
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.encoding import decoder, encode
from budgetfrontier.storage.uri_values import expand, restore_uri, tries

RowKey = bytes  # by a name that no field has


class QueueAmounts(Protocol):
    """The amounts of a queue, which are decoded faster than its record."""

    id: int
    queue: str
    state: QueueState
    queued: int
    expenditure: int
    charges: int
    errors: int
    future: int
    bytes: int


class Counters(msgspec.Struct, array_like=True, gc=False):
    """The totals of a frontier and the last numbers it gave out: one record, written with every commit."""

    state: CrawlState = CrawlState.NEW
    pause_reason: str | None = None
    queued: Number = 0
    """URIs in queues that are neither RETIRED nor INELIGIBLE."""
    scheduled: Number = 0
    succeeded: Number = 0
    failed: Number = 0
    retried: Number = 0
    deferred: Number = 0
    disregarded: Number = 0
    duplicates: Number = 0
    expenditure: Number = 0
    future: Number = 0
    future_retired: Number = 0
    """The part of `future` in RETIRED and INELIGIBLE queues."""
    queues: Number = 0
    ready: Number = 0
    in_process: Number = 0
    snoozed: Number = 0
    inactive: Number = 0
    retired: Number = 0
    leases: Number = 0
    epoch: Annotated[int, msgspec.Meta(ge=0, lt=1 << keys.EPOCH_BITS)] = 0
    revision: Number = 1
    ordinal: KeyPosition = 0
    queue_id: Annotated[int, msgspec.Meta(ge=0, lt=(1 << 32) - 1)] = 0
    ring_front: KeyPosition = 1 << 31
    """The lowest position given out in the ring; queues that return to the front are put before it."""
    ring_back: KeyPosition = 1 << 31
    fifo_back: KeyPosition = 0
    retired_back: KeyPosition = 0
    audit: KeyPosition = 0
    command: KeyPosition = 0
    """The number of the last command of the mailbox that was applied."""
    settings_revision: Number = 1
    retired_by_name: Number = 0
    """The part of `retired` that no change of settings revives."""
    revived_upto: KeyPosition = 0
    """The position up to which a change of settings has revived RETIRED queues; `revive_upto` is the end (0: done)."""
    revive_upto: KeyPosition = 0
    regrade_precedence: Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)] = 0
    """With the next two fields: the same for INACTIVE queues, if precedences may have changed."""
    regrade_position: KeyPosition = 0
    regrade_upto: Number = 0
    trying: int = 0
    """The number of the command that `starts` is about; 0 if it came through the API."""
    starts: int = 0
    """The number of successive processes that have worked on it without reaching the next commit."""
    ahead: list[int] = []
    """Numbers of commands after `command` that were applied before a long one was finished."""
    time: float = 0.0
    """The time of the last commit; if the clock is behind it at the next opening, it was set back."""
    bytes: Number = 0
    invalid_reasons: dict[str, Number] = {}
    given_up: Number = 0
    failed_expenditure: Number = 0
    """With the next three, parts of `expenditure`; the rest was charged for SUCCESS."""
    retried_expenditure: Number = 0
    given_up_expenditure: Number = 0
    other_expenditure: Number = 0
    penalties: Number = 0
    buried: Number = 0
    deleted: Number = 0
    expired: Number = 0
    robots_denials: Number = 0
    prerequisites: Number = 0
    removed: Number = 0
    """Bytes of the blocks in the table `removed`."""
    full_reasons: dict[str, Number] = {}
    """URIs that were refused as FULL, by the limit that they met."""
    urls: Number = 0
    """With the next three fields, the totals of the table `urls`: rows, those completed, and queues with any."""
    completed: Number = 0
    url_queues: Number = 0
    active_url_queues: Number = 0
    """Queues with rows that are not completed."""
    prerequisites_succeeded: Number = 0
    prerequisites_disregarded: Number = 0
    error_answers: dict[str, Number] = {}
    """The part of `succeeded` that answered with an error status, by status; prerequisites are not counted."""
    seeds: KeyPosition = 0
    """The position of the last seed in the table `seeds`; `seed_fates` counts the seeds by their fate."""
    seed_fates: dict[str, Number] = {}
    groups: Number = 0
    group_id: Annotated[int, msgspec.Meta(ge=0, lt=(1 << 32) - 1)] = 0
    parked: Number = 0
    """The part of `snoozed` that waits for a group."""
    ineligible: Number = 0
    ineligible_back: KeyPosition = 0
    lifted_upto: KeyPosition = 0
    """With `lift_upto`, the same for INELIGIBLE queues; until that is done, `regrade_upto` is not 0."""
    lift_upto: KeyPosition = 0
    quota_denials: Number = 0
    busy_until: float = 0
    """When the bytes received will have taken as long as the bandwidth of the crawl allows."""
    rankings: Number = 0
    """The rankings of registered domains by their in-degrees; the next fields are of the last one."""
    ranked_at: float = 0
    """When the epoch began that ends with the next ranking."""
    lowest_degree: Number = 0
    """The highest in-degree beyond the top; with `highest_degree`, what budgets are interpolated between."""
    highest_degree: Number = 0
    unranked: bool = False
    """Whether in-degrees have changed since."""
    answers_2xx: Number = 0
    """With the next four, the sums of the classes in the table `answers`."""
    answers_3xx: Number = 0
    answers_4xx: Number = 0
    answers_5xx: Number = 0
    unanswered: Number = 0
    reopened_upto: RowKey = b""
    """The key in `snoozed` up to which queues have been looked at since crawl windows changed; empty: all."""
    dropped: Number = 0
    dead_prerequisites: Number = 0
    """The rows with the directive HIGHEST in the table `dead`."""
    found: Number = 0
    """The part of `scheduled` that crawling has found; the others were brought, such as seeds and imports."""
    last_asked: float = 0
    """When URIs were asked for last, as of the commit, whether there were any; 0 if never."""
    last_renewed: float = 0
    """When a lease was renewed last; 0 if none was."""

    @property
    def last_command(self) -> int:
        """The highest number of a command that was applied."""
        return max(self.command, *self.ahead, 0)

    @property
    def rolls_out(self) -> bool:
        """Whether a change of settings has yet to be applied to some queues."""
        return self.revive_upto > 0 or self.regrade_upto > 0 or self.reopened_upto != b""


class UrlRow(msgspec.Struct, array_like=True, gc=False):
    """A kept URL, and its state: completed, or where it waits."""

    queue: QueueId
    url: str
    """In its short form."""
    place: bytes
    """The key of the record that came last, in `pending` or `future`; empty once that has left."""
    created: Number
    """The time at which it became known, in whole seconds."""
    due: Number = 0
    """The time from which it may be leased, in whole seconds; 0 if it is completed."""
    more: Number = 0
    """The number of its records that wait besides the one at `place`: with `force`, a URL is scheduled again."""

    @property
    def waits(self) -> bool:
        """Whether any record of it waits, or is leased; otherwise it is completed."""
        return bool(self.place) or self.more > 0

    def value(self) -> bytes:
        """Return the row as it is stored: without its last field, unless a record waits besides."""
        return encode(self if self.more else (self.queue, self.url, self.place, self.created, self.due))


class HostRow(msgspec.Struct, array_like=True, gc=False):
    """The IP address of a host, and since when it is known by it, in whole seconds."""

    address: str
    since: Number


class LinksRow(msgspec.Struct, array_like=True, gc=False):
    """The registered domains that link to one: their number, and their hashes or the registers of a sketch."""

    degree: Number
    domains: bytes
    ranked: Number = 0
    """The in-degree at the ranking `changed_after`; it has not changed since an earlier one if that is not the last."""
    changed_after: Number = 0


class LeaseRow(msgspec.Struct, array_like=True, gc=False):
    """A lease that was not finished at a commit."""

    queue: QueueId
    key: bytes
    expires: float
    landed: bool
    began: float
    """When it was handed out."""


class FutureRow(msgspec.Struct, array_like=True, gc=False):
    """A URI scheduled for later. A retry has the `rank` that it had in its queue; for other URIs, its ordinal is 0."""

    queue: QueueId
    rank: bytes
    value: bytes


class DeadRow(msgspec.Struct, array_like=True, gc=False):
    """A dead letter: the pending record, and the reason."""

    queue: QueueId
    name: str
    rank: bytes
    value: bytes
    reason: str
    time: float

    @property
    def prerequisite(self) -> bool:
        """Whether it is no page, but a prerequisite such as a robots.txt file."""
        return self.rank[0] == Directive.HIGHEST


class StartedCommand(msgspec.Struct, array_like=True, gc=False):
    """A command in progress, which takes more than one step."""

    number: int
    op: str
    args: dict[str, Any]
    who: str
    reason: str
    upto: int
    """The last ordinal that was given out before it: it does not apply to newer URIs."""
    line: str = ""


class Progress(msgspec.Struct, array_like=True, gc=False):
    """The progress of a StartedCommand: its position, as plain data, and its effect so far."""

    at: list[Any]
    effect: dict[str, Any]


NAMED_QUEUES = 100
"""The most queues that the audit names for dead letters: an effect with fewer names all of them."""


class AuditEntry(msgspec.Struct, array_like=True, gc=False):
    """A command that was applied: who gave it, when, why, and its effect.

    `id` counts the entries, `number` is that of the command in the mailbox, 0 if it came through the API. `effect` has
    the values before and after; `error` is the message if the command was refused.
    """

    id: int
    command: str
    args: dict[str, Any]
    who: str
    when: float
    reason: str
    effect: dict[str, Any]
    error: str | None = None
    number: int = 0
    line: str = ""
    """The command line, if it came from one."""


class FilterRow(msgspec.Struct, array_like=True):
    """The file of the Bloom filter: its generation, the fingerprints in it, and the XXH3 of its bytes."""

    generation: int
    number: int
    digest: int


class PreloadedRow(msgspec.Struct, array_like=True):
    """A file of precedences of URIs that was read, by its number in the table `preloaded`."""

    number: int
    path: str
    size: int = 0
    changed: int = 0
    """When it was changed last, in ns."""
    uris: int = 0
    whole: bool = False
    """Whether all of it is in the table; else it is read again when the frontier is opened."""


def times_of(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the fields of a record that are times or durations in seconds: finite, and at least 0, in a sound one."""
    return tuple(field.name for field in msgspec.structs.fields(kind) if field.type is float)


decode_queue = decoder(QueueRecord)


def _up_to(last: str, wanted: Container[str]) -> Iterator[tuple[str, Any] | tuple[str, Any, Any]]:
    """Yield the fields of a queue's record up to the last one, those that are not wanted of any type."""
    for field in msgspec.structs.fields(QueueRecord):
        kind = field.type if field.name in wanted else Any
        yield (field.name, kind) if field.required else (field.name, kind, field.default)
        if field.name == last:
            return


_Amounts: Any = msgspec.defstruct("_Amounts", _up_to("bytes", QueueAmounts.__annotations__), array_like=True, gc=False)
decode_amounts: Callable[[bytes], QueueAmounts] = decoder(_Amounts)
_Charges: Any = msgspec.defstruct("_Charges", _up_to("charges", ("queue", "charges")), array_like=True, gc=False)
decode_charges: Callable[[bytes], QueueAmounts] = decoder(_Charges)
"""Decodes `queue` and `charges` alone."""
decode_group = decoder(GroupRecord)
_decode_anything = decoder(object)
decode_counters = decoder(Counters)
decode_lease = decoder(LeaseRow)
decode_url = decoder(UrlRow)
decode_host = decoder(HostRow)
decode_links = decoder(LinksRow)
decode_future = decoder(FutureRow)
decode_dead = decoder(DeadRow)
decode_audit = decoder(AuditEntry)
decode_run = decoder(RunRow)
decode_begun = decoder(StartedCommand)
decode_progress = decoder(Progress)
decode_filter = decoder(FilterRow)
decode_preloaded = decoder(list[PreloadedRow])
decode_tally = decoder(FetchStats)
decode_answers = decoder(QueueAnswers)


def decode_history(value: bytes) -> QueueHistory:
    """Return the history of a queue. Raises Damage."""
    *counts, seconds, links, new, size = keys.history.unpack(value)
    success, retry, failure, disregarded = counts
    return QueueHistory(
        success=success,
        retry=retry,
        failure=failure,
        disregarded=disregarded,
        seconds=None if isnan(seconds) else seconds,
        links=None if isnan(links) else links,
        new=new / links if links > 0 else None,
        bytes=None if isnan(size) else size * UNIT,
    )


_TALLIED = {"host": b"h", "queue": b"q", "label": b"l", "group": b"g"}
_LONGEST_NAME = 500  # bytes


def tally_key(kind: str, name: str) -> bytes:
    """Return the key of a tally. Names that begin with the same 500 bytes have one tally."""
    return _TALLIED[kind] + name.encode("utf-8", "replace")[:_LONGEST_NAME]


def tally_of(key: bytes) -> tuple[str, str]:
    """Return the kind and the name of a tally. Raises Damage if its key cannot be one."""
    kind = next((kind for kind, byte in _TALLIED.items() if key[:1] == byte), None)
    if kind is None or not 1 < len(key) <= 1 + _LONGEST_NAME:
        raise Damage(f"{key.hex()} is not the key of a tally")
    return kind, key[1:].decode("utf-8", "replace")


def tally_objection(stats: FetchStats) -> str | None:
    """Return why a row cannot be one of the table `tallies`; None if it can."""
    if stats.novel > stats.successes or stats.novel_bytes > stats.success_bytes:
        return "more is novel than was fetched"
    return None


def host_objection(key: bytes, row: HostRow) -> str | None:
    """Return why a row cannot be one of the table `hosts` under this key; None if it can."""
    try:
        host = key.decode()
        if uris.is_address(host) or uris.host_form(host) != host:
            return "not the name of a host"
        ip_address(row.address)
    except ValueError as e:
        return str(e)
    return None


def salvage_queue(value: bytes) -> tuple[QueueRecord, list[str]]:
    """Decode the record of a queue for a repair; return also the names of unreadable fields, which get their defaults.

    Raises Damage if its key or its id cannot be read.
    """
    try:
        return decode_queue(value), []
    except Damage:
        pass  # decoding field by field is slower
    given, lost = _decode_anything(value), []
    if not isinstance(given, list) or len(given) < 2:
        raise Damage("not a record of a queue")
    found: dict[str, Any] = {}
    for field, part in zip(msgspec.structs.fields(QueueRecord), given, strict=False):
        try:
            found[field.name] = msgspec.convert(part, field.type)
        except msgspec.ValidationError as e:
            if field.required:
                raise Damage(str(e)) from None
            lost.append(field.name)
    return QueueRecord(**found), lost


def whole_queue(value: bytes) -> QueueRecord:
    """Decode a queue's record, with full URLs, as everything except the engine needs it."""
    return expanded(decode_queue(value))


def expanded(queue: QueueRecord) -> QueueRecord:
    """Expand the URLs of a record to their full form, and return it."""
    queue.last_enqueued = expand(queue.last_enqueued, queue.queue)
    queue.last_leased = expand(queue.last_leased, queue.queue)
    return queue


def restore_lease(lease_id: int, row: LeaseRow, queue: str, value: bytes) -> StoredLease:
    """Return a lease of an earlier run, from its row, the key of its queue and the value of its URI."""
    attempts, deliveries = tries(value)
    uri = restore_uri(row.key[4:], value, queue)
    cost = uri.cost or 0
    return StoredLease(
        lease_id, queue, uri, cost, row.expires, deliveries + 1, attempts + 1, row.queue, row.key, row.landed, row.began
    )


def dead_letter(ordinal: int, row: DeadRow) -> DeadLetter:
    """Return the public form of a dead letter."""
    attempts, deliveries = tries(row.value)
    uri = restore_uri(row.rank, row.value, row.name)
    return DeadLetter(
        id=ordinal,
        queue=row.name,
        uri=uri,
        cost=uri.cost or 0,
        reason=row.reason,
        time=row.time,
        deliveries=deliveries,
        attempts=attempts,
    )
