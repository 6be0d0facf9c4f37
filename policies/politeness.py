"""Politeness policies: how long a queue rests after a fetch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Delays(Protocol):
    """The settings that politeness uses, all but `delay_factor` in seconds."""

    @property
    def delay_factor(self) -> float: ...
    @property
    def min_delay(self) -> float: ...
    @property
    def max_delay(self) -> float: ...
    @property
    def respect_crawl_delay_up_to(self) -> float: ...
    @property
    def jitter(self) -> float: ...


class Politeness:
    """The seconds from the end of a fetch to the queue's next one (the rule of Heritrix's DispositionProcessor).

    `delay_factor` times the duration of the fetch, but at least `min_delay` and at most `max_delay`; `min_delay` if the
    duration is not known. A longer robots.txt crawl-delay, capped at `respect_crawl_delay_up_to`, takes its place even
    beyond `max_delay`. A random share of `jitter`, uniformly distributed, is added.
    """

    def __call__(
        self,
        settings: Delays,
        *,
        fetch_seconds: float | None,
        crawl_delay: float | None,
        random: Callable[[], float],
    ) -> float:
        delay = settings.min_delay
        if fetch_seconds is not None:
            delay = min(max(delay, settings.delay_factor * fetch_seconds), settings.max_delay)
        if crawl_delay is not None and crawl_delay > delay:
            delay = max(delay, min(crawl_delay, settings.respect_crawl_delay_up_to))
        if settings.jitter > 0:
            delay += settings.jitter * random()
        return delay


BUILTIN: dict[str, type] = {"standard": Politeness}
HERITRIX = {"DispositionProcessor": "standard"}
