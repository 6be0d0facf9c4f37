"""The standing of a crawl, from which the verdict is made, read at bounded cost for any size of the frontier."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path

from budgetfrontier.core.model import CrawlState, Process, QueueState, RunEnd, Summary
from budgetfrontier.rules import crawl_windows
from budgetfrontier.rules.attempts import waits_for_retry
from budgetfrontier.rules.crawl_states import FINISH
from budgetfrontier.rules.rates import FIGURES, window
from budgetfrontier.rules.run_history import WORKER
from budgetfrontier.rules.undoing import PAUSING, command_of
from budgetfrontier.rules.verdict import Standing, is_recent
from budgetfrontier.settings import sheets
from budgetfrontier.storage import keys
from budgetfrontier.storage.budgets_in_force import BudgetsInForce
from budgetfrontier.storage.disks import free_bytes
from budgetfrontier.storage.group_listing import name_of
from budgetfrontier.storage.head_urls import HeadUrls
from budgetfrontier.storage.holds import holds
from budgetfrontier.storage.process import process
from budgetfrontier.storage.records import AuditEntry, decode_lease, decode_run
from budgetfrontier.storage.series import row_of, until_commit
from budgetfrontier.storage.start_command import start_command
from budgetfrontier.storage.turn_order import in_turn
from budgetfrontier.storage.uri_values import expand, short_url
from budgetfrontier.storage.view import View

LOOKED_AT = 100
"""The most queues of a state, and leases, that are looked at."""
_RATE_OVER = 60.0  # seconds over which the rate is taken, as on the cards of the console
_ROBOTS = "/robots.txt"


def standing(
    view: View, path: Path, *, now: float, totals: Summary | None = None, running: Process | None = None
) -> Standing:
    """Return the standing at `now` of the frontier at `path`. O(1): at most some milliseconds.

    An engine gives its own `totals` and process, as the last commit does not have them yet.
    """
    totals = totals or view.summary()
    found = Standing(now=now, totals=totals, process=running or process(view, path))
    settings, adjustments = view.settings()
    if totals.state not in (CrawlState.FINISHED, CrawlState.TERMINATED):
        lists = {given for _, given in sheets.windows_in_force(settings, adjustments)}
        found.closed_until = min((crawl_windows.opens_at(given, found.now) for given in lists), default=0.0)
    found.commit_interval, found.max_queued = settings.frontier.commit_interval, settings.frontier.max_queued
    if path.name:
        found.job = os.fspath(path.parent if path.name == "frontier" else path)
        stop = found.process.last_stop
        found.start = start_command(found.job, "" if stop is None else stop.program)
    found.held = max(view.size(keys.PENDING) - totals.queued, 0)
    counters = view.counters()
    found.retired_by_name, found.held_future = counters.retired_by_name, counters.future_retired
    if totals.in_process:
        _look_at_leases(found, view)
    if totals.state in (CrawlState.PAUSED, CrawlState.PAUSING, CrawlState.TERMINATED):
        _who_steered(found, view)
    elif totals.state is CrawlState.RUNNING:
        _what_queues_wait_for(found, view)
    if totals.state is CrawlState.FINISHED or totals.pause_reason == FINISH:
        found.hold = _first_hold(view)
        _look_at_inactive(found, view)
    stop = found.process.last_stop
    if stop is not None and stop.end is RunEnd.DISK_FULL and not found.process.alive:
        with suppress(OSError):
            found.free = free_bytes(path)
    return found


def _who_steered(found: Standing, view: View) -> None:
    terminated = found.totals.state is CrawlState.TERMINATED
    entry = view.last_command("terminate") if terminated else view.last_command("pause", "undo", where=_has_paused)
    if entry is not None:
        found.steered_by, found.steered_at = entry.who, entry.when


def _has_paused(entry: AuditEntry) -> bool:
    """Return whether a `pause`, or the `undo` of a `resume`, has paused the crawl."""
    is_of_crawl = command_of(entry.command, entry.effect) in PAUSING
    return is_of_crawl and entry.effect["after"]["state"] in (CrawlState.PAUSED, CrawlState.PAUSING)


def _what_queues_wait_for(found: Standing, view: View) -> None:
    counts = found.totals.queues
    settings, _ = view.settings()
    found.rests_until, found.max_bandwidth = view.rests_until(), settings.frontier.max_bandwidth
    found.asked, found.renewed = _asked(found.process, view), view.counters().last_renewed
    _look_at_rate(found, view)
    if counts.get(QueueState.READY, 0):
        return
    if counts.get(QueueState.SNOOZED, 0):
        _look_at_snoozed(found, view)
        _look_at_groups(found, view)
    _look_at_inactive(found, view)
    due = next(view.items(keys.FUTURE), None)
    found.next_due = None if due is None else keys.due.unpack(due[0])[0]
    if found.over_budget or not counts.get(QueueState.INACTIVE, 0):
        _look_at_ended_wait(found)


def _asked(process: Process, view: View) -> float:
    """Return when URIs were asked for last, at the least when the process began; the first one, if it is a worker.

    A worker asks for nothing itself: whether crawlers ask does not depend on who has the partition.
    """
    asked, began = view.counters().last_asked, _began(process, view)
    return asked or began if process.program == WORKER else max(asked, began)


def _began(process: Process, view: View) -> float:
    """Return when the process of a crawl began, or the first of its workers; 0.0 if that is not known."""
    began = process.began or 0.0
    if process.program != WORKER:
        return began
    return next((decode_run(row).began for _, row in view.items(keys.RUNS)), began)


def _look_at_ended_wait(found: Standing) -> None:
    """Take the end of the first wait for a request if it came after the last commit: who asked before got nothing."""
    first = min((when for when in (found.next_wake, found.next_due) if when is not None), default=0.0)
    if (found.process.last_commit or 0.0) < first <= found.now:
        found.asked = max(found.asked, first)


def _first_hold(view: View) -> str:
    """Return the first group or quota that holds one of the first RETIRED queues, in words; "" if none does."""
    ids = islice(in_turn(view, QueueState.RETIRED), LOOKED_AT)
    found = holds(view, (view.queue_by_id(id_) for _, id_ in ids))
    return next(chain.from_iterable(one.texts() for one in found), "")


def _look_at_inactive(found: Standing, view: View) -> None:
    if found.totals.queues.get(QueueState.INACTIVE, 0):
        ids = [id_ for _, id_ in islice(in_turn(view, QueueState.INACTIVE), LOOKED_AT)]
        found.over_budget = bool(ids) and all(map(BudgetsInForce(view).over_budget, map(view.queue_by_id, ids)))


def _look_at_rate(found: Standing, view: View) -> None:
    """Find the URIs fetched a second in the minute before the last commit, or until now if the crawl idles since.

    It is not known once that commit is old. Rows are stored once a minute, and around idle times: changes between two
    of them are spread evenly over that time. Nothing is fetched from a partition while another worker takes it over.
    """
    committed, began = found.process.last_commit, _began(found.process, view)
    if not found.process.alive or committed is None or not is_recent(found, found.now):
        return
    idles = found.now - committed > 3 * found.commit_interval
    until = found.now if idles else committed
    rows = until_commit(view, max(until - 2 * _RATE_OVER, began), until, row_of(found.totals, committed))
    until = min(until, rows[-1].time) if rows else until  # when a process that idles was last seen at work
    since = max(until - _RATE_OVER, began)
    last = window(rows, since, until, figures={"fetched": FIGURES["fetched"]})
    seconds = until - since if found.process.program == WORKER else last.seconds
    if last.rates and seconds >= _RATE_OVER / 6:
        found.rate = last.rates["fetched"].count / seconds


def _look_at_leases(found: Standing, view: View) -> None:
    """Find the oldest lease, and the last deadline. Ids grow with time; renewals and other runs do not change that."""
    rows = [decode_lease(value) for _, value in islice(view.items(keys.LEASES), LOOKED_AT)]
    oldest = min(rows, key=lambda row: row.began, default=None)
    if oldest is None:
        return
    found.first_lease, found.last_expiry = oldest.began, max(row.expires for row in rows)
    value = view.txn.get(oldest.key, db=view.db[keys.PENDING])
    if value is not None:
        found.first_url = expand(short_url(value), view.queue_by_id(oldest.queue).queue)


def _look_at_snoozed(found: Standing, view: View) -> None:
    heads = HeadUrls(view)
    for key, _ in islice(view.items(keys.SNOOZED), LOOKED_AT):
        wake_time, queue_id = keys.timed.unpack(key)
        found.next_wake = wake_time if found.next_wake is None else found.next_wake
        queue = view.queue_by_id(queue_id)
        found.closed += queue.closed_until > found.now
        found.for_robots += (heads.url(queue) or "").endswith(_ROBOTS)
        if waits_for_retry(queue, heads.attempts(queue)):
            found.for_retry += 1
            found.failure = found.failure or queue.failure


def _look_at_groups(found: Standing, view: View) -> None:
    """Count the queues that wait for their groups, which wake with these."""
    found.parked = view.counters().parked
    if not found.parked:
        return
    wakes = next(view.items(keys.GROUP_WAKES), None)
    if wakes is not None:
        when, group_id = keys.timed.unpack(wakes[0])
        found.next_wake = when if found.next_wake is None else min(found.next_wake, when)
    else:
        group_id = keys.parked.unpack(next(view.items(keys.PARKED))[0])[0]
    found.group = name_of(view, group_id) or ""
