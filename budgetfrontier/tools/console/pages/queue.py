"""One queue: its money, why it is or is not crawled, its settings and their sources, its URIs, its history."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from typing import Any

from budgetfrontier.reports.cost_terms import cost_terms
from budgetfrontier.reports.format import clean, setting_in_words
from budgetfrontier.reports.operators import AdjustmentRow, CrawlOperator, NoSuchQueue
from budgetfrontier.reports.path_patterns import path_patterns
from budgetfrontier.reports.queue_sample import FOR_PATTERNS, chosen_places
from budgetfrontier.reports.suggested_commands import raised_budget
from budgetfrontier.settings import sheets
from budgetfrontier.settings.grouping import patterns
from budgetfrontier.settings.matching import parse_match
from budgetfrontier.settings.names import is_of_groups, per_uri
from budgetfrontier.settings.overrides import Override, QueueSettings, value_in
from budgetfrontier.settings.schema import GroupSettings
from budgetfrontier.settings.values import brief
from budgetfrontier.storage.view import PendingUri
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.pages.audit import named_entry
from budgetfrontier.tools.console.pages.statuses import parts_of
from budgetfrontier.tools.console.query import NotThere, Query

HEAD, SPREAD = 10, 50
"""URIs that are shown of the head of a queue, and spread over the whole."""
_KINDS = 6
_HISTORY = 50
_LONGEST_MATCH = 100


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return the facts of a queue, or of a URL and its queue.

    Raises NotThere, with the nearest existing keys; for a URL without a queue, with why it is not crawled.
    """
    asked = query.target or query.text("key")
    try:
        found = job.look(lambda operator: _of_url(operator, asked) if "://" in asked else _of_queue(operator, asked))
    except NoSuchQueue as error:
        raise NotThere(f"There is no queue {clean(asked[:300])!r}{error.meant or '.'}") from None
    answers = None
    if job.is_folder:
        with job.view() as view:
            answers = view.answers(found["queue"].id)
    return found | {
        "answers": parts_of(answers.classes) if answers else [],
        "kinds": sorted(answers.kinds.items(), key=lambda kind: -kind[1])[:_KINDS] if answers else [],
    }


def _of_url(operator: CrawlOperator, url: str) -> dict[str, Any]:
    explanation = operator.explain(url)
    try:
        found = _of_queue(operator, explanation.queue or "")
    except NoSuchQueue:
        raise NotThere(" ".join((clean(url[:300]), *(reason.text for reason in explanation.reasons)))) from None
    return found | {"url": url, "explanation": explanation}


def _of_queue(operator: CrawlOperator, name: str) -> dict[str, Any]:
    key = operator.key_of(name)
    queue, head = operator.queue(key, limit=HEAD)
    _, sample = operator.queue(key, limit=FOR_PATTERNS, spread=True)
    url, label = (head[0].uri.url, head[0].uri.source) if head else (queue.last_enqueued, None)
    settings, adjustments = operator.settings, operator.adjustments()
    changes = [Override(one.match, one.set) for one in adjustments]
    overrides, _ = sheets.layers(settings, changes)
    in_force = sheets.effective(settings, changes).for_uri(url or "http://none.invalid/", key, label)
    rows = [_with_terms(item, in_force) for item in head]
    chosen = chosen_places(len(sample), SPREAD, random.Random(queue.id)) if queue.queued > HEAD else []
    spread = [sample[place] for place in chosen]
    history = operator.audit(key=key, count=_HISTORY).rows
    return {
        "title": f"Queue {clean(key[:80])}",
        "url": "",
        "queue": queue,
        "group": operator.group_of(queue),
        "quotas": operator.quotas_of(queue),
        "explanation": operator.explain(key),
        "settings": _sources(in_force, overrides, adjustments, url, key, label, settings.groups),
        "head": rows,
        "head_by_cost": _by_cost(rows),
        "spread_by_cost": _by_cost(_with_terms(item, in_force) for item in spread),
        "spread_count": len(spread),
        "raise_to": raised_budget(queue, settings.frontier.balance_replenish_amount)
        if 0 <= queue.total_budget <= queue.expenditure
        else None,
        "patterns": path_patterns(item.uri.url for item in sample),
        "sampled": len(sample),
        "history": [(named_entry(row), row.covers) for row in islice(history, _HISTORY)],
    }


def _by_cost(rows: Iterable[dict[str, Any]]) -> list[tuple[int, list[Any], list[dict[str, Any]]]]:
    """Return rows in order, those that follow each other and cost the same for the same reasons together."""
    groups = groupby(rows, key=lambda row: (row["item"].cost, row["terms"], row["now"]))
    return [(cost, terms, list(found)) for (cost, terms, _), found in groups]


def _with_terms(item: PendingUri, settings: QueueSettings) -> dict[str, Any]:
    """Return a URI with the terms of its cost: none if the policy has none, or asks another cost now."""
    terms = cost_terms(settings.cost_policy, item.uri)
    known = terms is not None and sum(term.amount for term in terms) == item.cost
    return {"item": item, "terms": terms if terms is not None and known else [], "now": terms is None or known}


def _sources(
    in_force: QueueSettings,
    overrides: Iterable[Override],
    adjustments: Iterable[AdjustmentRow],
    url: str,
    key: str,
    label: str | None,
    groups: Sequence[GroupSettings],
) -> list[dict[str, Any]]:
    """Return each setting of URIs with its value and its source, those that an override has set first."""
    source: dict[str, str] = {}
    kinds: dict[str, Iterable[Override | AdjustmentRow]] = {
        "sheet": [one for one in overrides if one.sheet],
        "override": [one for one in overrides if not one.sheet],
        "adjustment": adjustments,
    }
    for kind, ones in kinds.items():
        for number, one in enumerate(ones, 1):
            if any(parse_match(text).matches(url, key, label) for text in patterns(one.match, groups)):
                source |= dict.fromkeys(one.set, f"{_name(kind, one, number)}: {brief(one.match, _LONGEST_MATCH)}")
    rows = [
        {"name": name, "value": setting_in_words(name, value_in(in_force, name)), "source": source.get(name, "")}
        for name in per_uri()
        if not is_of_groups(name)
    ]
    return sorted(rows, key=lambda row: not row["source"])


def _name(kind: str, one: Override | AdjustmentRow, number: int) -> str:
    if isinstance(one, Override):
        return one.at or f"{kind} {one.sheet or number}"
    return f"{kind} {one.id or number}"
