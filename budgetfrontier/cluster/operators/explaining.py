"""Why a URL or a queue of a crawl in partitions is not being crawled, told by the owners that know it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from budgetfrontier.cluster.operators import queue_finding
from budgetfrontier.cluster.operators.crawl_owners import CrawlOwners
from budgetfrontier.reports.explanation import Explanation, ReasonStep
from budgetfrontier.reports.operators import LetterId
from budgetfrontier.rules.verdict import Standing


def explain(owners: CrawlOwners, target: str, crawl: Standing) -> Explanation:
    """Explain why a URL or a queue of a crawl with some standing is not being crawled, by the owner that knows it."""
    number = owners.partition_of_queue(target)
    if "://" in target and queue_finding.asked(owners, target).queue is None:  # else it is the key of a queue
        number = owners.partition_of_uri(target)
    answer = _explained(owners, number, target, crawl)
    if answer.verdict == "never" and "://" not in target and answer.kind == "url":
        others = owners.ask("explain", Explanation, target=target, job=owners.job, crawl=crawl)
        answer = next((one for one in others.values() if one.kind == "queue"), answer)
    if any(one.code in ("never-scheduled", "seen-unknown") for one in answer.reasons):
        answer = _explained_elsewhere(owners, number, target, crawl) or answer
        if owners.missing:
            answer.reasons[-1] = _with_doubt(answer.reasons[-1])
    return answer


def _explained(owners: CrawlOwners, number: int, target: str, crawl: Standing, **options: Any) -> Explanation:
    """Return the explanation of a partition's owner, with the crawl-wide id of a dead letter."""
    answer = owners.ask_one(number, "explain", Explanation, target=target, job=owners.job, crawl=crawl, **options)
    for place, one in enumerate(answer.reasons):
        if one.code == "dead-letter" and one.command is not None:
            command, _, letter = one.command.rpartition(" ")
            answer.reasons[place] = replace(one, command=f"{command} {LetterId(number, int(letter))}")
    return answer


def _explained_elsewhere(owners: CrawlOwners, number: int, url: str, crawl: Standing) -> Explanation | None:
    """Return the explanation of another partition than that of a URL's host; None if none knows the URL."""
    others = [other for other in range(owners.partitions) if other != number]
    known = owners.ask("is_known", bool, of=others, url=url)
    found = {other: _explained(owners, other, url, crawl, anywhere=True) for other in sorted(known) if known[other]}
    if not found:
        return None
    other = min(found, key=lambda each: found[each].verdict == "never")
    found[other].reasons.insert(
        0,
        ReasonStep(
            "elsewhere",
            f"It is in partition {other}, and not in partition {number}, where its host is: it was scheduled with "
            "a `queue` of its own.",
        ),
    )
    return found[other]


def _with_doubt(reason: ReasonStep) -> ReasonStep:
    """Return a reason with the hint that partitions which do not answer may have the URL on a queue of its own."""
    return replace(reason, text=reason.text.replace("never scheduled", "never scheduled where partitions answer", 1))
