"""Forecasts of when a crawl ends: by its rate, its budgets, its politeness and its limits, each by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import ceil, floor, sqrt
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from budgetfrontier.core.model import QueueRecord, QueueState
from budgetfrontier.core.units import counted, format_amount, format_size
from budgetfrontier.rules.attempts import ended_in_error
from budgetfrontier.rules.budgets import must_retire
from budgetfrontier.rules.rates import Rate, Window, added, lasts
from budgetfrontier.rules.wake_times import Waits

if TYPE_CHECKING:
    from budgetfrontier.settings.overrides import QueueSettings

WINDOWS = "windows"
"""The bound of crawl windows, of which no forecast is made."""
QUEUES = "queues"
"""The bound of budgets and politeness, of which no forecast is made before all queues were looked at."""
DISK = "disk"
"""The beginning of the names of bounds of disks: a full one stops the crawl until there is room, but does not end it"""
BYTES = "bytes"
"""The unit of a limit that is shown as a size."""
BACK_OFF = "back-off"
"""The bound of hosts that rest because they were overloaded."""
CHANGED = 1.5
"""The factor between the pace of a stretch of time and of all of it above which the forecast uses the stretch."""
ENOUGH = 20
"""The URIs that have to end in a stretch of time for its pace to be sure; then no longer one is looked at."""
_CHANCE = 3.0  # standard deviations
_SLOW = 10.0  # times as long as its host's mean is hardly any fetch by chance
SURE = 30
"""The intervals (minutes, as a rule) of the last hour from which a forecast is called sure."""


class Forecast(msgspec.Struct, frozen=True):
    """The time from now on after which one bound would end the crawl."""

    bound: str
    seconds: float | None
    """None if it does not end the crawl, or that is not known."""
    earliest: float | None
    """The same at the rates of the faster quarter; None if not known."""
    latest: float | None
    sure: str
    """One of exact, likely, rough, at least and unknown; "over" for a crawl that was terminated."""
    why: str
    over: float = 0.0
    """The seconds of the stretch of time until now whose rates it is made from; 0.0 if it is made from none."""
    first: bool = False
    """Whether it is the bound that would end the crawl first, or a disk that is full now, once they are compared."""


class Held(NamedTuple):
    """The sums over the queues whose URIs count as queued, from a scan of all of them."""

    spendable: int
    """The sum of what queues with total budgets may spend before they are over them."""
    unlimited: int
    """URIs in queues without a total budget, those for later included, but for queues that retire in their turns."""
    tail: float
    """The least seconds until the last URI of a queue may be leased, of the queue with which that takes longest."""
    tail_queue: str
    under_quota: int = 0
    """URIs in queues whose next URI has a quota that is not used up, those for later included."""
    over_quota: int = 0
    """URIs in queues whose next URI has a quota that is used up; the other sums are without them."""
    resting: int = 0
    """URIs of hosts that were overloaded, and are to rest again if they go on so."""
    rest_end: float = 0.0
    """The seconds until the last of them may be leased then, of the queue with which that takes longest."""
    rest_queue: str = ""
    is_due: bool = False
    """Whether `tail` is the time until the last URI for later of its queue is due, which its delays do not reach."""


class Limit(NamedTuple):
    """A limit of the crawl."""

    left: float | None
    """The rest of it; None if that is not known."""
    figures: tuple[str, ...]
    """The figures that use it up; none for seconds of running."""
    unit: str = ""
    each: tuple[float, ...] = ()
    """The part of it that one of each figure uses; () if that is 1, and zeros alone if it is not known yet."""


Terms = tuple[float, bool, float, bool | None, Callable[[int], float] | None, float]
"""The terms on which a queue hands out its URIs: the least seconds between two of its leases; whether it retires as
soon as its total budget is reached, not only when it is exceeded; the seconds until it wakes, or until the soonest
URI for later is due if it holds no other ones; whether a quota of its next URI is used up, None without quotas; and how
many seconds it rests yet until so many URIs have ended, None if its host was not overloaded; and the seconds until its
last URI for later is due, 0.0 if that is not known."""


class GroupTerms(NamedTuple):
    """The limits that a group sets to its queues together."""

    name: str
    politeness: bool
    left: int | None
    """The amount it may yet spend until it is over its total budget, with costs of 1; -1 if it is; None without one."""
    wait: float = 0.0
    """The seconds until its clock, of politeness or bandwidth, lets its queues go on."""


class _Shared:
    """The holdings of the queues of a group."""

    def __init__(self, terms: GroupTerms) -> None:
        self.terms = terms
        self.spendable = 0
        self.is_open = False
        """Whether some of its queues have no total budget of their own."""
        self.urls = 0
        self.seconds = self.longest = 0.0

    def add(self, urls: int, delay: float) -> None:
        self.urls += urls
        self.seconds += urls * delay
        self.longest = max(self.longest, delay)

    @property
    def tail(self) -> float:
        """The least seconds until the last of its URIs may be leased: the clock lets one go after the other."""
        if not self.urls or self.terms.left is not None:
            return 0.0  # its budget may end it before
        return self.terms.wait + (self.seconds - self.longest if self.terms.politeness else 0.0)


def least_delay(queue: QueueRecord, configured: float) -> float:
    """Return the least seconds between two leases of a queue that hands out one URI at a time.

    They are those between its last lease and its wake time, for a Crawl-delay, a slow host or a back-off may have made
    them longer than the `configured` ones; a block, a retry and the bytes of the last fetch do not count.
    """
    since = queue.last_lease_time + 1.0  # it is stored in whole seconds
    if not queue.last_lease_time or max(queue.wake_time, queue.rest) - since <= configured:  # as of most queues
        return configured
    wake = Waits.of(queue).earned
    if ended_in_error(queue) or wake <= max(queue.delayed, queue.busy_until):
        return configured
    return max(configured, wake - since)


def lasting_delay(kept: float, seconds: float, settings: QueueSettings) -> float:
    """Return the least seconds between two leases of a queue in the mean, of which the last two were `kept` apart.

    After a fetch that was slow by chance a queue rests longer, and its next ones take the mean of `seconds` again. The
    part of `kept` that no fetch explains is a Crawl-delay.
    """

    def rest(fetch: float) -> float:
        return min(max(settings.delay_factor * fetch, settings.min_delay), settings.max_delay)

    slow = _SLOW * seconds
    return kept - slow if kept > rest(slow) + settings.jitter + slow else min(kept, rest(seconds))


class Holdings:
    """Adds up the holdings of queues that pass through. O(1) for each, and in memory."""

    def __init__(self) -> None:
        self._spendable = self._unlimited = 0
        self._tail, self._tail_queue, self._is_due = 0.0, "", False
        self._under_quota = self._over_quota = self._resting = 0
        self._rest_end, self._rest_queue = 0.0, ""
        self._groups: dict[str, _Shared] = {}
        self._terms_of_group: Callable[[QueueRecord], GroupTerms | None] = lambda queue: None

    def through(
        self,
        queues: Iterable[QueueRecord],
        terms: Callable[[QueueRecord], Terms],
        groups: Callable[[QueueRecord], GroupTerms | None] = lambda queue: None,
    ) -> Iterator[QueueRecord]:
        """Yield the same queues.

        `terms`, called with each queue that counts, sets its budgets to those in force, and returns its terms; `groups`
        returns those of its group. Of a queue that retires in its turn, nothing counts.
        """
        self._terms_of_group = groups
        add, retired, ineligible = self._add, QueueState.RETIRED, QueueState.INELIGIBLE
        for queue in queues:
            if (queue.queued or queue.future) and queue.state is not retired and queue.state is not ineligible:
                add(queue, terms(queue))
            yield queue

    def _add(self, queue: QueueRecord, terms: Terms) -> None:
        urls, (delay, reached, wait, quota_used, rests, due) = queue.queued + queue.future, terms
        if must_retire(queue, reached):
            return
        if queue.max_completed:
            urls = min(urls, queue.max_completed - queue.completed)
        if quota_used:
            self._over_quota += urls
            return
        self._under_quota += urls * (quota_used is not None)
        of_group = self._terms_of_group(queue)
        group, limit = (None, None) if of_group is None else (self._group(of_group), of_group.left)
        if limit is not None and limit < 0:
            return
        if queue.total_budget < 0:
            if group is None or limit is None:
                self._unlimited += urls
            else:
                group.is_open = True
        else:
            left, each = queue.total_budget - queue.expenditure, queue.average_cost or 1  # as with most policies
            most = ceil(left / each) if reached else floor(left / each) + 1  # the last may go beyond the budget
            due = due if urls <= most else 0.0  # the budget may end it before
            urls, left = min(urls, most), round(most * each)
            if group is None or limit is None:
                self._spendable += left
            else:
                group.spendable += left
        if quota_used is not None:  # the quota may end it before
            return
        if group is not None:
            group.add(urls, delay)
            if limit is not None:  # it may end its queues before
                return
        tail = wait + (urls - 1) * delay
        if max(tail, due) > self._tail:
            self._tail, self._tail_queue, self._is_due = max(tail, due), queue.queue, due > tail
        if rests is not None and (ahead := rests(urls)):
            self._resting += urls
            if tail + ahead > self._rest_end:
                self._rest_end, self._rest_queue = tail + ahead, queue.queue

    @property
    def held(self) -> Held:
        """The sums over the queues that have passed."""
        spendable, tail, name, is_due = self._spendable, self._tail, self._tail_queue, self._is_due
        for group in self._groups.values():
            if (left := group.terms.left) is not None:
                spendable += left if group.is_open else min(group.spendable, max(left, 0))
            if group.tail > tail:
                tail, name, is_due = group.tail, f"the group {group.terms.name}", False
        rests = self._resting, self._rest_end, self._rest_queue
        return Held(spendable, self._unlimited, tail, name, self._under_quota, self._over_quota, *rests, is_due)

    def _group(self, terms: GroupTerms) -> _Shared:
        found = self._groups.get(terms.name)
        if found is None:
            found = self._groups[terms.name] = _Shared(terms)
        return found


def latest_of(whole: tuple[float, Window], parts: Iterable[tuple[float, Window]]) -> tuple[float, Window]:
    """Return the stretch of time whose rates are those now in force: `whole`, or a part of it if the pace has changed.

    Each is given with its seconds, `parts` shortest first. A rate of the whole hour would outlive a crawl that has
    slowed down. A part counts if as many or as few URIs ended in it by chance hardly ever, and if they are not enough
    to be sure, the longest such part does, up to one that is as the whole: that contains the change.
    """
    found, of_whole = whole, whole[1]
    for part in parts:
        seconds, last = part[1].seconds, part[1]
        if not lasts(seconds) or not last.rates or not of_whole.rates:
            continue
        now, then = last.rates["finished"].count, of_whole.rates["finished"].per_hour * seconds / 3600
        higher = max(now, then)
        if higher > CHANGED * min(now, then) and abs(now - then) > _CHANCE * sqrt(higher):
            found = part
            if now >= ENOUGH:
                break
        elif found is not whole:
            break
    return found


def forecasts(
    last: Window, *, waiting: int, holds: Held | None, limits: dict[str, Limit], aside: str = ""
) -> Iterator[Forecast]:
    """Yield when each bound would end the crawl.

    `last` has the recent rates, `waiting` counts the URIs queued or scheduled for later, `limits` has the limits of the
    crawl by name. If `holds` is None (not known yet), QUEUES is the bound in the place of budgets and politeness.
    `aside`: the queues, in words, whose URIs do not wait.
    """
    if not lasts(last.seconds):
        last = last._replace(rates={})
    rates = last.rates
    yield _by_rate(last, waiting, 0 if holds is None else holds.over_quota, aside)
    if holds is None:
        why = "budgets and politeness are known once the queues are scanned"
        yield Forecast(QUEUES, None, None, None, "unknown", why)
    else:
        if holds.unlimited:
            why = f"{counted(holds.unlimited, 'URI is', 'URIs are')} in queues without a total budget"
            yield Forecast("budgets", None, None, None, "exact", why)
        else:
            why = f"{holds.spendable:,} may still be spent by queues that are not retired"
            yield _used_up("budgets", holds.spendable, rates.get("spent"), last, why)
        if holds.tail:
            at = ", whose last URI for later is not due before" if holds.is_due else " at its shortest delay"
            why = f"{holds.tail_queue}{at}, if nothing more is found there"
            yield Forecast("politeness", holds.tail, holds.tail, None, "at least", why)
        if holds.rest_end:
            why = f"{holds.rest_queue}, if nothing more is found there, and it answers 429 or 503 as often as until now"
            more = f", and rests longer each time; {counted(holds.resting, 'URI waits', 'URIs wait')} for such hosts"
            yield Forecast(BACK_OFF, holds.rest_end, None, None, "rough", why + more)
        if holds.under_quota:
            are = counted(holds.under_quota, "URI is", "URIs are")
            why = f"{are} in queues with quotas, which may end these before: not considered"
            yield Forecast("quotas", None, None, None, "unknown", why)
    for name, (left, figures, unit, each) in limits.items():
        if name == WINDOWS:
            why = "not all hours in which crawl windows are closed are considered"
            yield Forecast(name, None, None, None, "unknown", why)
        elif left is None:
            yield Forecast(name, None, None, None, "unknown", "only `budgetfrontier crawl` counts what is used of it")
        elif figures:
            shown = format_size(max(left, 0.0)) if unit == BYTES else f"{max(left, 0.0):,.0f} {unit}"
            if left > 0 and each and not any(each):
                why = f"{shown} left; how fast the crawl's files grow is not known yet"
                yield Forecast(name, None, None, None, "unknown", why)
                continue
            rate = _together(rates, figures, each)
            one = _used_up(name, left, rate, last, f"{shown} left", sizes=unit == BYTES)
            averaged = each and one.seconds
            yield msgspec.structs.replace(one, sure="rough") if averaged else one
        else:
            left = max(left, 0.0)
            yield Forecast(name, left, left, left, "exact", "while a process runs it, without pauses")


def binding(found: Sequence[Forecast]) -> Forecast | None:
    """Return the bound that would end the crawl first; None if none would, or if that is not known.

    Before politeness and the rests of overloaded hosts allow the last URI of each queue to be leased, neither rate nor
    budgets can end the crawl: only limits.
    """
    known = {one.bound: one for one in found if one.seconds is not None and not one.bound.startswith(DISK)}
    delays = [known.pop(bound) for bound in ("politeness", BACK_OFF) if bound in known]
    longest, rate = max(delays, key=_seconds, default=None), known.get("rate")
    if longest is not None and not (rate is not None and not _seconds(rate)):
        for bound in ("rate", "budgets"):
            if bound in known and _seconds(known[bound]) < _seconds(longest):
                known[bound] = longest
        if any(forecast.bound == "rate" and forecast.sure == "unknown" for forecast in found):
            known["rate"] = longest  # nothing else bounds the waiting URIs
    return min(known.values(), key=_seconds, default=None)


def not_before(found: Sequence[Forecast]) -> Forecast | None:
    """Return the bound before which the crawl does not end, if nothing tells when it ends; None if something does."""
    first = binding(found)
    is_least = first is not None and first.sure == "at least"
    return first if is_least and any(one.bound == "rate" and one.sure == "unknown" for one in found) else None


def is_of_rates(forecast: Forecast) -> bool:
    """Return whether a forecast is made from the rates of a stretch of time."""
    return forecast.sure in ("likely", "rough") and forecast.bound != BACK_OFF


def first_full(found: Sequence[Forecast]) -> Forecast | None:
    """Return the forecast of the disk that is full first; None if none fills up, or that is not known."""
    disks = (forecast for forecast in found if forecast.bound.startswith(DISK) and forecast.seconds is not None)
    return min(disks, key=_seconds, default=None)


def full_now(found: Sequence[Forecast]) -> Forecast | None:
    """Return the forecast of the first disk that is full already; None if none is."""
    return next((one for one in found if one.bound.startswith(DISK) and one.seconds == 0), None)


def _seconds(forecast: Forecast) -> float:
    return forecast.seconds or 0.0


_ENDS = "succeeded", "failed", "disregarded", "buried"


def _by_rate(last: Window, waiting: int, over_quota: int, aside: str) -> Forecast:
    """Return when all waiting URIs are fetched but those over a quota, at the present rate less that of new ones.

    It is not known while the difference of the two counts is within their standard deviation, if both are Poisson's.
    """
    waiting = max(waiting - over_quota, 0)
    others = f", {counted(over_quota, 'more is', 'more are')} over a quota" if over_quota else ""
    if not waiting:
        outside = f" outside of {aside}" if aside else ""
        return Forecast("rate", 0.0, 0.0, 0.0, "exact", f"nothing waits{outside}{others}")
    if not last.rates:
        return Forecast("rate", None, None, None, "unknown", "rates are known after a minute of crawling")
    wait = f"{counted(waiting, 'waits', 'wait')}{others}"
    ended = sum(last.rates[name].per_hour for name in _ENDS)
    if not ended:
        return Forecast("rate", None, None, None, "unknown", f"{wait}, and nothing has ended lately")
    net = ended - last.rates["found"].per_hour
    if net <= 0:
        why = f"{format_amount(-net)} an hour more are found than end" if net else "as many are found as end"
        return Forecast("rate", None, None, None, _sure(last), why)
    ends, found = sum(last.rates[name].count for name in _ENDS), last.rates["found"].count
    if found and ends - found < sqrt(ends + found):
        return Forecast("rate", None, None, None, "unknown", f"{wait}, and about as many are found as end")
    why = f"{wait}, and {format_amount(net)} an hour more end than are found"
    return Forecast("rate", waiting / net * 3600, None, None, _sure(last), why)


def _together(rates: Mapping[str, Rate], figures: Sequence[str], each: Sequence[float] = ()) -> Rate | None:
    """Return the rate of several figures, times what each uses; the spread is that of each, added up."""
    weights = dict(zip(figures, each or [1] * len(figures), strict=True))
    found = [(rates[figure], weight) for figure, weight in weights.items() if figure in rates]
    if not found:
        return None
    return Rate(
        sum(rate.count * weight for rate, weight in found),
        sum(rate.per_hour * weight for rate, weight in found),
        added([None if rate.low is None else rate.low * weight for rate, weight in found]),
        added([None if rate.high is None else rate.high * weight for rate, weight in found]),
    )


def _used_up(bound: str, left: float, rate: Rate | None, last: Window, why: str, *, sizes: bool = False) -> Forecast:
    if left <= 0:
        return Forecast(bound, 0.0, 0.0, 0.0, "exact", why)
    if rate is None:
        return Forecast(bound, None, None, None, "unknown", f"{why}; rates are known after a minute of crawling")
    if not rate.per_hour:
        return Forecast(bound, None, None, None, _sure(last), f"{why}, and nothing is used at present")
    return Forecast(
        bound,
        left / rate.per_hour * 3600,
        left / rate.high * 3600 if rate.high else None,
        left / rate.low * 3600 if rate.low else None,
        _sure(last),
        f"{why}, {(format_size if sizes else format_amount)(rate.per_hour)} an hour",
    )


def _sure(last: Window) -> str:
    return "likely" if last.intervals >= SURE else "rough"
