"""Opening a frontier: creating it, or finding it as it was at its last commit, leases and clock included."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from budgetfrontier import plugins
from budgetfrontier.engine.admission.admit import Admitter
from budgetfrontier.engine.commands.runner import Runner
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.errors import PolicyError, SettingsError
from budgetfrontier.model import Lease, QueueRecord
from budgetfrontier.rules import wake_times
from budgetfrontier.settings import Settings, policy_factory
from budgetfrontier.settings.differences import changes
from budgetfrontier.store import keys, meta
from budgetfrontier.store.environment import Environment
from budgetfrontier.store.lmdb_env import is_damage, translate_error
from budgetfrontier.store.records import AuditEntry, DeadRow, restore_lease

_AHEAD = 1.0  # seconds: clocks are corrected by less all the time


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
    """URIs that were given up on, for their process died once too often."""
    hooks: list[object]
    """Those that the settings name."""


def open_parts(path: Path | None, settings: Settings | None, *, now: float, keep_leases: bool) -> Parts:
    """Open or create the environment at `path` (None: in memory) and bring it up to `now`; the first commit is made."""
    hooks = None if settings is None else load_hooks(settings.hooks)  # bad ones must not be stored
    env = Environment(path)
    try:
        db = env.db[keys.META]
        kernel = Kernel(env, meta.read_counters(env.txn, db))
        kernel.tables.leases.start(kernel.counters)
        stored, adjustments = meta.read_settings(env.txn, db)
        in_force = settings or stored or Settings()
        hooks = load_hooks(in_force.hooks) if hooks is None else hooks
        try:
            kernel.tables.put_in_force(stored or in_force, adjustments)
        except PolicyError:  # one that is stored cannot be imported any more: whoever brings another may go on
            kernel.tables.put_in_force(in_force, adjustments)
        buried: list[tuple[int, DeadRow]] = []
        kernel.tables.dead_letters.on_add = lambda ordinal, row: buried.append((ordinal, row))
        _take_leases(kernel, now, keep_leases=keep_leases)
        _follow_clock(kernel, now)
        if stored is not None and _differ(stored, in_force):
            kernel.rollout.change_settings(in_force, adjustments, now)
        else:
            kernel.tables.put_in_force(in_force, adjustments)
        if in_force != stored:
            meta.write_settings(env.txn, db, in_force, adjustments)
            if stored is not None:
                _audit_change(kernel, stored, in_force, now)
        admitter = Admitter(kernel.tables, kernel.turns, _suffix_list(env, in_force))
        _check_canonicalizer(env, admitter.canonicalizer_id, stored, in_force)
        _clip_wake_times(kernel, now)
        kernel.tables.dead_letters.on_add = None
        commands = Runner(kernel, admitter)  # first: while one is in progress, the crawl is not over
        paused = kernel.settle()
        kernel.tables.flush()
        env.commit()
    except BaseException as e:
        env.close()
        if is_damage(e):
            raise translate_error(e, env.path) from e
        raise
    return Parts(kernel, admitter, commands, env.path, now, paused, buried, hooks)


def _differ(stored: Settings, given: Settings) -> bool:
    """Tell whether the settings differ in what queues are run by: the frontier's own, and the overrides."""
    return stored.frontier != given.frontier or stored.overrides != given.overrides


def _audit_change(kernel: Kernel, stored: Settings, given: Settings, now: float) -> None:
    changed = list(changes(stored, given))
    effect = {
        "before": {change.name: change.before for change in changed},
        "after": {change.name: change.after for change in changed},
    }
    kernel.tables.audit.record(AuditEntry(0, "settings", {}, "open", now, "opened with other settings", effect))


def _take_leases(kernel: Kernel, now: float, *, keep_leases: bool) -> None:
    """Keep the leases of an earlier run, or drop them: their queues to the ring's front, in lease order."""
    tables, attempts = kernel.tables, kernel.attempts
    leases = [
        restore_lease(lease_id, row, tables.queues.look(row.queue).queue, tables.pending.value(row.key))
        for lease_id, row in tables.leases.stored()
    ]
    landed = Counter(lease.queue_id for lease in leases if lease.landed)
    for lease, queue in zip(leases, _queues_of(kernel, leases), strict=True):
        tables.leases.keep(lease)
        queue.landed = landed[queue.id]  # an older version did not count them
    if not keep_leases:
        for lease, _ in zip(leases, _queues_of(kernel, leases), strict=True):
            attempts.count_delivery(lease, now)
        leases.reverse()
        for lease, _ in zip(leases, _queues_of(kernel, leases), strict=True):
            attempts.release(lease, now, front=True)


def _queues_of(kernel: Kernel, leases: list[Lease]) -> Iterator[QueueRecord]:
    return kernel.tables.queues.each(lease.queue_id for lease in leases)


def _follow_clock(kernel: Kernel, now: float) -> None:
    """Give leases and retries the time that they had left at the last commit, if the clock was ahead then."""
    ahead, kernel.counters.time = kernel.counters.time - now, now
    if ahead >= _AHEAD:
        for lease in kernel.tables.leases.out.values():
            kernel.tables.leases.renewed(lease, lease.expires - ahead)
        kernel.tables.future.bring_forward(ahead)


def _suffix_list(env: Environment, settings: Settings) -> str | None:
    """Return the public suffix list that this frontier was begun with, if its queue assignment needs one."""
    db = env.db[keys.META]
    text = meta.read_suffixes(env.txn, db)
    if text is None:
        text = policy_factory.suffix_list(settings.frontier)
        if text is not None:
            meta.write_suffixes(env.txn, db, text)
    return text


def _check_canonicalizer(env: Environment, canonicalizer: str, before: Settings | None, given: Settings) -> None:
    db = env.db[keys.META]
    stored = env.txn.get(b"canonicalizer", db=db)
    if stored is None:
        env.txn.put(b"canonicalizer", canonicalizer.encode(), db=db)
    elif stored != canonicalizer.encode():
        raise SettingsError(
            f"{env.path} remembers URIs in the canonical form {stored.decode(errors='replace')!r}, and these settings "
            f"ask for {canonicalizer!r}: keep `canonicalization` as it was{_as_it_was(before, given)}, or begin a new "
            "frontier"
        )


def _as_it_was(before: Settings | None, given: Settings) -> str:
    """Return the settings to go back to, in parentheses, as one would write them."""
    differ = changes(before, given) if before else ()
    was = [f"{c.name}: {json.dumps(c.before)}" for c in differ if c.name.startswith("frontier.canonicalization")]
    return f" ({', '.join(was)})" if was else ""


def _clip_wake_times(kernel: Kernel, now: float) -> None:
    """Clip wake times further ahead than any delay: they come from a clock that was wrong. Blocks stay."""
    latest = now + kernel.tables.longest_delay
    cursor = kernel.tables.env.txn.cursor(kernel.tables.env.db[keys.SNOOZED])
    if not cursor.set_range(keys.timed.pack(latest, 0)):
        return
    ahead = [keys.timed.unpack(key)[1] for key in cursor.iternext(keys=True, values=False)]
    for queue in kernel.tables.queues.each(ahead):
        wake_time = wake_times.clipped_wake_time(queue, latest)
        if wake_time != queue.wake_time:
            kernel.tables.rotation.set_wake(queue, wake_time)


def load_hooks(names: Sequence[str]) -> list[object]:
    """Return the hooks that settings name as `module:name`; classes are instantiated. Raises SettingsError."""
    try:
        return [plugins.make(name) for name in names]
    except SettingsError as error:
        raise SettingsError(f"hooks: {error}") from error.__cause__
