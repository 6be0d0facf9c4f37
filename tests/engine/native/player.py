"""A frontier to which the steps of a history happen, in this process or in one of its own without the kernel."""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple
from unittest import mock

import msgspec
from xxhash import xxh3_128_hexdigest

from budgetfrontier import CrawlUri, Finish, Frontier, Lease, Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine import lease_table, native
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.errors import CorruptFrontier, FrontierError
from budgetfrontier.settings.schema import PolitenessSettings
from budgetfrontier.storage import keys
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.records import decode_run
from budgetfrontier.testing import crash
from tests.support import START, child_process, kernel

# -- policies of one's own


def failing(uri: CrawlUri) -> int:
    """A cost, but for some URIs."""
    if uri.url.endswith("7"):
        raise ValueError("seven")
    return len(uri.url) % 3


def by_path(uri: CrawlUri) -> str:
    """A queue for each last character, which the authority does not determine."""
    return uri.url[-1]


def unhurried(
    settings: PolitenessSettings, *, fetch_seconds: float | None, crawl_delay: float | None, random: Callable[[], float]
) -> float:
    """A rest of a second or two."""
    return 1.0 + (fetch_seconds or crawl_delay or 0.0) % 1


def as_it_is(href: str) -> str:
    """A canonical form."""
    return href


# -- what happens, and what is told of it


class Step(NamedTuple):
    """One step: the name of a method of Player, Frontier or Internals, and its arguments."""

    op: str
    args: tuple[Any, ...] = ()
    options: dict[str, Any] = {}  # noqa: RUF012


class Options(NamedTuple):
    """How the frontier of a history is opened."""

    keep_leases: bool
    tells_finishes: bool
    """Whether hooks are told of each finish: leases are ended one by one then."""


class Told(NamedTuple):
    """What a step has returned or raised, and what the last commit has in each table, as a checksum."""

    result: Any
    commit: int
    tables: dict[str, str]
    broken: str = ""
    """The traceback of an error that no call may raise."""


class Player:
    """A frontier on disk, its clock, and the leases that it has given."""

    def __init__(self) -> None:
        self._clock = ManualClock(START)
        self._out: list[Lease] = []
        self._ended: list[Lease] = []
        self._told: list[Any] = []
        self._tables: tuple[int, dict[str, str]] = 0, {}
        self._folder, self._settings, self._keep_leases = Path(), dict[str, Any](), False

    def do(self, step: Step) -> Told:
        """Do a step. An error that closes the frontier has it opened again."""
        broken = ""
        try:
            result = self._told_of(step)
        except Exception as e:
            result = type(e).__name__, str(e).replace(str(self._folder), "FOLDER")
            if isinstance(e, CorruptFrontier) or not isinstance(e, FrontierError | ValueError):
                broken = traceback.format_exc()
        if self._frontier._guard.closed is not None:
            self._open()
        hooks, self._told = self._told, []
        return Told((result, hooks), *self._committed(), broken)

    def _told_of(self, step: Step) -> Any:
        frontier, name = self._frontier, step.op
        method = getattr(self, name, None) or getattr(frontier, name, None) or getattr(frontier.internals, name)
        found = method(*step.args, **step.options)
        if name in ("lease", "lease_queues"):
            self._out += found
        return msgspec.to_builtins(found, builtin_types=(bytes,), enc_hook=repr)

    # -- the frontier

    def open(self, folder: str, settings: dict[str, Any], options: Options) -> None:
        """Open the frontier in a folder, where another may have worked."""
        self._folder, self._settings, self._keep_leases = Path(folder), settings, options.keep_leases
        if options.tells_finishes:
            self.on_finish = self._on_finish
        self._open()

    def _open(self) -> None:
        if not self._keep_leases:
            self._end(self._out)
        self._frontier = Frontier.open(
            self._folder, self._settings, clock=self._clock, hooks=[self], keep_leases=self._keep_leases, program="play"
        )
        kernel(self._frontier).tables.random.seed(0)
        self._tables = 0, {}

    def close(self) -> None:
        """Close it, so that another opens it."""
        self._frontier.close()

    def reopen(self) -> None:
        """Close it, and open it again."""
        self._frontier.close()
        self._open()

    def crash(self) -> None:
        """Lose what was not committed."""
        crash(self._frontier)
        self._open()

    def advance(self, seconds: float) -> float | None:
        """Let time pass; return when something is ready."""
        self._clock.advance(seconds)
        return self._frontier.next_ready_in()

    def check(self) -> None:
        """Verify every invariant."""
        self._frontier.check()

    def look(self) -> Any:
        """Return all that is told of the frontier."""
        frontier = self._frontier
        queues = [frontier.queue(key) for key in frontier.internals.queue_keys()]
        told = [queues, frontier.summary(), frontier.state, frontier.dead_letters()]
        return [*told, frontier.report().queues, frontier.audit(), frontier.note]

    # -- steps that have leases

    def _lease(self, number: int) -> Lease:
        """Return a lease that is in hand; of those that have ended, if the number is below zero."""
        of = self._out if number >= 0 else self._ended
        if not of:
            raise ValueError("no lease")
        return of[number % len(of)]

    def _end(self, leases: list[Lease]) -> list[Lease]:
        """Have leases no more in hand."""
        self._ended += leases
        self._out = [lease for lease in self._out if lease not in leases]
        return leases

    def finish(self, number: int, outcome: Outcome, options: dict[str, Any]) -> None:
        """End a lease."""
        (lease,) = self._end([self._lease(number)])
        self._frontier.finish(lease, outcome, **options)

    def finish_many(self, given: list[tuple[int, Outcome | None, dict[str, Any]]]) -> list[Lease]:
        """End leases: bare ones, if no outcome is given."""
        leases = self._end([self._lease(number) for number, *_ in given])
        return self._frontier.finish_many(
            [
                lease if outcome is None else Finish(lease, outcome, **options)
                for lease, (_, outcome, options) in zip(leases, given, strict=True)
            ]
        )

    def landed(self, number: int, options: dict[str, Any]) -> None:
        """Report that the download of a lease is over."""
        self._frontier.landed(self._lease(number), **options)

    def renew(self, number: int, ttl: float | None) -> None:
        """Set the deadline of a lease."""
        self._frontier.renew(self._lease(number), ttl)

    def give_back(self, numbers: list[int]) -> list[Lease]:
        """Give leases back."""
        return self._frontier.give_back(self._end([self._lease(number) for number in numbers]))

    def fetched(self, numbers: list[int], urls: list[str], again: float | None) -> list[Any]:
        """Report fetches by URL."""
        given = [*(self._lease(number).uri for number in numbers), *map(CrawlUri, urls)]
        return list(self._frontier.internals.fetched([(uri, again) for uri in given]))

    def atomic(self, note: bytes | None, steps: list[Step], fails: bool) -> list[Any]:
        """Do steps in one transaction, which may fail at its end."""
        with self._frontier.atomic(note=note):
            done = [self._told_of(step) for step in steps]
            if fails:
                raise FrontierError("on purpose")
        return done

    # -- steps that need to be found

    def forget(self, number: int) -> int:
        """Forget one of the URLs that are kept."""
        rows = self._frontier.internals.kept_urls()
        return self._frontier.internals.forget_urls([rows[number % len(rows)].fingerprint] if rows else [])

    def undo(self, back: int, force: bool) -> None:
        """Undo one of the last commands."""
        self._frontier.undo(self._entry(back), force=force)

    def discard(self, back: int) -> None:
        """Discard what one of the last commands has kept."""
        self._frontier.internals.discard(self._entry(back))

    def withdraw(self, back: int) -> None:
        """Withdraw one of the last adjustments."""
        self._frontier.withdraw(self._entry(back))

    def _entry(self, back: int) -> int:
        return max(kernel(self._frontier).counters.audit - back, 1)

    def command(self, op: str, args: dict[str, Any]) -> Any:
        """Apply a command as it comes from outside."""
        return self._frontier.internals.apply(Command(op, args, "somebody", "a reason"))

    # -- hooks

    def _on_finish(self, frontier: Frontier, lease: Lease, outcome: Outcome) -> None:
        self._told.append(("finish", lease.id, outcome))

    def on_activate(self, frontier: Frontier, queue: Any) -> None:
        self._told.append(("activate", queue.queue, queue.balance))

    def on_retire(self, frontier: Frontier, queue: Any) -> None:
        self._told.append(("retire", queue.queue, queue.expenditure))

    def on_deactivate(self, frontier: Frontier, queue: Any) -> None:
        self._told.append(("deactivate", queue.queue, queue.balance))

    def on_dead_letter(self, frontier: Frontier, letter: Any) -> None:
        self._told.append(("dead", letter.uri.url, letter.reason))

    def on_pause_at_finish(self, frontier: Frontier, report: Any) -> None:
        self._told.append(("pause", report.totals.succeeded))

    # -- tables

    def _committed(self) -> tuple[int, dict[str, str]]:
        last = int(kernel(self._frontier).tables.env.env.info()["last_txnid"])
        if last != self._tables[0]:
            self._tables = last, {name: xxh3_128_hexdigest(pickle.dumps(rows)) for name, rows in self.rows().items()}
        return self._tables

    def rows(self) -> dict[str, list[tuple[bytes, bytes]]]:
        """Return what the last commit has in each table; of runs, without process and kernel."""
        env, found = kernel(self._frontier).tables.env, {}
        with env.env.begin() as txn:
            for name in keys.TABLES:
                found[name] = [(bytes(key), bytes(value)) for key, value in txn.cursor(env.db[name])]
        found[keys.RUNS] = [(key, value if key == keys.SENTINEL else _row(value)) for key, value in found[keys.RUNS]]
        return found


def _row(value: bytes) -> bytes:
    return encode(msgspec.structs.replace(decode_run(value), pid=0, kernel=""))


# -- in a process of its own


class Remote:
    """A Player in another process."""

    def __init__(self, to: IO[bytes], answers: IO[bytes]) -> None:
        self._to, self._answers = to, answers

    def __call__(self, name: str, *args: Any) -> Any:
        """Call a method of the player, or `new` for another player."""
        pickle.dump((name, args), self._to)
        self._to.flush()
        return pickle.load(self._answers)


@contextmanager
def without_kernel() -> Iterator[Remote]:
    """Start a process in which Python's engine does everything."""
    command = [sys.executable, "-c", f"from {__name__} import main; main()"]
    with child_process(command, stdin=-1, stdout=-1, env=os.environ | {native.SWITCH: "python"}) as process:
        assert process.stdin is not None and process.stdout is not None
        yield Remote(process.stdin, process.stdout)
        process.stdin.close()
        assert process.wait() == 0


def main() -> None:
    """Do what comes on stdin, and tell it on stdout, until there is nothing more."""
    assert native.kernel is None
    answers, player = os.fdopen(os.dup(1), "wb"), Player()
    os.dup2(2, 1)
    with mock.patch.object(lease_table, "randbits", lambda bits: 0):
        while True:
            try:
                name, args = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            if name == "new":
                player, found = Player(), None
            else:
                found = getattr(player, name)(*args)
            pickle.dump(found, answers)
            answers.flush()
