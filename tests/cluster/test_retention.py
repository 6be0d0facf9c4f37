"""The retention of a log, against the time between snapshots."""

from __future__ import annotations

import re

import pytest

from budgetfrontier.cluster.retention import doubts, objection, settings_of_topic
from budgetfrontier.settings.schema import ClusterSettings

WEEK = {"retention.ms": "604800000", "cleanup.policy": "delete", "retention.bytes": "-1"}
FOREVER = WEEK | {"retention.ms": "-1"}
LARGE = {"max.message.bytes": "16777216"}


@pytest.mark.parametrize(
    ("found", "every", "snapshots", "why"),
    [
        (WEEK, 600.0, True, None),
        (FOREVER, 9e6, True, None),
        (WEEK, 201_600.0, True, None),
        (WEEK, 201_601.0, True, "the topic t keeps entries for 7d .* set retention.ms to 604803000 or more"),
        (WEEK, 9e6, False, None),  # which is doubted
        (WEEK | {"cleanup.policy": "compact"}, 600.0, True, "has cleanup.policy=compact, and a log needs `delete`"),
        (WEEK | {"cleanup.policy": "compact,delete"}, 600.0, False, "a log needs `delete`"),
        (WEEK | LARGE, 600.0, True, None),
        (WEEK | {"max.message.bytes": "1048588"}, 600.0, True, r"entries of more than 1,048,588 bytes .* to 16777216"),
    ],
)
def test_entries_are_kept_for_longer_than_snapshots_need_them(
    found: dict[str, str], every: float, snapshots: bool, why: str | None
) -> None:
    said = objection("t", found, ClusterSettings(snapshot_every=every), snapshots=snapshots)
    assert (said is None) if why is None else re.search(why, said or "")


def test_a_log_that_loses_entries_without_snapshots_is_doubted() -> None:
    assert doubts("t", FOREVER, snapshots=False) == doubts("t", WEEK, snapshots=True) == []
    [doubt] = doubts("t", WEEK, snapshots=False)
    assert "the topic t drops entries after 7d, and there are no snapshots" in doubt
    [doubt] = doubts("t", WEEK | {"retention.bytes": "1000"}, snapshots=True)
    assert "drops entries beyond 1,000 bytes" in doubt


def test_topics_that_are_created_keep_everything_unless_told_otherwise() -> None:
    assert settings_of_topic(ClusterSettings()) == FOREVER | LARGE
    assert settings_of_topic(ClusterSettings(retention=3600.0))["retention.ms"] == "3600000"
