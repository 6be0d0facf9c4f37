"""The topics of a crawl on Kafka, at the start of a worker: created if need be, and checked (the extra "kafka")."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import sleep
from typing import Final

from budgetfrontier.bus.interface import BusAway, BusError
from budgetfrontier.bus.kafka import KafkaBus
from budgetfrontier.cluster import retention
from budgetfrontier.cluster.kafka import KafkaDirectory
from budgetfrontier.errors import FrontierError
from budgetfrontier.settings.schema import ClusterSettings

PATIENCE: Final = 5.0
"""Seconds without an answer after which a broker is said to be away."""
_PAUSE: Final = 0.5

log = logging.getLogger("budgetfrontier.cluster")


def prepare(
    bus: KafkaBus,
    directory: KafkaDirectory,
    crawl: str,
    cluster: ClusterSettings,
    *,
    snapshots: bool,
    stopping: Callable[[], bool],
) -> bool:
    """Create the topics of a crawl unless they are there, and check them; wait while no broker answers.

    Returns False if `stopping` has ended the wait. Raises FrontierError for a topic that does not fit.
    """
    topic = f"{crawl}-log"
    waits = False
    while not stopping():
        try:
            partitions = bus.create(topic, cluster.partitions, retention.settings_of_topic(cluster), timeout=PATIENCE)
            _check(topic, partitions, cluster)
            _check_retention(topic, bus, cluster, snapshots=snapshots)
            directory.create()
        except BusAway as e:
            if not waits:
                log.warning("%s; this worker waits for it", e, extra={"event": "broker_away"})
            waits = True
            sleep(_PAUSE)
        else:
            return True
    return False


def _check(topic: str, partitions: int, cluster: ClusterSettings) -> None:
    if partitions != cluster.partitions:
        raise FrontierError(
            f"the topic {topic} has {partitions} partitions, and cluster.partitions says {cluster.partitions}: the "
            f"number is fixed when a crawl begins. Set cluster.partitions to {partitions}, or begin a crawl under "
            "another name"
        )


def _check_retention(topic: str, bus: KafkaBus, cluster: ClusterSettings, *, snapshots: bool) -> None:
    try:
        found = bus.topic_settings(topic)
    except BusAway:
        raise
    except BusError as e:  # it may be forbidden
        log.warning("the retention of the topic %s cannot be looked at: %s", topic, e, extra={"event": "retention"})
        return
    if (objection := retention.objection(topic, found, cluster, snapshots=snapshots)) is not None:
        raise FrontierError(objection)
    for doubt in retention.doubts(topic, found, snapshots=snapshots):
        log.warning("%s", doubt, extra={"event": "retention"})
