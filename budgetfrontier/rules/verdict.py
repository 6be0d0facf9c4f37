"""The verdict on a crawl: whether it goes on, or why nothing is being crawled, in one sentence.

The causes are tried in the order of their remedies: a crawl that is over for good, one
without a process, one that hangs, a pause, and then the waits of queues.
"""

from __future__ import annotations

import shlex
from typing import NamedTuple

import msgspec

from budgetfrontier.core.model import CrawlState, Process, QueueState, Run, RunEnd, Summary
from budgetfrontier.core.units import counted, format_size, format_time, say_duration
from budgetfrontier.rules.crawl_states import DISK, FINISH, LIMIT, POLICY, SCOPE, is_paused_for_disk
from budgetfrontier.rules.crawled import crawled
from budgetfrontier.rules.run_history import SERVE, WORKER, keeps_leases, may_crawl, steered_by

SILENT = 60.0
"""Seconds without a call after which a process hangs, unless commits are rarer."""
WITH_QUEUED = (QueueState.READY, QueueState.IN_PROCESS, QueueState.SNOOZED, QueueState.INACTIVE)
"""The states of queues whose URIs count as queued."""
GONE = "a process that is gone: the next start takes back what it had leased"
"""The words on leases that nobody holds any more (`are_leases_held`)."""
LONG_OUT = 120.0
"""Seconds after which a lease is worth a word, if nothing else may go out."""


class Verdict(NamedTuple):
    """The verdict in one sentence, `text`, with a stable `slug` for programs, and the command that would help.

    `level` is "good" (it goes on, or is over), "warn" (it waits) or "bad" (it stopped, or hangs).
    """

    slug: str
    level: str
    text: str
    remedy: str | None = None

    def to_dict(self) -> dict[str, str | None]:
        """Return plain data, as reports have it in JSON."""
        return {"slug": self.slug, "level": self.level, "sentence": self.text, "remedy": self.remedy}


class Standing(msgspec.Struct, kw_only=True):
    """The standing of a crawl at one point in time, `now`: all that a verdict is made of. Times are epoch seconds."""

    now: float
    totals: Summary
    process: Process
    job: str = ""
    """The folder for the commands that are suggested; "" if there is none."""
    start: str | None = None
    """The command that starts a crawl which no process runs, if it is known."""
    commit_interval: float = 0.5
    max_queued: int = 0
    steered_by: str = ""
    """Who gave the last `pause` or `terminate`; "" if nobody did."""
    steered_at: float | None = None
    asked: float = 0.0
    """When somebody asked for URIs last, as far as it is known, or else the process began; 0.0 if neither is known."""
    first_lease: float | None = None
    """When the oldest lease was handed out; None if none is out, or it is not known."""
    first_url: str = ""
    """The URL of the oldest lease."""
    last_expiry: float | None = None
    """The latest deadline of the leases that are out; of many, of the oldest ones."""
    renewed: float = 0.0
    """When a lease was renewed last; 0.0 if none was, or it is not known."""
    next_wake: float | None = None
    """The earliest wake time of a SNOOZED queue: one that never waited, and whose snooze was undone, has 0."""
    for_robots: int = 0
    """The part of the first SNOOZED queues that wait for their robots.txt."""
    parked: int = 0
    """The SNOOZED queues that wait for their group."""
    group: str = ""
    """The name of a group for which some of these wait."""
    for_retry: int = 0
    """The part of the first SNOOZED queues that wait after a failed attempt."""
    failure: str = ""
    """The reason for which the attempt of the first of these failed."""
    next_due: float | None = None
    """The time of the first URI that is scheduled for later."""
    over_budget: bool = False
    """Whether all INACTIVE queues looked at are over budget: they will retire on their turn."""
    free: int | None = None
    """The free bytes of the disk of the frontier, if its last run stopped because that was full."""
    held: int = 0
    """URIs in RETIRED and INELIGIBLE queues."""
    held_future: int = 0
    """URIs scheduled for later in RETIRED and INELIGIBLE queues."""
    hold: str = ""
    """The first group over budget or quota used up that holds one of the first RETIRED queues, in words: at the end."""
    retired_by_name: int = 0
    """The RETIRED queues that no change of settings revives."""
    rests_until: float = 0.0
    """Until when nothing is leased, for the crawl has received more than `max_bandwidth`."""
    max_bandwidth: int = 0
    """The bytes a second of the crawl."""
    closed_until: float = 0.0
    """When the first crawl windows open, if those of all URIs are closed; 0.0 if they are not."""
    closed: int = 0
    """The part of the first SNOOZED queues that wait for their crawl windows."""
    rate: float | None = None
    """URIs fetched a second in the last minute, if it is known."""
    limit: str | None = None
    """The used-up limit of a crawl in partitions, such as "cluster.max_uris"."""
    unanswered: str = ""
    """The sentence on its partitions that do not answer; "" if all do."""


def verdict(standing: Standing) -> Verdict:
    """Return the verdict on a crawl."""
    s = standing
    state = s.totals.state
    if s.unanswered:
        return Verdict("missing_partitions", "bad", f"The state of the crawl is not known: {s.unanswered}.")
    if state is CrawlState.TERMINATED:
        return Verdict("terminated", "warn", f"The crawl was {_steered(s, 'terminated')}: it hands out nothing again.")
    if state is CrawlState.NEW and not (_stopped_badly(s) and not s.process.alive):
        text = f"Nothing was ever scheduled{_instead(s.totals)}."
        return Verdict("new", "warn", text, _command(s, "import", "--seeds", "FILE"))
    at_finish = state is CrawlState.PAUSED and s.totals.pause_reason == FINISH
    if at_finish and _retires_all(s):
        text = f"{pause_sentence(s)} {_over_budget_sentence(s)}"
        return Verdict("over_budget", "warn", text, _command(s, "queues", "--state", "INACTIVE"))
    if at_finish and (s.totals.queued or _later(s)):  # by commands that came since
        started = s.start if not s.process.alive and s.process.server is None else None  # which resumes it, too
        return Verdict("paused", "warn", pause_sentence(s), started or _command(s, "resume"))
    if state is CrawlState.FINISHED or at_finish:
        return _over(s)
    if not s.process.alive:
        return _stopped(s) if s.process.server is None else _unused(s)
    if is_hung(s):
        return _hung(s)
    if not may_crawl(s.process.program):
        stop = f"; {_stop(s, s.process.last_stop)}" if s.process.last_stop else ""
        return Verdict("command", "warn", f"No process crawls: {who(s.process)} has the frontier open{stop}.", s.start)
    if state in (CrawlState.PAUSED, CrawlState.PAUSING):
        if is_used_up(s):
            return Verdict("limit", "warn", pause_sentence(s))
        slug, (ways, remedy) = ("paused" if state is CrawlState.PAUSED else "pausing"), ways_on(s)
        if is_paused_for_disk(state, s.totals.pause_reason):
            slug = "disk"
        return Verdict(slug, "warn", f"{pause_sentence(s)} {ways}".rstrip(), remedy)
    found = _at_work(s)
    if 0 < s.max_queued <= s.totals.queued:
        full = f"The frontier is full ({s.totals.queued:,} of max_queued {s.max_queued:,}): new URIs are refused."
        return Verdict("full", "warn", f"{full} {found.text}", found.remedy)
    if (reason := s.totals.pause_reason or "").startswith(DISK):  # of some partitions: the others go on
        paused = f"Partitions of a worker are paused: {reason.removeprefix(DISK)}."
        return Verdict("disk", "warn", f"{paused} {found.text}", found.remedy)
    return found


def are_leases_held(process: Process) -> bool:
    """Return whether anybody may finish the leases that are out: else the next start of the crawl takes them back."""
    stop = process.last_stop
    return process.alive or process.server is not None or stop is None or keeps_leases(stop.program)


def is_hung(standing: Standing) -> bool:
    """Return whether a process has the frontier open, but has not used it for long, or was stopped by a signal.

    A worker does not use a partition to which no entry comes.
    """
    s = standing
    if s.process.suspended:
        return True
    if s.process.last_call is None or s.process.program == WORKER:
        return False
    return s.now - s.process.last_call > _silence(s)


def is_recent(standing: Standing, now: float) -> bool:
    """Return whether the last commit of a crawl tells of the time until now: a process at work commits as it goes."""
    last = standing.process.last_commit
    return last is not None and now - last <= _silence(standing)


def _silence(standing: Standing) -> float:
    """Return the seconds of silence that are usual for a process at work: it commits three times in them."""
    return max(SILENT, 3 * standing.commit_interval)


def standstill(standing: Standing) -> str:
    """Return why nothing of a crawl that has URIs left ends at present, in words; "" if it goes on, or is over."""
    s = standing
    if s.totals.state in (CrawlState.PAUSED, CrawlState.PAUSING):
        return "the crawl is paused"
    if s.totals.state is not CrawlState.RUNNING:
        return ""
    if not s.process.alive:
        return "no process runs the crawl"
    if is_hung(s):
        return "the process of the crawl hangs"
    if not may_crawl(s.process.program):
        return "no process crawls"
    return f"nobody has asked for a URI for {say_duration(unasked(s))}" if is_unasked(s) else ""


def is_unasked(standing: Standing) -> bool:
    """Return whether a crawl would hand out URIs, and nobody asks for any."""
    return verdict(standing).slug == "not_asked"


def process_line(standing: Standing) -> str:
    """Return a line on the process that runs the crawl: which one, or how the last one stopped; and the last commit."""
    s = standing
    if (last := last_commit(s)) is not None:
        commit = f"{_of_crawl(s, last)}last commit {_ago(s, last)}"
    else:  # a repair may have lost the totals, and with them the time of the last commit
        commit = "when it last committed is not known" if s.totals.scheduled else "nothing committed"
    if s.process.alive:
        hangs = ""
        if is_hung(s) and s.process.last_call is not None:
            hangs = f"not used by it for {_age(s, s.process.last_call)}, "
        return f"{who(s.process)}, {hangs}{commit}"
    stop = s.process.last_stop
    if s.unanswered:
        return f"none answers; {commit}"
    if opens := opener(s.process):
        return f"none; {opens}; {commit}"
    return f"none; {commit}" if stop is None else f"none; {_stop(s, stop)}; {commit}"


def last_commit(standing: Standing) -> float | None:
    """Return the time of the crawl's last commit: those of commands that came after its end do not count."""
    process, stop = standing.process, standing.process.last_stop
    if process.alive or process.last_commit is None or stop is None or stop.ended is None:
        return process.last_commit
    return min(stop.ended, process.last_commit) if may_crawl(stop.program) else process.last_commit


def _of_crawl(s: Standing, last: float, article: str = "") -> str:
    """Return "the crawl's" for the last commit if commands have committed since, else the article."""
    newest = s.process.last_commit or last
    return article if newest - last < 1.0 else "the crawl's "  # a run ends a moment before the commit that stores it


def _commit_clause(s: Standing) -> str:
    last = last_commit(s)
    return "" if last is None else f"; {_of_crawl(s, last, 'the ')}last commit was {_ago(s, last)}"


def who(process: Process | Run) -> str:
    """Return the name of a process for a sentence: its program and its pid; of one without a pid its program."""
    if process.pid is None and process.program:
        return process.program
    number = f"process {process.pid}" if process.pid else "a process elsewhere"
    return f"{process.program} ({number})" if process.program else number


def opener(process: Process) -> str:
    """Return a clause on the server that opens a frontier when somebody uses it; "" if there is none."""
    if process.server is None:
        return ""
    return f"{who(Process(alive=True, pid=process.server, program=SERVE))} opens it when somebody uses it"


# -- over


def _held(s: Standing) -> str:
    """Return how many URIs queues hold that are not crawled, and how many more are scheduled for later."""
    future = s.totals.future
    if not future:
        return counted(s.held, "URI")
    later = f"{counted(future, 'URI')} scheduled for later"
    return f"{counted(s.held, 'URI')}, and {later}" if s.held else later


def _over(s: Standing) -> Verdict:
    """Return the verdict on a crawl that has nothing left to do."""
    totals, counts = s.totals, s.totals.queues
    how = "paused at its finish" if totals.state is CrawlState.PAUSED else "finished"
    retired, held = counts.get(QueueState.RETIRED, 0), s.held + totals.future
    if held and (ineligible := counts.get(QueueState.INELIGIBLE, 0)):
        left = f"only ineligible queues are left ({ineligible:,}"
        if retired:
            left = f"only ineligible and retired queues are left ({ineligible:,} and {retired:,}"
        ways = "`adjust` the precedence of those to be crawled, or raise precedence_floor"
        if retired:
            ways += f"; of the retired, {_revival(s, retired)}"
        text = f"The crawl is {how}: {left}, with {_held(s)}); {ways}."
        return Verdict("ineligible", "warn", text, _command(s, "queues", "--state", "INELIGIBLE"))
    if retired and held:
        left = f"only retired queues are left ({retired:,}, with {_held(s)})"
        ways = _revival(s, retired)
        ended = not s.process.alive and s.process.server is None
        again = f" Then start it again{f': `{s.start}`' if s.start else ''}." if ended else ""
        text = f"The crawl is {how}: {left}; {ways}.{again}"
        return Verdict("retired", "warn", text, _command(s, "queues", "--state", "RETIRED"))
    done = crawled(totals)
    if not done.total:
        text = f"nothing was crawled, for none of {counted(totals.scheduled, 'URI')} was tried to the end"
        return Verdict("nothing", "bad", f"The crawl is {how}: {text}.")
    missed = done.missed
    if not missed and totals.full:
        all_ = f"everything that was admitted is crawled ({counted(done.total, 'URI')})"
        limits = _listed(sorted(totals.full_reasons)) if totals.full_reasons else "limits"
        refused = f"{counted(totals.full, 'URI was', 'URIs were')} refused by {limits}"
        return Verdict("refused", "warn", f"The crawl is {how}: {all_}; {refused}.", _command(s, "report"))
    if not missed:
        return Verdict("finished", "good", f"The crawl is {how}: everything is crawled ({counted(done.total, 'URI')}).")
    whole, causes = counted(done.total, "URI"), _listed([cause.text for cause in missed])
    if not done.crawled:
        text = f"The crawl is {how}: nothing was crawled; of {whole}, {causes}."
    else:
        text = f"The crawl is {how}: {counted(done.crawled, 'was', 'were')} crawled of {whole}; {causes}."
    if done.total <= 2 * done.crawled:
        return Verdict("finished", "good", text)
    slug = missed[0].slug
    remedy = {
        "dead_letters": ("dead-letters",),
        "disregarded": ("report", "--kind", "hosts"),
        "over_quota": ("report", "--kind", "quotas"),
        "deleted": ("audit", "--operation", "delete"),
        "dropped": ("audit", "--operation", "drop"),
    }
    command, *options = remedy.get(slug, ("statuses",))
    return Verdict(
        slug,
        "bad" if slug not in ("disregarded", "over_quota", "deleted") or not done.crawled else "warn",
        text,
        _command(s, command, *options),
    )


def _revival(s: Standing, retired: int) -> str:
    """Return a clause on what revives the RETIRED queues, with the group or quota that holds one of them."""
    if s.retired_by_name == retired:
        return "`unretire` revives them"
    ways = f"{s.hold}: `adjust` it or a budget to revive them" if s.hold else "`adjust` a budget to revive them"
    if s.retired_by_name:
        ways += f", and `unretire` the {s.retired_by_name:,} that an operator retired"
    return ways


def _instead(totals: Summary) -> str:
    """Return the fate of URIs that were given to a crawl and not scheduled; "" if there were none."""
    refused = totals.full + totals.invalid
    given = ((totals.seen, "only marked as seen"), (totals.duplicates, "known already"), (refused, "refused"))
    clauses = [f"{counted(count, 'URI was', 'URIs were')} {what}" for count, what in given if count]
    return f": {_listed(clauses)}" if clauses else ""


def _listed(clauses: list[str]) -> str:
    """Return clauses as they are listed in a sentence: "a", "a and b", "a, b and c"."""
    *first, last = clauses
    return f"{', '.join(first)} and {last}" if first else last


# -- no process, or one that hangs


def _stopped(s: Standing) -> Verdict:
    """Return the verdict on a crawl that has work left, and no process."""
    stop = s.process.last_stop
    slug = "stopped" if stop is None or stop.end in (None, RunEnd.EXIT) else stop.end.lower()
    if stop is not None:
        end, level = _stop(s, stop), "bad" if _stopped_badly(s) else "warn"
    elif is_untouched(s):
        end, level = "none has leased a URI of it yet", "warn"
    else:
        end, level = "how the last one stopped is not known", "bad"
    commit = _commit_clause(s)
    text, remedy = f"No process runs this crawl: {end}{commit}.{raise_first(stop)}{_make_room(s)}", s.start
    if has_failed_policy(s):
        ways, remedy = after_policy_failure(s)
        text = f"{text} {ways}"
    elif s.totals.state in (CrawlState.PAUSED, CrawlState.PAUSING):  # it stays so when it is started
        text, remedy = f"{text} {pause_sentence(s)}", ways_on(s)[1]
    elif _retires_all(s):
        text, remedy = f"{text} {_over_budget_sentence(s)}", _command(s, "queues", "--state", "INACTIVE")
    return Verdict(slug, level, text, remedy)


def is_untouched(standing: Standing) -> bool:
    """Return whether no lease of a crawl was ever handed out; False if a repair has lost its totals."""
    s, totals = standing, standing.totals
    answered = totals.succeeded or totals.failed or totals.retried or totals.given_up
    tried = answered or totals.deferred or totals.disregarded or totals.expired or totals.in_process
    return s.process.last_commit is not None and not tried


def ways_on(standing: Standing) -> tuple[str, str | None]:
    """Return what ends the pause of a crawl, beyond what `pause_sentence` says, and its command."""
    s = standing
    if is_paused_for_disk(s.totals.state, s.totals.pause_reason):
        return "", None if s.process.alive or s.process.server is not None else s.start
    return after_policy_failure(s) if has_failed_policy(s) else ("", _command(s, "resume"))


def has_failed_policy(standing: Standing) -> bool:
    """Return whether a crawl is paused because one of its policies failed."""
    state, reason = standing.totals.state, standing.totals.pause_reason or ""
    return state in (CrawlState.PAUSED, CrawlState.PAUSING) and reason.startswith(POLICY)


def after_policy_failure(standing: Standing) -> tuple[str, str | None]:
    """Return what to do after the failure of a policy, and its command: a process imports a policy only once.

    A crawl with its own frontier open resumes at its next start; one with a served frontier does not.
    """
    s, stop = standing, standing.process.last_stop
    served = SERVE if s.process.server is not None else ""
    program = s.process.program if s.process.alive else served or (stop.program if stop else "")
    if program not in (SERVE, WORKER):
        return "Fix the policy, and start the crawl again: it goes on by itself.", s.start
    resume = _command(s, "resume")
    then = f"resume the crawl: `{resume}`" if resume else "resume the crawl"
    return f"Fix the policy, start `{program}` again, which has imported the old one, and {then}.", None


def raise_first(stop: Run | None) -> str:
    """Return the sentence on the limit to raise first, if a crawl has reached one of its own; "" for any other.

    Scrapy's limits count anew in each run.
    """
    setting = reached_limit(stop)
    return f" Raise {setting} first: with the same limit it stops at once." if setting else ""


def _make_room(s: Standing) -> str:
    """Return the sentence on the room that a crawl needs which has stopped because its disk was full; "" for others."""
    return "" if s.free is None else f" Make room first: {format_size(s.free)} of its disk are free."


def reached_limit(stop: Run | None) -> str:
    """Return the limit, such as "limits.max_uris", that ended the last run of a crawl; "" if none did."""
    return stop.reason if stop is not None and stop.end is RunEnd.LIMIT and stop.reason.startswith("limits.") else ""


def _unused(s: Standing) -> Verdict:
    """Return the verdict on a crawl that has work left, and that its server has closed, or not opened yet."""
    stop = s.process.last_stop
    end = f"; {_stop(s, stop)}" if stop is not None and _stopped_badly(s) else ""
    commit = _commit_clause(s)
    text = f"Nobody uses this crawl: {opener(s.process)}{end}{commit}."
    if s.totals.state in (CrawlState.PAUSED, CrawlState.PAUSING):
        ways, remedy = ways_on(s)
        return Verdict("paused", "warn", f"{pause_sentence(s)} {text} {ways}".rstrip(), remedy)
    return Verdict("unused", "warn" if end else "good", text)


def _stopped_badly(s: Standing) -> bool:
    stop = s.process.last_stop
    return stop is not None and stop.end in (RunEnd.KILLED, RunEnd.DISK_FULL, RunEnd.ERROR)


def _stop(s: Standing, stop: Run) -> str:
    """Return how a run ended, and when."""
    when = "" if stop.ended is None else f" {_ago(s, stop.ended)}"
    why = f" ({stop.reason})" if stop.reason else ""
    how = {
        RunEnd.EXIT: f"ended{when}{why}",
        RunEnd.LIMIT: f"stopped at a limit{when}{why}",
        RunEnd.SIGNAL: f"was stopped by a signal{when}{why}",
        RunEnd.OPERATOR: f"ended{when}, because the crawl was {stop.reason or 'terminated'}",
        RunEnd.DISK_FULL: f"stopped{when}, because the disk was full{why}",
        RunEnd.ERROR: f"stopped{when} because of an error{why}",
        RunEnd.KILLED: "was killed, or crashed",
    }[stop.end or RunEnd.KILLED]
    return f"{who(stop)} {how}"


def _hung(s: Standing) -> Verdict:
    silent = "" if s.process.last_call is None else f" for {_age(s, s.process.last_call)}"
    commit = _commit_clause(s)
    text = f"{_upper(who(s.process))} has the frontier open, but has not used it{silent}{commit}."
    if s.process.suspended:
        text += " It was stopped by a signal, and goes on with SIGCONT; a SIGTERM counts only then."
        return Verdict("hung", "bad", text, f"kill -CONT {s.process.pid}")
    return Verdict("hung", "bad", text, f"kill {s.process.pid}" if s.process.pid else None)


def pause_sentence(s: Standing) -> str:
    """Return the sentence on a pause: its author, start and reason, and the URIs still out."""
    if s.totals.pause_reason == FINISH:
        count = sum(s.totals.queues.get(state, 0) for state in WITH_QUEUED)
        waiting = f"{counted(s.totals.queued, 'URI waits', 'URIs wait')} in {counted(count, 'queue')}"
        clauses = [waiting] if s.totals.queued else []
        clauses += [f"{counted(later, 'URI is', 'URIs are')} scheduled for later"] if (later := _later(s)) else []
        return f"The crawl is paused at its finish{f': {_listed(clauses)}' if clauses else ''}."
    out = s.totals.in_process
    if s.limit is not None and is_used_up(s):
        out_still = f"; {counted(out, 'URI is', 'URIs are')} still out" if out else ""
        return f"{limit_sentence(s.limit)}{out_still}."
    waits = s.totals.state is CrawlState.PAUSING and are_leases_held(s.process)
    leases = f"; {counted(out, 'lease is', 'leases are')} still out" if waits else ""
    if leases and s.first_lease is not None and s.now - s.first_lease > LONG_OUT:
        leases += f", the oldest for {_age(s, s.first_lease)}: {s.first_url}"
    if s.totals.pause_reason == SCOPE:
        why = "its scope has changed, and would disregard many of the URIs that wait"
        ways = "resume it to agree, or change the scope back and start it again"
        return f"The crawl is paused, because {why}: {ways}{leases}."
    if is_paused_for_disk(s.totals.state, s.totals.pause_reason):
        return f"The crawl is paused: {(s.totals.pause_reason or '').removeprefix(DISK)}{leases}."
    return f"The crawl is {_steered(s, 'paused', s.totals.pause_reason or '')}{leases}."


def _later(s: Standing) -> int:
    """Return the number of URIs scheduled for later that wait for no RETIRED or INELIGIBLE queue."""
    return max(s.totals.future - s.held_future, 0)


def limit_sentence(setting: str) -> str:
    """Return the sentence, without its full stop, on a total of a crawl in partitions that is used up."""
    return f"{setting} is used up, so that nothing is leased: raise it in the file of all workers, and restart them"


def is_used_up(standing: Standing) -> bool:
    """Return whether a crawl in partitions is paused, or pauses, because a total of all of them is used up."""
    return standing.limit is not None and standing.totals.pause_reason == LIMIT


# -- at work


def _at_work(s: Standing) -> Verdict:
    """Return the verdict on a crawl that a process runs: its queues' waits."""
    counts, out = s.totals.queues, s.totals.in_process
    ready, inactive = counts.get(QueueState.READY, 0), counts.get(QueueState.INACTIVE, 0)
    snoozed = counts.get(QueueState.SNOOZED, 0)
    if s.closed_until > s.now:
        return Verdict("closed", "good", closed_sentence(s))
    rest = s.rests_until - s.now
    if rest > SILENT or (rest > 0 and not ready and not out):
        return Verdict("bandwidth", "warn" if rest > SILENT else "good", rest_sentence(s))
    oldest = 0.0 if s.first_lease is None else s.now - s.first_lease
    if ready or (inactive and not s.over_budget):
        return _asked(s, ready or inactive, "ready" if ready else "inactive")
    if out and oldest <= LONG_OUT:
        return _running(s)
    if snoozed:
        if _is_overdue(s, s.next_wake):
            return _not_asked(s, f"The next of the snoozed queues ({snoozed:,}) is due")
        robots = _part(s.for_robots, "for its robots.txt", "for their robots.txt")
        first = f", the first for: {s.failure}" if s.failure else ""
        robots += _part(s.for_retry, f"because an attempt failed{first}")
        robots += _part(s.closed, "for its crawl windows", "for their crawl windows")
        robots += _part(s.parked, f"for its group, {s.group}", f"for their group, such as {s.group}")
        is_known = s.next_wake is not None or not s.parked  # else their group waits for the end of a lease
        wakes = f"the next one wakes {_in(s, s.next_wake)}" if is_known else "they wait for the end of a lease"
        more = f"; {counted(out, 'URI is', 'URIs are')} leased" if out else ""
        soon = s.next_wake is not None and s.next_wake - s.now <= SILENT
        text = f"All active queues are snoozed ({snoozed:,}): {wakes}{robots}{more}."
        return Verdict("snoozed", "good" if soon else "warn", text)
    is_due = s.totals.future > 0 and _is_overdue(s, s.next_due)
    if out and not is_due:
        leased = f"{counted(out, 'URI')}, the oldest for {say_duration(oldest)}: {s.first_url}"
        text = f"All that may be handed out is leased: {leased}."
        return Verdict("leased", "warn", text, _command(s, "leases"))
    if inactive:
        return Verdict("over_budget", "warn", _over_budget_sentence(s), _command(s, "queues", "--state", "INACTIVE"))
    if is_due:
        return _not_asked(s, f"The first of the URIs scheduled for later ({s.totals.future:,}) is due")
    if s.totals.future:
        first = "" if s.next_due is None else f", the first {_in(s, s.next_due)}"
        text = f"All that is left is scheduled for later: {counted(s.totals.future, 'URI')}{first}."
        return Verdict("later", "warn", text)
    return Verdict("settling", "good", "Nothing is queued; a command or a change of settings is still being applied.")


def _retires_all(s: Standing) -> bool:
    """Return whether all URIs that count as queued are in INACTIVE queues over budget, and none is for later."""
    waiting = [state for state in WITH_QUEUED if s.totals.queues.get(state, 0)]
    return s.over_budget and waiting == [QueueState.INACTIVE] and not _later(s)


def _over_budget_sentence(s: Standing) -> str:
    queues = counted(s.totals.queues.get(QueueState.INACTIVE, 0), "queue")
    over = f"All queues left are over their budget or limit, and retire on their turn: {queues}"
    return f"{over}; `adjust` a budget to revive them."


def _part(count: int, one: str, several: str = "") -> str:
    """Return the clause on what some of the snoozed queues wait for; "" if it is none of them."""
    return f"; {counted(count, f'of them waits {one}', f'of them wait {several or one}')}" if count else ""


def closed_sentence(s: Standing) -> str:
    """Return the sentence on a crawl whose crawl windows are closed."""
    out = f"; {counted(s.totals.in_process, 'URI is', 'URIs are')} still leased" if s.totals.in_process else ""
    opens = format_time(s.closed_until, "%Y-%m-%d %H:%M UTC")
    return f"All crawl windows are closed (guards.windows): the first opens {_in(s, s.closed_until)}, at {opens}{out}."


def rest_sentence(s: Standing) -> str:
    """Return the sentence on a crawl that rests for its bandwidth."""
    rest, most = say_duration(s.rests_until - s.now), f"frontier.max_bandwidth ({s.max_bandwidth:,} bytes a second)"
    return f"Nothing is leased for {rest} more: what was received takes so long by {most}."


def _asked(s: Standing, count: int, state: str) -> Verdict:
    """Return the verdict on a crawl that hands out URIs if it is asked: those whose slots are full do not ask."""
    if _is_overdue(s, s.now):
        return _not_asked(s, f"{counted(count, 'queue is', 'queues are')} {state}")
    found = _running(s)
    busy = f"; {_nobody_asks(s)}." if unasked(s) > _silence(s) else "."
    return found._replace(text=f"{found.text[:-1]}{busy}")


def unasked(standing: Standing) -> float:
    """Return for how many seconds nobody has asked a crawl for URIs; 0.0 if that is not known."""
    return max(standing.now - standing.asked, 0.0) if standing.asked else 0.0


def _is_overdue(s: Standing, when: float | None) -> bool:
    """Return whether something may be handed out from a time on that is over, and nobody has asked for long."""
    return when is not None and when <= s.now and unasked(s) > _silence(s) and not _are_leases_in_use(s)


def _are_leases_in_use(s: Standing) -> bool:
    """Return whether crawlers may be busy with the leases that are out: they renew them before half of their time."""
    if not s.totals.in_process:
        return False
    return s.last_expiry is None or s.last_expiry - s.now >= s.now - max(s.asked, s.renewed)


def _not_asked(s: Standing, what: str) -> Verdict:
    """Return the verdict on a crawl that has something to hand out, and that nobody asks."""
    leased = expire = ""
    if out := s.totals.in_process:
        leased = f", and {counted(out, 'URI is', 'URIs are')} leased"
        whose, left = "its lease" if out == 1 else "their leases", (s.last_expiry or s.now) - s.now
        expire = f"; {whose} expire{'s' * (out == 1)} within {say_duration(left)}" if left > 0 else ""
    return Verdict("not_asked", "warn", f"{what}{leased}, but {_nobody_asks(s)}{expire}.")


def _nobody_asks(s: Standing) -> str:
    """Return the clause that no URI was asked for, by whom, and for how long."""
    asked = f"{who(s.process)} has asked for no URI"
    of_crawl = s.process.pid is None and s.process.program
    if of_crawl or s.process.program == WORKER:  # the workers of a crawl in partitions, whom crawlers ask
        asked = f"no crawler has asked {who(s.process)} for a URI"
    return f"{asked} for {say_duration(unasked(s))}"


def _running(s: Standing) -> Verdict:
    rate = "" if s.rate is None else f", {s.rate:,.1f} URIs/s"
    out = f", {counted(s.totals.in_process, 'URI')} leased" if s.totals.in_process else ""
    return Verdict("running", "good", f"The crawl is running{rate}{out}.")


# -- words


def _steered(s: Standing, what: str, reason: str = "") -> str:
    """Return the sentence on a command's effect on the crawl, its author, time and reason."""
    if not s.steered_by:
        return f"{what} ({reason or 'no reason given'})"
    when = "" if s.steered_at is None else f" {_ago(s, s.steered_at)}"
    return steered_by(what, f"{s.steered_by}{when}", reason)


def _age(s: Standing, since: float) -> str:
    return say_duration(s.now - since)


def _ago(s: Standing, when: float) -> str:
    return say_ago(s.now, when)


def say_ago(now: float, when: float) -> str:
    """Return how long ago something was, or by how much its time is ahead of the clock."""
    age = now - when
    if age < -SILENT:  # written under a clock that was set back since
        return f"{say_duration(-age)} ahead of this clock"
    return "just now" if age < 1.0 else f"{say_duration(age)} ago"


def _in(s: Standing, when: float | None) -> str:
    left = 0.0 if when is None else when - s.now
    return "now" if left <= 0 else f"in {say_duration(left)}"


def _upper(text: str) -> str:
    """Return a text with its first letter in upper case, unless it is the name of a program."""
    return text[:1].upper() + text[1:] if text.startswith(("process ", "a process")) else text


def _command(s: Standing, name: str, *options: str) -> str | None:
    return shlex.join(("budgetfrontier", name, s.job, *options)) if s.job else None
