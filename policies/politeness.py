"""How long a queue rests after a fetch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class PolitenessSettings(Protocol):
    """What politeness looks at; all but `delay_factor` in seconds."""

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
    """Seconds from the end of a fetch to the queue's next (the rule of Heritrix's DispositionProcessor).

    `delay_factor` times as long as the fetch took, but at least `min_delay` and at most `max_delay`; `min_delay` if it
    is not known how long it took. A robots crawl-delay, cut to `respect_crawl_delay_up_to`, lengthens that beyond
    `max_delay`. Then up to `jitter` more, uniformly.
    """

    def __call__(
        self,
        settings: PolitenessSettings,
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
