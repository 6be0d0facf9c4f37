"""The list of seeds with the fate of each, and the number of each fate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

from budgetfrontier.reports.log_search import last_statuses
from budgetfrontier.reports.operators import CrawlOperator
from budgetfrontier.reports.seed_fates import seed_rows, unlisted_rows
from budgetfrontier.rules.seeds import SeedFate
from budgetfrontier.storage import keys, meta
from budgetfrontier.storage.seed_list import ListedSeed, listed, unlisted
from budgetfrontier.storage.view import View
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.log_files import CRAWL_LOG
from budgetfrontier.tools.console.pages import from_row
from budgetfrontier.tools.console.query import Query
from budgetfrontier.tools.console.rendering import as_sentence, key_path

_LOOKED_AT = 20_000  # seeds for one page of those with a fate
_WORDS = {
    SeedFate.WAITING: "wait",
    SeedFate.SUCCEEDED: "crawled",
    SeedFate.FAILED: "failed",
    SeedFate.DISREGARDED: "disregarded",
    SeedFate.DEAD: "dead letters",
    SeedFate.DELETED: "deleted",
    SeedFate.KNOWN: "known before",
}


def build(job: ConsoleJob, query: Query) -> dict[str, Any]:
    """Return a page of the seeds, all of them or those with a fate, and the counts by fate."""
    fate = query.choice("fate", [str(fate) for fate in SeedFate])
    if not job.is_folder:
        return _of_partitions(job, query, fate)
    after = query.number("after", 0, most=(1 << 62) - 1)
    with job.view() as view:
        counters = meta.read_counters(view.txn, view.db[keys.META])
        found, upto, more = _page(islice(listed(view, after), _LOOKED_AT + 1), fate, query.rows)
        queues = {seed.row.queue for seed in found if seed.row.queue and view.find_queue(seed.row.queue) is not None}
        unlisted = [] if fate or after else list(_unlisted(view, query.rows + 1))
    statuses = partial(last_statuses, job.folder / "logs" / CRAWL_LOG, at_once=True)
    complete = True

    def known(urls: Collection[str]) -> Mapping[str, int]:
        nonlocal complete
        found = statuses(urls)
        complete = found is not None
        return found or {}

    rows = list(seed_rows(found, known))
    return {
        "complete": complete,
        "rows": [row | {"link": job.base + key_path(row["queue"]) if row["queue"] in queues else ""} for row in rows],
        "fate": fate,
        "counts": [(str(one), _WORDS[one], counters.seed_fates.get(one, 0)) for one in SeedFate],
        "count": sum(counters.seed_fates.values()),
        "unlisted": unlisted[: query.rows],
        "unlisted_cut": len(unlisted) > query.rows,
        "next": {"after": upto} if more else None,
        "first": {"after": None} if after else None,
        "has_files": True,
        "cut": "",
    }


def _of_partitions(job: ConsoleJob, query: Query, fate: str) -> dict[str, Any]:
    """Return a page of the seeds of all partitions, and the counts by fate, of the first _LOOKED_AT."""
    start = query.number("start", 0, most=_LOOKED_AT)

    def read(operator: CrawlOperator) -> tuple[list[ListedSeed], list[dict[str, Any]]]:
        found = list(islice(operator.seeds(), _LOOKED_AT))
        listed_not = unlisted_rows(operator.settings.seeds, operator.unlisted, [])
        return found, list(islice(listed_not, 0 if fate or start else query.rows + 1))

    found, unlisted = job.look(read)
    fates = Counter(seed.row.fate for seed in found)
    chosen = [seed for seed in found if fate in ("", seed.row.fate)]
    rows = list(seed_rows(chosen[start : start + query.rows]))
    cut = f"only the first {_LOOKED_AT:,} seeds were looked at" if len(found) == _LOOKED_AT else ""
    return {
        "complete": True,
        "rows": [row | {"link": job.base + key_path(row["queue"]) if row["queue"] else ""} for row in rows],
        "fate": fate,
        "counts": [(str(one), _WORDS[one], fates[one]) for one in SeedFate],
        "count": len(found),
        "unlisted": unlisted[: query.rows],
        "unlisted_cut": len(unlisted) > query.rows,
        **from_row(query, start, more=len(chosen) > start + query.rows),
        "has_files": False,
        "cut": as_sentence(cut),
    }


def _unlisted(view: View, most: int) -> Iterator[dict[str, Any]]:
    """Yield rows for the seeds in the settings that were never scheduled, or are no URLs; files are not read."""
    seeds = (seed for seed in islice(view.settings()[0].seeds, _LOOKED_AT) if seed.url)
    return islice(unlisted_rows(seeds, partial(unlisted, view), []), most)


def _page(seeds: islice[ListedSeed], fate: str, most: int) -> tuple[list[ListedSeed], int, bool]:
    """Return the next `most` seeds with a fate, the position of the last looked at, and whether there are more."""
    found: list[ListedSeed] = []
    upto, looked = 0, 0
    for seed in seeds:
        if len(found) == most or looked == _LOOKED_AT:
            return found, upto, True
        upto, looked = seed.position, looked + 1
        if fate in ("", seed.row.fate):
            found.append(seed)
    return found, upto, False
