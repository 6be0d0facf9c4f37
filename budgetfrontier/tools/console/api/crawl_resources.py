"""Resources of the API on jobs as a whole, their audit, alerts and settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec

from budgetfrontier.core.converters import converter
from budgetfrontier.core.model import CrawlState, Process, Summary
from budgetfrontier.reports import adjustment_outcomes, alert_state
from budgetfrontier.reports.adjustment_outcomes import AdjustmentOutcome
from budgetfrontier.reports.audit_sentences import sentence
from budgetfrontier.reports.kinds import KINDS, WITH_SINCE
from budgetfrontier.reports.operators import NO_GROUPS, AuditRow
from budgetfrontier.reports.settings_rows import hidden_note
from budgetfrontier.reports.totals import by_outcome, refusals
from budgetfrontier.reports.wrong_now import worst, wrong_now
from budgetfrontier.rules.verdict import Verdict, is_hung
from budgetfrontier.storage.group_listing import GroupsListed
from budgetfrontier.storage.label_totals import LabelTotals
from budgetfrontier.storage.quota_use import QuotaUse
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.tools.console import forms
from budgetfrontier.tools.console.api import (
    MOST_ROWS,
    LimitParameters,
    Listing,
    ListingParameters,
    NoParameters,
    described,
)
from budgetfrontier.tools.console.api.time_resources import left_out
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.pages import adjustments as adjustments_page
from budgetfrontier.tools.console.pages import alerts as alerts_page
from budgetfrontier.tools.console.pages import audit as audit_page
from budgetfrontier.tools.console.pages.crawl_settings import settings_of
from budgetfrontier.tools.console.pages.dead_letters import counted_reasons
from budgetfrontier.tools.console.pages.index import build as build_index
from budgetfrontier.tools.console.query import BadRequest, Query
from budgetfrontier.tools.console.rendering import as_sentence

_KIND = f"^({'|'.join(kind for kind in KINDS if kind != 'frontier')})$"


class VerdictItem(msgspec.Struct):
    """Whether a crawl goes on, or why not. `slug` is stable, for programs; `remedy` is the command that would help."""

    slug: str
    level: Literal["good", "warn", "bad"]
    sentence: str
    remedy: str | None


class JobItem(msgspec.Struct, kw_only=True):
    """A job of the console. If it cannot be read, `error` says why, its level is bad, and the rest is null or empty.

    `level` is the worst of the verdict and of `wrong`, its present problems.
    """

    name: str
    """Its name in the paths of the API."""
    folder: str
    level: Literal["good", "warn", "bad"]
    crawl: str | None = None
    verdict: VerdictItem | None = None
    totals: Summary | None = None
    last_commit: float | None = None
    wrong: list[ProblemItem] = []
    error: str | None = None


class ProblemItem(msgspec.Struct):
    """A present problem of a crawl. `slug` is stable, for programs; `queue` is the one that it is about, or ""."""

    slug: str
    level: Literal["good", "warn", "bad"]
    text: str
    queue: str


class JobOverview(msgspec.Struct, kw_only=True):
    """A job as of its last commit. `wrong` are its present problems."""

    name: str
    crawl: str
    generated: float
    state: CrawlState
    pause_reason: str | None
    verdict: VerdictItem
    process: Process
    hung: bool
    totals: Summary
    wrong: list[ProblemItem]
    removed_bytes: int
    note: str = ""


class OutcomeItem(msgspec.Struct):
    """The attempts with an outcome, and what they have spent; `share` is of the attempts that were charged."""

    outcome: str
    attempts: int | None
    share: float | None
    spent: int
    note: str


class ErrorsItem(msgspec.Struct):
    """The attempts by outcome, and the URIs refused and the dead letters by reason.

    The reasons of dead letters are those of the first `dead_read` ones.
    """

    outcomes: list[OutcomeItem]
    refused: dict[str, int]
    dead: dict[str, int]
    dead_read: int
    note: str = ""


class ReportParameters(LimitParameters, forbid_unknown_fields=True, kw_only=True):
    """The parameters of a report."""

    kind: Annotated[str, described("which report, as `report --kind` names them", pattern=_KIND)]
    since: Annotated[str, described("only what happened within this time, such as 2h; not of each kind")] = ""


class ToldItem(msgspec.Struct):
    """A sink that an alert was sent to. `done` is when it was delivered or, with an `error`, given up; else null."""

    sink: str
    attempts: int
    done: float | None
    error: str


class AlertItem(msgspec.Struct):
    """An alert that is raised, since when, and which sinks were told."""

    condition: str
    level: str
    since: float
    text: str
    told: list[ToldItem]


class CrawlSetting(msgspec.Struct):
    """A setting by its dotted name: durations in seconds, sizes in bytes. A secret in `value` is `***`.

    `changed`: it differs from its default. The adjustments, which `adjustments` has, apply after the settings.
    """

    setting: str
    value: Any
    default: Any
    changed: bool
    hidden: bool
    """Whether a secret in the value is hidden."""


class AuditParameters(ListingParameters, forbid_unknown_fields=True, kw_only=True):
    """The parameters of the audit."""

    id: Annotated[str, described("only the entry with this id")] = ""
    command: Annotated[str, described("only this command, such as adjust")] = ""
    who: Annotated[str, described("only commands of this person or program")] = ""
    q: Annotated[str, described("only entries with this text in their reason, arguments or effect")] = ""
    outcome: Annotated[bool, described("with `id`: what has followed it, if it changed settings; reads all queues")] = (
        False
    )


class AuditItem(msgspec.Struct, kw_only=True):
    """A command that was applied, or refused with an `error`. `partitions` are those that have it, "" in a job.

    `can_undo` is null where that was not looked up, as in the history of a queue; `no_undo` is why what could be undone
    is not now, and whether `force` overrules that. `outcome` is what has followed a change of settings if that was
    asked for: its figures, and in `followed` a sentence, beside what was promised.
    """

    id: int | str
    when: float
    command: str
    who: str
    reason: str
    sentence: str
    args: dict[str, Any]
    effect: dict[str, Any]
    error: str | None
    line: str
    can_undo: bool | None
    no_undo: str = ""
    partitions: str
    outcome: AdjustmentOutcome | None = None
    followed: str = ""


class RemovedParameters(ListingParameters, forbid_unknown_fields=True, kw_only=True):
    """The parameters of what is kept for undo."""

    older_than: Annotated[str, described("only what is older than this, such as 12h, 30d")] = ""


class RemovedItem(msgspec.Struct):
    """A command that has kept something for its undo: the `uris` or dead letters that it has taken, and its `bytes`.

    `uris` is null for other commands.
    """

    id: int | str
    command: str
    when: float
    who: str
    uris: int | None
    bytes: int
    reason: str


class AdjustmentItem(msgspec.Struct, kw_only=True):
    """An adjustment in force, in the order in which they apply, and who made it, when and why, if that is known."""

    id: int | str | None
    match: str
    set: dict[str, Any]
    who: str | None
    when: float | None
    reason: str | None


_as_problem_items = converter(list[ProblemItem])
_as_verdict_item = converter(VerdictItem)


def next_of(context: dict[str, Any]) -> str | None:
    """Return the cursor of the page after one that was built."""
    following = context["next"]
    return None if following is None else ":".join(map(str, *following.items()))


def query_of(parameters: ListingParameters, **values: object) -> Query:
    """Return the query of a page for the parameters of a listing. Raises BadRequest for a cursor that is none."""
    name, colon, value = parameters.cursor.partition(":")
    if parameters.cursor and not (colon and name in ("after", "before", "start")):
        raise BadRequest(f"cursor: {parameters.cursor[:40]!r} is not the `next` of an answer; begin without a cursor")
    given = {name: str(value) for name, value in values.items() if value}
    return Query(given | ({name: value} if colon else {}), rows=parameters.limit)


def jobs(all_jobs: Sequence[ConsoleJob], parameters: NoParameters) -> Listing[JobItem]:
    """Return the jobs, the ill ones first."""
    if any(not job.is_folder for job in all_jobs):
        (one,) = all_jobs
        return Listing(rows=[_item(overview(one, parameters), one.place)])
    slugs = {job.name: job.slug for job in all_jobs}
    return Listing(
        rows=[
            JobItem(name=slugs[row["name"]], folder=row["folder"], level=row["level"], error=row["error"])
            if row["error"]
            else JobItem(
                name=slugs[row["name"]],
                folder=row["folder"],
                level=row["level"],
                wrong=_as_problem_items([problem._asdict() for problem, _ in row["problems"]]),
                crawl=row["crawl"],
                verdict=_verdict(row["verdict"]),
                totals=row["totals"],
                last_commit=row["committed"],
            )
            for row in build_index(all_jobs)["rows"]
        ]
    )


def _item(found: JobOverview, place: str) -> JobItem:
    level: Any = worst([found.verdict.level, *(problem.level for problem in found.wrong)])
    return JobItem(
        name=found.name, folder=place, level=level, wrong=found.wrong, crawl=found.crawl, verdict=found.verdict,
        totals=found.totals, last_commit=found.process.last_commit,
    )  # fmt: skip


def overview(job: ConsoleJob, parameters: NoParameters) -> JobOverview:
    """Return a job without its queues. O(1)."""
    report = job.look(lambda operator: operator.head())
    scanned = job.scanned() if job.is_folder else None
    spend = scanned.scan.spend if scanned else None
    return JobOverview(
        name=job.slug,
        crawl=report.crawl,
        generated=report.generated,
        state=report.state,
        pause_reason=report.pause_reason,
        verdict=_verdict(report.verdict),
        process=report.standing.process,
        hung=report.standing.process.alive and is_hung(report.standing),
        totals=report.totals,
        wrong=_as_problem_items(
            [
                one._asdict()
                for one in wrong_now(
                    job.path if job.is_folder else None, report.standing, spend, alerts=job.alert_files
                )
            ]
        ),
        removed_bytes=report.removed,
    )


def _verdict(found: Verdict) -> VerdictItem:
    item: VerdictItem = _as_verdict_item(found.to_dict())
    return item


def errors(job: ConsoleJob, parameters: NoParameters) -> ErrorsItem:
    """Return what went wrong, by outcome and reason."""
    totals = job.sample_now().totals
    dead = counted_reasons(job)
    outcomes = [OutcomeItem(*row) for row in by_outcome(totals)]
    return ErrorsItem(outcomes, dict(refusals(totals)), dict(dead.most_common(MOST_ROWS)), dead.total())


class GroupsItem(GroupsListed, kw_only=True):
    """The number of groups in each state, and the fullest groups."""

    note: str = ""


class ReportListing(Listing[dict[str, Any]], kw_only=True):
    """The rows of a report, from `since` until `until` (epoch seconds) if that is not exactly the time asked for."""

    since: float | None = None
    until: float | None = None


def report(job: ConsoleJob, parameters: ReportParameters) -> ReportListing:
    """Return the rows of a report, with its columns as their fields. Raises BeingMade."""
    if parameters.since and parameters.kind not in WITH_SINCE:
        raise BadRequest(f"since: the report {parameters.kind} is as of now; {', '.join(WITH_SINCE)} take it")
    words = ["--kind", parameters.kind, "--limit", str(parameters.limit)]
    if parameters.since:
        forms.duration("since", parameters.since)
        words += ["--since", parameters.since]
    made = job.from_command("report", *words)
    since, until = made.found.get("period", (None, None))
    note = as_sentence(made.found["unknown"] or "")
    return ReportListing(rows=made.found["rows"], as_of=made.when, note=note, since=since, until=until)


def groups(job: ConsoleJob, parameters: LimitParameters) -> GroupsItem:
    """Return the number of groups in each state, and the fullest groups."""
    found = job.look(lambda operator: operator.groups(parameters.limit))
    return GroupsItem(found.states, found.fullest, note="" if job.is_folder else as_sentence(NO_GROUPS))


def quotas(job: ConsoleJob, parameters: LimitParameters) -> Listing[QuotaUse]:
    """Return the limits of quotas, the fullest first."""
    found = job.look(lambda operator: operator.quotas())
    rows = found[: parameters.limit]
    return Listing(rows=rows, note=left_out(len(found) - len(rows)))


def labels(job: ConsoleJob, parameters: LimitParameters) -> Listing[LabelTotals]:
    """Return what was fetched with each label of seeds, those with most first."""
    found = job.look(lambda operator: operator.labels())
    rows = found[: parameters.limit]
    return Listing(rows=rows, note=left_out(len(found) - len(rows)))


def alerts(job: ConsoleJob, parameters: NoParameters) -> Listing[AlertItem]:
    """Return the alerts that are raised, as of the last look at the job, which is `as_of`: null if there was none."""
    files = job.alert_files
    if files is None:
        return Listing(rows=[], note=alerts_page.UNKNOWN)
    state, problem, _ = alert_state.read(files)
    note = problem or ("" if state else "nobody has watched this crawl yet")
    rows = [
        AlertItem(
            name, about.level, about.since, about.text,
            [ToldItem(one.sink, one.attempts, one.done, one.error) for one in state.sent(name)],
        )
        for name, about in state.raised.items()
    ] if state else []  # fmt: skip
    return Listing(rows=rows, as_of=state.looked if state else None, note=as_sentence(note))


def settings(job: ConsoleJob, parameters: NoParameters) -> Listing[CrawlSetting]:
    """Return the settings without their secrets, those first that differ from their defaults."""
    found = settings_of(job)
    return Listing(rows=[CrawlSetting(*row) for row in found], note=as_sentence(hidden_note(found)))


def audit(job: ConsoleJob, parameters: AuditParameters) -> Listing[AuditItem]:
    """Return who changed what, when and why, the newest first."""
    if parameters.outcome and not parameters.id:
        raise BadRequest("outcome: it is looked up for one entry; give its `id`, too")
    query = query_of(parameters, id=parameters.id, command=parameters.command, who=parameters.who, q=parameters.q)
    found = audit_page.build(job, query)
    query.check_names()
    places = found["places"] or {}
    rows = [
        audit_item(
            entry,
            can_undo=entry.id in found["undoable"] and entry.id not in found["no_undo"],
            no_undo=found["no_undo"][entry.id].refusal if entry.id in found["no_undo"] else "",
            partitions=places.get(entry.id, ""),
        )
        for entry in found["rows"]
    ]
    if parameters.outcome:
        _add_outcome(job, rows[0], found["rows"][0])
    return Listing(rows=rows, next=next_of(found), note=found["in_progress"])


def removed(job: ConsoleJob, parameters: RemovedParameters) -> Listing[RemovedItem]:
    """Return what commands have kept for undo, the newest first."""
    query = query_of(parameters, kept=1, older_than=parameters.older_than)
    found = audit_page.build(job, query)
    query.check_names()
    rows = [RemovedItem(*found["kept_rows"][entry.id]) for entry in found["rows"]]
    return Listing(rows=rows, next=next_of(found), note=found["in_progress"])


def _add_outcome(job: ConsoleJob, item: AuditItem, entry: AuditEntry) -> None:
    """Add what has followed an entry to its row."""
    item.outcome = job.look(lambda operator: operator.outcomes([AuditRow(item.id, entry)])).get(item.id)
    item.followed = "" if item.outcome is None else adjustment_outcomes.sentence(item.outcome, entry.effect)


def audit_item(
    entry: AuditEntry, *, can_undo: bool | None = None, no_undo: str = "", partitions: str = ""
) -> AuditItem:
    """Return an entry of the audit as a row."""
    return AuditItem(
        id=entry.id, when=entry.when, command=entry.command, who=entry.who, reason=entry.reason,
        sentence=sentence(entry), args=entry.args, effect=entry.effect, error=entry.error, line=entry.line,
        can_undo=can_undo, no_undo=no_undo, partitions=partitions,
    )  # fmt: skip


def adjustments(job: ConsoleJob, parameters: ListingParameters) -> Listing[AdjustmentItem]:
    """Return the adjustments in force, in the order in which they apply: the later ones win."""
    query = query_of(parameters)
    found = adjustments_page.build(job, query)
    query.check_names()
    rows = [
        AdjustmentItem(
            id=one.id, match=one.match, set=one.set, who=entry and entry.who, when=entry and entry.when,
            reason=entry and entry.reason,
        )
        for one, entry in found["rows"]
    ]  # fmt: skip
    return Listing(rows=rows, next=next_of(found))
