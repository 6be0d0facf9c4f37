"""The opening of a frontier: created, or as of its last commit, with leases and wake times brought up to date."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from budgetfrontier.engine import fixed_at_creation, native
from budgetfrontier.engine.admission.admit import Admitter
from budgetfrontier.engine.commands.mailbox import Mailbox
from budgetfrontier.engine.commands.runner import Runner
from budgetfrontier.engine.hooks import load_hooks
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.engine.lost_frontiers import close_files
from budgetfrontier.engine.priority_updates import PriorityUpdates
from budgetfrontier.engine.settings_at_open import SettingsAtOpen
from budgetfrontier.errors import FrontierError, check_extra
from budgetfrontier.rules import backoff, bandwidth, wake_times
from budgetfrontier.settings import Settings, policy_factory, sheets
from budgetfrontier.settings.grouping import wants_star
from budgetfrontier.storage import keys, meta, series
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.lmdb_env import is_damage, translate_error
from budgetfrontier.storage.records import AuditEntry, DeadRow, restore_lease
from budgetfrontier.storage.table_changes import Recorder

_AHEAD = 1.0  # seconds: smaller corrections of the clock are normal


class Parts(NamedTuple):
    """The parts of an open frontier, before `Frontier` wraps them."""

    kernel: Kernel
    admitter: Admitter
    commands: Runner
    path: Path
    now: float
    paused: bool
    """Whether opening has left the crawl empty, so that it has paused at its finish."""
    buried: list[tuple[int, DeadRow]]
    """New dead letters: URIs that were out once too often when their process died."""
    hooks: list[object]
    """The hooks that the settings name."""
    mailbox: Mailbox | None
    """Commands of other processes; None for a frontier in memory, and for that of a partition, which has a log."""
    recorder: Recorder | None
    """The notes of changes for the log of a partition; None: there is no log."""

    def close(self) -> None:
        """Close the files; what was not committed is dropped."""
        close_files(self.kernel.tables.env, self.mailbox)


def open_parts(
    path: Path | None,
    settings: Settings | None,
    *,
    now: float,
    keep_leases: bool,
    program: str,
    partition: int | None = None,
    suffix_list: str | None = None,
    scratch: bool = False,
) -> Parts:
    """Open or create the environment at `path` (None: in memory) and bring it up to `now`; the first commit is made.

    That of a `partition` is not made: it has to be in its log first. `scratch`: it is a copy that is thrown away
    afterwards, so that nothing is synced, the hooks of its settings are not loaded, and that of a partition may be
    changed without its log.
    """
    hooks: list[object] | None = [] if scratch else None
    if settings is not None and not scratch:
        hooks = load_hooks(settings.hooks)  # bad ones must not be stored
    recorder = None if partition is None else Recorder()
    mailbox: Mailbox | None = None
    env = Environment(path, sync=not scratch, wrap=None if recorder is None else recorder.wrap)
    try:
        if not scratch:
            _check_place(env, in_partition=partition is not None)
        unstored = series.unstored(env.view())
        kernel = Kernel(env, meta.read_counters(env.txn, env.db[keys.META]))
        kernel.tables.leases.start(kernel.counters, partition)
        epoch, last = kernel.counters.epoch, kernel.counters.time
        kernel.tables.runs.begin(program, now, epoch, last_commit=last, elsewhere=partition is not None)
        opened = SettingsAtOpen(kernel, settings)
        hooks = load_hooks(opened.settings.hooks) if hooks is None else hooks
        fixed_at_creation.check_kept_urls(env, kernel.counters, opened.stored, opened.settings)
        fixed_at_creation.check_duplicates(env, opened.stored, opened.settings)
        kernel.tables.open_filter(opened.settings.frontier)
        if wants_star(opened.settings.groups):
            check_extra("star", "hyperloglog", "numpy")
        opened.put_in_force()
        if opened.settings.frontier.keep_urls:
            kernel.tables.keep_urls(lambda: now)
        buried: list[tuple[int, DeadRow]] = []
        kernel.tables.dead_letters.on_add = lambda ordinal, row: buried.append((ordinal, row))
        _take_leases(kernel, now, keep_leases=keep_leases)
        _follow_clock(kernel, now)
        opened.replace(now)
        suffixes = fixed_at_creation.suffix_list(env, opened.settings, suffix_list)
        kernel.tables.use_suffix_list(suffixes)
        admitter = Admitter(kernel.tables, kernel.turns, suffixes)
        fixed_at_creation.check_canonicalizer(env, admitter.canonicalizer_id, opened.stored, opened.settings)
        files = _preloaded_files(kernel, now)
        _clip_wake_times(kernel, now)
        kernel.tables.dead_letters.on_add = None
        if opened.settings.frontier.update_priority:
            admitter.update_priorities(PriorityUpdates(kernel.tables, kernel.turns.settings, lambda: kernel.underway))
        commands = Runner(kernel, admitter)  # first: while one is in progress, the crawl is not over
        paused = kernel.settle()
        kernel.tables.start_series(now, program, unstored)
        kernel.tables.flush()
        if recorder is None:
            # Before anything is written, for it may be damaged, or another user's; in a new folder after that.
            mailbox = None if env.memory or env.is_new else Mailbox(env.path)
            env.commit()
            mailbox = None if env.memory else mailbox or Mailbox(env.path)
            kernel.tables.runs.begun()
        kernel.tables.preloaded.read(files, commit=env.commit if recorder is None else _nothing)
    except BaseException as e:
        close_files(env, mailbox)
        if is_damage(e):
            raise translate_error(e, env.path) from e
        if (panic := native.panic(e)) is not None:
            raise panic from e
        raise
    return Parts(kernel, admitter, commands, env.path, now, paused, buried, hooks, mailbox, recorder)


def _nothing() -> None:
    """Commit nothing: the log has to have it first."""


def _check_place(env: Environment, *, in_partition: bool) -> None:
    """Raise FrontierError for a copy of a partition that is opened as an ordinary frontier, or the other way round."""
    is_copy = meta.read_row(env.txn, env.db[keys.META], meta.PLACE) is not None
    if is_copy and not in_partition:
        raise FrontierError(f"{env.path} {meta.IS_COPY}")
    if in_partition and not is_copy and env.txn.get(b"settings", db=env.db[keys.META]) is not None:
        raise FrontierError(f"{env.path} {meta.NO_COPY}")


def _preloaded_files(kernel: Kernel, now: float) -> list[str]:
    """Return the files of precedences of URIs that the settings name, after a look at those that are new or changed.

    The audit has an entry for each change of a file.
    """
    tables, in_force = kernel.tables, kernel.tables.in_force
    specs = sheets.uri_precedence_policies(in_force.settings, in_force.adjustments)
    files = policy_factory.preloaded_files(specs)
    given = policy_factory.preloaded_files(sheets.uri_precedence_policies(in_force.settings))
    adjusted = [file for file in files if file not in given]
    for sentence in tables.preloaded.prepare(files, adjusted, in_force.frontier):
        tables.audit.record(AuditEntry(0, "settings", {}, "open", now, sentence, {"before": {}, "after": {}}))
    return files


def _take_leases(kernel: Kernel, now: float, *, keep_leases: bool) -> None:
    tables = kernel.tables
    leases = [
        restore_lease(lease_id, row, tables.queues.look(row.queue).queue, tables.pending.value(row.key))
        for lease_id, row in tables.leases.stored()
    ]
    for lease in leases:
        tables.leases.keep(lease)
        if lease.uri.source:
            tables.note_label()
        tables.pending.taken.add(lease.key)
    if not keep_leases:
        kernel.lease_expiry.drop(leases, now)


def _follow_clock(kernel: Kernel, now: float) -> None:
    """Keep for leases and retries the time that they had left at the last commit, if the clock was ahead then."""
    counters = kernel.counters
    ahead, counters.time = counters.time - now, now
    counters.last_asked, counters.last_renewed = min(counters.last_asked, now), min(counters.last_renewed, now)
    if ahead >= _AHEAD:
        kernel.tables.leases.follow_clock(ahead)
        kernel.tables.future.bring_forward(ahead)


def _clip_wake_times(kernel: Kernel, now: float) -> None:
    """Clip wake times further ahead than any delay, because they come from a wrong clock. Blocks stay."""
    latest = now + kernel.tables.longest_delay
    kernel.turns.groups.follow_clock(now)
    kernel.counters.busy_until = min(kernel.counters.busy_until, now + bandwidth.LONGEST)
    kernel.counters.ranked_at = min(kernel.counters.ranked_at, now)
    kernel.tables.rotation.write_snoozed()
    cursor = kernel.tables.env.txn.cursor(kernel.tables.env.db[keys.SNOOZED])
    if not cursor.set_range(keys.timed.pack(latest, 0)):
        return
    ahead = [keys.timed.unpack(key)[1] for key in cursor.iternext(keys=True, values=False)]
    for queue in kernel.tables.queues.each(ahead):
        backoff.forget_later(queue, now + kernel.tables.longest_backoff)
        wake_time = wake_times.clipped_wake_time(queue, latest)
        if wake_time != queue.wake_time:
            kernel.tables.rotation.set_wake(queue, wake_time)
