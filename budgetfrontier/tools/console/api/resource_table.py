"""The table of the API's resources: to add one is to add its entry here."""

from __future__ import annotations

from typing import Any

from budgetfrontier.core.model import Run
from budgetfrontier.reports.trap_list import Suspect
from budgetfrontier.rules.forecasts import Forecast
from budgetfrontier.storage.label_totals import LabelTotals
from budgetfrontier.storage.quota_use import QuotaUse
from budgetfrontier.tools.console.api import JOB, ApiResource, LimitParameters, Listing, ListingParameters, NoParameters
from budgetfrontier.tools.console.api import command_bodies as commands
from budgetfrontier.tools.console.api import crawl_resources as crawl
from budgetfrontier.tools.console.api import queue_resources as queues
from budgetfrontier.tools.console.api import time_resources as times
from budgetfrontier.tools.console.named_tokens import Role


def _command(name: str, summary: str, body: Any, answer: Any, role: Role = Role.STEER) -> ApiResource:
    return ApiResource("POST", f"{JOB}/{name}", summary, body, commands.CommandResult, answer, role)


RESOURCES = (
    ApiResource("GET", "/jobs", "the jobs, the ill ones first", NoParameters, Listing[crawl.JobItem], crawl.jobs),
    ApiResource("GET", JOB, "a job: verdict, totals, problems", NoParameters, crawl.JobOverview, crawl.overview),
    ApiResource(
        "GET", f"{JOB}/queues", "the queues, sorted and filtered",
        queues.QueuesParameters, Listing[queues.QueueItem], queues.queues,
    ),
    ApiResource(
        "GET", f"{JOB}/queue", "one queue: settings, first URIs, patterns, history",
        queues.QueueParameters, queues.QueueDetail, queues.queue,
    ),
    ApiResource(
        "GET", f"{JOB}/uris", "the first URIs of a queue, or some spread over it",
        queues.UrisParameters, Listing[queues.PendingItem], queues.pending,
    ),
    ApiResource(
        "GET", f"{JOB}/explain", "why a URL or a queue is not being crawled",
        queues.TargetParameters, queues.ExplanationItem, queues.explain,
    ),
    ApiResource(
        "GET", f"{JOB}/retired", "the retired queues and those that will be, with what would revive each",
        ListingParameters, Listing[queues.RetiredItem], queues.retired,
    ),
    ApiResource(
        "GET", f"{JOB}/traps", "the queues that look like crawler traps, the most suspicious first",
        ListingParameters, Listing[Suspect], queues.traps,
    ),
    ApiResource(
        "GET", f"{JOB}/statuses", "the answers of hosts, those with most errors first, and the kinds of errors",
        queues.StatusesParameters, queues.StatusesItem, queues.statuses,
    ),
    ApiResource(
        "GET", f"{JOB}/leases", "the URIs that are out, the oldest first",
        queues.LeasesParameters, Listing[queues.LeaseItem], queues.leases,
    ),
    ApiResource(
        "GET", f"{JOB}/dead-letters", "the URIs that have failed for good, the oldest first",
        queues.DeadLettersParameters, Listing[queues.DeadLetterItem], queues.dead_letters,
    ),
    ApiResource(
        "GET", f"{JOB}/seeds", "the seeds with the fate of each",
        queues.SeedsParameters, Listing[queues.SeedItem], queues.seeds,
    ),
    ApiResource(
        "GET", f"{JOB}/groups", "the groups of queues, the fullest first",
        LimitParameters, crawl.GroupsItem, crawl.groups,
    ),
    ApiResource(
        "GET", f"{JOB}/quotas", "the limits of quotas, the fullest first",
        LimitParameters, Listing[QuotaUse], crawl.quotas,
    ),
    ApiResource(
        "GET", f"{JOB}/labels", "what was fetched with each label of seeds",
        LimitParameters, Listing[LabelTotals], crawl.labels,
    ),
    ApiResource(
        "GET", f"{JOB}/errors", "attempts by outcome, refused URIs and dead letters by reason",
        NoParameters, crawl.ErrorsItem, crawl.errors,
    ),
    ApiResource(
        "GET", f"{JOB}/report", "the rows of a report: hosts, response codes, media types and others",
        crawl.ReportParameters, crawl.ReportListing, crawl.report,
    ),
    ApiResource(
        "GET", f"{JOB}/rates", "the rates of a time, beside those of the time before",
        times.TimeParameters, Listing[times.RateItem], times.rates,
    ),
    ApiResource(
        "GET", f"{JOB}/busiest", "the queues that spent most in the hours that a time overlaps",
        times.TimeParameters, times.BusyListing, times.busiest,
    ),
    ApiResource(
        "GET", f"{JOB}/curves", "the rate of each figure in each part of a time",
        times.CurvesParameters, times.CurvesItem, times.curves,
    ),
    ApiResource(
        "GET", f"{JOB}/forecast", "when the crawl would end, by each bound",
        NoParameters, Listing[Forecast], times.forecast,
    ),
    ApiResource(
        "GET", f"{JOB}/runs", "the runs, the newest last", LimitParameters, Listing[Run], times.runs
    ),
    ApiResource(
        "GET", f"{JOB}/compare/{{other}}", "two jobs side by side, and the queues of which they differ most",
        times.CompareParameters, times.ComparisonItem, times.compare, of_partitions=False,
    ),
    ApiResource(
        "GET", f"{JOB}/compare-runs", "two runs of a job side by side, and the queues of which they differ most",
        times.CompareRunsParameters, times.ComparisonItem, times.compare_runs,
    ),
    ApiResource(
        "GET", f"{JOB}/alerts", "the alerts that are raised, and which sinks were told",
        NoParameters, Listing[crawl.AlertItem], crawl.alerts,
    ),
    ApiResource(
        "GET", f"{JOB}/settings", "the settings, without the adjustments and without secrets",
        NoParameters, Listing[crawl.CrawlSetting], crawl.settings,
    ),
    ApiResource(
        "GET", f"{JOB}/adjustments", "the adjustments in force, in the order in which they apply",
        ListingParameters, Listing[crawl.AdjustmentItem], crawl.adjustments,
    ),
    ApiResource(
        "GET", f"{JOB}/audit", "who changed what, when and why, the newest first",
        crawl.AuditParameters, Listing[crawl.AuditItem], crawl.audit,
    ),
    ApiResource(
        "GET", f"{JOB}/removed", "what deletions, and commands on many queues, have kept for undo, the newest first",
        crawl.RemovedParameters, Listing[crawl.RemovedItem], crawl.removed,
    ),
    ApiResource(
        "GET", f"{JOB}/commands/{{task}}", "a command that was given, and its result",
        NoParameters, commands.CommandResult, commands.result_of,
    ),
    ApiResource(
        "DELETE", f"{JOB}/commands/{{task}}", "cancel a simulation, whether it waits or runs",
        NoParameters, commands.CommandResult, commands.result_of, Role.STEER,
    ),
    _command("pause", "pause the crawl", commands.CommandBody, commands.pause),
    _command("resume", "resume the crawl", commands.CommandBody, commands.simple("resume")),
    _command("terminate", "end the crawl for good", commands.CommandBody, commands.simple("terminate"), Role.ADMIN),
    _command("adjust", "change settings for queues", commands.AdjustBody, commands.adjust),
    _command("withdraw", "end an adjustment", commands.WithdrawBody, commands.withdraw),
    _command("undo", "take an entry of the audit back", commands.UndoBody, commands.undo),
    _command(
        "discard", "remove for good what an entry of the audit has kept for undo",
        commands.DiscardBody, commands.discard, Role.ADMIN,
    ),
    _command("retire", "retire queues", commands.QueueBody, commands.on_queues("retire")),
    _command("unretire", "take queues out of retirement", commands.QueueBody, commands.on_queues("unretire")),
    _command("snooze", "block queues for a time", commands.SnoozeBody, commands.snooze),
    _command("wake", "end the wait of queues", commands.QueueBody, commands.on_queues("wake")),
    _command("set-queue", "give queues an interval or a limit", commands.SetQueueBody, commands.set_queue),
    _command("delete", "delete URIs", commands.DeleteBody, commands.delete),
    _command("replay", "schedule dead letters again", commands.ReplayBody, commands.replay),
    _command("drop", "forget dead letters", commands.DropBody, commands.drop),
    _command("forget", "let URLs that were seen be scheduled again", commands.ForgetBody, commands.forget),
    _command("import", "schedule URLs", commands.ImportBody, commands.schedule),
    _command(
        "simulate", "simulate how the crawl goes on, also with other settings",
        commands.SimulateBody, commands.simulate,
    ),
)  # fmt: skip
"""All resources."""
