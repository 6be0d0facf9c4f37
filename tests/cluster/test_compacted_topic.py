"""Tables on compacted topics: their rows, and what others have written there."""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka import Producer

from budgetfrontier.bus import kafka
from budgetfrontier.cluster.directory.compacted_topic import CompactedTopic
from budgetfrontier.cluster.directory.copy_offers import CopyNotice
from tests.support import PATIENCE

TOPIC = "table"


def table(brokers: str) -> CompactedTopic[CopyNotice]:
    return CompactedTopic(TOPIC, CopyNotice, kafka.connect(brokers, {"create": "no"}))


def test_rows_are_read_as_they_were_written_and_once(brokers: str) -> None:
    rows = CopyNotice(3, "a", b"12345678", 1, None), CopyNotice(3, "a", b"12345678", 2, 1 << 60)
    with closing(table(brokers)) as one, closing(table(brokers)) as two:
        one.publish({row.key: row for row in rows})
        one.flush()
        assert [row for row, _ in two.read()] == [*rows]
        assert [*two.read()] == []
        one.publish({rows[0].key: rows[0]})
        one.flush()
        assert [row for row, _ in two.read()] == [rows[0]]
        assert [row for row, _ in one.read()] == [*rows, rows[0]]


def test_data_of_another_release_are_left_out_which_is_said_once(
    brokers: str, caplog: pytest.LogCaptureFixture
) -> None:
    row = CopyNotice(3, "a", b"12345678", 1, None)
    others = Producer({"bootstrap.servers": brokers})
    for data in b"\xc1", b"", b"\x93\x01\x02\x03", b"\x95\x03\xa1\xff\xc4\x00\x01\xc0":
        others.produce(TOPIC, data, partition=0)
    assert others.flush(PATIENCE) == 0
    with closing(table(brokers)) as one:
        one.publish({row.key: row})
        one.flush()
        assert [found for found, _ in one.read()] == [row]
    [told] = [record.getMessage() for record in caplog.records if "is left out" in record.getMessage()]
    assert told.startswith(f"the row at offset 0 of the topic {TOPIC} is left out, as all others that this release")
