"""Fuzzed: what is posted to a running frontier. It is applied, or refused in the audit, and the engine goes on."""

from __future__ import annotations

import contextlib
import functools
import io
import shutil
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
from hypothesis import strategies as st

from budgetfrontier import Frontier, Outcome, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine.commands import mailbox
from budgetfrontier.engine.commands.mailbox import Mailbox
from budgetfrontier.engine.commands.operations import OPERATIONS, STEPWISE
from budgetfrontier.errors import PolicyError
from budgetfrontier.settings import plugins
from budgetfrontier.settings.names import per_uri
from budgetfrontier.tools import cli
from tests.fuzz.target import Target
from tests.fuzz.urls import SHARED_MEMORY, near_plain
from tests.support import START, make_settings, pages

SETTINGS = make_settings(hold_queues=False, overrides=[{"match": "queue:b.test", "set": {"precedence": 1}}])
PARSER = functools.cache(cli.build_parser)
LOOKS = (
    *([what, "--format", form] for what in ("report", "audit") for form in ("text", "json", "csv")),
    ["report", "--format", "html"],
    ["dead-letters", "--format", "json"],
    ["removed", "--format", "json"],
)

# -- commands, more or less

names = st.sampled_from(("a.test", "b.test", "c.test", "*", "?.test", "", "no.test"))
numbers = st.integers(-3, 5) | st.sampled_from((2**31, 2**63 - 1, -(2**63), 2**64 - 1)) | st.floats()
scalars = st.none() | st.booleans() | numbers | names | st.text(max_size=5) | st.binary(max_size=5)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | numbers, inner, max_size=3),
)
matches = st.sampled_from(
    ("*", "domain:test", "queue:b.test", "queue:[", "host:*", "regex:(", "regex:/1$", "surt:(test,")
)
uris = st.fixed_dictionaries(
    {"url": near_plain},
    optional={
        "directive": st.sampled_from((0, 3, 7, "HIGH", "high")),
        "priority": numbers,
        "cost": st.none() | numbers,
        "not_before": numbers,
        "queue": names,
        "meta": anything,
        "body": st.binary(max_size=3),
        "force": st.booleans(),
        "host": names,
    },
)
VALUES = ("3s", "lifo", "uri", "wag", "no.such_module:policy", {"additive": {"rules": [{"when": "depth", "add": 1}]}})
ARGUMENTS: dict[str, st.SearchStrategy[Any]] = {
    "queue": names,
    "pattern": st.none() | st.sampled_from(("test", "(", "/1$", "[")),
    "states": st.none() | st.lists(st.sampled_from(("READY", "RETIRED", "BUSY")) | anything, max_size=2),
    "until": numbers | st.just(START + 5),
    "interval": numbers,
    "ids": st.none() | st.lists(numbers, max_size=3),
    "match": matches,
    "set": st.dictionaries(
        st.sampled_from(sorted(per_uri())), anything | st.sampled_from(("3s", "lifo", "uri", "wag"))
    ),
    "dry_run": st.booleans(),
    "reason": st.text(max_size=5),
    "uris": st.lists(near_plain | uris, max_size=3),
    "reasons": st.lists(st.text(max_size=5) | scalars, max_size=3),
    "id": st.integers(0, 8) | numbers,
    "force": st.booleans(),
    "for_good": st.booleans(),
}
arguments = st.fixed_dictionaries(
    {}, optional={name: st.one_of(strategy, strategy, anything) for name, strategy in ARGUMENTS.items()}
)
words = st.text(max_size=5)
TAKES = {
    "adjust": ("match", "set"),
    "withdraw": ("id",),
    "undo": ("id", "force"),
    "discard": ("id",),
    "delete": ("queue", "pattern", "for_good"),
    "forget": ("match", "pattern", "uris"),
    "schedule": ("uris",),
    "mark_seen": ("uris",),
    "bury": ("uris", "reasons"),
    "replay": ("ids",),
    "drop": ("ids", "for_good"),
    "snooze": ("match", "states", "until"),
    "set_queue": ("queue", "interval"),
    "wake": ("match", "states"),
    **dict.fromkeys(("retire", "unretire"), ("queue",)),
    **dict.fromkeys(("pause", "resume", "terminate"), ()),
}
assert TAKES.keys() == OPERATIONS.keys() | STEPWISE.keys()
operations = st.sampled_from((*TAKES, "delete", "delete", "drop", "unknown", ""))
SENSIBLE: dict[str, st.SearchStrategy[Any]] = {
    "queue": st.sampled_from(("a.test", "b.test", "c.test")),
    "pattern": st.sampled_from((None, None, "/1$")),
    "states": st.sampled_from((None, ["INACTIVE", "RETIRED"])),
    "until": st.just(START + 5),
    "interval": st.sampled_from((0, 5)),
    "ids": st.none(),
    "match": st.sampled_from(("*", "queue:b.test")),
    "set": st.fixed_dictionaries({"queue_total_budget": st.integers(-1, 3)}),
    "uris": st.just(["http://a.test/9"]),
    "reasons": st.just(["gone"]),
    "id": st.integers(1, 4),
    "force": st.booleans(),
    "for_good": st.sampled_from((False, False, True)),
}


def _of(op: str, given: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """A command with the arguments that it takes."""
    return st.tuples(
        st.just(op), st.fixed_dictionaries({name: given[name] for name in TAKES.get(op, ())}), words, words
    )


applied = operations.flatmap(lambda op: _of(op, SENSIBLE))
fitting = operations.flatmap(lambda op: _of(op, ARGUMENTS))
odd = st.tuples(operations, arguments, words, words) | st.tuples(anything, anything, anything, anything)
commands = st.one_of(applied, applied, applied, fitting, odd)


def _encoded(value: Any) -> bytes:
    try:
        return msgspec.msgpack.encode(value)
    except (TypeError, ValueError, OverflowError):  # a number that msgpack has no room for
        return b""


post = st.one_of(*[commands.map(_encoded)] * 6, anything.map(_encoded), st.binary(max_size=40))


@st.composite
def _posts(draw: st.DrawFn) -> list[bytes]:
    """Values, of which some are undone, undone again, or discarded: whatever is posted has the next audit entry."""
    values: list[bytes] = []
    while len(values) < 8 and draw(st.integers(0, 7)):
        values.append(draw(post))
        while len(values) < 8 and draw(st.booleans()):
            op = draw(st.sampled_from(("undo", "undo", "discard")))
            force = {"force": draw(st.booleans())} if op == "undo" else {}
            values.append(_encoded((op, {"id": len(values) - draw(st.sampled_from((0, 0, 0, 1)))} | force, "", "")))
    return values


posts = _posts()


def check_mailbox(values: list[bytes]) -> None:
    """Every value that is posted is answered in the audit, once, and the frontier works as before.

    `pause` and `terminate` may overtake a command that takes steps.
    """
    job = Path(tempfile.mkdtemp(dir=SHARED_MEMORY, prefix="fuzz-"))
    try:
        with (
            mock.patch.object(plugins, "_load", side_effect=PolicyError("nothing is imported here")),
            mock.patch.object(cli, "build_parser", PARSER),
        ):
            _check_mailbox(job, values)
    finally:
        shutil.rmtree(job)


def _check_mailbox(job: Path, values: list[bytes]) -> None:
    clock = ManualClock(START)
    with Frontier.open(job / "frontier", SETTINGS, clock=clock) as frontier:
        frontier.schedule_many(pages("ABC", 3))
        for lease in frontier.lease(2):
            frontier.finish(lease, Outcome.DEAD)
        box = Mailbox(job / "frontier")
        with (
            mock.patch.object(mailbox, "checked", lambda value: value),
            mock.patch.object(mailbox, "encode", lambda v: v),
        ):
            posted = [box.post(value) for value in values]  # type: ignore[arg-type]
        frontier.lease(1)
        for _ in range(4 * len(posted)):  # an undo takes steps
            frontier.commit()
        assert sorted(entry.number for entry in frontier.audit()) == posted
        frontier.check()
        _whole(job)
        _work(frontier)
        clock.advance(1000)
        _work(frontier)
    with Frontier.open(job / "frontier", clock=clock) as frontier:
        assert sorted(entry.number for entry in frontier.audit()) == posted
        _work(frontier)
        for look in LOOKS:
            with contextlib.redirect_stdout(io.StringIO()):
                assert cli.main([look[0], str(job), *look[1:]]) == 0


def _whole(job: Path) -> None:
    """What can still be undone is there, and nothing else."""
    with Reader(job / "frontier") as reader:
        reader.check()


def _work(frontier: Frontier) -> None:
    """What a crawler does next."""
    frontier.schedule_many([*pages("AD", 2, first=5), "http://e.test/?"])
    for lease in frontier.lease(3):
        frontier.finish(lease, Outcome.RETRY, discovered=[f"{lease.uri.url}/x"])
    frontier.next_ready_in()
    frontier.check()


def read_posts(raw: bytes) -> list[bytes]:
    """A length in two bytes before each value."""
    values = []
    while len(raw) > 2:
        length = int.from_bytes(raw[:2], "big")
        values.append(raw[2 : 2 + length])
        raw = raw[2 + length :]
    return values


mail = Target(check_mailbox, posts, read_posts)
