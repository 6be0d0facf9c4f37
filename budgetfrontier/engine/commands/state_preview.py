"""The state of a queue, or of the crawl, as the audit keeps it, and after a command: for dry runs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cached_property
from itertools import islice
from math import inf
from typing import Any

from budgetfrontier.core.model import CrawlState, QueueRecord, QueueState, Summary
from budgetfrontier.engine.commands.floor_preview import FloorPreview
from budgetfrontier.engine.commands.selection import (
    SelectedQueues,
    count,
    count_paces,
    count_still_closed,
    count_still_over,
    hands_out,
    summary,
)
from budgetfrontier.engine.rollout import STEP
from budgetfrontier.errors import FrontierError
from budgetfrontier.rules import crawl_states, queue_states, wake_times
from budgetfrontier.rules.queue_states import INACTIVE, INELIGIBLE, READY, RETIRED, SNOOZED
from budgetfrontier.rules.wake_times import Waits
from budgetfrontier.settings.grouping import wants_star
from budgetfrontier.settings.overrides import Effective, QueueSettings
from budgetfrontier.settings.schema import FrontierSettings
from budgetfrontier.storage.budgets_in_force import BudgetsInForce
from budgetfrontier.storage.head_urls import NO_URL, HeadUrls
from budgetfrontier.storage.records import Counters
from budgetfrontier.storage.turn_order import in_turn
from budgetfrontier.storage.view import View

NOT_PACED = (
    "queues have intervals and limits of their own only with `frontier.keep_urls`, which is fixed at creation; "
    "`adjust` sets `politeness.min_interval` for queues that match"
)
_FIGURES = ("out", "expenditure", "total_budget", "balance")


class Terms:
    """The settings of a view by which commands change the states of queues: read once."""

    def __init__(self, view: View) -> None:
        self.view = view

    @cached_property
    def frontier(self) -> FrontierSettings:
        """The settings of the frontier."""
        return self.view.settings()[0].frontier

    @cached_property
    def revision(self) -> int:
        """The revision of the settings in force."""
        return self.view.counters().settings_revision

    @cached_property
    def in_force(self) -> Effective:
        """The settings in force by URI."""
        return self.view.in_force()

    @cached_property
    def heads(self) -> HeadUrls:
        """The URLs at the heads of queues."""
        return HeadUrls(self.view)

    @cached_property
    def floor(self) -> FloorPreview:
        """The precedences of queues, for the floor."""
        return FloorPreview(self.view)

    @cached_property
    def budgets(self) -> BudgetsInForce:
        """The budgets of queues by the settings in force."""
        return BudgetsInForce(self.view)

    def settings_of(self, queue: QueueRecord) -> QueueSettings:
        """Return the settings in force for the head of a queue, or for the URL placed last if it is empty."""
        url, label = self.heads.subject(queue)
        return self.in_force.for_uri(url or queue.last_enqueued, queue.queue, label)


def look_at_queue(queue: QueueRecord) -> dict[str, Any]:
    """Return the fields of a queue that commands change, as the audit keeps them before and after."""
    closed = {"closed_until": queue.closed_until} if queue.closed_until else {}
    return closed | {
        "state": queue.state,
        "wake_time": queue.wake_time,
        "queued": queue.queued,
        "by_name": bool(queue.by_name),
        "block": queue.block,
        "delayed": queue.delayed,
        "rest": Waits.of(queue).unblocked,
        "interval": queue.interval,
        "max_completed": queue.max_completed,
    }


def look_at_crawl(totals: Summary | Counters) -> dict[str, Any]:
    """Return the fields of the crawl that commands change, as the audit keeps them before and after."""
    return {"state": totals.state, "pause_reason": totals.pause_reason}


def of_queue(view: View, op: str, args: dict[str, Any], now: float) -> dict[str, Any]:
    """Return a queue before and after a command, and its figures. Raises FrontierError if there is none."""
    queue = view.find_queue(view.named(args["queue"]))
    if queue is None:
        raise FrontierError(f"there is no queue {args['queue']!r}")
    _check_paced(view, op)
    terms = Terms(view)
    changed, shown = copy.copy(queue), terms.budgets.show(queue)
    _COMMANDS[op](terms, changed, args, now)
    effect = {"queue": queue.queue, "before": look_at_queue(queue), "after": look_at_queue(changed)}
    count_still_over(effect, _retires_again(terms, op, queue, changed))
    _hold_back(effect, changed, args, handed_out=hands_out(queue))
    return effect | {name: getattr(shown, name) for name in _FIGURES}


def of_queues(view: View, op: str, args: dict[str, Any], now: float) -> dict[str, Any]:
    """Return the effect of a command on the queues that it selects, as of the view. O(queues). Raises FrontierError."""
    _check_paced(view, op)
    effect, change, terms = summary(), _COMMANDS[op], Terms(view)
    for _, queue in SelectedQueues(args).queues(view):
        if queue is not None:
            was, before, handed_out = copy.copy(queue), look_at_queue(queue), hands_out(queue)
            change(terms, queue, args, now)
            _hold_back(effect, queue, args, handed_out=handed_out)
            count(effect, queue, before, look_at_queue(queue))
            count_still_over(effect, _retires_again(terms, op, was, queue))
            count_still_closed(effect, op, before, now)
            count_paces(effect, "paces", before, args)
    return effect


def _check_paced(view: View, op: str) -> None:
    """Raise FrontierError for `set_queue` in a frontier whose queues have no intervals and limits of their own."""
    if op == "set_queue" and not view.settings()[0].frontier.keep_urls:
        raise FrontierError(NOT_PACED)


def _retires_again(terms: Terms, op: str, before: QueueRecord, after: QueueRecord) -> bool:
    """Return whether a queue that `unretire` brings back is over budget, and retired on its turn."""
    revived = op == "unretire" and before.state is RETIRED and after.state is INACTIVE
    return revived and terms.budgets.over_budget(copy.copy(after))


def _hold_back(effect: dict[str, Any], queue: QueueRecord, args: dict[str, Any], *, handed_out: bool) -> None:
    """Count the URIs of a changed queue that it hands out no more, or not before a time, for the end of the crawl."""
    held = handed_out and (not hands_out(queue) or queue.wake_time >= args.get("until", inf))
    effect["held_back"] = effect.get("held_back", 0) + held * queue.queued
    effect["held_later"] = effect.get("held_later", 0) + (queue.state is RETIRED) * queue.future


def of_crawl(view: View, op: str, args: dict[str, Any]) -> dict[str, Any]:
    """Return the crawl before and after a command, with the numbers of leased and queued URIs."""
    totals = view.summary()
    after = crawl_after(view, totals, op, str(args.get("reason") or "operator"))
    return {"before": look_at_crawl(totals), "after": after, "out": totals.in_process, "queued": totals.queued}


def crawl_after(view: View, totals: Summary, op: str, reason: str) -> dict[str, Any]:
    """Return the crawl after `pause`, which has a reason, `resume` or `terminate`."""
    if op == "pause":
        why = crawl_states.reason_after_pause(totals.state, totals.pause_reason, reason)
        return {"state": crawl_states.after_pause(totals.state, totals.in_process), "pause_reason": why}
    if op == "resume":
        after = crawl_states.after_resume(totals.state, view.counters().scheduled)
        shown: dict[str, Any] = {"state": after, "pause_reason": totals.pause_reason if after is totals.state else None}
        return crawl_states.settled(shown, _settled(view, after))
    return {"state": crawl_states.after_terminate(totals.state), "pause_reason": None}


def _settled(view: View, state: CrawlState) -> CrawlState:
    counters, settings = view.counters(), view.settings()[0]
    empty = not counters.rolls_out and crawl_states.is_empty(
        queued=counters.queued,
        leases=counters.leases,
        future=counters.future,
        future_retired=counters.future_retired,
    )
    if empty and state is CrawlState.RUNNING and counters.unranked and wants_star(settings.groups):
        empty = not _revived_by_ranking(view)
    return crawl_states.next_crawl_state(
        state,
        scheduled=counters.scheduled,
        leases=counters.leases,
        empty=empty,
        busy=False,
        pause_at_finish=settings.frontier.pause_at_finish,
    )


def _revived_by_ranking(view: View) -> bool:
    """Return whether a ranking of the domains gives an empty crawl something to do, as any change of settings may.

    It brings RETIRED queues back, before their turns tell whether they are still over budget. O(STEP).
    """
    terms = Terms(view)
    terms.revision += 1
    reconsidered = (RETIRED, INELIGIBLE) if terms.in_force.mixes_precedences else (RETIRED,)
    ids = [id_ for state in reconsidered for _, id_ in islice(in_turn(view, state), STEP)]
    if len(ids) >= STEP:  # the rest is looked at once the crawl goes on
        return True
    queues = (queue for queue in map(view.queue_by_id, ids) if queue_states.is_revived_by_change(queue))
    return any(state_once_revived(terms, queue) is INACTIVE or queue.future for queue in queues)


def set_waits(queue: QueueRecord, waits: Waits) -> None:
    """Change the waits of a copy of a queue's record."""
    queue.wake_time, queue.block, queue.delayed, queue.rest, queue.paced_until, queue.closed_until = waits


# -- as `Turns` of the engine does it; a test compares them


def _retire(terms: Terms, queue: QueueRecord, args: dict[str, Any], now: float) -> None:
    queue.by_name, queue.state = True, RETIRED


def _unretire(terms: Terms, queue: QueueRecord, args: dict[str, Any], now: float) -> None:
    if queue.state is RETIRED:
        queue.state = state_once_revived(terms, queue)
    queue.by_name = False


def state_once_revived(terms: Terms, queue: QueueRecord) -> QueueState:
    """Return the state of a RETIRED queue that is brought back; a policy that is not built in is not asked again."""
    state = queue_states.after_unretirement(queue)
    if state is not INACTIVE or terms.frontier.precedence_floor is None:
        return state
    precedence = queue.precedence
    if queue.revision != terms.revision:
        precedence = terms.floor.precedence(queue, terms.heads.url(queue) or NO_URL, terms.settings_of(queue))
    return queue_states.while_waiting(precedence, terms.frontier.precedence_floor)


def _snooze(terms: Terms, queue: QueueRecord, args: dict[str, Any], now: float) -> None:
    set_waits(queue, wake_times.blocked(queue, float(args["until"]), now))
    if queue.state is READY and queue.wake_time > now:
        queue.state = SNOOZED


def _wake(terms: Terms, queue: QueueRecord, args: dict[str, Any], now: float) -> None:
    if queue.state is SNOOZED:
        settings = terms.settings_of(queue)
        queue.state = queue_states.after_waking(terms.budgets.show(queue), settings)
    set_waits(queue, wake_times.woken(queue, now))


def _set_queue(terms: Terms, queue: QueueRecord, args: dict[str, Any], now: float) -> None:
    found = look_at_queue(queue)
    repace(terms, queue, found | args, found, now)


def repace(terms: Terms, queue: QueueRecord, chosen: dict[str, Any], before: dict[str, Any], now: float) -> None:
    """Give a copy of a queue's record the interval and the limit that are `chosen` and not as `before`."""
    if chosen["interval"] != before["interval"]:
        queue.interval = chosen["interval"]
        interval = queue.interval
        if interval is None:
            interval = terms.settings_of(queue).min_interval if queue.queued else 0.0
        set_waits(queue, wake_times.paced(queue, interval, now))
        if queue.state is READY and queue.wake_time > now:
            queue.state = SNOOZED
    if chosen["max_completed"] != before["max_completed"]:
        queue.max_completed = chosen["max_completed"]
        if queue.state is RETIRED and not queue.by_name:
            queue.state = state_once_revived(terms, queue)


_COMMANDS: dict[str, Callable[[Terms, QueueRecord, dict[str, Any], float], None]] = {
    "retire": _retire,
    "unretire": _unretire,
    "snooze": _snooze,
    "wake": _wake,
    "set_queue": _set_queue,
}
