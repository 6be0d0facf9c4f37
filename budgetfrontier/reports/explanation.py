"""The answer of `explain`: a chain of reasons, an outlook, and the text of both."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from budgetfrontier.core.units import say_duration
from budgetfrontier.reports.format import clean
from budgetfrontier.reports.sources import source_lines

if TYPE_CHECKING:
    from budgetfrontier.core.model import CrawlUri


class Outlook(StrEnum):
    """The outlook for a URL, or for the next URI of a queue: when it would be leased."""

    NOW = "now"  # as soon as a worker asks
    LEASED = "leased"  # a worker has it
    LATER = "later"  # without intervention, in time
    BLOCKED = "blocked"  # only after a command or another action
    NEVER = "never"  # there is nothing to lease


_SEVERITY = list(Outlook)
_BRIEF = 60.0  # seconds


@dataclass(frozen=True, slots=True)
class ReasonStep:
    """One step of the chain of reasons. `code` is stable, for programs; `command` would remove the reason.

    `verdict` is the outlook if this were the only reason, and `when` the time at which it ends, if that is known.
    """

    code: str
    text: str
    command: str | None = None
    verdict: Outlook = Outlook.NOW
    when: float | None = None


class ScopeVerdict(NamedTuple):
    """The decision of a crawl's scope on a URL: whether it is accepted (None: unknown), in words, and by which rule."""

    accepted: bool | None
    text: str
    rule: str | None = None


ScopeOf = Callable[[str, "CrawlUri | None"], ScopeVerdict | None]
"""A function of a URL, and of its record if the frontier has one. It returns None if there is no scope."""


RefusalOf = Callable[[str], str | None]
"""A function of a URL, which returns why the crawl refuses to fetch it, None if it does not."""


@dataclass(slots=True)
class Explanation:
    """The result of `explain`. `when` is the earliest time (epoch seconds), if it is known.

    `scope` has the keys `accepted` (None: unknown) and `rule`, for a URL of a crawl that has a scope; `past` the
    `attempts` in the log, for a seen URL that is not pending.
    """

    target: str
    kind: str
    queue: str | None = None
    verdict: Outlook = Outlook.NOW
    when: float | None = None
    scope: dict[str, Any] | None = None
    past: dict[str, Any] | None = None
    reasons: list[ReasonStep] = field(default_factory=list)
    settings: list[dict[str, Any]] = field(default_factory=list)
    """The settings in force for it, with their sources, as `reports.sources` has them."""

    def add(
        self,
        code: str,
        text: str,
        *,
        verdict: Outlook = Outlook.NOW,
        when: float | None = None,
        command: str | None = None,
    ) -> None:
        """Add a reason, and keep the worst verdict and the latest time of all reasons."""
        self.reasons.append(ReasonStep(code, clean(text), command, verdict, when))
        self.verdict = max(self.verdict, verdict, key=_SEVERITY.index)
        if when is not None:
            self.when = max(self.when or 0.0, when)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as `explain --format json` prints it."""
        return asdict(self)

    def text(self, *, now: float | None = None) -> str:
        """Return the chain of reasons, numbered, and a last line that says when."""
        now = time.time() if now is None else now
        lines = [clean(self.target)]
        for number, reason in enumerate(self.reasons, 1):
            lines.append(f"  {number}. {reason.text}")
            if reason.command:
                lines.append(f"     $ {reason.command}")
        if of_settings := list(source_lines(self.settings)):
            lines += ["Settings of its own:", *(f"  {clean(line)}" for line in of_settings)]
        return "\n".join((*lines, f"When: {self._when(now)}.", ""))

    def _when(self, now: float) -> str:
        when = {
            Outlook.NOW: "as soon as a worker asks for a URI",
            Outlook.LEASED: "now; again if its lease expires",
            Outlook.LATER: "when its turn comes",
            Outlook.BLOCKED: self._after(),
            Outlook.NEVER: "never, as things stand",
        }[self.verdict]
        until, least = self.when or 0.0, 0.0
        if self.verdict is Outlook.BLOCKED:  # a command may end its reason earlier, and is not given within seconds
            until, least = max((one.when or 0.0 for one in self.reasons if not one.command), default=0.0), _BRIEF
        if self.verdict not in (Outlook.LATER, Outlook.BLOCKED) or until <= now + least:
            return when
        return f"{when}, in {say_duration(until - now)} at the earliest"

    def _after(self) -> str:
        """Return what has to happen first where time alone does not help."""
        blocks = [one.command for one in self.reasons if one.verdict is Outlook.BLOCKED]
        if all(blocks):
            return "after the commands above, or others with the same effect"
        rest = "once the reasons above no longer hold"
        return f"after the commands above, and {rest}" if any(blocks) else rest
