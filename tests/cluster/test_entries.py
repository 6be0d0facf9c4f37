"""Entries of logs: their bytes are those of their version."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from budgetfrontier.cluster.log import entries, state
from budgetfrontier.cluster.log.entries import (
    Body,
    Changed,
    Changes,
    Claimed,
    Found,
    Given,
    Message,
    SliceGranted,
    SliceRecalled,
    SliceWanted,
    Steered,
    Told,
)
from budgetfrontier.cluster.log.state import KnownCommands, LogPlace, QuotaState
from budgetfrontier.cluster.quotas.quota_grants import QuotaGrants
from budgetfrontier.cluster.quotas.quota_slices import Amounts, Slice, Want
from budgetfrontier.core.model import CrawlUri, Directive
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.storage import keys
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.table_changes import FORMAT, Recorder

ORDER = Command("retire", {"queue": "a.test"}, "me", "why", "line")
MESSAGES: tuple[Message, ...] = (
    Found(["https://a.test/", CrawlUri("https://a.test/1", method="POST", body=b"x", directive=Directive.HIGH)]),
    SliceWanted(Amounts(1, 2), Want(Amounts(3, 4), Amounts(5, 6)), (True, False)),
    SliceGranted(Amounts(7, 8)),
    SliceRecalled(True),
    Steered(b"command", ORDER),
)
BODIES: tuple[Body, ...] = (
    Claimed("worker", b"nonce", "log"),
    Changed(3, 4, True, b"piece"),
    Steered(b"command", ORDER),
    Given(b"command", ORDER, {1: {"id": 2}}, [0, 1]),
    *(Told(1, (5, 6), message) for message in MESSAGES),
)
STATES = (
    LogPlace("test", 1, 2, 3, 4, "log"),
    QuotaState(
        Slice((True, False), Amounts(1, 2), Amounts(3, 4), Want(Amounts(5, 6), Amounts(7, 8)), True),
        QuotaGrants(
            Amounts(1, 0),
            {1: Amounts(2, 0)},
            Amounts(3, 0),
            {2: Want(Amounts(4, 0), Amounts(5, 0))},
            {3: None},
            {4: None},
        ),
    ),
    KnownCommands({b"a": 1}, {b"b": None}, {b"c": 2}, b"d", [Steered(b"e", ORDER)]),
)
"""The rows beside the tables of a frontier, which are of the schema, too."""
VERSIONS = (3, 5, 1)
"""Those of entries, of the tables whose rows they have, and of the changes of rows."""
BYTES = [
    "9303a4746573749400a6776f726b6572c4056e6f6e6365a36c6f67",
    "9303a47465737495010304c3c4057069656365",
    ("9303a4746573749306c407636f6d6d616e6495a672657469726581a57175657565a6612e74657374a26d65a3776879a46c696e65"),
    (
        "9303a4746573749507c407636f6d6d616e6495a672657469726581a57175657565a6612e74657374a26d65a3776879a46c69"
        "6e65810181a2696402920001"
    ),
    (
        "9303a474657374940801920506920292af68747470733a2f2f612e746573742fdc0010b068747470733a2f2f612e74657374"
        "2f31c0a0c0a4504f5354c0c40178c0c0c2c00100c0c0c0"
    ),
    "9303a47465737494080192050694039201029292030492050692c3c2",
    "9303a4746573749408019205069204920708",
    "9303a4746573749408019205069205c3",
    (
        "9303a4746573749408019205069306c407636f6d6d616e6495a672657469726581a57175657565a6612e74657374a26d65a3"
        "776879a46c696e65"
    ),
]
ROWS = (
    "9303a47465737495010304c3c4f992c4ee92019402939501c291c404676f6e6590909504c3909090950cc290c49110303030"
    "3030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030"
    "3030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030"
    "303030303030303030303030303030303030303030303030303030303030303030313233343536373899c403757269c40375"
    "7269c403757269c403757269c403757269c403757269c403757269c403757269c40375726991930191c4036b657991920205"
    "ce221cc1ea9192019204920708"
)

STATE_ROWS = [
    "97ceae6a0bdda47465737401020304a36c6f67",
    (
        "93ce303f07d585a76c696d6974656492c3c2a76772616e746564920102a46c617374920304a477616e7492920506920708a8"
        "726563616c6c6564c386a6746f74616c73920100a76772616e7465648101920200a36f7574920300a577616e747381029292"
        "0400920500a8726563616c6c65648103c0a9756e636f756e7465648104c0"
    ),
    (
        "96ce49cf03e181c401610181c40162c081c4016302c40164919306c4016595a672657469726581a57175657565a6612e7465"
        "7374a26d65a3776879a46c696e65"
    ),
]


def rows(folder: Path) -> bytes:
    """Changes of rows of all kinds: put, in a column, deleted, patched, of a table that was emptied."""
    with closing(Environment(folder)) as env:
        recorder, queues, seen = Recorder(), env.db[keys.QUEUES], env.db[keys.SEEN]
        txn: Any = recorder.wrap(env.txn, env.db)
        txn.put(b"key", msgspec.msgpack.encode(["queue", 1, 2]), db=queues)
        txn.put(b"gone", b"value", db=queues)
        recorder.take()
        txn.put(b"key", msgspec.msgpack.encode(["queue", 1, 7]), db=queues)
        txn.delete(b"gone", db=queues)
        txn.cursor(env.db[keys.AUDIT]).putmulti([(b"%016d" % number, b"uri") for number in range(9)])
        txn.drop(seen, delete=False)
        taken = recorder.take()
        assert taken is not None
        return taken


def test_an_encoding_is_that_of_its_version(tmp_path: Path) -> None:
    """Whoever changes an encoding raises its version: entries of another one are refused, never misread."""
    assert (entries.VERSION, keys.SCHEMA, FORMAT) == VERSIONS, "and entries.VERSION with each of the others"
    assert [entries.encode(body, crawl="test").hex() for body in BODIES] == BYTES
    changes = Changes(rows(tmp_path / "frontier"), [(1, entries.encode_message(MESSAGES[2]))])
    [entry] = entries.encode_changes(changes, epoch=3, number=4, crawl="test")
    assert entry.hex() == ROWS
    assert [state.encode(one).hex() for one in STATES] == STATE_ROWS


def test_each_kind_of_entry_and_message_is_among_them() -> None:
    assert {type(body) for body in BODIES} == {*get_args(Body)}
    assert {type(message) for message in MESSAGES} == {*get_args(Message)}


@pytest.mark.parametrize("body", BODIES, ids=repr)
def test_entries_are_read_as_they_were_written(body: Body) -> None:
    assert entries.decode(entries.encode(body, crawl="test"), crawl="test") == body
