"""Budgets and sheets of seeds that are imported: adjustments of their queues, made before they are scheduled."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.errors import InvalidUrl, PolicyError
from budgetfrontier.reports.format import clean, counted
from budgetfrontier.settings import policy_factory, sheets
from budgetfrontier.settings.checks import BY_ADDRESS, is_named, sheet_objection
from budgetfrontier.settings.names import SHEET
from budgetfrontier.settings.overrides import Override
from budgetfrontier.settings.schema import Seed
from budgetfrontier.settings.seed_settings import BUDGET, PARALLEL, contradiction, queue_key, queue_matches
from budgetfrontier.tools.cli import common, exits
from budgetfrontier.tools.cli.on_crawl import give
from budgetfrontier.tools.cli.sentences import note
from budgetfrontier.tools.importers.import_items import Record

if TYPE_CHECKING:
    from budgetfrontier.reports.operators import CrawlOperator


class SeedAdjustments:
    """The adjustments of an import of seeds. `suffix_list` is that of the frontier, None: the one installed here.

    The crawl is asked at first only, for its settings: a process cannot read a frontier while it has it open.
    """

    def __init__(self, operator: CrawlOperator, suffix_list: str | None) -> None:
        self._operator, self._suffix_list = operator, suffix_list
        self._frontier = operator.settings.frontier
        changes = [Override(row.match, row.set) for row in operator.adjustments()]
        self._names = sheets.sheets_in_force(operator.settings, changes)
        self._budgets: dict[str, tuple[int, str]] = {}
        self._sheets: dict[str, dict[str, None]] = {}
        self._in_parallel = False  # whether one is for one of several queues of its host

    @cached_property
    def _assign(self) -> Callable[[CrawlUri], str]:
        text = policy_factory.suffix_list(self._frontier) if self._suffix_list is None else self._suffix_list
        return policy_factory.assignment(self._frontier, text)

    def add(self, record: Record) -> tuple[int, str] | None:
        """Take the budget and the sheets of a seed, or return the column and the reason for which it is refused."""
        given, uri = record.given or {}, record.uri
        budget, names = given.get("budget"), given.get("sheet")
        where = names or budget
        if where is None:
            return None
        for name in names.value if names else ():
            if name not in self._names:
                return where.column, sheet_objection(name, self._names)
        if uri.queue is None and policy_factory.goes_by_address(self._frontier) and is_named(uri.url):
            return where.column, BY_ADDRESS
        try:
            key = queue_key(Seed(url=uri.url, source=uri.source, queue=uri.queue), self._assign, self._frontier)
        except (InvalidUrl, PolicyError) as error:
            return where.column, str(error)
        self._in_parallel |= uri.queue is None and policy_factory.has_parallel_queues(self._frontier)
        if budget is not None:
            other, place = self._budgets.setdefault(key, (budget.value, record.location))
            if other != budget.value:
                return budget.column, contradiction(key, budget.value, f"{place} has {other}")
        for name in names.value if names else ():
            self._sheets.setdefault(name, {})[key] = None
        return None

    def _each(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield each adjustment: in words, its pattern, and what it sets."""
        by_budget: dict[int, list[str]] = {}
        for key, (budget, _) in self._budgets.items():
            by_budget.setdefault(budget, []).append(key)
        for budget, keys in by_budget.items():
            for match, part in queue_matches(keys):
                yield f"a total budget of {budget:,} for {counted(len(part), 'queue')}", match, {BUDGET: budget}
        for name, found in self._sheets.items():
            for match, part in queue_matches(found):
                yield f"the sheet {name} for {counted(len(part), 'queue')}", match, {SHEET: name}

    def apply(self, args: argparse.Namespace) -> bool:
        """Give the adjustments to the crawl, and name them; return whether all are in force everywhere.

        With --dry-run, say what would be adjusted.
        """
        done = True
        if self._in_parallel:
            note(PARALLEL)
        for told, match, settings in self._each():
            if args.dry_run:
                note(f"would adjust: {told}")
                continue
            applied, code = give(args, self._operator, "adjust", {"match": match, "set": settings})
            done = done and code == exits.OK
            if applied.entry is not None:
                note(f"adjustment {applied.entry.id}: {told}")
                common.warn(map(clean, applied.entry.effect.get("warnings", ())))
                common.warn(_spent_already(settings.get(BUDGET), applied.entry.effect))
        return done


def _spent_already(budget: int | None, effect: dict[str, Any]) -> Iterator[str]:
    """Yield a sentence if queues that get a total budget may have spent more than that before."""
    spent, queues = effect["then"]["expenditure"], effect["matched"]
    if budget is None or not spent > budget >= 0:
        return
    have = "its queue has" if queues == 1 else f"{queues:,} of these queues have together"
    over = "it" if queues == 1 else "one of them that has spent more than its budget"
    yield f"{have} spent {spent:,} already: {over} is retired on its turn, with its seeds, and fetches none of them"
