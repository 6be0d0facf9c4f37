"""The retention of a log: whether its topic keeps entries for as long as snapshots need them. Pure rules."""

from __future__ import annotations

from collections.abc import Mapping

from budgetfrontier.cluster.entries import LONGEST
from budgetfrontier.core import protocol
from budgetfrontier.core.units import say_duration
from budgetfrontier.settings.checks import RETENTION
from budgetfrontier.settings.schema import ClusterSettings

NEEDED = protocol.MOST_BYTES + (1 << 20)
"""Bytes that an entry may have: those of a call, and more."""


def settings_of_topic(cluster: ClusterSettings) -> dict[str, str]:
    """Return the settings with which the topic of the logs is created."""
    milliseconds = -1 if cluster.retention is None else int(cluster.retention * 1000)
    return {
        "cleanup.policy": "delete",
        "retention.ms": str(milliseconds),
        "retention.bytes": "-1",
        "max.message.bytes": str(LONGEST),
    }


def objection(topic: str, found: Mapping[str, str], cluster: ClusterSettings, *, snapshots: bool) -> str | None:
    """Return why the topic of the logs, as it is set, would lose entries that are needed; None if it does not."""
    if "compact" in found.get("cleanup.policy", "delete"):
        return f"the topic {topic} has cleanup.policy={found['cleanup.policy']}, and a log needs `delete`"
    size = _number(found, "max.message.bytes")
    if size is not None and size < NEEDED:
        return (
            f"the topic {topic} takes no entries of more than {size:,} bytes (max.message.bytes), and the calls of "
            f"clients may have {NEEDED:,}: set max.message.bytes to {LONGEST}"
        )
    kept = _number(found, "retention.ms")
    needed = RETENTION * cluster.snapshot_every
    if kept is None or not snapshots or kept / 1000 >= needed:
        return None
    return (
        f"the topic {topic} keeps entries for {say_duration(kept / 1000)} (retention.ms={kept}), and with a snapshot "
        f"every {say_duration(cluster.snapshot_every)} they may be needed for {say_duration(needed)}: set retention.ms "
        f"to {int(needed * 1000)} or more, or a shorter cluster.snapshot_every"
    )


def doubts(topic: str, found: Mapping[str, str], *, snapshots: bool) -> list[str]:
    """Return a warning about the retention of the topic of the logs."""
    doubts = []
    kept, size = _number(found, "retention.ms"), _number(found, "retention.bytes")
    if kept is not None and not snapshots:
        doubts.append(
            f"the topic {topic} drops entries after {say_duration(kept / 1000)}, and there are no snapshots: a worker "
            "without an own copy of a partition cannot rebuild it then. Give cluster.snapshots, or set retention.ms=-1"
        )
    if size is not None:
        doubts.append(
            f"the topic {topic} drops entries beyond {size:,} bytes of a partition (retention.bytes), whether a "
            "snapshot has them or not: set retention.bytes=-1"
        )
    return doubts


def _number(found: Mapping[str, str], name: str) -> int | None:
    try:
        number = int(found.get(name, "-1"))
    except ValueError:
        return None
    return None if number < 0 else number
