"""The survey of a change of adjustments: the queues that it matches, by their values before and after.

It takes any view: that of the engine, or that of a Reader, which does not delay an engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from budgetfrontier.core.bounded_cache import BoundedCache
from budgetfrontier.core.model import CrawlUri, QueueRecord
from budgetfrontier.rules.queue_states import RETIRED
from budgetfrontier.settings import Settings, delay_conflicts, sheets
from budgetfrontier.settings.grouping import Grouping, GroupLimits
from budgetfrontier.settings.matching import GROUP, Match, any_of, spellings, unknown_keys
from budgetfrontier.settings.names import OF_GROUPS, is_of_groups
from budgetfrontier.settings.overrides import Effective, Override, QueueSettings, value_in
from budgetfrontier.storage import keys
from budgetfrontier.storage.head_urls import HeadUrls
from budgetfrontier.storage.records import AuditEntry, decode_future
from budgetfrontier.storage.uri_values import expand, label_of, short_url
from budgetfrontier.storage.view import View

MOST_GROUPS = 100
"""The most groups of queues with equal values that are listed, the largest ones."""
_KEPT = 10_000  # pairs of settings that are distinguished before they are compared by their values


Limits = tuple[GroupLimits, GroupLimits]
"""Those of the group of a queue, before and after a change."""


class Change(NamedTuple):
    """A change of adjustments: its match, the names of its settings, and what is in force before and after.

    `groupings` are the groups of queues with their limits. `sets` are the values of an appended override: it wins, for
    everything that it matches. `warnings` are about values that would have no effect, and
    `certain` the values of a sheet that nothing else replaces.
    """

    match: Match
    names: tuple[str, ...]
    before: Effective
    after: Effective
    groupings: tuple[Grouping, Grouping]
    sets: Mapping[str, Any] = MappingProxyType({})
    warnings: Sequence[str] = ()
    certain: Mapping[str, Any] = MappingProxyType({})

    def values(self) -> Callable[[str, str, str | None], tuple[QueueSettings, QueueSettings]]:
        """Return a function from URL, key and label of a queue that is matched to its settings before and after."""
        before, after = self.before.for_uri, self.after.for_uri
        if not self.sets:
            return lambda url, key, label: (before(url, key, label), after(url, key, label))
        known: BoundedCache[int, tuple[QueueSettings, QueueSettings]] = BoundedCache(_KEPT)

        def values(url: str, key: str, label: str | None) -> tuple[QueueSettings, QueueSettings]:
            old = before(url, key, label)
            found = known.get(id(old))  # the appended override wins: settings that were equal before are equal after it
            if found is None:
                found = old, after(url, key, label)
                known.put(id(old), found)
            return found

        return values

    def limits(self) -> Callable[[str, str, str | None], Limits | None]:
        """Return a function from URL, key and label of a queue to the limits of its group, if the change sets such."""
        if not any(map(is_of_groups, self.names)):
            return lambda url, key, label: None
        (before, after), known = self.groupings, dict[str | None, Limits]()

        def limits(url: str, key: str, label: str | None) -> Limits:
            name = before.name_of(CrawlUri(url, source=label), key)
            if name not in known:
                known[name] = before.limits_of(name or ""), after.limits_of(name or "")
            return known[name]

        return limits


def value(settings: QueueSettings, limits: GroupLimits | None, name: str) -> Any:
    """Return the value of a setting of a queue, or of its group, by its dotted name."""
    if is_of_groups(name):
        return None if limits is None else getattr(limits, name.removeprefix(OF_GROUPS))
    return value_in(settings, name)


def appended(view: View, override: Override) -> Change:
    """Return the change that an override makes when it is appended. Raises FrontierError."""
    return change_by(*view.settings(), override, view.in_force(), view.grouping())


def changed_to(view: View, after: Sequence[Override]) -> Change:
    """Return the change from the adjustments in force to others."""
    return change_to(*view.settings(), after, view.in_force(), view.grouping())


def change_by(
    settings: Settings, adjustments: Sequence[Override], override: Override, before: Effective, groups: Grouping
) -> Change:
    """Return the change of the settings in force by an override that is appended. Raises FrontierError."""
    sheets.check_change(settings, adjustments, override)
    match, names = sheets.concerned(settings, [*adjustments, override], override, groups)
    changed = [*adjustments, override]
    groupings = groups, sheets.groups_in_force(settings, changed, like=groups)
    sets: Mapping[str, Any] = {} if sheets.is_about_sheets(override) else override.set
    warnings = delay_conflicts.of_change(settings, adjustments, changed)
    certain = sheets.certain_values(settings, changed, override)
    return Change(match, names, before, sheets.effective(settings, changed), groupings, sets, warnings, certain)


def change_to(
    settings: Settings, adjustments: Sequence[Override], after: Sequence[Override], before: Effective, groups: Grouping
) -> Change:
    """Return the change of the settings in force from adjustments to others: it matches what any that differ do."""
    were, stay = ({one.id for one in side} for side in (adjustments, after))
    come = [one for one in after if one.id not in were]
    changed = [*(one for one in adjustments if one.id not in stay), *come]
    found = [sheets.concerned(settings, [*adjustments, *come], one, groups) for one in changed]
    matches = {match.text: match for match, _ in found}
    match = found[0][0] if len(matches) == 1 else any_of(", ".join(matches), matches.values())
    names = tuple(dict.fromkeys(chain.from_iterable(names for _, names in found)))
    groupings = groups, sheets.groups_in_force(settings, after, like=groups)
    warnings = delay_conflicts.of_change(settings, adjustments, after)
    return Change(match, names, before, sheets.effective(settings, after), groupings, warnings=warnings)


class QueueSums:
    """The sums over some queues: their number, expenditure and charges, and how many are RETIRED."""

    def __init__(self) -> None:
        self.queues = self.expenditure = self.charges = self.retired = 0

    def add(self, queue: QueueRecord) -> None:
        """Add a queue."""
        self.queues += 1
        self.expenditure += queue.expenditure
        self.charges += queue.charges
        self.retired += queue.state is RETIRED

    def then(self) -> dict[str, int]:
        """Return the sums that the effect of an adjustment keeps."""
        return {"expenditure": self.expenditure, "charges": self.charges, "retired": self.retired}


class Survey(msgspec.Struct, kw_only=True):
    """The queues that a change matches, in groups of equal values `before` and `after`, the largest first.

    `ungrouped` queues are in smaller groups than the hundred listed. `before` and `after` have the value of a setting
    if it is the same for all queues matched, else None. `changed` counts the queues with different values before and
    after. `then` has the sums of `expenditure` and `charges` of the queues, and the number of those RETIRED.
    `as_of` is the time of the commit read, and `revision` that of the settings in force then.
    """

    matched: int
    groups: list[dict[str, Any]]
    ungrouped: int
    before: dict[str, Any]
    after: dict[str, Any]
    as_of: float = 0.0
    unknown: list[str] = []
    """The keys that a change names and no queue has yet."""
    changed: int = 0
    then: dict[str, int] = {}
    revision: int = 0


def effect_of(found: Survey) -> dict[str, Any]:
    """Return a survey as in the effect of a command: without the revision, which only shows whether it is valid."""
    return {name: value for name, value in msgspec.structs.asdict(found).items() if name != "revision"}


class ValueCounts:
    """Counts queues by the values of some settings, before and after a change."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self._pairs: dict[tuple[int, int, int], list[Any]] = {}
        self._values: Counter[bytes] = Counter()
        self.matched = 0

    def add(self, before: QueueSettings, after: QueueSettings, limits: Limits | None) -> None:
        """Count a queue."""
        self.matched += 1
        key = id(before), id(after), id(limits)  # they are shared by the queues that have the same
        pair = self._pairs.get(key)
        if pair is not None:
            pair[3] += 1
            return
        if len(self._pairs) == _KEPT:
            self._merge()
        self._pairs[key] = [before, after, limits, 1]

    def _merge(self) -> None:
        for before, after, limits, count in self._pairs.values():
            sides = (before, limits and limits[0]), (after, limits and limits[1])
            values = [[value(*side, name) for name in self._names] for side in sides]
            self._values[msgspec.json.encode(values)] += count
        self._pairs.clear()

    def survey(self, change: Change, as_of: float, unknown: list[str]) -> Survey:
        """Return the result."""
        self._merge()
        groups = [(msgspec.json.decode(values), count) for values, count in self._values.most_common()]
        if groups:
            before, after = (
                {name: _same([values[side][n] for values, _ in groups]) for n, name in enumerate(self._names)}
                for side in (0, 1)
            )
        else:
            before, after = values_of_none(change)
        listed = groups[:MOST_GROUPS]
        return Survey(
            matched=self.matched,
            groups=[
                {
                    "before": dict(zip(self._names, values[0], strict=True)),
                    "after": dict(zip(self._names, values[1], strict=True)),
                    "queues": count,
                }
                for values, count in listed
            ],
            ungrouped=self.matched - sum(count for _, count in listed),
            before=before,
            after=after,
            as_of=as_of,
            unknown=unknown,
            changed=sum(count for (old, new), count in groups if old != new),
        )


def _same(values: list[Any]) -> Any:
    return values[0] if all(value == values[0] for value in values) else None


def values_of_none(change: Change) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values before and after of a change that matches no queue yet, only the host or queue that it names.

    None where several values may come into force for its matches.
    """
    name = change.match.exact or ""
    known = bool(name) or change.match.kind == "*"
    url = f"http://{name or 'none.invalid'}/"
    found: list[dict[str, Any]] = []
    for effective, groups in zip((change.before, change.after), change.groupings, strict=True):
        settings, limits = effective.for_uri(url, name), groups.limits_of(change.match.text.removeprefix(GROUP))
        found.append(
            {n: value(settings, limits, n) if known or is_uniform(effective, n) else None for n in change.names}
        )
    return found[0], {**found[1], **change.sets, **change.certain}


def is_uniform(effective: Effective, name: str) -> bool:
    """Return whether a setting has the same value for all URIs; the limits of groups never have."""
    return not is_of_groups(name) and effective.is_uniform(name)


_Looked = tuple[QueueRecord, str, str | None, bool]
"""A queue, URL and label of the URI that its settings come from, and whether the change matches it."""


def look(view: View, match: Match, *, others: bool) -> Iterator[_Looked]:
    """Yield the queues that match and, if asked for, all others that a change of settings may retire or revive."""
    heads = HeadUrls(view)
    unseen: dict[int, QueueRecord] = {}
    for queue in _candidates(view, match, others):
        url, label = heads.subject(queue)
        url = url or expand(queue.last_enqueued, queue.queue)
        if not url and queue.future:
            unseen[queue.id] = queue
            continue
        matched = bool(url or match.by_key) and match.matches(url, queue.queue, label)
        if matched or others:
            yield queue, url, label, matched
    yield from _look_later(view, match, unseen)


def _candidates(view: View, match: Match, others: bool) -> Iterator[QueueRecord]:
    """Yield the queues that may match, and the others: named and RETIRED ones, or all; some with short URLs."""
    if not match.keys:
        yield from view.compact_queues()
        return
    named = {queue.id: queue for queue in map(view.find_queue, spellings(match.keys)) if queue is not None}
    yield from named.values()
    if others:
        for _, value in view.items(keys.RETIRED):
            queue_id = keys.u32.unpack(value)[0]
            if queue_id not in named:
                yield view.queue_by_id(queue_id)


def _look_later(view: View, match: Match, unseen: dict[int, QueueRecord]) -> Iterator[_Looked]:
    """Yield the queues that never held a URI: the URLs scheduled for later decide."""
    matched: dict[int, tuple[str, str | None]] = {}
    for _, value in view.items(keys.FUTURE) if unseen else ():
        row = decode_future(value)
        queue = unseen.get(row.queue)
        if queue is not None and row.queue not in matched:
            url, label = expand(short_url(row.value), queue.queue), label_of(row.value)
            if match.matches(url, queue.queue, label):
                matched[row.queue] = url, label
    for queue_id, (url, label) in matched.items():
        yield unseen[queue_id], url, label, True


def survey(view: View, change: Change) -> Survey:
    """Return the queues that a change matches, by groups of equal values. O(queues), about 4 us each."""
    counters, standing = view.counters(), QueueSums()

    def found() -> Iterator[tuple[str, str, str | None]]:
        for queue, url, label, _ in look(view, change.match, others=False):
            standing.add(queue)
            yield url, queue.queue, label

    counted = survey_of(found(), change, counters.time, unknown=unknown_of(view, change))
    counted.then = standing.then()
    counted.revision = counters.settings_revision
    return counted


def override_of(view: View, entry: AuditEntry) -> Override | None:
    """Return the adjustment that an entry has made, or taken back, or of which it has undone that; None for others."""
    found: AuditEntry | None = entry
    while found is not None and found.command == "undo" and not found.error and not found.args.get("list"):
        found = view.audit_entry(int(found.args["id"]))
    if found is None or found.error or found.command not in ("adjust", "withdraw"):
        return None
    one: dict[str, Any] = found.effect.get("withdrawn") or found.args
    return Override(one["match"], one["set"])


def standing(view: View, match: Match, *, since: int) -> tuple[QueueSums, int]:
    """Return the sums of the matching queues, and how many of them became RETIRED after the position `since`."""
    found, again = QueueSums(), 0
    for queue, _, _, _ in look(view, match, others=False):
        found.add(queue)
        again += queue.state is RETIRED and queue.position > since
    return found, again


def survey_of(
    found: Iterable[tuple[str, str, str | None]], change: Change, as_of: float, *, unknown: list[str]
) -> Survey:
    """Return the survey of the queues that a change matches, each given as its URL, key and label.

    `unknown` are the keys that the change names and no queue has.
    """
    groups, values, limits = ValueCounts(change.names), change.values(), change.limits()
    for url, key, label in found:
        groups.add(*values(url, key, label), limits(url, key, label))
    return groups.survey(change, as_of, unknown)


def unknown_of(view: View, change: Change) -> list[str]:
    """Return the keys that a change names and no queue has."""
    return unknown_keys(change.match, view.find_queue)
