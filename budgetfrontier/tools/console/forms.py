"""The commands that a form may give, read from its fields. Nothing is applied here."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from multidict import MultiMapping

from budgetfrontier.core.spelling import did_you_mean
from budgetfrontier.core.vocabulary import QueueState
from budgetfrontier.errors import SettingsError
from budgetfrontier.reports.operators import LetterId
from budgetfrontier.rules.simulation import DRAWS, MOST_DRAWS, MOST_FETCHES
from budgetfrontier.settings.loader import parse_value
from budgetfrontier.settings.matching import queues_match, with_kind
from budgetfrontier.settings.overrides import validate_override
from budgetfrontier.settings.plugins import is_own
from budgetfrontier.settings.values import DURATION, read_duration
from budgetfrontier.tools.console.named_tokens import Role
from budgetfrontier.tools.console.query import BadRequest, Query
from budgetfrontier.tools.console.steer_process import FINISH, SIMULATE

LONGEST_REASON = 1000
MOST = 1000
"""Queues or dead letters in one command."""

TOKEN = "csrf"
"""The field that every form of a browser has, see `access`."""
APPLY = "apply"
APPLIED = ("step", "dry_run", "seen", "back", "reason")
"""The fields of the form that applies what a dry run has shown; a reason, if the dry run was without one."""
ROW = "row"
"""The field of a button beside a row: the command and its subject, as JSON."""
_ROWS = ([str, str], [str, int], [str, str, int], [str, int, int], [str, str, int, int], [str, int, int, int])
_OF_ALL = ("op", "reason", "back", "step")
_LETTER, _LETTER_OF_PARTITIONS = re.compile("[0-9]{1,19}"), re.compile("[0-9]{1,19}/[0-9]{1,19}")

Form = MultiMapping[str]


class SubmittedCommand(NamedTuple):
    """A command that a form asks for. `given` is what was given for `args` in other words, if there are any."""

    op: str
    args: dict[str, Any]
    reason: str
    given: dict[str, Any] | None = None


def read(form: Form, *, partitions: bool = False) -> SubmittedCommand:
    """Return the command of a form, for a dry run. Raises BadRequest for missing or wrong fields.

    The reason may follow when it is applied. Of a crawl in `partitions`, entries of the audit and dead letters have
    names instead of numbers.
    """
    if ROW in form:
        return _of_row(form, partitions)
    op = _op(form.get("op", ""))
    check_names(form, (*_OF_ALL, *_FIELDS.get(op, ())))
    args = _READ[op](form)
    if op in _OF_ENTRY:
        args["id"] = entry_id(form.get("id", ""), op, partitions=partitions)
    if args.get("ids") is not None:
        args["ids"] = letter_ids(args["ids"], partitions=partitions)
    return without_code(SubmittedCommand(op, args, _reason(form)))


def with_reason(asked: SubmittedCommand, form: Form) -> SubmittedCommand:
    """Return a command that is to be applied with its reason. Raises BadRequest if neither form has one."""
    reason = asked.reason or _reason(form)
    if not reason:
        raise BadRequest("Give a reason: the audit keeps it for whoever asks later.")
    args = asked.args | ({"reason": reason} if asked.op == "pause" else {})
    return SubmittedCommand(asked.op, args, reason)


def _reason(form: Form) -> str:
    reason = form.get("reason", "").strip()
    if len(reason) > LONGEST_REASON:
        raise BadRequest(f"A reason has at most {LONGEST_REASON:,} characters.")
    return reason


def _of_row(form: Form, partitions: bool) -> SubmittedCommand:
    """Return the command of a button beside a row: a command, a queue or an id, and a total budget, or what is undone.

    Of an undo, 1 for force, else 0, and 1 for the whole list of an adjustment.
    """
    check_names(form, (ROW, "back", "step", "reason"))
    values = _plain(form[ROW])
    if not isinstance(values, list) or [*map(type, values)] not in _ROWS:
        raise BadRequest("This form is not one of the console.")
    op, subject = _op(values[0]), values[1]
    args: dict[str, Any]
    if op in _OF_ENTRY and values[2:] in ([], *([[1], [0, 1], [1, 1]] if op == "undo" else ())):
        args = {"id": entry_id(str(subject), op, partitions=partitions)}
        args |= undo_arguments(force=values[2:3] == [1], whole=values[3:] == [1]) if op == "undo" else {}
    elif op == "adjust" and isinstance(subject, str) and len(values) == 3:
        args = {"match": queues_match([subject]), "set": {"queue_total_budget": values[2]}}
    elif op in ("replay", "drop") and len(values) == 2:
        args = {"ids": letter_ids([subject], partitions=partitions)}
    elif op in ("retire", "unretire", "wake") and isinstance(subject, str) and len(values) == 2:
        args = {"queue": subject}
    else:
        raise BadRequest("This form is not one of the console.")
    return SubmittedCommand(op, args, _reason(form))


def again(form: Form) -> SubmittedCommand:
    """Return the command of the form that applies a dry run. Its arguments are checked when it is applied."""
    op, args = _op(form.get("op", "")), _plain(form.get("args", ""))
    if op == SIMULATE:
        raise BadRequest("A simulation changes nothing, and is no dry run that can be applied: send it without a step.")
    if not isinstance(args, dict):
        raise BadRequest("This form is not one of the console.")
    check_names(form, (*_OF_ALL, "args"))
    return without_code(SubmittedCommand(op, args, form.get("reason", "")[:LONGEST_REASON]))


def role_for(asked: SubmittedCommand) -> Role:
    """Return the role that a command needs: what cannot be taken back is for administrators."""
    return Role.ADMIN if asked.op in ("terminate", "discard") or asked.args.get("for_good") else Role.STEER


def check_names(form: Form, names: Collection[str]) -> None:
    """Raise BadRequest for a field that the form does not have: a wrong name must not be ignored."""
    for name in form:
        if name not in names and name != TOKEN:
            has = f"it has {', '.join(names)}" if names else "it has none"
            raise BadRequest(f"{name[:40]!r} is no field of this form: {has}{did_you_mean(name, names) or '.'}")


def _op(op: str) -> str:
    """Return a command that the console gives. Raises BadRequest for any other."""
    if op not in _READ:
        raise BadRequest(f"{op[:40]!r} is not a command that the console gives{did_you_mean(op, _READ) or '.'}")
    return op


def applies(form: Form) -> bool:
    """Return whether a form applies its command, at once or after a dry run. Raises BadRequest for another step.

    Without a step it is a dry run.
    """
    step = form.get("step", "")
    if step not in ("", APPLY):
        meant = did_you_mean(step, (APPLY,))
        raise BadRequest(f"{step[:40]!r} is no step: give step={APPLY}, or no step for a dry run{meant or '.'}")
    return step == APPLY


def without_code(asked: SubmittedCommand) -> SubmittedCommand:
    """Return a command that brings no code into the crawl. Raises BadRequest.

    A policy "module:name" is imported and called by the process of the crawl. The console's token allows to steer a
    crawl, not to run code on the machine.
    """
    settings = asked.args.get("set")
    try:
        read = validate_override("*", settings).set if isinstance(settings, dict) else {}
    except RecursionError:
        raise BadRequest("This form is not one of the console.") from None
    except SettingsError:
        return asked  # the engine refuses it for the same reasons
    if any(name.endswith("_policy") and is_own(spec) for name, spec in read.items()):
        raise BadRequest(
            "A policy of your own, module:name, is code that the crawl runs: the console does not set it. Use "
            "`budgetfrontier adjust` on the machine of the crawl, or a policy by the name it is installed under."
        )
    return asked


def _plain(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadRequest("This form is not one of the console.") from None


def _queue(form: Form) -> dict[str, Any]:
    key = _plain(form.get("queue", ""))
    if not isinstance(key, str):
        raise BadRequest("This form is not one of the console.")
    return {"queue": key}


def _queues(form: Form) -> dict[str, Any]:
    """Return one queue, or the pattern and the states that select many."""
    if "match" not in form:
        return _queue(form)
    if "queue" in form:
        raise BadRequest("match: give a queue, or a pattern that selects queues, not both.")
    states = form.getall("states", [])
    if unknown := [one for one in states if one not in list(QueueState)]:
        raise BadRequest(f"{unknown[0][:40]!r} is no state: give one of {', '.join(QueueState)}.")
    return {"match": form["match"].strip() or "*"} | ({"states": states} if states else {})


def _snooze(form: Form) -> dict[str, Any]:
    return {**_queues(form), "until": until(form.get("for", "").strip())}


def until(length: float | str) -> float:
    """Return the end of a duration from now on. Raises BadRequest."""
    try:
        return time.time() + read_duration(length)
    except ValueError as error:
        raise BadRequest(f"Snooze for how long? Give {DURATION.text}, not {error}.") from None


def duration(name: str, length: float | str) -> float:
    """Return the seconds of a duration. Raises BadRequest."""
    try:
        return read_duration(length)
    except ValueError as error:
        raise BadRequest(f"{name}: expected {DURATION.text}, got {error}") from None


def _ids(form: Form) -> dict[str, Any]:
    """Return the dead letters that are ticked, or all for a reason, or all."""
    if form.get("which") == "all":
        return {"ids": None}
    if form.get("which") == "why":
        return {"ids": None, "why": form.get("why", "")}
    found = form.getall("id", [])
    if not found or len(found) > MOST:
        raise BadRequest(f"Tick the dead letters that this is about, at most {MOST:,}, or choose all.")
    return {"ids": found}


def letter_ids(given: Sequence[int | str], *, partitions: bool) -> list[int] | list[str]:
    """Return ids of dead letters, sorted: numbers, in partitions PARTITION/ID. Raises BadRequest for others."""
    form = _LETTER_OF_PARTITIONS if partitions else _LETTER
    if wrong := [text for text in map(str, given) if not form.fullmatch(text)]:
        raise BadRequest(f"{wrong[0][:40]!r} is no id of a dead letter here; the list of dead letters has them.")
    return sorted(map(str, given), key=LetterId.read) if partitions else sorted(map(int, given))


def entry_id(text: str, op: str, *, partitions: bool) -> int | str:
    """Return the id of the entry that a command is about: its name in a crawl in partitions, else its number."""
    if partitions and text.isascii() and text.replace("/", "").isalnum() and len(text) < 40:
        return text
    if not partitions and text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    raise BadRequest(_OF_ENTRY[op])


def undo_arguments(*, force: bool, whole: bool) -> dict[str, bool]:
    """Return the arguments of an undo, without the entry: of the whole list of an adjustment, or of it alone."""
    return {"force": force} | ({"list": True} if whole else {})


def _pattern(form: Form) -> dict[str, Any]:
    queue, pattern = form.get("glob", "").strip() or None, form.get("pattern", "") or None
    if queue is None and pattern is None:
        raise BadRequest("Delete what? Give a glob of queues, a regular expression, or both.")
    return {"queue": queue, "pattern": pattern} | _for_good(form)


def _for_good(form: Form) -> dict[str, Any]:
    return {"for_good": True} if form.get("for_good") else {}


def _forget(form: Form) -> dict[str, Any]:
    urls, match = form.get("urls", "").split(), form.get("match", "").strip()
    if bool(urls) is bool(match) or len(urls) > MOST:
        raise BadRequest(f"Forget what? Give URLs, at most {MOST:,}, or a pattern, and not both.")
    return ({"uris": urls} if urls else {"match": with_kind(match)}) | _for_good(form)


def _adjust(form: Form) -> dict[str, Any]:
    settings = _settings(form)
    if not settings:
        raise BadRequest("Change what? Give a total budget, a replenish amount, or a line NAME=VALUE.")
    return adjustment(_match(form), settings)


def _settings(form: Form) -> dict[str, Any]:
    """Return the settings of a form: the two for which it has fields, and lines for others."""
    settings: dict[str, Any] = {}
    for field, name in (("total", "queue_total_budget"), ("replenish", "balance_replenish_amount")):
        if text := form.get(field, "").strip():
            settings[name] = _value(text)
    for line in "\n".join(form.getall("set", [])).splitlines():
        name, equals, value = line.partition("=")
        if line.strip() and (not equals or not name.strip()):
            raise BadRequest(f"{line[:80]!r} is not NAME=VALUE.")
        if equals:
            settings[name.strip()] = _value(value.strip())
    return settings


def adjustment(match: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of an adjustment. Raises BadRequest for settings that it cannot have."""
    try:
        override = validate_override(match, settings)
    except SettingsError as error:
        raise BadRequest(str(error)) from None
    return {"match": override.match, "set": override.set}


def simulation(
    match: str,
    settings: dict[str, Any],
    *,
    until: str,
    fetchers: int | None,
    max_fetches: int,
    draws: int,
    seed: int,
) -> SubmittedCommand:
    """Return the order of a simulation. Raises BadRequest for settings that cannot be changed."""
    if match != "*" and not settings:
        raise BadRequest("match: it is for `set`: which URIs the settings are for")
    change = adjustment(match, settings) if settings else {}
    if until != FINISH:
        duration("until", until)
    asked = {"until": until, "fetchers": fetchers, "max_fetches": max_fetches, "draws": draws, "seed": seed}
    return without_code(SubmittedCommand(SIMULATE, change | asked, ""))


def _simulate(form: Form) -> dict[str, Any]:
    query = Query({name: form.get(name, "") for name in ("fetchers", "max_fetches", "draws", "seed")})
    match, until = (form.get(name, "").strip() for name in ("match", "until"))
    return simulation(
        match or "*",
        _settings(form),
        until=until or FINISH,
        fetchers=query.number("fetchers", 1, least=1, most=100_000) if form.get("fetchers") else None,
        max_fetches=query.number("max_fetches", MOST_FETCHES, least=1, most=MOST_FETCHES),
        draws=query.number("draws", DRAWS, least=1, most=MOST_DRAWS),
        seed=query.number("seed", 0, most=(1 << 53) - 1),
    ).args


def _match(form: Form) -> str:
    """Return the pattern of an adjustment: the queues that are ticked, one queue, or what was typed."""
    if form.get("which") == "ticked":
        chosen = [_plain(text) for text in form.getall("queues", [])]
        if not chosen or len(chosen) > MOST or not all(isinstance(key, str) for key in chosen):
            raise BadRequest(f"Tick the queues that this is about, at most {MOST:,}, or give a pattern.")
        return queues_match(chosen)
    if "queue" in form:
        return queues_match([_queue(form)["queue"]])  # `queue:` would take an asterisk in the key for a wildcard
    return form.get("match", "").strip() or "*"


def _value(text: str) -> Any:
    try:
        return parse_value(text)
    except SettingsError as error:
        raise BadRequest(str(error)) from None


def _nothing(form: Form) -> dict[str, Any]:
    return {}


_READ: dict[str, Callable[[Form], dict[str, Any]]] = {
    "adjust": _adjust,
    "withdraw": _nothing,
    "discard": _nothing,
    "undo": lambda form: undo_arguments(force=form.get("force") == "1", whole=form.get("list") == "1"),
    "retire": _queues,
    "unretire": _queues,
    "snooze": _snooze,
    "wake": _queues,
    "pause": lambda form: {"reason": _reason(form)},
    "resume": _nothing,
    "terminate": _nothing,
    "replay": _ids,
    "drop": lambda form: _ids(form) | _for_good(form),
    "delete": _pattern,
    "forget": _forget,
    SIMULATE: _simulate,
}
"""The commands by name, each with the function that reads its arguments."""

_OF_ENTRY = {
    "withdraw": "Mark the adjustment that is to be withdrawn.",
    "undo": "Choose the entry of the audit that is to be undone.",
    "discard": "Choose the entry of the audit of which nothing is to be kept for undo.",
}
"""The commands about an entry of the audit, each with what is said if none is chosen."""

_FIELDS: dict[str, tuple[str, ...]] = {
    "adjust": ("match", "which", "queue", "queues", "total", "replenish", "set"),
    "withdraw": ("id",),
    "undo": ("id", "force", "list"),
    "discard": ("id",),
    **dict.fromkeys(("retire", "unretire", "snooze", "wake"), ("queue", "match", "states", "for")),
    **dict.fromkeys(("replay", "drop"), ("which", "why", "id", "for_good")),
    "delete": ("glob", "pattern", "for_good"),
    "forget": ("urls", "match", "for_good"),
    SIMULATE: ("match", "total", "replenish", "set", "until", "fetchers", "max_fetches", "draws", "seed"),
}
"""The fields of each command besides those of all; commands that share a form share them."""
