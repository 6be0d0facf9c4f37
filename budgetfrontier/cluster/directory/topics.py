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
from budgetfrontier.errors import SettingsError
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
    """Create the topics of a crawl unless they are there, or `create` is "no"; wait while no broker answers.

    Returns False if `stopping` has ended the wait. Raises SettingsError with all that is wrong with topics that are
    there, or missing.
    """
    topic = f"{crawl}-log"
    waits = False
    while not stopping():
        try:
            if bus.creates:
                bus.create(topic, cluster.partitions, retention.settings_of_topic(), timeout=PATIENCE)
                directory.create()
            if problems := _problems(topic, bus, directory, cluster.partitions):
                raise SettingsError(problems)
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


def _problems(topic: str, bus: KafkaBus, directory: KafkaDirectory, wanted: int) -> list[str]:
    """Return what is wrong with the topics of a crawl, `topic` being that of its logs. Raises BusAway."""
    there, problems = bus.topics(PATIENCE), list[str]()
    for name in topic, *directory.topics:
        is_log = name == topic
        number = there.get(name)
        if number is None:
            if not bus.creates:  # one that was created just now may not be listed yet
                settings = retention.settings_of_topic() if is_log else retention.settings_of_table()
                problems.append(
                    f"there is no topic {name}, which create=no leaves to you: create it with --partitions "
                    f"{wanted if is_log else 1} "
                    + " ".join(f"--config {key}={value}" for key, value in settings.items())
                )
            continue
        found = _settings_of(name, bus)
        if is_log:
            problems += _wrong_number(name, number, wanted, _begun_with(directory))
            problems += retention.objections(name, found)
            for doubt in retention.doubts(name, found):
                log.warning("%s", doubt, extra={"event": "retention"})
        else:
            problems += retention.table_objections(name, number, found)
    return problems


def _wrong_number(topic: str, partitions: int, wanted: int, begun: int) -> list[str]:
    """Return why the topic of the logs has another number of partitions; `begun` is that of the owners, 0: none yet."""
    if partitions == wanted and begun in (0, wanted):
        return []
    has = f"the topic {topic} has {partitions} partitions, "
    if begun == partitions:
        return [f"{has}with which the crawl was begun, and cluster.partitions says {wanted}: set it to {partitions}"]
    if begun:
        return [
            f"{has}and the crawl was begun with {begun}, which is fixed: in a topic that has grown, hosts would move "
            "to other partitions, and their URLs be fetched again. Begin a crawl under another name"
        ]
    return [
        f"{has}and cluster.partitions says {wanted}: the number is fixed when a crawl begins. Set it to what the crawl "
        "was begun with, or begin one under another name"
    ]


def _settings_of(topic: str, bus: KafkaBus) -> dict[str, str]:
    """Return the settings of a topic, none if they cannot be looked at, which is logged. Raises BusAway."""
    try:
        return bus.topic_settings(topic)
    except BusAway:
        raise
    except BusError as e:  # it may be forbidden
        log.warning("the settings of the topic %s cannot be looked at: %s", topic, e, extra={"event": "retention"})
        return {}
