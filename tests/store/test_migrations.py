"""A frontier of schema 1, as it was stored by the code of its time, in the hands of this code."""

from __future__ import annotations

import json
import lzma
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier, Reader, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.errors import CorruptFrontier, SettingsError
from budgetfrontier.store import keys, meta, migrations
from budgetfrontier.store.lmdb_env import open_lmdb
from tests.data.make_frontier_v1 import drain, look, plain

DATA = Path(__file__).parents[1] / "data"
FOUND: dict[str, Any] = json.loads((DATA / "frontier-v1.json").read_text(encoding="ascii"))


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """The folder of the stored frontier."""
    path = tmp_path / "frontier"
    path.mkdir()
    (path / "data.mdb").write_bytes(lzma.decompress((DATA / "frontier-v1.mdb.xz").read_bytes()))
    return path


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
        self.env.close()


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


def assert_as_stored(path: Path) -> None:
    found = look(path)
    assert list(differences({name: FOUND[name] for name in found}, found)) == []


def test_a_reader_sees_schema_1_as_it_was_and_leaves_it_so(stored: Path) -> None:
    before = (stored / "data.mdb").read_bytes()
    assert_as_stored(stored)
    with Reader(stored) as reader:
        reader.check()
        assert reader.settings == Settings.from_dict(FOUND["settings"])
    assert (stored / "data.mdb").read_bytes() == before


def test_the_writer_brings_schema_1_up_to_date_and_nothing_is_lost(stored: Path) -> None:
    clock = ManualClock(FOUND["now"])
    with Frontier.open(stored, clock=clock, keep_leases=True) as frontier:
        frontier.check()
    assert schema(stored) == keys.SCHEMA
    assert_as_stored(stored)
    with open_env(stored) as (txn, db):
        assert meta.read_counters(txn, db).retired_by_name == 3


def test_it_is_crawled_to_the_end_as_it_would_have_been(stored: Path) -> None:
    clock = ManualClock(FOUND["now"])
    with Frontier.open(stored, clock=clock) as frontier:
        assert drain(frontier, clock) == FOUND["drained"]
        frontier.check()
        assert list(differences(FOUND["summary_of_drained"], plain(frontier.summary()))) == []


def test_what_was_seen_then_is_a_duplicate_now(stored: Path) -> None:
    with Frontier.open(stored, clock=ManualClock(FOUND["now"])) as frontier:
        uris = [item["uri"] for queue in FOUND["pending"] for item in queue]
        known = [uri["url"] for uri in uris if not uri["force"] and not uri["body"]]
        tally = frontier.schedule_many(known)
        assert (tally.added, tally.duplicate) == (0, len(known))


def test_an_upgrade_is_all_or_nothing(stored: Path) -> None:
    """Killed at the end of each step, or refused after the last one: the old schema, and nothing else has changed."""
    before = (stored / "data.mdb").read_bytes()

    def dies_after(step: migrations.Step) -> migrations.Step:
        def step_and_die(txn: keys.Txn, db: dict[str, Any]) -> None:
            step(txn, db)
            os.kill(os.getpid(), signal.SIGKILL)

        return step_and_die

    for first, step in migrations.STEPS.items():
        pid = os.fork()
        if pid == 0:
            migrations.STEPS[first] = dies_after(step)
            Frontier.open(stored)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        assert (stored / "data.mdb").read_bytes() == before
    with pytest.raises(SettingsError, match="canonical form"):
        Frontier.open(stored, Settings.from_dict({"frontier": {"canonicalization": {"strip_www": False}}}))
    assert (stored / "data.mdb").read_bytes() == before
    Frontier.open(stored, clock=ManualClock(FOUND["now"]), keep_leases=True).close()
    assert_as_stored(stored)


def test_each_schema_has_a_step_to_the_next() -> None:
    assert sorted(migrations.STEPS) == list(range(1, keys.SCHEMA))


def test_no_frontier_has_schema_0(stored: Path) -> None:
    with open_env(stored) as (txn, db):
        txn.put(b"schema", b"0", db=db)
    with pytest.raises(CorruptFrontier, match="schema"):
        Frontier.open(stored)
