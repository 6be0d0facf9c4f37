"""The mailbox: what is no command is refused, strange records are passed over, floods are taken in parts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lmdb
import msgspec
import pytest

from budgetfrontier import CrawlUri
from budgetfrontier.engine.commands import mailbox
from budgetfrontier.engine.commands.mailbox import Command, Mailbox
from budgetfrontier.errors import FrontierError
from budgetfrontier.storage.encoding import encode
from tests.support import crawl, nested, on_disk, pages, post, whole


def raw(folder: Path, *items: tuple[bytes, bytes]) -> None:
    """Put something where commands stand, past all that `post` looks at; nobody has the mailbox open."""
    with lmdb.open(str(folder / "frontier" / "mailbox"), map_size=1 << 28) as env, env.begin(write=True) as txn:
        for key, value in items:
            txn.put(key, value)


NO_COMMANDS = {
    "nothing": b"",
    "no msgpack": b"\xc1",
    "cut short": encode(("pause", {}, "me", ""))[:-1],
    "another type": encode("pause"),
    "too few fields": encode(("pause", {})),
    "a number for a name": encode((5, {}, "me", "")),
    "a length without end": b"\x94\xa5pause\xdf\xff\xff\xff\xff",
    "depth without end": b"\x94\xa5pause\x81\xa1a" + b"\x91" * 100_000,
    "deeper than 50": encode(("pause", {"a": nested(60)}, "me", "")),
    "no UTF-8": encode(("pause", {}, "me", "?")).replace(b"?", b"\xff"),
    "a type of its own": encode(("pause", {"a": msgspec.msgpack.Ext(5, b"x")}, "me", "")),
    "a key that is no text": encode(("pause", {"a": {5: 6}}, "me", "")),
    "an argument of another type": encode(("delete", {"queue": []}, "me", "")),
    "ids that are no numbers": encode(("replay", {"ids": [[]]}, "me", "")),
    "too large": encode(("pause", {"a": bytes(17 << 20)}, "me", "")),
}


@pytest.mark.parametrize("what", NO_COMMANDS)
def test_what_is_no_command_is_refused_and_the_next_is_applied(tmp_path: Path, what: str) -> None:
    with on_disk(tmp_path, hold_queues=False) as f:
        f.schedule_many(pages("AB", 2))
    raw(tmp_path, (b"next", b"2"), (b"\xff" + (1).to_bytes(8, "big"), NO_COMMANDS[what]))
    assert post(tmp_path / "frontier", "retire", queue="a.test") == 2
    with on_disk(tmp_path) as f:
        f.commit()
        f.commit()  # a large one is taken alone
        refused, applied = f.audit()
        assert (refused.number, refused.command, refused.effect) == (1, "unreadable", {})
        assert refused.error is not None and len(refused.reason) < 200
        assert (applied.number, applied.error) == (2, None)
        assert crawl(f) == "BB"
        whole(f)
    with on_disk(tmp_path) as f:
        assert len(f.audit()) == 2


def test_strange_records_in_the_mailbox_are_passed_over(tmp_path: Path) -> None:
    pause = encode(("pause", {}, "me", ""))
    with on_disk(tmp_path) as f:
        f.schedule_many(pages("A", 1))
    odd = b"\xff", b"\xff" + bytes(8) + b"\1x", b"\xff" * 40, b"\xff" * 9, b"\0", b"zzz"
    raw(tmp_path, (b"next", b"1"), *((key, pause) for key in odd))
    with on_disk(tmp_path) as f:
        f.commit()
        assert (f.audit(), str(f.state)) == ([], "RUNNING")
        for number in 1, 2:
            assert post(tmp_path / "frontier", "pause") == number
            f.commit()
            assert [entry.number for entry in f.audit()] == list(range(1, number + 1))
        whole(f)
    for strange in b"x", b"-5", b"9" * 30, "٣".encode():
        raw(tmp_path, (b"next", strange))
        with on_disk(tmp_path) as f:
            number = post(tmp_path / "frontier", "resume")
            f.commit()
            assert f.audit()[-1].number == number


def test_a_flood_of_commands_is_taken_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "MOST", 10)
    with on_disk(tmp_path) as f:
        f.schedule_many(pages("A", 1))
        box = Mailbox(tmp_path / "frontier")
        for number in range(1, 26):
            assert box.post(Command("resume" if number % 2 else "pause", {}, "me", "")) == number
        for taken in 10, 20, 25:
            f.commit()
            assert [entry.number for entry in f.audit()] == list(range(1, taken + 1))
        assert str(f.state) == "RUNNING"


def test_large_commands_are_taken_few_at_a_time(tmp_path: Path) -> None:
    with on_disk(tmp_path) as f:
        box = Mailbox(tmp_path / "frontier")
        for _ in range(5):
            box.post(Command("unknown", {"a": bytes(9 << 20)}, "me", ""))
        for taken in 2, 4, 5:
            f.commit()
            assert len(f.audit()) == taken
        with pytest.raises(FrontierError, match="16 MiB"):
            box.post(Command("unknown", {"a": bytes(17 << 20)}, "me", ""))


def large(number: int) -> Iterator[CrawlUri]:
    """URIs with nearly a MiB each."""
    return (CrawlUri(f"https://h{n}.test/", payload=bytes(900_000)) for n in range(number))
