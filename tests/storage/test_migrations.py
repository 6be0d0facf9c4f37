"""Frontiers of older schemas, as they were stored by the code of their time, in the hands of this code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from budgetfrontier import Frontier, Reader, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.errors import CorruptFrontier, SettingsError
from budgetfrontier.storage import keys, lock_table, meta, migrations
from budgetfrontier.storage.lmdb_env import open_lmdb
from tests.data.make_frontier import drain, look, plain
from tests.storage.old_frontiers import SCHEMAS, found_in, unpack


class Stored(NamedTuple):
    """A stored frontier: its folder, its schema, and what was found in it then."""

    path: Path
    schema: int
    found: dict[str, Any]


@pytest.fixture(params=SCHEMAS)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Stored:
    return Stored(unpack(request.param, tmp_path / "frontier"), request.param, found_in(request.param))


def schema(path: Path) -> int:
    with open_env(path) as txn:
        return int(txn[0].get(b"schema", db=txn[1]))


class open_env:
    """The table `meta` of a frontier that nobody has open, to be read or spoilt."""

    def __init__(self, path: Path) -> None:
        self.env = open_lmdb(path)

    def __enter__(self) -> tuple[Any, Any]:
        db = self.env.open_db(keys.META.encode(), create=False)
        self.txn = self.env.begin(write=True)
        return self.txn, db

    def __exit__(self, *_: object) -> None:
        self.txn.commit()
        lock_table.close(self.env)


def differences(stored: Any, now: Any, where: str = "") -> Iterator[str]:
    """Where what is found now is not what was found then; fields that came later are not looked at."""
    if isinstance(stored, dict) and isinstance(now, dict):
        for name in stored:
            yield from differences(stored[name], now.get(name, "nothing"), f"{where}.{name}")
    elif isinstance(stored, list) and isinstance(now, list) and len(stored) == len(now):
        for number, pair in enumerate(zip(stored, now, strict=True)):
            yield from differences(*pair, f"{where}[{number}]")
    elif stored != now:
        yield f"{where}: {stored!r} is {now!r} now"


def assert_as_stored(stored: Stored) -> None:
    found = look(stored.path)
    assert list(differences({name: stored.found[name] for name in found}, found)) == []


def test_a_reader_sees_an_older_schema_as_it_was_and_leaves_it_so(stored: Stored) -> None:
    before = (stored.path / "data.mdb").read_bytes()
    assert_as_stored(stored)
    with Reader(stored.path) as reader:
        reader.check()
        assert reader.settings == Settings.from_dict(stored.found["settings"])
    assert (stored.path / "data.mdb").read_bytes() == before


def test_the_writer_brings_it_up_to_date_and_nothing_is_lost(stored: Stored) -> None:
    clock = ManualClock(stored.found["now"])
    with Frontier.open(stored.path, clock=clock, keep_leases=True) as frontier:
        frontier.check()
    assert schema(stored.path) == keys.SCHEMA
    assert_as_stored(stored)
    with open_env(stored.path) as (txn, db):
        assert meta.read_counters(txn, db).retired_by_name == 3


def test_it_is_crawled_to_the_end_as_it_would_have_been(stored: Stored) -> None:
    clock = ManualClock(stored.found["now"])
    with Frontier.open(stored.path, clock=clock) as frontier:
        assert drain(frontier, clock) == stored.found["drained"]
        frontier.check()
        assert list(differences(stored.found["summary_of_drained"], plain(frontier.summary()))) == []


def test_what_was_seen_then_is_a_duplicate_now(stored: Stored) -> None:
    with Frontier.open(stored.path, clock=ManualClock(stored.found["now"])) as frontier:
        uris = [item["uri"] for queue in stored.found["pending"] for item in queue]
        known = [uri["url"] for uri in uris if not uri["force"] and not uri["body"]]
        tally = frontier.schedule_many(known)
        assert (tally.added, tally.duplicate) == (0, len(known))


def test_an_upgrade_is_all_or_nothing(stored: Stored) -> None:
    """Killed at the end of each step, or refused after the last one: the old schema, and nothing else has changed."""
    before = (stored.path / "data.mdb").read_bytes()

    def dies_after(step: migrations.Step) -> migrations.Step:
        def step_and_die(txn: keys.Txn, db: dict[str, Any]) -> None:
            step(txn, db)
            os.kill(os.getpid(), signal.SIGKILL)

        return step_and_die

    for first in range(stored.schema, keys.SCHEMA):
        step = migrations.STEPS[first]
        pid = os.fork()
        if pid == 0:
            migrations.STEPS[first] = dies_after(step)
            Frontier.open(stored.path)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        assert (stored.path / "data.mdb").read_bytes() == before
    with pytest.raises(SettingsError, match="canonical form"):
        Frontier.open(stored.path, Settings.from_dict({"frontier": {"canonicalization": {"strip_www": False}}}))
    assert (stored.path / "data.mdb").read_bytes() == before
    Frontier.open(stored.path, clock=ManualClock(stored.found["now"]), keep_leases=True).close()
    assert_as_stored(stored)


def test_each_schema_has_a_step_to_the_next() -> None:
    assert sorted(migrations.STEPS) == list(range(1, keys.SCHEMA))


def test_a_reader_finds_nothing_in_tables_that_came_later_until_a_writer_has_added_them(stored: Stored) -> None:
    missing = set(keys.TABLES) - set(keys.tables_of(stored.schema))
    child = "import sys; from budgetfrontier import Frontier; Frontier.open(sys.argv[1], keep_leases=True).close()"
    with Reader(stored.path) as reader:
        with reader.view() as view:
            assert {table: list(view.items(table)) for table in missing} == {table: [] for table in missing}
            assert not missing & set(view.db)
        subprocess.run([sys.executable, "-c", child, stored.path], check=True)
        with reader.view() as view:
            assert missing <= set(view.db)
        reader.check()
    with Reader(stored.path) as reader, reader.view() as view:
        assert all(view.txn.get(keys.SENTINEL, db=view.db[table]) == b"" for table in missing)


def test_no_frontier_has_schema_0(stored: Stored) -> None:
    with open_env(stored.path) as (txn, db):
        txn.put(b"schema", b"0", db=db)
    with pytest.raises(CorruptFrontier, match="schema"):
        Frontier.open(stored.path)


def test_an_older_frontier_does_not_begin_to_keep_its_urls(stored: Stored) -> None:
    settings = Settings.from_dict(stored.found["settings"])
    frontier = msgspec.structs.replace(settings.frontier, keep_urls=True)
    with pytest.raises(SettingsError, match="fixed at creation"):
        Frontier.open(stored.path, msgspec.structs.replace(settings, frontier=frontier))
    assert schema(stored.path) == stored.schema
