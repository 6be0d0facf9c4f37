"""The settings of the topics of a crawl: those they are created with, and what is wrong with others. Pure rules."""

from __future__ import annotations

from collections.abc import Mapping

from budgetfrontier.cluster.log.entries import LONGEST
from budgetfrontier.core import protocol
from budgetfrontier.core.units import say_duration

NEEDED = protocol.MOST_BYTES + (1 << 20)
"""Bytes that an entry may have: those of a call, and more."""
_STAMPS, _BROKERS = "message.timestamp.type", "LogAppendTime"


def settings_of_topic() -> dict[str, str]:
    """Return the settings with which the topic of the logs is created: it keeps entries until they are deleted."""
    return {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "max.message.bytes": str(LONGEST),
        _STAMPS: _BROKERS,
    }


def settings_of_table() -> dict[str, str]:
    """Return the settings with which each other topic is created: the last row of each key is kept."""
    return {"cleanup.policy": "compact", _STAMPS: _BROKERS}


def table_objections(topic: str, partitions: int, found: Mapping[str, str]) -> list[str]:
    """Return each reason why a topic, as it is set, cannot be a table: rows would be lost, or their ages wrong."""
    reasons = []
    if partitions != 1:
        reasons.append(
            f"the topic {topic} has {partitions} partitions, and its rows are all in one: delete it, and create it "
            "with one partition"
        )
    if (policy := found.get("cleanup.policy", "compact")) != "compact":
        reasons.append(
            f"the topic {topic} has cleanup.policy={policy}, which drops rows that are not old, only unchanged: set "
            "cleanup.policy=compact"
        )
    return reasons + _stamped_by_others(topic, found, "the age of its rows goes by the clock of the brokers")


def objections(topic: str, found: Mapping[str, str]) -> list[str]:
    """Return each reason why the topic of the logs, as it is set, cannot have them: entries, or their clock."""
    reasons = []
    if "compact" in (policy := found.get("cleanup.policy", "delete")):
        reasons.append(
            f"the topic {topic} has cleanup.policy={policy}, and a log needs `delete`: set cleanup.policy=delete"
        )
    size = _number(found, "max.message.bytes")
    if size is not None and size < NEEDED:
        reasons.append(
            f"the topic {topic} takes no entries of more than {size:,} bytes (max.message.bytes), and the calls of "
            f"clients may have {NEEDED:,}: set max.message.bytes={LONGEST}"
        )
    why = "delays and leases go by the clock of the brokers, which stamps the entries of a log, whatever a worker says"
    return reasons + _stamped_by_others(topic, found, why)


def doubts(topic: str, found: Mapping[str, str]) -> list[str]:
    """Return a warning for each limit of the topic of the logs by which entries are dropped that may be needed."""
    kept, size = _number(found, "retention.ms"), _number(found, "retention.bytes")
    limits = {
        "retention.ms": kept and f"after {say_duration(kept / 1000)}",
        "retention.bytes": size and f"beyond {size:,} bytes of a partition",
    }
    return [
        f"the topic {topic} drops entries {limit} ({name}), whether a snapshot has them or not, and a partition that "
        f"needs them cannot be rebuilt: set {name}=-1; what no snapshot needs is deleted by the workers"
        for name, limit in limits.items()
        if limit is not None
    ]


def _stamped_by_others(topic: str, found: Mapping[str, str], why: str) -> list[str]:
    stamps = found.get(_STAMPS, _BROKERS)
    return [] if stamps == _BROKERS else [f"the topic {topic} has {_STAMPS}={stamps}: {why}: set {_STAMPS}={_BROKERS}"]


def _number(found: Mapping[str, str], name: str) -> int | None:
    try:
        number = int(found.get(name, "-1"))
    except ValueError:
        return None
    return None if number < 0 else number
