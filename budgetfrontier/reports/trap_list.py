"""The list of queues that look like crawler traps, with the evidence and what would hold each.

Two stages: the numbers of all queues, then a sample of the URIs of those whose numbers are the most interesting.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import nlargest

import msgspec

from budgetfrontier.core.model import QueueRecord, QueueState
from budgetfrontier.reports.path_patterns import path_patterns
from budgetfrontier.reports.queue_sample import spread
from budgetfrontier.rules import queue_answers, trap_evidence
from budgetfrontier.rules.budgets import must_retire
from budgetfrontier.rules.trap_dates import far_years
from budgetfrontier.rules.trap_evidence import Evidence, QueueNumbers
from budgetfrontier.rules.trap_samples import LEAST
from budgetfrontier.rules.trap_urls import url_signs
from budgetfrontier.storage.budgets_in_force import BudgetsInForce
from budgetfrontier.storage.view import View

READ = 500
"""Queues whose URIs are read: 10 to 20 ms each, some milliseconds more if a queue holds 100,000."""
_LOOKED_AT = 20  # times as many queues whose histories are read
SAMPLE = 300
"""URIs that are read of each."""
_PATTERNS = 3


class Suspect(msgspec.Struct):
    """A queue that looks like a trap. `score` is from 0.5 to 1."""

    queue: str
    state: QueueState
    score: float
    queued: int
    finished: int
    spent: int
    evidence: list[Evidence]
    """The strongest first."""
    patterns: list[str]
    """The most frequent patterns of its paths, with their shares."""
    total_budget: int | None
    """The total budget that would stop it: its expenditure so far. None if it is held already: it is RETIRED, or over
    its budget, so that it retires at its next turn."""

    @property
    def rule(self) -> str:
        """The scope rule that would reject the URLs of the strongest evidence; "" if none is known."""
        return next((f"regex:{one.pattern}" for one in self.evidence if one.pattern), "")


def suspects(
    view: View, test: Callable[[QueueRecord], bool] | None, *, limit: int | None, now: float, read: int = READ
) -> list[Suspect]:
    """Return the queues that look like traps, the most suspicious first, at most `limit`. O(queues), 2 us each.

    `test` tells which queues count, None: all of them. The URIs of `read` queues are read.
    """
    budgets, chosen = BudgetsInForce(view), most_interesting(view, test, now=now, read=read)
    found = (suspect(view, view.queue_by_id(queue_id), now, budgets) for queue_id in chosen)
    named = sorted((one for one in found if one is not None), key=order)
    return named if limit is None else named[:limit]


def most_interesting(
    view: View, test: Callable[[QueueRecord], bool] | None, *, now: float, read: int = READ
) -> list[int]:
    """Return the ids of the `read` queues whose URIs are read: those with the most interesting numbers."""
    queues = view.compact_queues() if test is None else filter(test, view.stored_queues())
    is_far = far_years(now).search
    numbered = ((trap_evidence.interest(_numbers(queue, is_far)), queue.id) for queue in queues)
    chosen = nlargest(_LOOKED_AT * read, (one for one in numbered if one[0] > 0))
    if len(chosen) > read:
        records = (view.queue_by_id(queue_id) for _, queue_id in chosen)
        chosen = nlargest(read, ((trap_evidence.interest(numbers_of(view, one, now)), one.id) for one in records))
    return [queue_id for _, queue_id in chosen]


def order(suspect: Suspect) -> tuple[float, int, str]:
    """Return the key by which suspects are sorted: by score, then by what they hold."""
    return -suspect.score, -suspect.queued, suspect.queue


def numbers_of(view: View, queue: QueueRecord, now: float) -> QueueNumbers:
    """Return the numbers of a queue from which the evidence of a trap is computed."""
    numbers = _numbers(queue, far_years(now).search)
    history, answers = view.history(queue.id), view.answers(queue.id)
    if history is not None:
        numbers = numbers._replace(pages=history.success, links=history.links, new=history.new)
    if answers is not None and queue_answers.is_known(answers):
        numbers = numbers._replace(repeated=queue_answers.repeated(answers))
    return numbers


def _numbers(queue: QueueRecord, is_far: Callable[[str], object]) -> QueueNumbers:
    numbers = QueueNumbers(queue.queued, queue.charges, queue.average_cost)
    if 0 < queue.queued < LEAST and queue.charges >= trap_evidence.FINISHED and is_far(queue.last_leased):
        return numbers._replace(is_far=True)
    return numbers


def suspect(view: View, queue: QueueRecord, now: float, budgets: BudgetsInForce) -> Suspect | None:
    """Return a queue with the evidence against it, None if that is too weak."""
    found = [item.uri for item in spread(view, queue, SAMPLE)]
    numbers = numbers_of(view, queue, now)
    evidence = trap_evidence.by_urls(url_signs(found, now, numbers.repeated)) + trap_evidence.by_redirects(found)
    evidence += trap_evidence.by_numbers(numbers)
    score = trap_evidence.score(evidence)
    if score < trap_evidence.SUSPICIOUS:
        return None
    common = path_patterns((uri.url for uri in found), _PATTERNS)
    patterns = [f"{one.pattern} {one.urls / len(found):.0%}" for one in common]
    is_held = queue.state is QueueState.RETIRED or must_retire(budgets.show(queue), budgets.reached(queue))
    return Suspect(
        queue=queue.queue,
        state=queue.state,
        score=round(score, 3),
        queued=queue.queued,
        finished=queue.charges,
        spent=queue.expenditure,
        evidence=sorted(evidence, key=lambda one: -one.score),
        patterns=patterns,
        total_budget=None if is_held else queue.expenditure,
    )
