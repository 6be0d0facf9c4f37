"""The default delay of a server, `SetDelay` without a key: how a crawl takes it, and when it has it already.

It is stored with the node. A crawl takes it as an adjustment: at once if it is open, else when it is opened next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.server.node import Node
from budgetfrontier.settings.sheets import is_about_sheets
from budgetfrontier.storage.reader import Reader

SETTING = "politeness.min_interval"
WHO = "urlfrontier"
_ALL = "*"


class Adjusted(NamedTuple):
    """An adjustment of the setting that is in force."""

    match: str
    delay: float
    since: bool = False
    """Whether an operator has made it after the default delay was set."""
    ours: bool = False
    """Whether the server has made it."""


def still_to_do(node: Node, setting: float, adjusted: Sequence[Adjusted]) -> list[tuple[str, float]]:
    """Return the adjustments, each a match and a delay, with which a crawl takes the default delay of a node.

    `setting` is the value without adjustments. Operators' later adjustments stay.
    """
    if node.delay is None:
        return []
    since = [each for each in adjusted if each.since]
    if any(each.match == _ALL for each in since):
        return []
    last, after = setting, list[Adjusted]()
    for each in adjusted:
        if each.match == _ALL:
            last, after = each.delay, []
        else:
            after.append(each)
    if last == node.delay and all(each.since or each.ours for each in after):
        return []
    return [(_ALL, node.delay), *((each.match, each.delay) for each in since)]  # later ones win


def take(frontier: Frontier, folder: Path, node: Node, *, now: bool) -> None:
    """Let an open frontier take the default delay, if it keeps its URLs: others are no crawls of URLFrontier's.

    `now` says that it is being set now, after all adjustments that there are, whatever the clock says.
    """
    if node.delay is None or not frontier.settings.frontier.keep_urls:
        return
    with Reader(folder) as reader:
        adjusted = list(_adjusted(reader, inf if now else node.delay_set))
    for match, delay in still_to_do(node, frontier.settings.frontier.politeness.min_interval, adjusted):
        settings: dict[str, Any] = {SETTING: delay}
        frontier.adjust(match=match, who=WHO, reason="the default delay of the server", **settings)


def _adjusted(reader: Reader, delay_set: float) -> Iterable[Adjusted]:
    for each in reader.adjustments:
        if SETTING in each.set and not is_about_sheets(each):
            entry = reader.audit_entry(each.id)
            ours = entry is not None and entry.who == WHO
            since = entry is not None and not ours and entry.when > delay_set
            yield Adjusted(each.match, each.set[SETTING], since, ours)
