"""The topics of a crawl on Kafka, at the start of a worker: created if need be, and checked (the extra "kafka")."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from math import inf
from time import monotonic, sleep
from typing import Final

from budgetfrontier.bus.interface import BusAway, BusError
from budgetfrontier.bus.kafka import KafkaBus
from budgetfrontier.cluster.directory import retention
from budgetfrontier.cluster.directory.kafka import KafkaDirectory
from budgetfrontier.errors import FrontierError
from budgetfrontier.settings.schema import ClusterSettings

PATIENCE: Final = 5.0
"""Seconds without an answer after which a broker is said to be away."""
_PAUSE: Final = 0.5
_LOOK_EVERY: Final = 5.0

log = logging.getLogger("budgetfrontier.cluster")


def prepare(
    bus: KafkaBus,
    directory: KafkaDirectory,
    crawl: str,
    cluster: ClusterSettings,
    *,
    stopping: Callable[[], bool],
) -> bool:
    """Create the topics of a crawl unless they are there, and check them; wait while no broker answers.

    Returns False if `stopping` has ended the wait. Raises FrontierError for a topic that does not fit.
    """
    topic = f"{crawl}-log"
    waits = False
    while not stopping():
        try:
            partitions = bus.create(topic, cluster.partitions, retention.settings_of_topic(), timeout=PATIENCE)
            directory.create()
            _check(topic, partitions, cluster, _begun_with(directory))
            _check_retention(topic, bus)
        except BusAway as e:
            if not waits:
                log.warning("%s; this worker waits for it", e, extra={"event": "broker_away"})
            waits = True
            sleep(_PAUSE)
        else:
            return True
    return False


def _begun_with(directory: KafkaDirectory) -> int:
    """Return the number of partitions with which the crawl was begun, 0 if it was not. Raises BusAway."""
    try:
        owners = directory.read().values()
    except BusAway:
        raise
    except BusError:  # a topic that was made just now is not known everywhere yet
        return 0
    return max((owner.partitions for owner in owners), default=0)


def log_identity(bus: KafkaBus, crawl: str) -> Callable[[], str | None]:
    """Return a function for the id of the topic of a crawl's logs, seconds old at most; None while it is not known.

    A broker without ids has "". It may be called in any thread, and waits for an answer `PATIENCE` seconds at most, or
    for the one that another thread waits for.
    """
    known: str | None = None
    looked_at, asking = -inf, threading.Lock()

    def look() -> str | None:
        nonlocal known, looked_at
        with asking:
            if monotonic() > looked_at + _LOOK_EVERY:
                with suppress(BusError):
                    known = bus.topic_id(f"{crawl}-log", PATIENCE)
                looked_at = monotonic()
            return known

    return look


def _check(topic: str, partitions: int, cluster: ClusterSettings, begun: int) -> None:
    """Raise FrontierError if a topic has another number of partitions; `begun` is that of the owners, 0: none yet."""
    wanted = cluster.partitions
    if partitions == wanted and begun in (0, wanted):
        return
    has = f"the topic {topic} has {partitions} partitions, "
    if begun == partitions:
        raise FrontierError(
            f"{has}with which the crawl was begun, and cluster.partitions says {wanted}: set it to {partitions}"
        )
    if begun:
        raise FrontierError(
            f"{has}and the crawl was begun with {begun}, which is fixed: in a topic that has grown, hosts would move "
            "to other partitions, and their URLs be fetched again. Begin a crawl under another name"
        )
    raise FrontierError(
        f"{has}and cluster.partitions says {wanted}: the number is fixed when a crawl begins. Set it to what the crawl "
        "was begun with, or begin one under another name"
    )


def _check_retention(topic: str, bus: KafkaBus) -> None:
    try:
        found = bus.topic_settings(topic)
    except BusAway:
        raise
    except BusError as e:  # it may be forbidden
        log.warning("the retention of the topic %s cannot be looked at: %s", topic, e, extra={"event": "retention"})
        return
    if reasons := retention.objections(topic, found):
        raise FrontierError("; ".join(reasons))
    for doubt in retention.doubts(topic, found):
        log.warning("%s", doubt, extra={"event": "retention"})
