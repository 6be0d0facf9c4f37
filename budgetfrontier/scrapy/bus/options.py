"""Scrapy's settings for a message bus."""

from __future__ import annotations

import logging
from typing import Any, Final, NamedTuple

from budgetfrontier.bus.codecs.codec import Codec
from budgetfrontier.bus.streams import Streams, streams
from budgetfrontier.errors import SettingsError
from budgetfrontier.scrapy.remote.options import IDLE_BEFORE_CLOSE, number_of, prefetch_of, seal_of, seconds_of, text_of
from budgetfrontier.scrapy.remote.request_seals import NoKey, SharedKey

STATISTICS_EVERY = 60.0
FRONTERAS: Final = {
    "MESSAGE_BUS_CODEC": "BUDGETFRONTIER_BUS_CODEC",
    "STORE_CONTENT": "BUDGETFRONTIER_STORE_CONTENT",
    "SPIDER_LOG_PARTITIONS": "BUDGETFRONTIER_SPIDER_LOG_PARTITIONS",
    "SPIDER_FEED_PARTITIONS": "BUDGETFRONTIER_SPIDER_FEED_PARTITIONS",
    "SPIDER_PARTITION_ID": "BUDGETFRONTIER_SPIDER_PARTITION_ID",
    "MAX_NEXT_REQUESTS": "BUDGETFRONTIER_PREFETCH",
    "FRONTERA_SETTINGS": "settings of Scrapy that begin with BUDGETFRONTIER_",
}
"""Settings of a spider of Frontera that have no effect, and those that have it here."""

log = logging.getLogger(__name__)


class BusOptions(NamedTuple):
    """The options of one spider at a message bus."""

    url: str
    codec: Codec
    streams: Streams
    partitions: tuple[int, ...]
    """The partitions of the spider feed that the spider reads; empty: those that no other spider reads."""
    seal: SharedKey | NoKey
    prefetch: int
    """Requests that may wait in this process for the downloader."""
    store_content: bool
    idle_before_close: float
    statistics_every: float


def bus_options(scrapy: Any, spider: Any) -> BusOptions:
    """Return the options in the settings of Scrapy. Raises SettingsError."""
    for name in ("BUDGETFRONTIER_SETTINGS", "BUDGETFRONTIER_URL"):
        if scrapy.get(name) is not None:
            raise SettingsError(
                f"{name} has no effect with BUDGETFRONTIER_BUS: the frontier is the database worker's, "
                "`budgetfrontier bus-worker --role db`; remove one of the two settings"
            )
    for name, own in FRONTERAS.items():
        if scrapy.get(name) is not None and scrapy.get(own) is None:
            log.warning("the setting %s of Frontera has no effect: use %s", name, own)
    store_content = scrapy.getbool("BUDGETFRONTIER_STORE_CONTENT")
    names = streams(
        prefix=text_of(scrapy, "BUDGETFRONTIER_BUS_PREFIX") or "frontier",
        spider_log_partitions=number_of(scrapy, "BUDGETFRONTIER_SPIDER_LOG_PARTITIONS", 1, least=1),
        spider_feed_partitions=number_of(scrapy, "BUDGETFRONTIER_SPIDER_FEED_PARTITIONS", 1, least=1),
    )
    partition = number_of(scrapy, "BUDGETFRONTIER_SPIDER_PARTITION_ID", -1, least=0)
    if partition >= names.spider_feed.partitions:
        raise SettingsError(
            f"BUDGETFRONTIER_SPIDER_PARTITION_ID is {partition}: partitions are numbered from 0, and "
            f"BUDGETFRONTIER_SPIDER_FEED_PARTITIONS is {names.spider_feed.partitions}"
        )
    return BusOptions(
        url=text_of(scrapy, "BUDGETFRONTIER_BUS") or "",
        codec=Codec(text_of(scrapy, "BUDGETFRONTIER_BUS_CODEC") or "msgpack", send_body=store_content),
        streams=names,
        partitions=() if partition < 0 else (partition,),
        seal=seal_of(text_of(scrapy, "BUDGETFRONTIER_KEY"), spider.name),
        prefetch=prefetch_of(scrapy),
        store_content=store_content,
        idle_before_close=seconds_of(scrapy, "BUDGETFRONTIER_IDLE_BEFORE_CLOSE", IDLE_BEFORE_CLOSE, least=0.0),
        statistics_every=seconds_of(scrapy, "BUDGETFRONTIER_STATISTICS_EVERY", STATISTICS_EVERY, least=0.0),
    )
