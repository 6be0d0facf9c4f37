"""The settings of a frontier that is opened: those given replace the stored ones; if none are given, those stay."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.errors import PolicyError
from budgetfrontier.settings import Settings
from budgetfrontier.settings.differences import changes, moved_queues
from budgetfrontier.settings.schema import FrontierSettings
from budgetfrontier.storage import keys, meta
from budgetfrontier.storage.records import AuditEntry

MOST_ASSIGNMENTS = 8
"""Former queue assignments that are kept."""
OF_QUEUES = ("frontier", "overrides", "sheets", "associations", "groups")
"""The settings that queues and URIs depend on."""


class SettingsAtOpen:
    """Chooses the settings that an opened frontier uses, and replaces the stored ones."""

    def __init__(self, kernel: Kernel, given: Settings | None) -> None:
        env = kernel.tables.env
        self._kernel = kernel
        self.stored, self._adjustments = meta.read_settings(env.txn, env.db[keys.META])
        self.settings = deepcopy(given) or self.stored or Settings()
        """The settings given, else those stored, else the defaults."""

    def put_in_force(self) -> None:
        """Put the stored settings in force for the steps that come before the change."""
        tables = self._kernel.tables
        tables.former_assignments = meta.read_assignments(tables.env.txn, tables.env.db[keys.META])
        try:
            tables.put_in_force(self.stored or self.settings, self._adjustments)
        except PolicyError:  # a stored policy cannot be imported any more; the settings given may name another
            tables.put_in_force(self.settings, self._adjustments)

    def _note_assignment(self) -> None:
        """Keep the queue assignment that is replaced: hosts wait as long as the queues that they had by it."""
        tables, stored = self._kernel.tables, self.stored
        if stored is None or not self._kernel.counters.queues:
            return
        former = _other_assignments(tables.former_assignments, stored.frontier, self.settings.frontier)
        if former != tables.former_assignments:
            tables.former_assignments = former
            meta.write_assignments(tables.env.txn, tables.env.db[keys.META], former)

    def replace(self, now: float) -> None:
        """Replace the stored settings; adjustments stay on top, and only a difference counts as a change.

        Another bandwidth of the crawl begins with a clock of its own.
        """
        kernel, stored, settings = self._kernel, self.stored, self.settings
        self._note_assignment()
        if stored is not None and stored.frontier.max_bandwidth != settings.frontier.max_bandwidth:
            kernel.counters.busy_until = 0
        if stored is not None and _runs_queues_otherwise(stored, settings):
            kernel.rollout.change_settings(settings, self._adjustments, now)
        else:
            kernel.tables.put_in_force(settings, self._adjustments)
        if settings != stored or _places(settings) != _places(stored):
            env = kernel.tables.env
            meta.write_settings(env.txn, env.db[keys.META], settings, self._adjustments)
            if stored is not None and settings != stored:
                kernel.tables.audit.record(_audit_entry(stored, settings, now))


def _other_assignments(former: list[Any], stored: FrontierSettings, settings: FrontierSettings) -> list[Any]:
    """Return the newest queue assignments that were in force before that of `settings`, the last one last."""
    before, after = stored.queue_assignment_policy, settings.queue_assignment_policy
    others = [one for one in former if one not in (before, after)]
    return [*others, *([] if before == after else [before])][-MOST_ASSIGNMENTS:]


def _places(settings: Settings) -> list[str]:
    """Return where the overrides are written, which is stored, although it is no difference of settings."""
    return [override.at for override in settings.overrides]


def _runs_queues_otherwise(stored: Settings, settings: Settings) -> bool:
    """Return whether settings differ in the frontier's own part, in the overrides, the sheets or the groups."""
    return any(getattr(stored, name) != getattr(settings, name) for name in OF_QUEUES)


def _audit_entry(stored: Settings, settings: Settings, now: float) -> AuditEntry:
    changed = list(changes(stored, settings))
    effect = {
        "before": {change.name: change.before for change in changed},
        "after": {change.name: change.after for change in changed},
    }
    reason = "; ".join(filter(None, ["opened with other settings", moved_queues(stored.frontier, settings.frontier)]))
    return AuditEntry(0, "settings", {}, "open", now, reason, effect)
