"""The journal of a broker: whatever is cut off its end, the rest is there; it is compacted to what is needed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from budgetfrontier.bus.broker import Append, Broker, Commit, Fetch, Lag
from budgetfrontier.bus.interface import BusError
from budgetfrontier.bus.log import Log
from budgetfrontier.bus.streams import Stream
from budgetfrontier.bus.zeromq.journal import Journal

STREAM = Stream("s", 2, ("a", "b"))


def opened(path: Path, *, compact_at: int = 1 << 30) -> tuple[Broker, Journal, Log]:
    log = Log()
    journal = Journal(path, log, compact_at=compact_at)
    return Broker(log, journal.append), journal, log


def contents(log: Log) -> list[object]:
    """All that is in a log."""
    return list(log.changes())


def work(broker: Broker, dice: random.Random, steps: int, *, first: int = 1) -> None:
    """Append, fetch and commit at random."""
    for number in range(first, first + steps):
        batch = [(dice.randrange(2), dice.randbytes(50)) for _ in range(dice.randint(1, 3))]
        broker.perform(Append(STREAM, "p", number, batch), 1000.0)
        group = dice.choice("ab")
        _, fetched = broker.perform(Fetch(STREAM, group, "m", (), {}, dice.randint(1, 5), 0.0, 10.0), 1000.0)
        done = {message.partition: message.offset + 1 for message in fetched.messages}
        broker.perform(Commit(STREAM, group, "m", done), 1000.0)


def test_a_journal_restores_the_log(tmp_path: Path) -> None:
    broker, journal, log = opened(tmp_path / "journal")
    work(broker, random.Random(1), 100)
    journal.close()
    _, again, restored = opened(tmp_path / "journal")
    assert contents(restored) == contents(log) and again.dropped == 0
    again.close()


@pytest.mark.parametrize("found", [b"of another program\n", b"budgetfrontier bus journal 2\n"])
def test_a_file_that_is_no_journal_of_this_version_is_left_alone(tmp_path: Path, found: bytes) -> None:
    (tmp_path / "journal").write_bytes(found)
    with pytest.raises(BusError, match="name another file, or start the version that wrote it"):
        opened(tmp_path / "journal")
    assert (tmp_path / "journal").read_bytes() == found


def test_what_was_cut_off_is_dropped_and_the_rest_is_there(tmp_path: Path) -> None:
    broker, journal, _ = opened(tmp_path / "whole")
    states: list[list[object]] = [[]]
    sizes = [(tmp_path / "whole").stat().st_size]
    for number in range(1, 8):
        work(broker, random.Random(number), 1, first=number)
        states.append(contents(broker._log))
        sizes.append((tmp_path / "whole").stat().st_size)
    journal.close()
    whole = (tmp_path / "whole").read_bytes()
    for number, size in enumerate(sizes[1:], 1):
        for cut, before in ((size, number), (size - 1, None)):
            (tmp_path / "cut").write_bytes(whole[:cut] + b"\x00" * 3)
            again, journal, log = opened(tmp_path / "cut")
            assert journal.dropped >= 3
            if before is not None:
                assert contents(log) == states[before]
            again.perform(Append(STREAM, "q", 1, [(0, b"new")]), 1000.0)
            journal.close()
            _, journal, last = opened(tmp_path / "cut")
            assert journal.dropped == 0 and contents(last) == contents(log)
            journal.close()


def test_a_journal_is_compacted_to_what_is_needed(tmp_path: Path) -> None:
    broker, journal, log = opened(tmp_path / "journal", compact_at=2000)
    dice = random.Random(1)
    work(broker, dice, 300)
    for group in "ab":
        while (fetched := broker.perform(Fetch(STREAM, group, "m", (), {}, 99, 0.0, 10.0), 1000.0)[1]).messages:
            done = {message.partition: message.offset + 1 for message in fetched.messages}
            broker.perform(Commit(STREAM, group, "m", done), 1000.0)
    work(broker, dice, 1, first=301)
    assert (tmp_path / "journal").stat().st_size < 4000
    work(broker, dice, 5, first=302)
    journal.close()
    again, journal, restored = opened(tmp_path / "journal")
    assert contents(restored) == contents(log)
    lag = broker.perform(Lag(STREAM, "a"), 1000.0)
    again.perform(Append(STREAM, "p", 306, [(0, b"sent twice")]), 1000.0)
    assert again.perform(Lag(STREAM, "a"), 1000.0) == lag
    journal.close()


def test_another_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(BusError, match="not the journal"):
        opened(tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_journal_that_cannot_be_compacted_goes_on(tmp_path: Path) -> None:
    broker, journal, log = opened(tmp_path / "journal", compact_at=2000)
    (tmp_path / "journal.new").mkdir()  # so that no file can be made there, as on a full disk
    work(broker, random.Random(1), 300)
    assert (tmp_path / "journal").stat().st_size > 4000
    journal.close()
    _, journal, restored = opened(tmp_path / "journal")
    assert contents(restored) == contents(log)
    journal.close()
