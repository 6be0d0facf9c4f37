"""Crawling strategies: the choice of URLs to crawl, and their order.

A strategy is any object with some of the methods of `Strategy`; missing ones do nothing. They return scores, and
have no other effect, so that a message may come twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Protocol

from budgetfrontier.bus.messages import Request, Response
from budgetfrontier.bus.request_meta import depth_of
from budgetfrontier.core.spelling import did_you_mean
from budgetfrontier.errors import SettingsError


class Score(NamedTuple):
    """A score for a request: from 0.0 to 1.0, best last; with `schedule` False, its URL is only marked as seen."""

    request: Request
    score: float = 1.0
    schedule: bool = True


class Strategy(Protocol):
    """The methods of a strategy, all optional."""

    def add_seeds(self, seeds: list[Request]) -> Iterable[Score]:
        """Return the scores of seeds. Without this method, each has the score 1.0."""

    def filter_links(self, request: Request, links: list[Request]) -> list[Request]:
        """Return those of the links of a page that `links_extracted` is to be asked about."""

    def links_extracted(self, request: Request, links: list[Request]) -> Iterable[Score]:
        """Return the scores of links that were found on the page of a request; `depth` of their meta is set."""

    def page_crawled(self, response: Response) -> Iterable[Score]:
        """Return scores after a page was fetched."""

    def request_error(self, request: Request, error: str) -> Iterable[Score]:
        """Return scores after a request failed."""

    def finished(self) -> bool:
        """Return whether the goal of the crawl is reached: then the worker ends. Asked after each step."""

    def close(self) -> None:
        """Take note of the end of the worker."""


METHODS: Final = ("add_seeds", "filter_links", "links_extracted", "page_crawled", "request_error")
"""The names of the methods of `Strategy` that choose; those at the end are `finished` and `close`."""
FRONTERAS: Final = {
    "filter_extracted_links": "name it filter_links",
    "page_error": "name it request_error",
    "read_seeds": "add_seeds takes the seeds of the settings, `seeds: [{file: seeds.txt}]`",
    "from_worker": "the constructor takes the arguments of -a NAME=VALUE",
    "frontier_start": "the constructor is called at the start",
    "frontier_stop": "name it close",
}
"""Methods that are called only of a whole strategy of Frontera, see `FronteraStrategy`, with the replacements here."""


def check(strategy: Any) -> None:
    """Raise SettingsError for a strategy, or a class of them, that has methods which would never be called."""
    name = strategy.__name__ if isinstance(strategy, type) else type(strategy).__name__
    if found := [each for each in FRONTERAS if callable(getattr(strategy, each, None))]:
        advice = "; ".join(f"{each}: {FRONTERAS[each]}" for each in found)
        raise SettingsError(
            f"the strategy {name} has methods of Frontera that are not called here. {advice}. Those that are called "
            f"({', '.join(METHODS)}) return Score(request, score) for each request, instead of scheduling it; only a "
            "class with all methods of frontera.strategy.BaseCrawlingStrategy is called as Frontera does"
        )
    own = [each for each in dir(strategy) if not each.startswith("_") and callable(getattr(strategy, each, None))]
    if not set(own).intersection(METHODS):
        hint = next((f"{each}{hint}" for each in own if (hint := did_you_mean(each, METHODS, quote='"'))), "")
        raise SettingsError(
            f"the strategy {name} has none of the methods that a strategy may have ({', '.join(METHODS)})"
            + (f": {hint}" if hint else "")
        )


class BreadthFirst:
    """The default: everything is crawled, pages closer to a seed first, down to `max_depth` (-1: any depth)."""

    def __init__(self, max_depth: int | str = -1) -> None:
        self._max_depth = int(max_depth)

    def links_extracted(self, request: Request, links: list[Request]) -> Iterable[Score]:
        """Yield the links, with a score of 1 / (1 + depth)."""
        for link in links:
            depth = depth_of(link.meta)
            if not 0 <= self._max_depth < depth:
                yield Score(link, 1.0 / (1 + depth))
