"""The past of a URL that is seen and not pending, in words: fetched, failed, forbidden, or not known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from budgetfrontier.core.model import Outcome
from budgetfrontier.core.vocabulary import BAD_PORT
from budgetfrontier.reports.format import counted
from budgetfrontier.reports.log_tables import FORBIDDEN, OUT_OF_SCOPE, REFUSED, meaning
from budgetfrontier.rules.attempts import attempts_told
from budgetfrontier.rules.uri_outcomes import may_pass, outcome_of_answer

if TYPE_CHECKING:
    from budgetfrontier.settings.overrides import QueueSettings

MOST_ATTEMPTS = 100
UNLESS_ALLOWED = (
    "unless `fetch.allow_private` is true in the YAML, or its host is localhost or an IP address and a seed in the "
    "YAML names it with its port"
)
"""The settings that allow fetching a URL although its host has a private address."""


class Attempt(NamedTuple):
    """A line of crawl.log; "" for missing values."""

    time: str
    status: int
    size: int
    mime: str
    via: str
    notes: str


class Past(NamedTuple):
    """The lines on a URL in the logs of a crawl: its last attempts, how many there were, and its last line of pages."""

    attempts: list[Attempt]
    total: int
    page: Mapping[str, Any] | None
    log: str
    begins: str = ""
    """The time of the first line of the log, if it does not name the URL; "" if it has no line."""
    rebuilt: bool = False
    """Whether the log was found to be truncated or replaced since the last search."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        attempts = [attempt._asdict() for attempt in self.attempts]
        return {"attempts": attempts, "total": self.total, "page": self.page, "log": self.log}


PastOf = Callable[[str], Past | None]
"""A function that returns the past of a URL; None if there is no log."""


class UrlPast(NamedTuple):
    """The past of a URL for people: a stable code, and a sentence."""

    code: str
    text: str
    again: bool = True
    """Whether another attempt may end otherwise, as things are."""


_DENIED = "it was disregarded because a quota was used up when its turn came, which no log tells, "
_ELSEWHERE = (
    "it was deleted by an operator or its dead letter was dropped (`audit` lists both), it was imported as seen, "
    "another URL of the same canonical form was crawled instead, or it waits under a queue key that was forced on it"
)


def tell(past: Past | None, settings: QueueSettings, *, searched: bool = True, denials: bool = False) -> UrlPast:
    """Return the fate of a URL that is seen and not pending; `past` is None if there is no log, or no search.

    `settings` are those in force for the URL, with its retries; `denials`: quotas have denied some URIs of the crawl.
    """
    elsewhere = f"{_DENIED}{_ELSEWHERE}" if denials else _ELSEWHERE
    if not searched:
        text = "It is seen and not pending: it succeeded, failed or was disregarded, as `explain` tells from the log"
        return UrlPast("done", f"{text}, or {elsewhere}.")
    if past is None:
        return UrlPast(
            "done",
            "It is seen and not pending: it succeeded, failed or was disregarded (unknown: there is no crawl.log here; "
            "a log that was moved would tell, or that of the program that fetches, for `crawl --frontier` that in the "
            f"folder of its own job: --log FILE names it), or {elsewhere}.",
        )
    if not past.attempts:
        since = f", which begins at {past.begins}," if past.begins else ", which is empty,"
        before = "before that" if past.begins else "before"
        moved = f"it was crawled {before}, and a log that was moved tells (--log FILE), or "
        return UrlPast(
            "done", f"It is seen and not pending, and {past.log}{since} does not name it: {moved}{elsewhere}."
        )
    last = past.attempts[-1]
    fate = _fate_of(last, past, settings)
    if f"({REFUSED})" in last.notes:  # its robots.txt was refused
        until = f" It would be again, {UNLESS_ALLOWED}: the host has a private address."
        fate = fate._replace(text=fate.text + until, again=False)
    tries = f" Attempts in the log: {past.total:,}." if past.total > 1 else ""
    via = f" Found on {last.via}." if last.via else ""
    return fate._replace(text=fate.text + tries + via)


def _tries(notes: str) -> tuple[int, str]:
    """Return which attempt a line is on, which Heritrix's annotation `3t` says from the second one on; other notes."""
    tries, others = 1, []
    for note in notes.split(","):
        if note[-1:] == "t" and note[:-1].isdecimal():
            tries = int(note[:-1])
        else:
            others.append(note)
    return tries, ",".join(others).replace("_", " ")  # as crawl.log has the spaces of a reason


def _fate_of(last: Attempt, past: Past, settings: QueueSettings) -> UrlPast:
    what = meaning(last.status)
    status = f"{last.status} {what}".strip() if last.status > 0 else f"{what or 'failed'} ({last.status})"
    attempt, others = _tries(last.notes)
    notes = f"; {others}" if others else ""
    if last.status == FORBIDDEN:
        forbidden = f"It was disregarded at {last.time}: robots.txt forbids it ({last.status})."
        until = "It would be again, until the site changes its robots.txt or `fetch.robots` is `ignore` in the YAML."
        return UrlPast("robots", f"{forbidden} {until}", again=False)
    if last.status == REFUSED:
        why, until = "its host has a private address", UNLESS_ALLOWED
        if BAD_PORT in others:
            why, until = "browsers refuse to open its port", "unless a seed in the YAML names its host with this port"
        refused = f"It was refused at {last.time}: {why} ({last.status})."
        return UrlPast("failed", f"{refused} It would be again, {until}.", again=False)
    if last.status == OUT_OF_SCOPE:
        return UrlPast("was-out-of-scope", f"It was disregarded at {last.time}: it was out of scope ({last.status}).")
    outcome = outcome_of_answer(last.status, attempt, settings)
    if outcome is Outcome.RETRY:
        return UrlPast(
            "gave-up",
            f"Its last attempt was at {last.time}: {status}{notes}. It is not pending in its queue any more, "
            "nor a dead letter: it failed for good, or was deleted, or its dead letter was dropped (`audit` lists "
            "both), or it waits under a queue key that was forced on it.",
        )
    if outcome is Outcome.FAILURE:
        answered = "it was answered " if last.status > 0 else ""
        tries = ""
        if may_pass(last.status, settings.retry_statuses):
            tries = f", {attempts_told(attempt, settings, 0.0, status=last.status)}"
        return UrlPast("failed", f"It failed at {last.time}: {answered}{status}{notes}{tries}. It was given up.")
    size = counted(last.size, "byte")
    to = (past.page or {}).get("location")
    redirected = f" to {to}" if to else ""
    return UrlPast(
        "fetched", f"It was fetched at {last.time}: {status}{redirected}, {last.mime or 'no media type'}, {size}."
    )
