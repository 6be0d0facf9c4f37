"""Crawling strategies: what is crawled, and in which order.

A strategy is any object with some of the methods of `Strategy`; those that it lacks do nothing. They return scores, and
have no other effect, so that a message may come twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from budgetfrontier.bus.messages import Request, Response
from budgetfrontier.bus.request_meta import depth_of


class Score(NamedTuple):
    """A score for a request: from 0.0 to 1.0, best last; with `schedule` False, its URL is only marked as seen."""

    request: Request
    score: float = 1.0
    schedule: bool = True


class Strategy(Protocol):
    """The methods of a strategy, all of which may be left out."""

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
