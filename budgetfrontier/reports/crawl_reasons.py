"""The reasons why a crawl hands nothing out: the last ones of `explain`, after those of a URL and of its queue."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from budgetfrontier.core.model import CrawlState
from budgetfrontier.reports.explanation import Explanation, Outlook
from budgetfrontier.rules.crawl_states import FINISH, is_paused_for_disk
from budgetfrontier.rules.verdict import (
    Standing,
    closed_sentence,
    has_failed_policy,
    is_hung,
    is_unasked,
    is_used_up,
    opener,
    pause_sentence,
    process_line,
    raise_first,
    rest_sentence,
    verdict,
    ways_on,
)
from budgetfrontier.storage.start_command import AGAIN, start_command


def explain_crawl(
    explanation: Explanation, standing: Standing, crawl: Standing, *, job: str, command: Callable[..., str | None]
) -> None:
    """Add why the crawl hands nothing out, if it does not.

    `standing` is that of the frontier with the queue, and `crawl` that of the whole crawl, which may be in partitions:
    the leases that are out in a pause, a finish, a total that is used up, and whether crawlers ask, are facts of all
    of them together. `command` names the job.
    """
    summary = standing.totals
    if summary.state is CrawlState.TERMINATED:
        explanation.add("terminated", verdict(standing).text, verdict=Outlook.NEVER)
        return
    if summary.state in (CrawlState.PAUSED, CrawlState.PAUSING):
        # Starting a crawl that paused when it was finished also resumes it.
        starts = summary.pause_reason == FINISH and not standing.process.alive
        ways, remedy = "", None if starts else command("resume")
        if has_failed_policy(standing) or is_paused_for_disk(summary.state, summary.pause_reason):
            ways, remedy = ways_on(standing)
        explanation.add(
            "paused",
            f"{pause_sentence(_with_leases_of(crawl, standing))} Nothing is handed out. {ways}".rstrip(),
            verdict=Outlook.BLOCKED,
            command=remedy,
        )
    elif crawl.totals.state is CrawlState.FINISHED:
        runs = standing.process.alive or standing.process.server is not None
        alone = " by itself" if runs else ", once it is started,"
        explanation.add("finished", f"The crawl is FINISHED; it goes on{alone} when a URI arrives or a queue revives.")
    if is_used_up(crawl):
        explanation.add("limit", pause_sentence(crawl), verdict=Outlook.BLOCKED)
    if standing.process.server is not None:
        explanation.add("unused", f"No process has this frontier open: {opener(standing.process)}.")
    elif not standing.process.alive:
        stop = standing.process.last_stop
        start = start_command(job, "" if stop is None else stop.program)
        last = process_line(standing).removeprefix("none; ")
        what = "start the crawl again with its configuration" if start else AGAIN
        explanation.add(
            "not-running",
            f"Nothing runs this frontier at the moment ({last}): {what}.{raise_first(stop)}",
            verdict=Outlook.BLOCKED,
            command=start,
        )
    elif is_hung(standing):
        found = verdict(standing)
        explanation.add("hung", found.text, verdict=Outlook.BLOCKED, command=found.remedy)
    elif is_unasked(crawl):
        explanation.add("not-asked", verdict(crawl).text, verdict=Outlook.BLOCKED)
    if standing.closed_until > standing.now:
        explanation.add("crawl-closed", closed_sentence(standing), verdict=Outlook.LATER, when=standing.closed_until)
    elif standing.rests_until > standing.now:
        explanation.add("crawl-rests", rest_sentence(standing), verdict=Outlook.LATER, when=standing.rests_until)


def _with_leases_of(crawl: Standing, standing: Standing) -> Standing:
    """Return the standing of a paused frontier with the leases of the whole crawl; none if some are not known."""
    state = CrawlState.PAUSING if crawl.totals.state is CrawlState.PAUSING else CrawlState.PAUSED
    totals = replace(standing.totals, state=state, in_process=crawl.totals.in_process)
    return replace(standing, totals=totals, first_lease=crawl.first_lease, first_url=crawl.first_url)
