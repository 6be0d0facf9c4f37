"""The streams of a crawl: their names, partitions and readers."""

from __future__ import annotations

import msgspec

DATABASE, STRATEGY, SPIDERS, STATISTICS, OPERATORS = "db", "strategy", "spiders", "stats", "operators"
"""The consumer groups."""

KEPT = 10_000
"""Messages of statistics, and of dead letters, that are kept in a partition if nobody reads them."""


class Stream(msgspec.Struct, frozen=True):
    """A stream of messages in partitions, numbered from 0.

    Each group of consumers receives all messages, including those sent before its first consumer started.
    """

    name: str
    partitions: int
    groups: tuple[str, ...]
    """The groups that exist from the beginning: a message is kept until each of them has committed it."""
    keep: int | None = None
    """Messages kept in a partition: older ones are dropped, whether they were read or not. None: none is dropped.

    Kafka drops messages by the retention of the topic instead.
    """


class Streams(msgspec.Struct, frozen=True):
    """The streams of one crawl."""

    spider_log: Stream
    """From spiders to workers, by host."""
    scoring_log: Stream
    """From strategy workers to database workers, by host."""
    spider_feed: Stream
    """Requests from database workers to spiders, by host."""
    statistics: Stream
    """Counters of spiders and workers."""
    dead_letters: Stream
    """Messages that could not be decoded."""


def streams(*, prefix: str = "frontier", spider_log_partitions: int = 1, spider_feed_partitions: int = 1) -> Streams:
    """Return the streams of a crawl, named as Frontera's Kafka topics: `frontier-done` and so on."""
    if min(spider_log_partitions, spider_feed_partitions) < 1:
        raise ValueError("a stream has at least one partition")
    return Streams(
        Stream(f"{prefix}-done", spider_log_partitions, (DATABASE, STRATEGY)),
        Stream(f"{prefix}-score", spider_log_partitions, (DATABASE,)),
        Stream(f"{prefix}-todo", spider_feed_partitions, (SPIDERS,)),
        Stream(f"{prefix}-stats", 1, (STATISTICS,), KEPT),
        Stream(f"{prefix}-dead", 1, (OPERATORS,), KEPT),
    )
