"""The verdict on a crawl: for each state that it may be in, one sentence, and the command that helps."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from budgetfrontier.core.model import CrawlState, Process, QueueState, Run, RunEnd, Summary
from budgetfrontier.rules.run_history import CRAWL, SERVE, WORKER
from budgetfrontier.rules.verdict import (
    Standing,
    Verdict,
    is_hung,
    last_commit,
    pause_sentence,
    process_line,
    say_ago,
    standstill,
    verdict,
)

NOW = 1_000_000.0
HOUR = 3600.0
RUNNING = Process(alive=True, pid=7, program="spider", last_call=NOW - 1, last_commit=NOW - 2)


def totals(state: CrawlState = CrawlState.RUNNING, queues: dict[str, int] | None = None, **counts: Any) -> Summary:
    zeros = dict.fromkeys(Summary.__struct_fields__, 0) | {"pause_reason": None, "queues": queues or {}, "state": state}
    zeros |= {"full_reasons": {}, "invalid_reasons": {}, "error_answers": {}}
    return Summary(**(zeros | counts))


def standing(
    state: CrawlState = CrawlState.RUNNING,
    queues: dict[str, int] | None = None,
    *,
    process: Process = RUNNING,
    more: dict[str, Any] | None = None,
    **counts: Any,
) -> Standing:
    usual: dict[str, Any] = {"job": "jobs/news", "start": "budgetfrontier crawl CONFIG --job jobs/news"}
    return Standing(now=NOW, totals=totals(state, queues, **counts), process=process, **(usual | (more or {})))


def stopped(end: RunEnd | None, reason: str = "") -> Process:
    """No process, and how the last one stopped an hour ago."""
    if end is None:
        return Process(alive=False, pid=None, last_commit=NOW - HOUR)
    leased = None if end is RunEnd.KILLED else 5
    stop = Run(
        kernel="native",
        number=3, program="spider", pid=6, host="a", began=NOW - 9 * HOUR, ended=NOW - HOUR, end=end, reason=reason,
        leased=leased,
    )  # fmt: skip
    return Process(alive=False, pid=None, last_commit=NOW - HOUR, last_stop=stop)


def served(process: Process) -> Process:
    """The same, where a server has the folder of the job."""
    process.server = 9
    return process


def queues(**counts: int) -> dict[str, int]:
    return {QueueState[name.upper()].value: count for name, count in counts.items()}


BY_ALICE = {"steered_by": "alice", "steered_at": NOW - 2 * HOUR}
COMMIT = "; the last commit was 1h ago."
USED_UP = (
    "cluster.max_uris is used up, so that nothing is leased: raise it in the file of all workers, and restart them"
)

STATES: dict[str, tuple[Standing, str, str, str | None]] = {
    "new": (
        standing(CrawlState.NEW),
        "warn",
        "Nothing was ever scheduled.",
        "budgetfrontier import jobs/news --seeds FILE",
    ),
    "new (only marked as seen)": (
        standing(CrawlState.NEW, seen=2, duplicates=1, invalid=3),
        "warn",
        "Nothing was ever scheduled: 2 URIs were only marked as seen, 1 URI was known already and 3 URIs were refused.",
        "budgetfrontier import jobs/news --seeds FILE",
    ),
    "retired (by name)": (
        standing(CrawlState.FINISHED, queues(retired=8), more={"held": 15, "retired_by_name": 8}),
        "warn",
        "The crawl is finished: only retired queues are left (8, with 15 URIs); `unretire` revives them.",
        "budgetfrontier queues jobs/news --state RETIRED",
    ),
    "retired (some by name)": (
        standing(CrawlState.FINISHED, queues(retired=8), more={"held": 15, "retired_by_name": 3}),
        "warn",
        "The crawl is finished: only retired queues are left (8, with 15 URIs); `adjust` a budget to revive them, and "
        "`unretire` the 3 that an operator retired.",
        "budgetfrontier queues jobs/news --state RETIRED",
    ),
    "terminated": (
        standing(CrawlState.TERMINATED, more=BY_ALICE, process=stopped(None)),
        "warn",
        "The crawl was terminated by alice 2h ago: it hands out nothing again.",
        None,
    ),
    "stopped": (
        standing(queues=queues(ready=1), process=stopped(RunEnd.EXIT)),
        "warn",
        f"No process runs this crawl: spider (process 6) ended 1h ago{COMMIT}",
        "budgetfrontier crawl CONFIG --job jobs/news",
    ),
    "unused": (
        standing(queues=queues(ready=1), process=served(stopped(RunEnd.EXIT))),
        "good",
        f"Nobody uses this crawl: budgetfrontier serve (process 9) opens it when somebody uses it{COMMIT}",
        None,
    ),
    "unused after a kill": (
        standing(queues=queues(ready=1), process=served(stopped(RunEnd.KILLED))),
        "warn",
        "Nobody uses this crawl: budgetfrontier serve (process 9) opens it when somebody uses it; spider (process 6) "
        f"was killed, or crashed{COMMIT}",
        None,
    ),
    "killed": (
        standing(queues=queues(ready=1), process=stopped(RunEnd.KILLED)),
        "bad",
        f"No process runs this crawl: spider (process 6) was killed, or crashed{COMMIT}",
        "budgetfrontier crawl CONFIG --job jobs/news",
    ),
    "signal": (
        standing(queues=queues(ready=1), process=stopped(RunEnd.SIGNAL, "SIGTERM")),
        "warn",
        f"No process runs this crawl: spider (process 6) was stopped by a signal 1h ago (SIGTERM){COMMIT}",
        "budgetfrontier crawl CONFIG --job jobs/news",
    ),
    "limit": (
        standing(queues=queues(ready=1), process=stopped(RunEnd.LIMIT, "limits.max_uris")),
        "warn",
        f"No process runs this crawl: spider (process 6) stopped at a limit 1h ago (limits.max_uris){COMMIT} "
        "Raise limits.max_uris first: with the same limit it stops at once.",
        "budgetfrontier crawl CONFIG --job jobs/news",
    ),
    "operator": (
        standing(queues=queues(ready=1), process=stopped(RunEnd.OPERATOR, "terminated by bob")),
        "warn",
        f"No process runs this crawl: spider (process 6) ended 1h ago, because the crawl was terminated by bob{COMMIT}",
        "budgetfrontier crawl CONFIG --job jobs/news",
    ),
    "disk_full": (
        standing(queues=queues(ready=1), process=stopped(RunEnd.DISK_FULL, "the disk of /x is full")),
        "bad",
        "No process runs this crawl: spider (process 6) stopped 1h ago, because the disk was full "
        f"(the disk of /x is full){COMMIT}",
        "budgetfrontier crawl CONFIG --job jobs/news",
    ),
    "error": (
        standing(queues=queues(ready=1), process=stopped(RunEnd.ERROR, "ValueError: x")),
        "bad",
        f"No process runs this crawl: spider (process 6) stopped 1h ago because of an error (ValueError: x){COMMIT}",
        "budgetfrontier crawl CONFIG --job jobs/news",
    ),
    "hung": (
        standing(
            queues=queues(ready=1),
            process=Process(alive=True, pid=7, program="", last_call=NOW - HOUR, last_commit=NOW - 2 * HOUR),
        ),
        "bad",
        "Process 7 has the frontier open, but has not used it for 1h; the last commit was 2h ago.",
        "kill 7",
    ),
    "command": (
        standing(
            queues=queues(ready=1),
            process=Process(
                alive=True,
                pid=7,
                program="budgetfrontier import",
                last_call=NOW,
                last_stop=stopped(RunEnd.EXIT).last_stop,
            ),
        ),
        "warn",
        "No process crawls: budgetfrontier import (process 7) has the frontier open; spider (process 6) ended 1h ago.",
        "budgetfrontier crawl CONFIG --job jobs/news",
    ),
    "paused": (
        standing(CrawlState.PAUSED, queues(ready=1), pause_reason="night", more=BY_ALICE),
        "warn",
        "The crawl is paused by alice 2h ago (night).",
        "budgetfrontier resume jobs/news",
    ),
    "pausing": (
        standing(CrawlState.PAUSING, queues(ready=1), pause_reason="night", in_process=2, more=BY_ALICE),
        "warn",
        "The crawl is paused by alice 2h ago (night); 2 leases are still out.",
        "budgetfrontier resume jobs/news",
    ),
    "running": (
        standing(queues=queues(ready=1), in_process=4, more={"rate": 12.34}),
        "good",
        "The crawl is running, 12.3 URIs/s, 4 URIs leased.",
        None,
    ),
    "not_asked": (
        standing(
            queues=queues(ready=3),
            process=Process(alive=True, pid=7, program="spider", last_call=NOW, last_commit=NOW),
            more={"asked": NOW - HOUR},
        ),
        "warn",
        "3 queues are ready, but spider (process 7) has asked for no URI for 1h.",
        None,
    ),
    "not_asked (it only schedules)": (
        standing(queues=queues(inactive=3), more={"asked": NOW - 150, "rate": 0.0}),
        "warn",
        "3 queues are inactive, but spider (process 7) has asked for no URI for 2m30s.",
        None,
    ),
    "leased": (
        standing(
            queues=queues(in_process=2),
            in_process=2,
            more={"first_lease": NOW - HOUR, "first_url": "https://a.test/slow"},
        ),
        "warn",
        "All that may be handed out is leased: 2 URIs, the oldest for 1h: https://a.test/slow.",
        "budgetfrontier leases jobs/news",
    ),
    "snoozed": (
        standing(queues=queues(snoozed=3), more={"next_wake": NOW + HOUR, "for_robots": 2}),
        "warn",
        "All active queues are snoozed (3): the next one wakes in 1h; 2 of them wait for their robots.txt.",
        None,
    ),
    "over_budget": (
        standing(queues=queues(inactive=12, retired=5), more={"over_budget": True}),
        "warn",
        "All queues left are over their budget or limit, and retire on their turn: 12 queues; "
        "`adjust` a budget to revive them.",
        "budgetfrontier queues jobs/news --state INACTIVE",
    ),
    "over_budget (paused at its finish)": (
        standing(
            CrawlState.PAUSED,
            queues(inactive=1),
            queued=13,
            pause_reason="finish",
            process=stopped(RunEnd.EXIT),
            more={"over_budget": True},
        ),
        "warn",
        "The crawl is paused at its finish: 13 URIs wait in 1 queue. All queues left are over their budget or limit, "
        "and retire on their turn: 1 queue; `adjust` a budget to revive them.",
        "budgetfrontier queues jobs/news --state INACTIVE",
    ),
    "stopped (all left is over budget)": (
        standing(queues=queues(inactive=1), queued=13, process=stopped(RunEnd.EXIT), more={"over_budget": True}),
        "warn",
        f"No process runs this crawl: spider (process 6) ended 1h ago{COMMIT} All queues left are over their budget "
        "or limit, and retire on their turn: 1 queue; `adjust` a budget to revive them.",
        "budgetfrontier queues jobs/news --state INACTIVE",
    ),
    "disk_full (there is no room)": (
        standing(queues=queues(ready=1), process=stopped(RunEnd.DISK_FULL), more={"free": 2 << 20}),
        "bad",
        "No process runs this crawl: spider (process 6) stopped 1h ago, because the disk was full"
        f"{COMMIT} Make room first: 2.0 MiB of its disk are free.",
        "budgetfrontier crawl CONFIG --job jobs/news",
    ),
    "later": (
        standing(queues=queues(exhausted=3), future=5, more={"next_due": NOW + 2 * HOUR}),
        "warn",
        "All that is left is scheduled for later: 5 URIs, the first in 2h.",
        None,
    ),
    "full": (
        standing(queues=queues(ready=1), queued=1000, in_process=1, more={"max_queued": 1000}),
        "warn",
        "The frontier is full (1,000 of max_queued 1,000): new URIs are refused. The crawl is running, 1 URI leased.",
        None,
    ),
    "retired": (
        standing(CrawlState.FINISHED, queues(retired=8), succeeded=20, more={"held": 15}, process=stopped(None)),
        "warn",
        "The crawl is finished: only retired queues are left (8, with 15 URIs); `adjust` a budget to revive them. "
        "Then start it again: `budgetfrontier crawl CONFIG --job jobs/news`.",
        "budgetfrontier queues jobs/news --state RETIRED",
    ),
    "finished (its retired queues hold nothing back)": (
        standing(CrawlState.FINISHED, queues(retired=8), succeeded=20, process=stopped(None)),
        "good",
        "The crawl is finished: everything is crawled (20 URIs).",
        None,
    ),
    "retired (only URIs for later)": (
        standing(CrawlState.FINISHED, queues(retired=1), succeeded=20, future=3),
        "warn",
        "The crawl is finished: only retired queues are left (1, with 3 URIs scheduled for later); `adjust` a "
        "budget to revive them.",
        "budgetfrontier queues jobs/news --state RETIRED",
    ),
    "dead_letters": (
        standing(
            CrawlState.FINISHED,
            queues(exhausted=8),
            succeeded=3,
            dead=152,
            dead_prerequisites=2,
            prerequisites=4,
            prerequisites_succeeded=2,
        ),
        "bad",
        "The crawl is finished: 1 was crawled of 151 URIs; 150 became dead letters.",
        "budgetfrontier dead-letters jobs/news",
    ),
    "dead_letters (all)": (
        standing(CrawlState.FINISHED, queues(exhausted=8), dead=2, dead_prerequisites=1),
        "bad",
        "The crawl is finished: nothing was crawled; of 1 URI, 1 became a dead letter.",
        "budgetfrontier dead-letters jobs/news",
    ),
    "disregarded (both)": (
        standing(CrawlState.FINISHED, queues(exhausted=8), succeeded=1, disregarded=1500, robots_denials=1200),
        "warn",
        "The crawl is finished: 1 was crawled of 1,501 URIs; 1,200 were disregarded because of robots.txt and 300 were "
        "disregarded for other reasons, such as the scope.",
        "budgetfrontier report jobs/news --kind hosts",
    ),
    "over_quota": (
        standing(CrawlState.FINISHED, queues(exhausted=8), succeeded=10, disregarded=1500, quota_denials=1200),
        "warn",
        "The crawl is finished: 10 were crawled of 1,510 URIs; 1,200 were disregarded because a quota was used up and "
        "300 were disregarded for other reasons, such as the scope.",
        "budgetfrontier report jobs/news --kind quotas",
    ),
    "disregarded (robots.txt, by all)": (
        standing(
            CrawlState.FINISHED,
            queues(exhausted=12),
            succeeded=12,
            disregarded=12,
            robots_denials=12,
            prerequisites=12,
            prerequisites_succeeded=12,
        ),
        "bad",
        "The crawl is finished: nothing was crawled; of 12 URIs, 12 were disregarded because of robots.txt.",
        "budgetfrontier report jobs/news --kind hosts",
    ),
    "disregarded": (
        standing(CrawlState.PAUSED, queues(exhausted=8), pause_reason="finish", succeeded=1, disregarded=150),
        "warn",
        "The crawl is paused at its finish: 1 was crawled of 151 URIs; 150 were disregarded for other reasons, such as "
        "the scope.",
        "budgetfrontier report jobs/news --kind hosts",
    ),
    "paused at its finish": (
        standing(
            CrawlState.PAUSED,
            queues(ready=1, inactive=2, retired=1, exhausted=8),
            pause_reason="finish",
            queued=5,
            succeeded=9,
            process=stopped(RunEnd.EXIT),
            more={"held": 3},
        ),
        "warn",
        "The crawl is paused at its finish: 5 URIs wait in 3 queues.",
        "budgetfrontier crawl CONFIG --job jobs/news",
    ),
    "paused at its finish, in a process": (
        standing(CrawlState.PAUSED, queues(snoozed=1), pause_reason="finish", queued=1, succeeded=9),
        "warn",
        "The crawl is paused at its finish: 1 URI waits in 1 queue.",
        "budgetfrontier resume jobs/news",
    ),
    "error_answers": (
        standing(
            CrawlState.FINISHED,
            queues(exhausted=1),
            succeeded=4,
            prerequisites=1,
            prerequisites_succeeded=1,
            error_answers={"404": 1, "500": 2},
        ),
        "bad",
        "The crawl is finished: nothing was crawled; of 3 URIs, 3 answered with an error status (500: 2, 404: 1).",
        "budgetfrontier statuses jobs/news",
    ),
    "failed": (
        standing(CrawlState.FINISHED, queues(exhausted=1), failed=3, succeeded=1),
        "bad",
        "The crawl is finished: 1 was crawled of 4 URIs; 3 failed.",
        "budgetfrontier statuses jobs/news",
    ),
    "nothing": (
        standing(
            CrawlState.FINISHED,
            queues(exhausted=1),
            scheduled=3,
            succeeded=1,
            prerequisites=2,
            prerequisites_succeeded=1,
            prerequisites_disregarded=1,
            disregarded=1,
        ),
        "bad",
        "The crawl is finished: nothing was crawled, for none of 3 URIs was tried to the end.",
        None,
    ),
    "deleted (all)": (
        standing(CrawlState.FINISHED, queues(exhausted=1), scheduled=3, deleted=3),
        "bad",
        "The crawl is finished: nothing was crawled; of 3 URIs, 3 were deleted.",
        "budgetfrontier audit jobs/news --operation delete",
    ),
    "dropped": (
        standing(CrawlState.PAUSED, queues(exhausted=8), pause_reason="finish", succeeded=1, dropped=20),
        "bad",
        "The crawl is paused at its finish: 1 was crawled of 21 URIs; 20 became dead letters that were dropped.",
        "budgetfrontier audit jobs/news --operation drop",
    ),
    "deleted": (
        standing(CrawlState.FINISHED, queues(exhausted=8), succeeded=2, deleted=9),
        "warn",
        "The crawl is finished: 2 were crawled of 11 URIs; 9 were deleted.",
        "budgetfrontier audit jobs/news --operation delete",
    ),
    "finished (but for what was deleted)": (
        standing(CrawlState.FINISHED, queues(exhausted=8), succeeded=1500, deleted=3),
        "good",
        "The crawl is finished: 1,500 were crawled of 1,503 URIs; 3 were deleted.",
        None,
    ),
    "finished": (
        standing(CrawlState.FINISHED, queues(exhausted=8), succeeded=1500, failed=3, disregarded=20),
        "good",
        "The crawl is finished: 1,500 were crawled of 1,523 URIs; 20 were disregarded for other reasons, such as the "
        "scope and 3 failed.",
        None,
    ),
    "finished (all)": (
        standing(
            CrawlState.FINISHED,
            queues(exhausted=8),
            succeeded=1500,
            prerequisites=100,
            prerequisites_succeeded=90,
            prerequisites_disregarded=10,
            disregarded=10,
        ),
        "good",
        "The crawl is finished: everything is crawled (1,410 URIs).",
        None,
    ),
    "retired (one by name)": (
        standing(CrawlState.FINISHED, queues(retired=8), more={"held": 15, "retired_by_name": 1}),
        "warn",
        "The crawl is finished: only retired queues are left (8, with 15 URIs); `adjust` a budget to revive them, and "
        "`unretire` the 1 that an operator retired.",
        "budgetfrontier queues jobs/news --state RETIRED",
    ),
    "retired (nobody knows how it was started)": (
        standing(CrawlState.FINISHED, queues(retired=8), process=stopped(RunEnd.EXIT), more={"held": 1, "start": None}),
        "warn",
        "The crawl is finished: only retired queues are left (8, with 1 URI); `adjust` a budget to revive them. Then "
        "start it again.",
        "budgetfrontier queues jobs/news --state RETIRED",
    ),
    "finished (half of it)": (
        standing(CrawlState.FINISHED, queues(exhausted=1), succeeded=2, failed=2),
        "good",
        "The crawl is finished: 2 were crawled of 4 URIs; 2 failed.",
        None,
    ),
    "failed (more than half of it)": (
        standing(CrawlState.FINISHED, queues(exhausted=1), succeeded=2, failed=3),
        "bad",
        "The crawl is finished: 2 were crawled of 5 URIs; 3 failed.",
        "budgetfrontier statuses jobs/news",
    ),
    "stopped (nothing was committed)": (
        standing(queues=queues(ready=1), process=Process(alive=False, pid=None)),
        "bad",
        "No process runs this crawl: how the last one stopped is not known.",
        "budgetfrontier crawl CONFIG --job jobs/news",
    ),
    "stopped (nothing was ever leased)": (
        standing(queues=queues(ready=1), process=stopped(None)),
        "warn",
        f"No process runs this crawl: none has leased a URI of it yet{COMMIT}",
        "budgetfrontier crawl CONFIG --job jobs/news",
    ),
    "stopped (paused)": (
        standing(CrawlState.PAUSED, queues(ready=1), process=stopped(RunEnd.EXIT), more=BY_ALICE),
        "warn",
        f"No process runs this crawl: spider (process 6) ended 1h ago{COMMIT} The crawl is paused by alice 2h ago.",
        "budgetfrontier resume jobs/news",
    ),
    "stopped (a scope that has changed)": (
        standing(CrawlState.PAUSED, queues(ready=1), process=stopped(RunEnd.EXIT), pause_reason="scope"),
        "warn",
        f"No process runs this crawl: spider (process 6) ended 1h ago{COMMIT} The crawl is paused, because its scope "
        "has changed, and would disregard many of the URIs that wait: resume it to agree, or change the scope back and "
        "start it again.",
        "budgetfrontier resume jobs/news",
    ),
    "stopped (a policy failed, and how it stopped is not known)": (
        standing(CrawlState.PAUSED, queues(ready=1), process=stopped(None), pause_reason="policy: x", retried=1),
        "bad",
        f"No process runs this crawl: how the last one stopped is not known{COMMIT} Fix the policy, and start the "
        "crawl again: it goes on by itself.",
        "budgetfrontier crawl CONFIG --job jobs/news",
    ),
    "operator (without a reason)": (
        standing(queues=queues(ready=1), process=stopped(RunEnd.OPERATOR)),
        "warn",
        f"No process runs this crawl: spider (process 6) ended 1h ago, because the crawl was terminated{COMMIT}",
        "budgetfrontier crawl CONFIG --job jobs/news",
    ),
    "paused (served)": (
        standing(
            CrawlState.PAUSED,
            queues(ready=1),
            process=served(stopped(RunEnd.EXIT)),
            pause_reason="night",
            more=BY_ALICE,
        ),
        "warn",
        "The crawl is paused by alice 2h ago (night). Nobody uses this crawl: budgetfrontier serve (process 9) opens "
        f"it when somebody uses it{COMMIT}",
        "budgetfrontier resume jobs/news",
    ),
    "paused (by a program)": (
        standing(CrawlState.PAUSED, queues(ready=1)),
        "warn",
        "The crawl is paused (no reason given).",
        "budgetfrontier resume jobs/news",
    ),
    "paused (nobody knows when)": (
        standing(CrawlState.PAUSED, queues(ready=1), pause_reason="night", more={"steered_by": "alice"}),
        "warn",
        "The crawl is paused by alice (night).",
        "budgetfrontier resume jobs/news",
    ),
    "paused (a limit is set, but not used up)": (
        standing(CrawlState.PAUSED, queues(ready=1), pause_reason="night", more={"limit": "cluster.max_uris"}),
        "warn",
        "The crawl is paused (night).",
        "budgetfrontier resume jobs/news",
    ),
    "paused (by somebody whose reason is the word of a limit)": (
        standing(CrawlState.PAUSED, queues(ready=1), pause_reason="limit"),
        "warn",
        "The crawl is paused (limit).",
        "budgetfrontier resume jobs/news",
    ),
    "pausing (its scope has changed)": (
        standing(CrawlState.PAUSING, queues(in_process=1), pause_reason="scope", in_process=1),
        "warn",
        "The crawl is paused, because its scope has changed, and would disregard many of the URIs that wait: resume it "
        "to agree, or change the scope back and start it again; 1 lease is still out.",
        "budgetfrontier resume jobs/news",
    ),
    "limit (of all partitions)": (
        standing(CrawlState.PAUSED, queues(ready=1), pause_reason="limit", more={"limit": "cluster.max_uris"}),
        "warn",
        f"{USED_UP}.",
        None,
    ),
    "limit (of all partitions, 1 still out)": (
        standing(
            CrawlState.PAUSED, queues(ready=1), pause_reason="limit", in_process=1, more={"limit": "cluster.max_uris"}
        ),
        "warn",
        f"{USED_UP}; 1 URI is still out.",
        None,
    ),
    "limit (of all partitions, many still out)": (
        standing(
            CrawlState.PAUSED,
            queues(ready=1),
            pause_reason="limit",
            in_process=1200,
            more={"limit": "cluster.max_uris"},
        ),
        "warn",
        f"{USED_UP}; 1,200 URIs are still out.",
        None,
    ),
    "command (the first)": (
        standing(
            queues=queues(ready=1), process=Process(alive=True, pid=7, program="budgetfrontier import", last_call=NOW)
        ),
        "warn",
        "No process crawls: budgetfrontier import (process 7) has the frontier open.",
        "budgetfrontier crawl CONFIG --job jobs/news",
    ),
    "hung (elsewhere)": (
        standing(
            queues=queues(ready=1), process=Process(alive=True, pid=0, last_call=NOW - HOUR, last_commit=NOW - 0.5)
        ),
        "bad",
        "A process elsewhere has the frontier open, but has not used it for 1h; the last commit was just now.",
        None,
    ),
    "hung (suspended)": (
        standing(
            queues=queues(ready=1),
            process=Process(alive=True, pid=7, program="spider", last_call=NOW - HOUR, suspended=True),
        ),
        "bad",
        "spider (process 7) has the frontier open, but has not used it for 1h. It was stopped by a signal, and goes on "
        "with SIGCONT; a SIGTERM counts only then.",
        "kill -CONT 7",
    ),
    "hung (suspended, and its last call is not known)": (
        standing(queues=queues(ready=1), process=Process(alive=True, pid=7, suspended=True)),
        "bad",
        "Process 7 has the frontier open, but has not used it. It was stopped by a signal, and goes on with SIGCONT; a "
        "SIGTERM counts only then.",
        "kill -CONT 7",
    ),
    "running (nothing out, and its rate is not known)": (
        standing(queues=queues(ready=1)),
        "good",
        "The crawl is running.",
        None,
    ),
    "running (nothing committed yet)": (
        standing(queues=queues(ready=1), process=Process(alive=True, pid=7, program="spider", last_call=NOW)),
        "good",
        "The crawl is running.",
        None,
    ),
    "running (its lease takes an hour)": (
        standing(
            queues=queues(ready=1),
            in_process=1,
            process=Process(alive=True, pid=7, program="spider", last_call=NOW, last_commit=NOW - HOUR),
        ),
        "good",
        "The crawl is running, 1 URI leased.",
        None,
    ),
    "running (its oldest lease is two minutes old)": (
        standing(queues=queues(in_process=1), in_process=1, more={"first_lease": NOW - 120}),
        "good",
        "The crawl is running, 1 URI leased.",
        None,
    ),
    "leased (one URI, for more than two minutes)": (
        standing(
            queues=queues(in_process=1),
            in_process=1,
            more={"first_lease": NOW - 121, "first_url": "https://a.test/slow"},
        ),
        "warn",
        "All that may be handed out is leased: 1 URI, the oldest for 2m1s: https://a.test/slow.",
        "budgetfrontier leases jobs/news",
    ),
    "running (all that crawlers can take is leased)": (
        standing(queues=queues(ready=3), in_process=8, more={"asked": NOW - 112, "last_expiry": NOW + 488}),
        "good",
        "The crawl is running, 8 URIs leased; spider (process 7) has asked for no URI for 1m52s.",
        None,
    ),
    "running (leases are renewed)": (
        standing(
            queues=queues(ready=3),
            in_process=8,
            more={"asked": NOW - HOUR, "renewed": NOW - 100, "last_expiry": NOW + 200, "rate": 0.0},
        ),
        "good",
        "The crawl is running, 0.0 URIs/s, 8 URIs leased; spider (process 7) has asked for no URI for 1h.",
        None,
    ),
    "not_asked (leases are neither renewed nor ended)": (
        standing(queues=queues(ready=24), in_process=8, more={"asked": NOW - 302, "last_expiry": NOW + 298}),
        "warn",
        "24 queues are ready, and 8 URIs are leased, but spider (process 7) has asked for no URI for 5m2s; "
        "their leases expire within 4m58s.",
        None,
    ),
    "not_asked (one lease is not renewed any more)": (
        standing(
            queues=queues(inactive=1),
            in_process=1,
            more={"asked": NOW - HOUR, "renewed": NOW - 151, "last_expiry": NOW + 149},
        ),
        "warn",
        "1 queue is inactive, and 1 URI is leased, but spider (process 7) has asked for no URI for 1h; "
        "its lease expires within 2m29s.",
        None,
    ),
    "not_asked (a snoozed queue, and leases)": (
        standing(
            queues=queues(snoozed=4),
            in_process=2,
            more={"next_wake": NOW - 9, "asked": NOW - 400, "first_lease": NOW - 400, "last_expiry": NOW},
        ),
        "warn",
        "The next of the snoozed queues (4) is due, and 2 URIs are leased, but spider (process 7) has asked for no URI "
        "for 6m40s.",
        None,
    ),
    "not_asked (later, and leases)": (
        standing(
            queues=queues(exhausted=3),
            in_process=2,
            future=12,
            more={"next_due": NOW, "asked": NOW - 400, "first_lease": NOW - 400, "last_expiry": NOW + 200},
        ),
        "warn",
        "The first of the URIs scheduled for later (12) is due, and 2 URIs are leased, but spider (process 7) has "
        "asked for no URI for 6m40s; their leases expire within 3m20s.",
        None,
    ),
    "not_asked (one queue)": (
        standing(
            queues=queues(ready=1),
            process=Process(alive=True, pid=7, program="spider", last_call=NOW, last_commit=NOW),
            more={"asked": NOW - 61},
        ),
        "warn",
        "1 queue is ready, but spider (process 7) has asked for no URI for 1m1s.",
        None,
    ),
    "not_asked (snoozed queues)": (
        standing(queues=queues(snoozed=40), more={"next_wake": NOW - 9, "asked": NOW - 61}),
        "warn",
        "The next of the snoozed queues (40) is due, but spider (process 7) has asked for no URI for 1m1s.",
        None,
    ),
    "not_asked (a command has just ended their snooze)": (
        standing(queues=queues(snoozed=40), more={"next_wake": 0.0, "asked": NOW - 61}),
        "warn",
        "The next of the snoozed queues (40) is due, but spider (process 7) has asked for no URI for 1m1s.",
        None,
    ),
    "not_asked (later)": (
        standing(queues=queues(exhausted=3), future=12, more={"next_due": NOW, "asked": NOW - HOUR}),
        "warn",
        "The first of the URIs scheduled for later (12) is due, but spider (process 7) has asked for no URI for 1h.",
        None,
    ),
    "snoozed (for groups)": (
        standing(queues=queues(snoozed=9), more={"next_wake": NOW + HOUR, "parked": 8, "group": "domain/a.test"}),
        "warn",
        "All active queues are snoozed (9): the next one wakes in 1h; 8 of them wait for their group, such as "
        "domain/a.test.",
        None,
    ),
    "snoozed (for leases of a group)": (
        standing(queues=queues(snoozed=2), more={"parked": 2, "group": "g"}),
        "warn",
        "All active queues are snoozed (2): they wait for the end of a lease; 2 of them wait for their group, such as "
        "g.",
        None,
    ),
    "snoozed (after failures)": (
        standing(
            queues=queues(snoozed=1200),
            more={"next_wake": NOW + 60, "for_robots": 1, "for_retry": 99, "failure": "timeout"},
        ),
        "good",
        "All active queues are snoozed (1,200): the next one wakes in 1m; 1 of them waits for its robots.txt; 99 of "
        "them wait because an attempt failed, the first for: timeout.",
        None,
    ),
    "snoozed (after failures without a reason)": (
        standing(queues=queues(snoozed=2), more={"next_wake": NOW + 61, "for_retry": 2}),
        "warn",
        "All active queues are snoozed (2): the next one wakes in 1m1s; 2 of them wait because an attempt failed.",
        None,
    ),
    "snoozed (a URI is stuck)": (
        standing(queues=queues(snoozed=2), in_process=1, more={"next_wake": NOW - 1, "first_lease": NOW - HOUR}),
        "good",
        "All active queues are snoozed (2): the next one wakes now; 1 URI is leased.",
        None,
    ),
    "snoozed (URIs are stuck)": (
        standing(queues=queues(snoozed=2), in_process=2, more={"next_wake": NOW, "first_lease": NOW - HOUR}),
        "good",
        "All active queues are snoozed (2): the next one wakes now; 2 URIs are leased.",
        None,
    ),
    "snoozed (nobody knows until when)": (
        standing(queues=queues(snoozed=2)),
        "warn",
        "All active queues are snoozed (2): the next one wakes now.",
        None,
    ),
    "later (nobody knows when)": (
        standing(queues=queues(exhausted=3), future=1),
        "warn",
        "All that is left is scheduled for later: 1 URI.",
        None,
    ),
    "full (of one, which is leased)": (
        standing(
            queues=queues(in_process=1),
            queued=1,
            in_process=1,
            more={"max_queued": 1, "first_lease": NOW - HOUR, "first_url": "https://a.test/slow"},
        ),
        "warn",
        "The frontier is full (1 of max_queued 1): new URIs are refused. All that may be handed out is leased: 1 URI, "
        "the oldest for 1h: https://a.test/slow.",
        "budgetfrontier leases jobs/news",
    ),
    "settling": (
        standing(queues=queues(exhausted=1)),
        "good",
        "Nothing is queued; a command or a change of settings is still being applied.",
        None,
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_each_state_has_its_sentence(name: str) -> None:
    given, level, text, remedy = STATES[name]
    slug = name.split(" ", maxsplit=1)[0]
    assert verdict(given) == Verdict(slug, level, text, remedy)
    assert verdict(given).to_dict() == {"slug": slug, "level": level, "sentence": text, "remedy": remedy}


def test_a_frontier_without_a_folder_has_no_command_for_it() -> None:
    given = standing(CrawlState.PAUSED, queues(ready=1), pause_reason="night", more={"job": "", "start": None})
    assert verdict(given) == Verdict("paused", "warn", "The crawl is paused (night).", None)


def test_a_paused_crawl_without_a_process_says_both() -> None:
    found = verdict(standing(CrawlState.PAUSED, pause_reason="night", more=BY_ALICE, process=stopped(RunEnd.KILLED)))
    assert found.slug == "killed" and found.text.endswith("1h ago. The crawl is paused by alice 2h ago (night).")


@pytest.mark.parametrize(("end", "slug"), [(RunEnd.DISK_FULL, "disk_full"), (RunEnd.EXIT, "new")])
def test_a_crawl_that_died_before_its_first_uri_was_stored_says_why(end: RunEnd, slug: str) -> None:
    assert verdict(standing(CrawlState.NEW, process=stopped(end))).slug == slug


TRIED = ("succeeded", "failed", "retried", "deferred", "disregarded", "given_up", "expired", "in_process")


@pytest.mark.parametrize("count", TRIED)
def test_a_stop_that_is_not_known_is_not_invented(count: str) -> None:
    tried: dict[str, Any] = {count: 1}
    found = verdict(standing(queues=queues(ready=1), process=stopped(None), **tried))
    assert found.slug == "stopped" and found.level == "bad"
    assert found.text == f"No process runs this crawl: how the last one stopped is not known{COMMIT}"


@pytest.mark.parametrize(
    ("interval", "silence", "hangs"),
    [(0.5, 59, False), (0.5, 60, False), (0.5, 61, True), (100, 299, False), (100, 300, False), (100, 301, True)],
)
def test_a_process_hangs_that_is_silent_for_a_minute_or_three_commit_intervals(
    interval: float, silence: float, hangs: bool
) -> None:
    process = Process(alive=True, pid=7, program="x", last_call=NOW - silence, last_commit=NOW)
    found = standing(process=process, more={"commit_interval": interval})
    assert is_hung(found) is hangs and (standstill(found) == "the process of the crawl hangs") is hangs


def test_a_process_whose_last_call_is_not_known_does_not_hang() -> None:
    assert not is_hung(standing(process=Process(alive=True, pid=7, program="x")))


@pytest.mark.parametrize(("interval", "idle", "slug"), [
    (0.5, 60, "running"), (0.5, 61, "not_asked"), (100, 299, "running"), (100, 300, "running"), (100, 301, "not_asked"),
])  # fmt: skip
def test_nothing_was_asked_for_if_there_was_no_request_for_a_minute_or_three_commit_intervals(
    interval: float, idle: float, slug: str
) -> None:
    process = Process(alive=True, pid=7, program="x", last_call=NOW, last_commit=NOW)
    more = {"commit_interval": interval, "asked": NOW - idle}
    given = standing(queues=queues(ready=1), process=process, more=more)
    assert verdict(given).slug == slug


@pytest.mark.parametrize(
    ("counts", "fields"),
    [
        ({"snoozed": 1}, {"over_budget": True}),
        ({}, {"over_budget": False}),
        ({}, {"over_budget": True, "future": 1}),
    ],
)
def test_a_start_helps_a_crawl_at_its_finish_unless_all_that_waits_is_over_budget(
    counts: dict[str, int], fields: dict[str, Any]
) -> None:
    future = fields.pop("future", 0)
    found = standing(
        CrawlState.PAUSED, queues(inactive=1, **counts), queued=3, pause_reason="finish", future=future,
        process=stopped(RunEnd.EXIT), more=fields,
    )  # fmt: skip
    assert verdict(found).remedy == "budgetfrontier crawl CONFIG --job jobs/news"


def test_a_pause_that_waits_for_an_old_lease_names_it() -> None:
    def said(age: float) -> str:
        more = BY_ALICE | {"first_lease": NOW - age, "first_url": "https://a.test/slow"}
        return verdict(standing(CrawlState.PAUSING, in_process=2, pause_reason="lunch", more=more)).text

    assert said(120.0) == "The crawl is paused by alice 2h ago (lunch); 2 leases are still out."
    assert said(150.0).endswith("; 2 leases are still out, the oldest for 2m30s: https://a.test/slow.")


def test_a_pause_waits_for_no_lease_of_a_process_that_is_gone() -> None:
    given = standing(CrawlState.PAUSING, in_process=2, pause_reason="lunch", more=BY_ALICE)
    given.process = stopped(RunEnd.KILLED)
    assert verdict(given).text.endswith(" The crawl is paused by alice 2h ago (lunch).")
    assert given.process.last_stop is not None
    given.process.last_stop.program = SERVE
    assert verdict(given).text.endswith("; 2 leases are still out.")


def test_young_leases_and_short_snoozes_are_a_running_crawl() -> None:
    young = standing(queues=queues(in_process=1), in_process=1, more={"first_lease": NOW - 5})
    assert verdict(young).slug == "running"
    resting = standing(queues=queues(snoozed=1), more={"next_wake": NOW + 2.5})
    assert verdict(resting) == (
        "snoozed",
        "good",
        "All active queues are snoozed (1): the next one wakes in 2s.",
        None,
    )


def test_less_than_a_second_is_said_as_people_say_it() -> None:
    resting = standing(queues=queues(snoozed=1), more={"next_wake": NOW + 0.34})
    assert verdict(resting).text.endswith("the next one wakes in less than a second.")


def test_inactive_queues_within_their_budget_are_handed_out_on_request() -> None:
    given = standing(queues=queues(inactive=3, snoozed=1), more={"next_wake": NOW + HOUR})
    assert verdict(given).slug == "running"
    given.asked = NOW - HOUR
    given.process = Process(alive=True, pid=7, program="x", last_call=NOW, last_commit=NOW - HOUR)
    assert verdict(given).text == "3 queues are inactive, but x (process 7) has asked for no URI for 1h."
    given.process = Process(alive=True, pid=None, program="2 workers", last_commit=NOW - HOUR)
    assert verdict(given).text == "3 queues are inactive, but no crawler has asked 2 workers for a URI for 1h."
    given.process = Process(alive=True, pid=7, program=WORKER, last_commit=NOW - HOUR)
    assert "inactive, but no crawler has asked budgetfrontier worker (process 7) for a URI" in verdict(given).text


@pytest.mark.parametrize(
    ("process", "line"),
    [
        (RUNNING, "spider (process 7), last commit 2s ago"),
        (
            Process(alive=True, pid=0, last_call=NOW - HOUR, last_commit=NOW),
            "a process elsewhere, not used by it for 1h, last commit just now",
        ),
        (Process(alive=False, pid=None), "none; nothing committed"),
        (stopped(None), "none; last commit 1h ago"),
        (stopped(RunEnd.EXIT, "finished"), "none; spider (process 6) ended 1h ago (finished); last commit 1h ago"),
    ],
)
def test_the_line_on_the_process(process: Process, line: str) -> None:
    assert process_line(standing(process=process)) == line


def test_what_a_clock_that_was_ahead_has_dated_is_not_said_to_be_of_now() -> None:
    ahead = Process(alive=False, pid=None, last_commit=NOW + 40 * 24 * HOUR)
    assert process_line(standing(process=ahead)) == "none; last commit 40d ahead of this clock"
    text = verdict(standing(queues=queues(ready=1), process=ahead)).text
    assert text.endswith("; the last commit was 40d ahead of this clock.")


def test_if_a_repair_has_lost_the_totals_the_time_of_the_last_commit_is_not_known() -> None:
    assert process_line(standing(process=Process(alive=False, pid=None), scheduled=24)) == (
        "none; when it last committed is not known"
    )


def test_the_commit_of_a_command_is_not_that_of_the_crawl_before_it() -> None:
    process = stopped(RunEnd.KILLED)
    process.last_commit = NOW - 3  # of a pause
    stands = standing(CrawlState.PAUSED, queues(ready=1), process=process, pause_reason="operator")
    assert last_commit(stands) == NOW - HOUR
    assert "; the crawl's last commit was 1h ago" in verdict(stands).text
    assert process_line(stands).endswith("; the crawl's last commit 1h ago")


def test_the_commit_that_stores_the_end_of_a_run_is_no_other() -> None:
    process = stopped(RunEnd.EXIT)
    process.last_commit = NOW - HOUR + 0.01
    assert process_line(standing(process=process)).endswith("; last commit 1h ago")


def test_after_the_failure_of_a_policy_the_crawl_is_started_again_and_not_resumed() -> None:
    process = stopped(RunEnd.ERROR, "the cost policy m:cost raised KeyError")
    found = verdict(standing(CrawlState.PAUSED, queues(ready=1), process=process, pause_reason="policy: the cost ..."))
    assert found.text.endswith(" Fix the policy, and start the crawl again: it goes on by itself.")
    assert (found.slug, found.remedy) == ("error", "budgetfrontier crawl CONFIG --job jobs/news")


@pytest.mark.parametrize(
    ("process", "program"),
    [
        (Process(alive=True, pid=7, program=SERVE, last_call=NOW, last_commit=NOW), SERVE),
        (Process(alive=True, pid=None, program=WORKER, last_call=NOW, last_commit=NOW), WORKER),
        (served(stopped(RunEnd.EXIT)), SERVE),
    ],
)
def test_a_policy_that_failed_in_a_server_needs_it_to_start_again_before_the_crawl_is_resumed(
    process: Process, program: str
) -> None:
    found = verdict(standing(CrawlState.PAUSED, queues(ready=1), process=process, pause_reason="policy: the cost ..."))
    assert (found.slug, found.remedy) == ("paused", None)
    assert found.text.endswith(
        f" Fix the policy, start `{program}` again, which has imported the old one, and resume the crawl: "
        "`budgetfrontier resume jobs/news`."
    )


def test_a_policy_that_failed_in_a_crawl_that_still_runs_needs_no_resume() -> None:
    process = Process(alive=True, pid=7, program=CRAWL, last_call=NOW, last_commit=NOW)
    found = verdict(standing(CrawlState.PAUSING, queues(ready=1), process=process, pause_reason="policy: the cost ..."))
    assert (found.slug, found.remedy) == ("pausing", "budgetfrontier crawl CONFIG --job jobs/news")
    assert found.text.endswith(" Fix the policy, and start the crawl again: it goes on by itself.")


def test_a_process_that_was_stopped_by_a_signal_is_continued_and_not_killed() -> None:
    for silence in (HOUR, 1.0):  # it is known at once
        process = Process(alive=True, pid=7, last_call=NOW - silence, last_commit=NOW - silence, suspended=True)
        found = verdict(standing(queues=queues(ready=1), process=process))
        assert (found.slug, found.remedy) == ("hung", "kill -CONT 7")
        assert "a SIGTERM counts only then" in found.text


def test_a_run_without_an_end_was_killed_and_one_without_a_time_has_none() -> None:
    process = stopped(RunEnd.SIGNAL, "SIGTERM")
    assert process.last_stop is not None
    process.last_stop.ended = None
    assert process_line(standing(process=process)) == (
        "none; spider (process 6) was stopped by a signal (SIGTERM); last commit 1h ago"
    )
    process.last_stop.end = None
    assert process_line(standing(process=process)) == (
        "none; spider (process 6) was killed, or crashed; last commit 1h ago"
    )


@pytest.mark.parametrize("program", [SERVE, WORKER])
def test_a_policy_that_failed_in_a_server_that_is_gone_needs_it_too_and_a_crawl_without_a_folder_no_command(
    program: str,
) -> None:
    process = stopped(RunEnd.EXIT)
    assert process.last_stop is not None
    process.last_stop.program = program
    given = standing(CrawlState.PAUSED, queues(ready=1), process=process, pause_reason="policy: x", more={"job": ""})
    assert verdict(given) == (
        "stopped",
        "warn",
        f"No process runs this crawl: {program} (process 6) ended 1h ago{COMMIT} Fix the policy, start `{program}` "
        "again, which has imported the old one, and resume the crawl.",
        None,
    )


def test_an_idle_worker_does_not_hang_unless_it_was_suspended() -> None:
    idle = Process(alive=True, pid=7, program=WORKER, last_call=NOW - 9 * HOUR, last_commit=NOW - 9 * HOUR)
    assert not is_hung(standing(process=idle)) and is_hung(standing(process=replace(idle, program=SERVE)))
    assert is_hung(standing(process=replace(idle, suspended=True)))


def test_a_pause_at_the_finish_needs_no_reason() -> None:
    assert pause_sentence(standing(CrawlState.PAUSED, pause_reason="finish")) == "The crawl is paused at its finish."


@pytest.mark.parametrize(
    ("counts", "held_future", "text"),
    [
        ({"future": 3}, 0, "3 URIs are scheduled for later."),
        ({"future": 3}, 2, "1 URI is scheduled for later."),
        ({"future": 1, "queued": 2}, 0, "2 URIs wait in 2 queues and 1 URI is scheduled for later."),
    ],
)
def test_not_all_is_crawled_if_uris_for_later_have_come_after_the_finish(
    counts: dict[str, Any], held_future: int, text: str
) -> None:
    given = standing(
        CrawlState.PAUSED, queues(ready=2, exhausted=8), pause_reason="finish", succeeded=20, **counts,
        more={"held_future": held_future},
    )  # fmt: skip
    assert verdict(given) == Verdict(
        "paused", "warn", f"The crawl is paused at its finish: {text}", "budgetfrontier resume jobs/news"
    )


def test_uris_for_later_in_retired_queues_are_left_in_them() -> None:
    given = standing(
        CrawlState.PAUSED, queues(retired=1), pause_reason="finish", succeeded=20, future=3, more={"held_future": 3}
    )
    assert verdict(given).slug == "retired" and "(1, with 3 URIs scheduled for later)" in verdict(given).text
    both = msgspec.structs.replace(given, held=2)
    assert "(1, with 2 URIs, and 3 URIs scheduled for later)" in verdict(both).text


def test_queues_at_the_precedence_floor_that_are_left_are_named_with_the_retired_ones() -> None:
    found = verdict(standing(CrawlState.FINISHED, queues(ineligible=2), succeeded=20, more={"held": 5}))
    assert (found.slug, found.level) == ("ineligible", "warn")
    assert "only ineligible queues are left (2, with 5 URIs)" in found.text
    found = verdict(standing(CrawlState.FINISHED, queues(ineligible=2, retired=1), succeeded=20, more={"held": 5}))
    assert "only ineligible and retired queues are left (2 and 1, with 5 URIs)" in found.text
    assert found.text.endswith("or raise precedence_floor; of the retired, `adjust` a budget to revive them.")


def test_a_crawl_that_refused_uris_has_not_crawled_everything() -> None:
    refused: dict[str, Any] = {"full": 414, "full_reasons": {"bloom.expected": 400, "max_queued": 14}}
    found = verdict(standing(CrawlState.FINISHED, queues(), succeeded=20, **refused))
    assert (found.slug, found.level) == ("refused", "warn")
    assert (
        "everything that was admitted is crawled (20 URIs); 414 URIs were refused by bloom.expected and" in found.text
    )


def test_a_quota_that_holds_retired_queues_is_named_at_the_end() -> None:
    quota = "the quota of host a.test, urls 2, is used up, with 2"
    more = {"held": 5, "hold": quota}
    text = verdict(standing(CrawlState.FINISHED, queues(retired=2), succeeded=20, more=more)).text
    assert f"{quota}: `adjust` it or a budget to revive them" in text
    text = verdict(
        standing(CrawlState.FINISHED, queues(retired=2), succeeded=20, more={**more, "retired_by_name": 2})
    ).text
    assert "`unretire` revives them" in text and quota not in text


@pytest.mark.parametrize(
    ("ago", "told"),
    [(0.99, "just now"), (1.0, "1s ago"), (1.9, "2s ago"), (-60.0, "just now"), (-61.0, "1m1s ahead of this clock")],
)
def test_how_long_ago_something_was(ago: float, told: str) -> None:
    assert say_ago(NOW, NOW - ago) == told


def test_the_last_commit_is_that_of_the_process_that_runs_or_of_the_command_that_ended_last() -> None:
    process = stopped(RunEnd.EXIT)
    process.last_commit = NOW - 3
    assert process.last_stop is not None
    process.last_stop.program = "budgetfrontier import"
    assert last_commit(standing(process=process)) == NOW - 3
    process.last_stop.program, process.alive = "spider", True
    assert last_commit(standing(process=process)) == NOW - 3


def test_a_commit_one_second_after_the_end_of_a_run_is_of_a_command() -> None:
    process = stopped(RunEnd.EXIT)
    process.last_commit = NOW - HOUR + 1
    assert process_line(standing(process=process)).endswith("; the crawl's last commit 1h ago")


def test_partitions_that_wait_for_a_disk_are_told_although_the_others_go_on() -> None:
    found = standing(queues=queues(ready=1), pause_reason="disk: 4 GiB free in /x, less than guards.min_free")
    said = verdict(found)
    assert said.slug == "disk" and said.text.startswith(
        "Partitions of a worker are paused: 4 GiB free in /x, less than guards.min_free. "
    )
