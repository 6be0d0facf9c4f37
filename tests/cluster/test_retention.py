"""The settings of the topic of the logs."""

from __future__ import annotations

import re

import pytest

from budgetfrontier.cluster.directory.retention import doubts, objections, settings_of_topic

WEEK = {"retention.ms": "604800000", "cleanup.policy": "delete", "retention.bytes": "-1"}
FOREVER = WEEK | {"retention.ms": "-1"}
LARGE = {"max.message.bytes": "16777216"}
STAMPED = {"message.timestamp.type": "LogAppendTime"}


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (WEEK | LARGE | STAMPED, None),  # which is doubted
        (FOREVER, None),
        (FOREVER | {"message.timestamp.type": "CreateTime"}, r": set message\.timestamp\.type=LogAppendTime"),
        (FOREVER | {"cleanup.policy": "compact"}, "has cleanup.policy=compact, and a log needs `delete`"),
        (FOREVER | {"cleanup.policy": "compact,delete"}, "a log needs `delete`"),
        (FOREVER | {"max.message.bytes": "1048588"}, r"entries of more than 1,048,588 bytes .*=16777216"),
    ],
)
def test_a_topic_that_cannot_have_a_log_is_refused(found: dict[str, str], why: str | None) -> None:
    said = objections("t", found)
    assert said == [] if why is None else len(said) == 1 and re.search(why, said[0])


def test_all_that_is_wrong_with_a_topic_is_said_at_once() -> None:
    said = objections(
        "t", {"message.timestamp.type": "CreateTime", "max.message.bytes": "9", "cleanup.policy": "compact"}
    )
    assert [text.rpartition(": set ")[2] for text in said] == [
        "cleanup.policy=delete", "max.message.bytes=16777216", "message.timestamp.type=LogAppendTime"
    ]  # fmt: skip


def test_a_topic_that_drops_entries_by_itself_is_doubted() -> None:
    assert doubts("t", FOREVER) == []
    [doubt] = doubts("t", WEEK)
    assert doubt.startswith("the topic t drops entries after 7d (retention.ms), whether a snapshot has them or not")
    [doubt] = doubts("t", FOREVER | {"retention.bytes": "1000"})
    assert "beyond 1,000 bytes of a partition (retention.bytes)" in doubt and "set retention.bytes=-1" in doubt


def test_a_topic_that_is_created_keeps_everything() -> None:
    assert settings_of_topic() == FOREVER | LARGE | STAMPED
