"""The watch over a job: each condition is told once, by whoever watches, and tried again until it is delivered."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from budgetfrontier import Finish, Frontier, Outcome, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.units import format_time
from budgetfrontier.reports import alert_state
from budgetfrontier.reports.alert_state import AlertFiles, AlertState
from budgetfrontier.rules import alert_conditions
from budgetfrontier.rules.alert_conditions import RaisedAlert
from budgetfrontier.storage.file_locks import LockFile
from budgetfrontier.tools.alerting import watch_process, watching
from budgetfrontier.tools.alerting.watching import Watch, watched_job
from tests.crawler.process import forked_main, started
from tests.crawler.site import Site, linking
from tests.forked import ForkedProcess
from tests.support import PATIENCE, child_process, until
from tests.tools.alerting.receivers import Hook, served
from tests.tools.cli.conftest import Cli, cli

__all__ = ["cli"]


FILE = "alerts.json"


def settings(hook: Hook, **more: Any) -> dict[str, Any]:
    return {"crawl": "news", "alerts": {"sinks": [{"name": "ops", "webhook": hook.url}], "disk_below": 0, **more}}


@pytest.fixture
def job(tmp_path: Path, hook: Hook) -> Path:
    """A job that is paused, without a process."""
    with Frontier.open(tmp_path / "job" / "frontier", Settings.from_dict(settings(hook, log=True))) as frontier:
        frontier.schedule("http://a.test/")
        frontier.pause(reason="lunch", who="anna")
    return tmp_path / "job"


def told(hook: Hook) -> list[tuple[str, bool]]:
    return [(one["condition"], one["raised"]) for one in (json.loads(body) for _, _, body in hook.posted)]


def watch(job: Path) -> Watch:
    return Watch(watched_job(job, job / "frontier"))


def test_passwords_in_urls_are_told_nobody_and_keys_in_their_queries_are(tmp_path: Path, hook: Hook, cli: Cli) -> None:
    job, url = tmp_path / "job", "http://alice:s3cret@a.test/?key=shown"
    with Frontier.open(job / "frontier", Settings.from_dict(settings(hook, log=True))) as frontier:
        frontier.schedule(url)
        frontier.pause(reason=f"the cost policy raised an error for {url}")
    assert [one.condition for one in watch(job).look()] == ["paused"]
    ((_, _, body),) = hook.posted
    files = [one.read_text() for one in (job / "logs").iterdir()]
    for text in (body.decode(), cli("alerts", job).out, *files):
        assert "http://alice:***@a.test/?key=shown" in text and "s3cret" not in text


def test_what_begins_and_what_ends_is_told_once_whoever_watches(job: Path, hook: Hook, cli: Cli) -> None:
    first = watch(job)
    assert [one.condition for one in first.look()] == ["paused"]
    assert first.look() == [] and watch(job).look() == []
    assert told(hook) == [("paused", True)]
    listed = json.loads(cli("alerts", job, "--format", "json").out)
    assert [(one["condition"], one["level"], one["told"]) for one in listed] == [("paused", "warn", "ops")]
    assert "paused by anna" in listed[0]["text"] or "lunch" in listed[0]["text"]
    report = cli("report", job).out
    assert re.search(r" Wrong now: Alert paused since \S+ \S+ UTC\.\n", report), "the verdict says the rest"
    assert report.count("The crawl is paused") == 1
    assert cli("resume", job).code == 0
    looked = format_time(json.loads((job / FILE).read_text())["looked"])
    over = cli("alerts", job, "--once").out
    assert over.split()[1:3] == ["OVER", "paused"]
    assert f" good No longer; at {looked}: " in over
    assert told(hook) == [("paused", True), ("paused", False)]
    assert [line.split()[1:3] for line in (job / "logs" / "alerts.log").read_text().splitlines()] == [
        ["RAISED", "paused"], ["OVER", "paused"],
    ]  # fmt: skip
    assert json.loads(cli("alerts", job, "--format", "json").out) == []
    assert "Wrong now: Alert" not in cli("report", job).out


def test_of_two_watchers_the_second_leaves_the_look_to_the_first(job: Path, hook: Hook) -> None:
    file = LockFile(job / "alerts.lock", create=True)
    try:
        file.lock(0)
        assert watch(job).look() == [] and hook.posted == []
    finally:
        file.close()
    assert len(watch(job).look()) == 1


def test_an_alert_is_tried_again_and_given_up_at_last(
    job: Path, hook: Hook, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook.status = 500
    watch(job).look()
    state = alert_state.read(AlertFiles.of_job(job)).state
    assert state is not None
    [one] = state.deliveries
    assert (one.attempts, one.done, one.error) == (1, None, "answered with 500")
    assert one.due >= one.time + watching.FIRST_WAIT
    watch(job).look()
    assert len(hook.posted) == 1  # not due yet
    assert "not ops: answered with 500, tried again at the next look" in cli("alerts", job).out
    _make_due(job)
    monkeypatch.setattr(watching, "FIRST_WAIT", 0.0)
    for _ in range(2 * watching.TRIES):
        watch(job).look()
    assert len(hook.posted) == watching.TRIES
    assert len({json.loads(body)["id"] for _, _, body in hook.posted}) == 1
    [row] = json.loads(cli("alerts", job, "--deliveries", "--format", "json").out)
    assert (row["sink"], row["attempts"], row["delivered"], row["error"]) == ("ops", 6, None, "answered with 500")
    assert "1 alert was not delivered, the last one to ops: answered with 500." in cli("report", job).out


def test_an_alert_is_tried_again_after_the_clock_was_set_back(job: Path, hook: Hook) -> None:
    hook.status = 500
    watch(job).look()
    _make_due(job, time.time() + 86_400)
    assert watch(job).waits() == 0.0
    hook.status = 200
    watch(job).look()
    assert len(hook.posted) == 2 and watch(job).waits() is None


def _make_due(job: Path, when: float = 0.0) -> None:
    path = job / FILE
    state = json.loads(path.read_text())
    for one in state["deliveries"]:
        one["due"] = when
    path.write_text(json.dumps(state))


def test_a_sink_that_hangs_delays_neither_looks_nor_other_sinks(tmp_path: Path, hook: Hook, cli: Cli) -> None:
    job, hanging = tmp_path / "job", Hook()
    hanging.slow = True
    chosen = settings(hook, no_process=None)
    chosen["alerts"]["sinks"].append({"name": "hangs", "webhook": hanging.url, "timeout": PATIENCE})
    with Frontier.open(job / "frontier", Settings.from_dict(chosen)) as frontier:
        frontier.schedule("http://a.test/")
        frontier.pause()
    one = watch(job)
    with served(hanging):
        assert len(one.look(0)) == 1
        until(lambda: hanging.posted and hook.posted)
        assert cli("resume", job).code == 0
        assert [change.raised for change in one.look(0)] == [False]
        until(lambda: one.look(0) == [] and len(hook.posted) == 2)
        assert watch(job).look() == []  # leaves the attempt to the watcher that makes it
        assert len(hanging.posted) == 1
    one.look()
    assert told(hook) == [("paused", True), ("paused", False)]
    state = alert_state.read(AlertFiles.of_job(job)).state
    assert state is not None
    assert [(each.raised, each.attempts) for each in state.deliveries if each.sink == "hangs"] == [
        (True, 1), (False, 0),
    ]  # fmt: skip


def test_a_new_alert_is_tried_before_those_that_have_failed(
    tmp_path: Path, hook: Hook, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = tmp_path / "job"
    with Frontier.open(job / "frontier", Settings.from_dict(settings(hook, no_process=0))) as frontier:
        frontier.schedule("http://a.test/")
    hook.status = 500
    one = watch(job)
    assert [change.condition for change in one.look()] == ["no_process"]
    _make_due(job)
    assert cli("pause", job).code == 0
    assert [change.condition for change in one.look()] == ["paused"]
    assert told(hook) == [("no_process", True), ("paused", True)]
    hook.status = 200
    _make_due(job)
    assert cli("resume", job).code == 0
    one.look()
    assert told(hook)[2:] == [("no_process", True), ("paused", True), ("paused", False)]  # an end after its begin


def test_a_sink_that_will_never_take_it_is_asked_once(job: Path, hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    hook.status = 404
    monkeypatch.setattr(watching, "FIRST_WAIT", 0.0)
    for _ in range(3):
        watch(job).look()
    assert len(hook.posted) == 1


def test_without_room_for_the_state_nothing_is_told_twice(job: Path, hook: Hook) -> None:
    (job / FILE).mkdir()
    one = watch(job)
    assert len(one.look()) == 1 and one.look() == []
    assert told(hook) == [("paused", True)]


def test_a_state_that_cannot_be_read_is_told_and_begins_anew(job: Path, hook: Hook, cli: Cli) -> None:
    (job / FILE).write_text("{")
    said = cli("alerts", job).err
    assert "alerts.json is damaged: the next look keeps it under another name" in said
    assert "nobody has watched" not in said
    assert "alerts.json is damaged" in cli("report", job).out
    (job / f"{FILE}.damaged-1").mkdir()
    answer = cli("alerts", job, "--once")
    assert "RAISED paused" in answer.out and "was damaged, and is now alerts.json.damaged-2: " in answer.err
    assert (job / f"{FILE}.damaged-2").read_text() == "{"
    assert watch(job).look() == [] and "damaged" not in cli("report", job).out


def test_a_state_that_may_not_be_read_is_not_moved(job: Path, cli: Cli) -> None:
    (job / FILE).mkdir()
    assert "alerts.json cannot be read: Is a directory" in cli("alerts", job).err
    assert len(watch(job).look()) == 1 and os.listdir(job / FILE) == []


@pytest.mark.parametrize("age", [600, 5400])
def test_dead_letters_of_the_hour_before_the_first_look_count(tmp_path: Path, hook: Hook, age: int) -> None:
    """They count until they are an hour old, however soon after them a watcher begins, or begins again."""
    clock, path = ManualClock(time.time() - age), tmp_path / "frontier"
    plan = Settings.from_dict(settings(hook, dead_letters=3, no_process=None))
    with Frontier.open(path, plan, clock=clock, program="spider.py") as frontier:
        for number in range(3):
            frontier.schedule(f"http://{number}.test/")
            frontier.finish_many([Finish(lease, Outcome.DEAD, reason="gone") for lease in frontier.lease(1)])
            clock.advance(60)
            frontier.commit()
    raised = [one.condition for one in watch(tmp_path).look()]
    assert ("dead_letters" in raised) is (age < 3600)
    assert watch(tmp_path).look() == []
    state = alert_state.read(AlertFiles.of_job(tmp_path)).state
    assert state is not None
    if age < 3600:
        told = state.raised["dead_letters"].text
        assert re.fullmatch(r"3 URIs have become dead letters within (10m|9m\d+s)\.", told), "and never more"
    state.samples = [alert_conditions.CrawlSample(time.time() - 86_400, True, 0, 0, {})]
    state.raised = {}
    (tmp_path / FILE).write_bytes(msgspec.json.encode(state))
    assert ("dead_letters" in [one.condition for one in watch(tmp_path).look()]) is (age < 3600)


def test_a_sink_is_told_only_of_its_conditions(tmp_path: Path, hook: Hook) -> None:
    chosen = settings(hook)
    chosen["alerts"]["sinks"][0]["only"] = ["finished"]
    with Frontier.open(tmp_path / "job" / "frontier", Settings.from_dict(chosen)) as frontier:
        frontier.schedule("http://a.test/")
        frontier.pause()
    assert len(watch(tmp_path / "job").look()) == 1 and hook.posted == []


def test_a_queue_that_looks_like_a_trap_is_told_until_it_is_retired(tmp_path: Path, hook: Hook, cli: Cli) -> None:
    job = tmp_path / "job"
    chosen = settings(hook, trap=0.8, no_process=None)
    chosen["alerts"]["sinks"][0]["only"] = ["trap"]
    with Frontier.open(job / "frontier", Settings.from_dict(chosen)) as frontier:
        frontier.schedule_many(f"https://cal.test/events/{year}/04" for year in range(2100, 2140))
        frontier.schedule_many(f"https://good.test/item/{number}" for number in range(40))
    assert [one.condition for one in watch(job).look()] == ["trap:cal.test"]
    same = watch(job)
    assert same.look() == []
    [(_, _, body)] = hook.posted
    told_of = json.loads(body)
    assert (told_of["condition"], told_of["queue"]) == ("trap", "cal.test")
    assert told_of["text"].startswith("The queue cal.test looks like a crawler trap (score 0.9")
    assert cli("retire", job, "cal.test").code == 0
    assert same.look()[0].raised is False  # traps are not looked for again yet
    assert told(hook) == [("trap", True), ("trap", False)]


def test_several_watchers_go_by_one_search_for_traps_and_busy_queues(
    tmp_path: Path, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Searches are rare: a watcher that has made none of late does not end what another one has found."""
    job = tmp_path / "job"
    chosen = settings(hook, trap=0.8, queue_share=0.5, no_process=None)
    with Frontier.open(job / "frontier", Settings.from_dict(chosen)) as frontier:
        frontier.schedule("https://good.test/")
        first = watch(job)
        assert first.look() == []
        frontier.schedule_many(f"https://cal.test/events/{year}/04" for year in range(2100, 2140))
        frontier.commit()
        assert watch(job).look() == [], "another watcher has searched just now"
        state = json.loads((job / FILE).read_text())
        state["top"][1] = ["good.test", 0.9, 5000]
        state["suspects"][0] -= watching._SUSPECTS_EVERY
        (job / FILE).write_text(json.dumps(state))
        found = {"trap:cal.test", "queue_share"}
        assert {one.condition for one in watch(job).look()} == found
        assert first.look() == [] and watch(job).look() == []


def test_alerts_at_which_nobody_looks_any_more_are_told_with_their_time(job: Path, cli: Cli) -> None:
    watch(job).look()
    state = json.loads((job / FILE).read_text())
    state["looked"] -= 600
    (job / FILE).write_text(json.dumps(state))
    looked = format_time(state["looked"], "%Y-%m-%d %H:%M UTC")
    said = next(line for line in cli("report", job).out.splitlines() if "Wrong now: Alert paused since" in line)
    assert said.endswith(f" UTC, as of {looked}.")
    (job / FILE).write_text(json.dumps(state | {"over": True}))
    assert "Wrong now: Alert" not in cli("report", job).out


def test_the_test_of_the_sinks(job: Path, hook: Hook, cli: Cli) -> None:
    answer = cli("alerts", job, "--test")
    assert (answer.code, answer.out) == (0, "ops: delivered\n") and told(hook) == [("test", True)]
    hook.status = 503
    answer = cli("alerts", job, "--test", "ops")
    assert (answer.code, answer.out) == (1, "ops: not delivered: answered with 503\n")
    answer = cli("alerts", job, "--test", "opps")
    assert answer.code == 2 and "there is no sink 'opps'; there are ops" in answer.err
    assert not (job / FILE).exists()


def test_names_with_odd_characters(tmp_path: Path, hook: Hook) -> None:
    """Folders may have bytes that are no UTF-8, and crawls and pauses any name."""
    job = tmp_path / os.fsdecode(b"j\xff\nb")
    chosen = settings(hook, disk_below="900TB") | {"crawl": "news\n"}
    with Frontier.open(job / "frontier", Settings.from_dict(chosen)) as frontier:
        frontier.schedule("http://a.test/")
        frontier.pause(reason="lunch\n", who="anna")
    assert [one.condition for one in watch(job).look()] == ["paused", "disk_below"]
    assert watch(job).look() == []
    [pause, disk] = [json.loads(body) for _, _, body in hook.posted]
    assert (pause["crawl"], disk["job"]) == ("news\\n", f"{tmp_path}/j\\udcff\\nb")
    assert disk["text"].endswith("j\\udcff\\nb/frontier are free.")


def test_a_job_without_sinks(tmp_path: Path, cli: Cli) -> None:
    with Frontier.open(tmp_path / "job" / "frontier") as frontier:
        frontier.schedule("http://a.test/")
    answer = cli("alerts", tmp_path / "job", "--test")
    assert answer.code == 1 and "names no sink" in answer.err
    assert "nobody has watched this job yet" in cli("alerts", tmp_path / "job").err


def test_a_watch_until_it_is_interrupted(job: Path, hook: Hook) -> None:
    with ForkedProcess(forked_main, "alerts", str(job), "--watch") as process:
        try:
            until(lambda: hook.posted, process)
            process.send_signal(signal.SIGINT)
            out, said = process.communicate()
        finally:
            process.kill()
    assert out.split()[1:3] == ["RAISED", "paused"] and "Traceback" not in said
    assert process.wait() == 130


def test_a_crawl_that_is_killed_and_one_that_is_finished_are_told(tmp_path: Path, hook: Hook) -> None:
    with Site({"a.test/": linking("/2"), "a.test/2": "x"}) as site:
        site.bound = 1
        alerts = settings(hook, every="100ms")["alerts"]
        with started(site, tmp_path, "http://a.test/", alerts=alerts) as process:
            until(lambda: site.hits.total() > 1, process)
            until((tmp_path / "job" / FILE).exists, process)
            process.kill()
            process.wait()
            until(lambda: told(hook))
        assert told(hook) == [("no_process", True)]
        assert "killed" in json.loads(hook.posted[0][2])["text"]
        site.bound = 1000
        with started(site, tmp_path, "http://a.test/", alerts=alerts) as process:
            assert process.wait() == 0
    assert sorted(told(hook)[1:]) == [("finished", True), ("no_process", False)]


def test_an_alert_that_a_crawl_has_ended_well_is_no_problem(tmp_path: Path, hook: Hook, cli: Cli) -> None:
    job = tmp_path / "job"
    with Frontier.open(job / "frontier", Settings.from_dict(settings(hook))) as frontier:
        frontier.schedule("http://a.test/")
        frontier.finish_many(frontier.lease(1))
    assert [(one.condition, one.about.level) for one in watch(job).look()] == [("finished", "good")]
    assert "finished" in cli("alerts", job).out
    report = cli("report", job).out
    assert "Verdict: The crawl is finished: everything is crawled" in report and "Wrong now" not in report


def test_attempts_after_the_end_of_a_crawl_do_not_hold_its_standard_error(job: Path, hook: Hook) -> None:
    """A pipeline, cron or a CI job that reads the crawl's messages until their end goes on meanwhile."""
    hook.status = 500
    words = [sys.executable, "-m", watch_process.__name__, str(job)]
    with child_process(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        until(lambda: hook.posted, process)
        assert process.stdin is not None and process.stderr is not None
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.poll() is None, "it goes on trying"
        process.kill()


def test_a_signal_to_all_processes_ends_only_the_crawl_at_first(tmp_path: Path, hook: Hook) -> None:
    """A service manager sends SIGTERM to each process of a service."""
    with Site({"a.test/": linking("/2"), "a.test/2": "x"}) as site:
        site.bound = 1
        alerts = settings(hook, every="100ms", no_process=0)["alerts"]
        with started(site, tmp_path, "http://a.test/", alerts=alerts) as process:
            until(lambda: site.hits.total() > 1, process)
            until((tmp_path / "job" / FILE).exists, process)
            for child in _children(process.pid):
                os.kill(child, signal.SIGTERM)
            process.send_signal(signal.SIGTERM)
            site.bound = 1000
            assert process.wait() == 0
    assert told(hook)[-1][0] in ("no_process", "finished")


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_problems_leave_to_the_verdict_what_it_says(tmp_path: Path) -> None:
    now = time.time()
    raised = {
        "paused": RaisedAlert(now, "warn", "The crawl is paused by anna. Resume it."),
        "starved": RaisedAlert(now, "warn", "Nothing was fetched for 5m. All active queues are snoozed (3)."),
        "disk_below": RaisedAlert(now, "bad", "Only 1.5 GiB of the disk of /job are free."),
    }
    (tmp_path / "alerts.json").write_bytes(msgspec.json.encode(AlertState(looked=now, raised=raised)))
    since = format_time(now, "%Y-%m-%d %H:%M UTC")
    assert [text for _, _, text in alert_state.problems(AlertFiles.of_job(tmp_path))] == [
        f"Alert paused since {since}.",
        f"Alert starved since {since}: Nothing was fetched for 5m.",
        f"Alert disk_below since {since}: Only 1.5 GiB of the disk of /job are free.",
    ]
