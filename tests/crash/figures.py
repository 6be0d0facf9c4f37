"""What a fault did, in numbers: how often it was tried, and how the frontiers came out of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.crash.runs import Outcome


class Unavailable(Exception):
    """This machine cannot do that to a process: the reason why a fault was left out."""


@dataclass
class Figures:
    """One line of the table. `problems` is what must be empty: whatever was lost, hung, crashed or had no name."""

    fault: str
    tried: int = 0
    named: int = 0
    """The process ended with an error that says what to do, or the frontier could not be opened and said so."""
    whole: int = 0
    """The frontier was opened again, and all was as of its last commit."""
    notes: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def count(self, outcome: Outcome) -> None:
        """Count a process that met a fault, and the frontier that it left."""
        self.tried += 1
        self.named += bool(outcome.ended.error or outcome.refused)
        self.whole += not outcome.problem
        if outcome.done:
            self.notes["only when all the work was done"] += 1
        if outcome.problem:
            self.problems.append(f"{self.fault}, number {self.tried}: {outcome.problem}")
