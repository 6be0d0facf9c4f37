"""Sources made to hurt: each ends with what is wrong with it, in little memory, and harms nothing beside it."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.engine.commands.mailbox import Command, checked
from budgetfrontier.engine.data_size import TOO_DEEP, TOO_LARGE, excess
from budgetfrontier.errors import FrontierError
from budgetfrontier.tools import importers as formats
from budgetfrontier.tools.importers import allowance
from budgetfrontier.tools.importers.allowance import Allowance, AllowanceExhausted, RecordTooLarge
from budgetfrontier.tools.importers.import_items import BadRecord
from tests.support import memory
from tests.tools.importers import hostile

HARMLESS = {  # what they are made of is left out, or does not hurt
    "pickle: keys of one hash": [1, 0, True],
    "pickle: in itself": [1, 0, True],
    "marshal: a set": [1, 0, True],
    "heritrix: blanks": [1, 0, True],
}
PART = {"scrapy: many records", "scrapy: looped pages"}
"""What is good at first and goes on without end."""


def test_sources_made_to_hurt_take_little_memory(tmp_path: Path) -> None:
    """384 MiB, for all that they would make; the largest is a file of 15 MiB."""
    command = [sys.executable, hostile.__file__, str(tmp_path), "384", "8"]
    root = {"PYTHONPATH": str(Path(__file__).parents[3])}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | root)
    assert ended.returncode == 0, ended.stderr
    results = json.loads(ended.stdout)
    assert results.keys() == hostile.SOURCES.keys()
    for name, result in results.items():
        assert isinstance(result, list), (name, result)
        good, bad, whole = result
        if name in HARMLESS:
            assert result == HARMLESS[name], name
        elif name in PART:
            assert good and bad == 1 and not whole, (name, result)
        else:
            assert bad >= 1 and good == (name.startswith("kumo") and whole), (name, result)


def test_what_was_named_in_a_pickle_is_text_only(tmp_path: Path) -> None:
    """A flipped bit makes a mark or a list of what should be text; its address is nobody's business."""
    for operations in (b"\x8c\x07_codecs\x8c\x06encode\x93(\x8c\x06latin1\x86R", b"(](h\x00e\x93", b"])\x93"):
        source = tmp_path / "job"
        hostile.scrapy_queue(source, hostile.lifo(hostile.meta(operations)))
        assert hostile.look(source)[0] == 0


# -- what is made of a source


def test_a_record_has_an_allowance_and_a_source_has_one() -> None:
    left = Allowance()
    left.grant(1 << 20)
    left.spend(allowance.RECORD_ALLOWANCE)
    with pytest.raises(RecordTooLarge):
        left.spend(1)
    records = (allowance.SOURCE_GRACE + (allowance.SOURCE_RATIO << 20)) // allowance.RECORD_ALLOWANCE
    for _ in range(records - 1):
        left.begin()
        left.spend(allowance.RECORD_ALLOWANCE)
    with pytest.raises(AllowanceExhausted):
        left.begin(allowance.RECORD_ALLOWANCE)


def test_json_is_weighed_without_what_is_text_in_it() -> None:
    many = b"[" * (allowance.RECORD_ALLOWANCE // 200)
    Allowance().spend_json(b'{"a": "' + many + b'", "b": "\\"' + many + b'"}')
    with pytest.raises(RecordTooLarge):
        Allowance().spend_json(b'{"a": "", "b": ' + many)


# -- what has no room is told before it is encoded


def test_excess_is_found_without_following_what_never_ends() -> None:
    itself: list[object] = []
    itself.append(itself)
    doubled: list[object] = []
    for _ in range(40):
        doubled = [doubled, doubled]
    assert excess(itself, size=1000, depth=10) == TOO_DEEP
    assert excess(doubled, size=1000, depth=50) == TOO_LARGE
    assert excess({"a": ("x" * 90, {b"y"}), "b": None}, size=101, depth=3) == ""
    assert excess({"a": ("x" * 90, {b"y"})}, size=90, depth=3) == TOO_LARGE
    assert excess({"a": ("x", {b"y"})}, size=100, depth=2) == TOO_DEEP


def test_one_value_a_thousand_times_is_refused_by_frontier_and_mailbox() -> None:
    value = ["x" * (1 << 20)] * 20_000  # encoded, 20 GiB
    with memory() as frontier:
        tally = frontier.schedule_many(
            [
                CrawlUri("http://a.test/1", meta=value),
                CrawlUri("http://a.test/2", headers=dict.fromkeys(map(str, range(20_000)), value[0])),
                CrawlUri("http://a.test/3", meta={"a": 1}),
            ]
        )
        assert (tally.added, tally.reasons) == (1, {"too-large": 2})
    with pytest.raises(FrontierError, match="too large; a command has at most 16 MiB"):
        checked(Command("schedule", {"uris": value}, "", ""))


# -- what is cut short


@pytest.mark.parametrize("queue", ["PickleLifoSQLiteQueue", "MarshalFifoSQLiteQueue", "PickleLifoDiskQueue"])
def test_a_queue_of_scrapy_that_is_cut_short_is_told(peers: Path, tmp_path: Path, queue: str) -> None:
    """Wherever it is cut, all that was in it is read, or it is told that it was not read to its end."""
    whole = peers / "scrapy" / "2.19.0" / queue / "requests.queue"
    for path in (path for path in whole.rglob("*") if path.is_file() and path.name != "active.json"):
        content, count = path.read_bytes(), hostile.look(_put(tmp_path, path.read_bytes()))[0]
        assert count
        for size in range(1, len(content), 1 + len(content) // 60):
            good, _, read_whole = hostile.look(_put(tmp_path, content[:size]))
            assert not read_whole or good == count, size


def _put(folder: Path, content: bytes) -> Path:
    return hostile.scrapy_queue(folder, content)


def test_behind_a_damaged_record_the_next_ones_are_read(tmp_path: Path) -> None:
    values = [pickle.dumps(hostile.request(url=f"http://a.test/{n}", headers={"A": "b" * 50}), 4) for n in range(5)]
    content = bytearray(hostile.lifo(*values))
    content[4 + len(values[0]) + 4 + 30] = 0xFF  # within the second
    assert hostile.look(_put(tmp_path, bytes(content))) == (4, 1, True)
    elements = [json.dumps({"request": {"url": f"http://a.test/{n}"}}) for n in range(5)]
    elements[1] = elements[1].replace('"request":', '"request"')
    (tmp_path / "queue.json").write_text(f"[{','.join(elements)}]")
    assert hostile.look(tmp_path / "queue.json") == (4, 1, True)


def test_a_database_in_the_middle_of_a_change_is_left_as_it_is(tmp_path: Path) -> None:
    made = sqlite3.connect(_put(tmp_path, b"") / "requests.queue/0")
    made.execute("CREATE TABLE queue (id INTEGER PRIMARY KEY AUTOINCREMENT, item BLOB)")
    made.executemany("INSERT INTO queue (item) VALUES (?)", [(pickle.dumps(hostile.request()),)] * 200)
    made.commit()
    made.execute("PRAGMA cache_size = 2")
    made.execute("DELETE FROM queue WHERE id > 5")
    killed = tmp_path / "killed"
    shutil.copytree(tmp_path / "requests.queue", killed / "requests.queue")  # as a kill would leave it now
    made.rollback()
    made.close()
    files = {path.name: path.read_bytes() for path in (killed / "requests.queue").iterdir()}
    assert files.keys() == {"0", "0-journal"}
    (told,) = formats.read(str(killed))
    assert isinstance(told, BadRecord) and told.ends and "`sqlite3 FILE .tables` takes back" in told.detail
    assert {path.name: path.read_bytes() for path in (killed / "requests.queue").iterdir()} == files
