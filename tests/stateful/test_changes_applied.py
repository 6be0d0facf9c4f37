"""The stateful test on the frontier of a partition: a copy that is given its changes has the same tables at each step.

What the owner does is compared with the model as ever. Whenever it ends, another owner goes on with the copy.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from budgetfrontier import Frontier, Settings
from budgetfrontier.core import patterns, uris
from budgetfrontier.engine.changelog import Changelog
from budgetfrontier.settings import policy_factory
from budgetfrontier.storage import keys, meta, table_changes
from budgetfrontier.storage.encoding import encode, with_checksum
from budgetfrontier.storage.environment import Environment
from tests.examples import few
from tests.stateful.model import OPTIONS
from tests.stateful.model_settings import GROUPS
from tests.stateful.test_machine import SEED, FrontierMachine, begun, small_steps, values
from tests.support import kernel

__all__ = ["small_steps"]  # this fixture is for these tests, too
PARTITION = 5
NEVER_ASKED = {
    uris.__name__: ("parse", "fingerprint", "host"),
    policy_factory.__name__: ("canonicalization", "preloaded_file", "canonicalizer_id"),
    patterns.__name__: ("Pattern",),
    "time": ("time", "monotonic"),
    "random": ("random", "Random"),
    "re": ("compile", "search", "match"),
}
"""URLs, policies, patterns, clocks and chance: nothing that is applied may depend on them."""


def tables(env: Environment) -> dict[str, list[tuple[bytes, bytes]]]:
    """All rows of all tables."""
    return {name: list(env.txn.cursor(env.db[name]).iternext()) for name in keys.TABLES}


def refusal(name: str) -> Callable[..., NoReturn]:
    """Return what stands in for a name that is never asked. A mock would take as long as the changes."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError(f"{name} was asked")

    return refuse


REFUSALS = {f"{module}.{name}": refusal(name) for module, names in NEVER_ASKED.items() for name in names}


def apply(copy: Environment, changes: bytes) -> None:
    """Apply changes where everything that could decide anything raises."""
    with ExitStack() as stack:
        for place, refuse in REFUSALS.items():
            stack.enter_context(patch(place, refuse))
        table_changes.apply(copy, changes)


class OwnerMachine(FrontierMachine):
    """The operations of the stateful test, by the owners of a partition, one after the other."""

    log: Changelog
    copy: Environment

    def open(self, settings: Settings | None, *, keep_leases: bool = True) -> Frontier:
        self.owners = getattr(self, "owners", -1) + 1
        folder, copy = (Path(self.folder) / str(self.owners + more) for more in (0, 1))
        if folder.exists():
            shutil.copytree(folder, copy)
        frontier = Frontier.open(
            folder, settings, clock=self.clock, hooks=[self], keep_leases=keep_leases, partition=PARTITION
        )
        self.log, self.copy, self.sent = frontier.internals.changelog, Environment(copy), list[bytes]()
        self.log.write(meta.PLACE, with_checksum(encode([self.owners])))
        self.log.peers.hear(1, (self.owners, 2))
        return frontier

    def send(self) -> None:
        """Give the copy what the owner has done, now and then all of it once more; often both commit."""
        changes = self.log.take()
        if changes is not None:
            self.sent.append(changes)
            for sent in self.sent if len(self.sent) % 5 == 3 else [changes]:
                apply(self.copy, sent)
            self.model.commit()
        assert not self.log.has_changes
        assert tables(kernel(self.frontier).tables.env) == tables(self.copy)
        if len(self.sent) % 3 == 1 or self.finishes < self.model.counts["finishes"]:  # hooks come with the commit
            self.log.commit()
            self.copy.commit()

    @invariant()
    def agree(self) -> None:
        self.send()
        FrontierMachine.agree(self)

    @rule(
        changed=st.one_of(
            st.none(),
            values,
            st.sampled_from(((), *GROUPS)).map(lambda groups: {"groups": groups}),
        )
    )
    def hand_over(self, changed: dict[str, Any] | None) -> None:
        """Let another owner go on with the copy; what the former one did at last was in vain."""
        self.send()
        self.frontier.lease(2)
        self.log.drop("another owner has it")
        self.copy.commit()
        self.copy.close()
        self.model.crash(keep_leases=True)
        self.open_again(changed)

    @rule(data=st.data(), is_new=st.booleans())
    def have_a_wrong_row(self, data: st.DataObject, is_new: bool) -> None:
        """Let a row of the owner alone be another one on its disk, until it is written again: nobody else notices."""
        if is_new:
            self.hand_over(None)
        self.send()
        env = kernel(self.frontier).tables.env
        table = data.draw(st.sampled_from(sorted(table_changes.PATCHED)))
        found = [row for row in tables(env)[table] if row[0] != keys.SENTINEL and row[1]]
        if found:
            key, value = data.draw(st.sampled_from(found))
            wrong = bytearray(value)
            wrong[data.draw(st.integers(0, len(value) - 1))] ^= 1 << data.draw(st.integers(0, 7))
            txn: Any = env.txn
            txn._txn.put(key, bytes(wrong), db=env.db[table])
            env.txn.put(key, value, db=env.db[table])

    def teardown(self) -> None:
        if hasattr(self, "copy"):
            self.copy.close()
        super().teardown()

    # What a partition has not: commits of its own, a mailbox, and a look at its disk.
    commit = atomic_batch = delete_through_the_mailbox = fill_disk = None  # type: ignore[assignment]
    close_and_reopen = crash_and_reopen = None  # type: ignore[assignment]


def test_the_hooks_of_what_an_opening_has_ended_are_called_with_its_commit() -> None:
    """The former owner's commit had none of it: each owner tells of it once, as any frontier that is opened."""
    machine = OwnerMachine()
    with begun(OPTIONS | {"pause_at_finish": True, "precedence_floor": 4}, 0, 1, machine):
        machine.hand_over(None)
        machine.schedule(SEED | {"url": "https://a.test/0"})
        machine.agree()
        machine.hand_over({"precedence": 5})
        machine.agree()
        assert machine.finishes == 1


TestOwnerMachine = OwnerMachine.TestCase
TestOwnerMachine.settings = few(50)
