"""The commands that the API takes: the body of each, and the command that it asks for."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from budgetfrontier.core import uris
from budgetfrontier.core.model import CrawlUri, QueueState
from budgetfrontier.errors import InvalidUrl, SettingsError
from budgetfrontier.rules.crawl_states import disk_sentence
from budgetfrontier.rules.simulation import DRAWS, MOST_DRAWS, MOST_FETCHES
from budgetfrontier.settings.matching import parse_match, queues_match, with_kind
from budgetfrontier.tools.console import forms
from budgetfrontier.tools.console.api import described
from budgetfrontier.tools.console.forms import LONGEST_REASON, MOST, SubmittedCommand
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import BadRequest
from budgetfrontier.tools.console.rendering import as_sentence
from budgetfrontier.tools.console.steering import Task, missing_from, told_effect
from budgetfrontier.tools.importers import lists

_Reason = Annotated[str, described("why, for the audit", min_length=1, max_length=LONGEST_REASON)]
_Keys = Annotated[list[str], described("keys of queues, in the place of `match`", max_length=MOST)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=(1 << 53) - 1)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e11)]
_Duration = _Seconds | str
"""Seconds, or a text such as 2h."""
_Ids = Annotated[list[_Number | str], msgspec.Meta(max_length=MOST)]
_Letters = Annotated[_Ids | None, described("ids of dead letters, as `dead-letters` has them; null: all")]
_Uris = Annotated[list[str], described("http and https URLs", min_length=1, max_length=MOST)]


class CommandBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The body of a command without arguments. `dry_run` shows its effect, and changes nothing."""

    reason: _Reason
    dry_run: Annotated[bool, described("only show the effect")] = False


class QueueBody(CommandBody, forbid_unknown_fields=True, kw_only=True):
    """The body of a command on one queue, or on all that are selected by a pattern, by states or in a list."""

    queue: Annotated[str, described("the key of one queue, such as example.org")] = ""
    match: Annotated[str, described("a pattern, such as domain:example.org; *: all")] = ""
    states: Annotated[list[QueueState], described("only queues in these states; none: in all")] = []
    queues: _Keys = []


class SnoozeBody(QueueBody, forbid_unknown_fields=True, kw_only=True):
    """The body of `snooze`: `for` or `until` says how long."""

    for_: Annotated[_Duration, described("seconds, or such as 30m, 2h, 1d")] = msgspec.field(name="for", default="")
    until: Annotated[_Seconds | None, described("a time in epoch seconds")] = None


class SetQueueBody(QueueBody, forbid_unknown_fields=True, kw_only=True):
    """The body of `set-queue`, for frontiers with `keep_urls`."""

    interval: Annotated[
        _Duration | None, described("the least time between two leases, in seconds, or such as 30s")
    ] = None
    max_completed: Annotated[_Number | None, described("retire it after so many URLs; 0: never")] = None


class AdjustBody(CommandBody, forbid_unknown_fields=True, kw_only=True):
    """The body of `adjust`: settings for the queues that match a pattern, or for those in a list."""

    set: Annotated[dict[str, Any], described("settings as in an override: {queue_total_budget: 500}")]
    match: Annotated[str, described("a pattern, such as domain:example.org; *: all")] = ""
    queues: _Keys = []


class WithdrawBody(CommandBody, forbid_unknown_fields=True, kw_only=True):
    """The body of `withdraw`."""

    id: Annotated[int | str, described("the id of the adjustment")]


class UndoBody(CommandBody, forbid_unknown_fields=True, kw_only=True):
    """The body of `undo`."""

    id: Annotated[int | str, described("the id of an entry of the audit")]
    force: Annotated[bool, described("also if somebody has changed the same since")] = False
    list_: Annotated[bool, described("all adjustments of the list that the entry is of, or none")] = msgspec.field(
        name="list", default=False
    )


class DiscardBody(CommandBody, forbid_unknown_fields=True, kw_only=True):
    """The body of `discard`: what entries of the audit have kept for undo is removed for good, each by a command."""

    ids: Annotated[_Ids | None, described("ids of entries that `removed` has; null: all")]
    older_than: Annotated[
        _Duration, described("with `ids` null: only what is older than this, in seconds, or such as 12h, 30d")
    ] = ""


class DeleteBody(CommandBody, forbid_unknown_fields=True, kw_only=True):
    """The body of `delete`: the URIs of queues that fit a glob or are in some states, and those that match patterns."""

    queue: Annotated[str, described("a glob of keys, such as *.example.org")] = ""
    pattern: Annotated[str, described("a regular expression that is found in the URL")] = ""
    match: Annotated[str, described("a pattern as in `adjust`, tested on each URI")] = ""
    states: Annotated[list[QueueState], described("only of queues in these states")] = []
    for_good: Annotated[bool, described("keep nothing for `undo`: needs the role admin")] = False


class ReplayBody(CommandBody, forbid_unknown_fields=True, kw_only=True):
    """The body of `replay`: dead letters that are scheduled again, by their ids, or all that match."""

    ids: _Letters
    match: Annotated[str, described("with `ids` null: a pattern as in `adjust`, tested on each URI")] = ""
    why: Annotated[str, described("with `ids` null: a glob on the reasons, such as *timeout*")] = ""


class DropBody(ReplayBody, forbid_unknown_fields=True, kw_only=True):
    """The body of `drop`: dead letters that are forgotten."""

    for_good: Annotated[bool, described("keep nothing for `undo`: needs the role admin")] = False


class ForgetBody(CommandBody, forbid_unknown_fields=True, kw_only=True):
    """The body of `forget`: URLs, or a pattern in frontiers with `keep_urls`, that are no longer known as seen."""

    uris: _Uris | None = None
    match: Annotated[str, described("a pattern as in `adjust`, in the place of `uris`; *: all")] = ""
    pattern: Annotated[str, described("with `match`: a regular expression that is found in the URL")] = ""
    for_good: Annotated[bool, described("keep nothing for `undo`: needs the role admin")] = False


class SimulateBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The body of `simulate`: the crawl as it is, and with `set` beside it as it would be.

    Its effect has both as `today` and `proposed`, in `doubts` sentences on how sure they are, and `notes` on how they
    were made. It changes nothing. A job has one simulation at a time, all jobs two; it ends with the console.
    """

    set: Annotated[dict[str, Any], described("settings as in an override: {queue_total_budget: 500}")] = {}
    match: Annotated[str, described("with `set`: for which URIs, as in `adjust`")] = "*"
    until: Annotated[str, described("the simulated time, such as 12h, or finish")] = "finish"
    fetchers: Annotated[int, msgspec.Meta(ge=1, le=100_000)] | None = None
    max_fetches: Annotated[int, described("it ends after so many fetches", ge=1, le=MOST_FETCHES)] = MOST_FETCHES
    draws: Annotated[int, described("simulations, one after the other", ge=1, le=MOST_DRAWS)] = DRAWS
    seed: Annotated[_Number, described("the seed of the random draws")] = 0


class ImportBody(CommandBody, forbid_unknown_fields=True, kw_only=True):
    """The body of `import`: URLs to schedule. The effect counts those added, duplicate, full and invalid.

    A dry run does not look at limits that would leave no room for some.
    """

    uris: _Uris
    seeds: Annotated[bool, described("they are seeds")] = False
    force: Annotated[bool, described("schedule also those that were seen before")] = False


class CommandResult(msgspec.Struct, kw_only=True):
    """A command that was given, or its dry run.

    `args` are parameters of the request, a list of queues as its `match`, and the end of a wait as `until`. `effect` is
    what it has changed, or would change. As long as it has not `ended`, `done` is the share that is, and `task` the
    name under which `commands` shows it again. `id` is that of its entry in the audit, null for a dry run, for an
    import into partitions, and for `discard`, whose effect has its `entries`. `waits` is a sentence on what it waits
    for before it begins, `note` has those on names in it that name nothing, and on what it does not prevent.
    """

    task: str
    command: str
    args: dict[str, Any]
    reason: str
    dry_run: bool
    ended: bool
    done: float
    id: int | str | None = None
    effect: dict[str, Any] | None = None
    note: str = ""
    waits: str = ""
    error: str | None = None
    """Why it was refused, or why its end is not known."""


def result_of(task: Task, waits: str = "") -> CommandResult:
    """Return a command with its result, as far as it has come."""
    step, asked = task.step, task.asked
    entry = step.entry or {}
    notes = missing_from(step), step.note, disk_sentence(told_effect(step))
    return CommandResult(
        task=task.id, command=asked.op, args=asked.args if asked.given is None else asked.given,
        reason=asked.reason, dry_run=task.dry_run,
        ended=task.ended.is_set() and not step.in_progress, done=step.done, id=entry.get("id"),
        effect=entry.get("effect", step.effect),
        note=" ".join(map(as_sentence, filter(None, notes))),
        waits=waits, error=step.error or None,
    )  # fmt: skip


def simple(op: str) -> Any:
    """Return the function that makes a command without arguments."""
    return lambda job, body: SubmittedCommand(op, {}, body.reason)


def pause(job: ConsoleJob, body: CommandBody) -> SubmittedCommand:
    """Pause the crawl, for a reason that reports show."""
    return SubmittedCommand("pause", {"reason": body.reason}, body.reason)


def on_queues(op: str) -> Any:
    """Return the function that makes a command on queues."""
    return lambda job, body: SubmittedCommand(op, _selected(body), body.reason)


def _selected(body: QueueBody) -> dict[str, Any]:
    """Return the arguments that name one queue, or select some. Raises BadRequest unless one way is used."""
    if [bool(body.queue), bool(body.match or body.states) and not body.queues, bool(body.queues)].count(True) != 1:
        raise BadRequest("which queues? Give `queue`, a key, or `match` or `states` or both, or `queues`, a list")
    if body.queue:
        return {"queue": body.queue}
    match = queues_match(body.queues) if body.queues else with_kind(body.match) if body.match else "*"
    try:
        parse_match(match)
    except SettingsError as error:
        raise BadRequest(f"match: {error}") from None
    return {"match": match} | ({"states": list(body.states)} if body.states else {})


def snooze(job: ConsoleJob, body: SnoozeBody) -> SubmittedCommand:
    """Block queues for a time. Raises BadRequest unless one end is given."""
    if (body.until is None) is (body.for_ == ""):
        raise BadRequest("snooze for how long? Give `for`, such as 2h, or `until`")
    end = forms.until(body.for_) if body.until is None else body.until
    return SubmittedCommand("snooze", _selected(body) | {"until": end}, body.reason)


def set_queue(job: ConsoleJob, body: SetQueueBody) -> SubmittedCommand:
    """Give queues an interval or a limit of their own."""
    interval = None if body.interval is None else forms.duration("interval", body.interval)
    given = {"interval": interval, "max_completed": body.max_completed}
    if not (changes := {name: value for name, value in given.items() if value is not None}):
        raise BadRequest("change what? Give `interval` or `max_completed`")
    return SubmittedCommand("set_queue", _selected(body) | changes, body.reason)


def adjust(job: ConsoleJob, body: AdjustBody) -> SubmittedCommand:
    """Change settings for queues. Raises BadRequest for settings that cannot be changed."""
    if bool(body.match) is bool(body.queues):
        raise BadRequest("which queues? Give `match`, such as domain:example.org or *, or `queues`")
    if not body.set:
        raise BadRequest("change what? Give settings in `set`")
    args = forms.adjustment(body.match or queues_match(body.queues), body.set)
    return forms.without_code(SubmittedCommand("adjust", args, body.reason))


def withdraw(job: ConsoleJob, body: WithdrawBody) -> SubmittedCommand:
    """End an adjustment."""
    return SubmittedCommand("withdraw", {"id": _entry(job, body, "withdraw")}, body.reason)


def undo(job: ConsoleJob, body: UndoBody) -> SubmittedCommand:
    """Take an entry of the audit back, or the list of adjustments that it is of."""
    args = forms.undo_arguments(force=body.force, whole=body.list_)
    return SubmittedCommand("undo", args | {"id": _entry(job, body, "undo")}, body.reason)


def discard(job: ConsoleJob, body: DiscardBody) -> SubmittedCommand:
    """Remove what entries of the audit have kept for undo. Raises BadRequest unless they are given in one way."""
    if body.ids == [] or (body.ids and body.older_than):
        raise BadRequest("discard what? Give the `ids` of entries, or null for all, or for those `older_than` an age")
    args: dict[str, Any] = {"ids": body.ids and [_named(job, name, "discard") for name in body.ids]}
    if body.older_than:
        forms.duration("older_than", body.older_than)
        args["older_than"] = body.older_than
    return SubmittedCommand("discard", args, body.reason)


def _entry(job: ConsoleJob, body: WithdrawBody | UndoBody, op: str) -> int | str:
    return _named(job, body.id, op)


def _named(job: ConsoleJob, name: int | str, op: str) -> int | str:
    return forms.entry_id(str(name), op, partitions=not job.is_folder)


def delete(job: ConsoleJob, body: DeleteBody) -> SubmittedCommand:
    """Delete URIs."""
    if not (body.queue or body.pattern or body.match or body.states):
        raise BadRequest(
            "delete what? Give `queue`, a glob of keys, `pattern`, a regular expression, `match` or `states`"
        )
    args: dict[str, Any] = {"queue": body.queue or None, "pattern": body.pattern or None} | _for_good(body)
    args |= {"match": with_kind(body.match)} if body.match else {}
    args |= {"states": list(body.states)} if body.states else {}
    return SubmittedCommand("delete", args, body.reason)


def replay(job: ConsoleJob, body: ReplayBody) -> SubmittedCommand:
    """Schedule dead letters again."""
    return SubmittedCommand("replay", _letters(job, body), body.reason)


def drop(job: ConsoleJob, body: DropBody) -> SubmittedCommand:
    """Forget dead letters."""
    return SubmittedCommand("drop", _letters(job, body) | _for_good(body), body.reason)


def forget(job: ConsoleJob, body: ForgetBody) -> SubmittedCommand:
    """Let URLs be scheduled again when they are found. Raises BadRequest unless they are given in one way."""
    if (body.uris is None) is not bool(body.match) or (body.pattern and not body.match):
        raise BadRequest("forget what? Give `uris`, or `match`, which `pattern` may narrow")
    if body.uris is not None:
        args: dict[str, Any] = {"uris": body.uris}
    else:
        args = {"match": with_kind(body.match)} | ({"pattern": body.pattern} if body.pattern else {})
    return SubmittedCommand("forget", args | _for_good(body), body.reason)


def simulate(job: ConsoleJob, body: SimulateBody) -> SubmittedCommand:
    """Simulate how the crawl goes on. Raises BadRequest for settings that cannot be changed."""
    return forms.simulation(
        body.match, body.set, until=body.until, fetchers=body.fetchers, max_fetches=body.max_fetches, draws=body.draws,
        seed=body.seed,
    )  # fmt: skip


def _for_good(body: DeleteBody | DropBody | ForgetBody) -> dict[str, bool]:
    return {"for_good": True} if body.for_good else {}


def _letters(job: ConsoleJob, body: ReplayBody) -> dict[str, Any]:
    chosen = {"match": with_kind(body.match)} if body.match else {}
    chosen |= {"why": body.why} if body.why else {}
    if body.ids == [] or (body.ids and chosen):
        raise BadRequest("which dead letters? Give their `ids`, or null for all, or for those of `match` and `why`")
    return {"ids": body.ids and forms.letter_ids(body.ids, partitions=not job.is_folder)} | chosen


def schedule(job: ConsoleJob, body: ImportBody) -> SubmittedCommand:
    """Schedule URLs. Raises BadRequest for one that is no URL."""
    found: list[Any] = []
    for place, url in enumerate(body.uris):
        try:
            href = uris.parse(url)
        except InvalidUrl as error:
            raise BadRequest(f"uris[{place}]: {url[:200]!r} cannot be crawled: {error}") from None
        uri = CrawlUri(url, force=body.force)
        found.append(lists.fields(lists.as_seed(uri, href) if body.seeds else uri))
    in_place = {"in_place": True} if body.force else {}
    asked = {"uris": body.uris, "seeds": body.seeds, "force": body.force}
    return SubmittedCommand("schedule", {"uris": found} | in_place, body.reason, asked)
