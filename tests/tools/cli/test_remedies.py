"""The commands that are suggested: each is taken from what was printed, run in its situation, and ends that."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from budgetfrontier import CrawlUri, Frontier, Outcome, Reader
from budgetfrontier.reports.explain import explain
from budgetfrontier.settings import Settings
from budgetfrontier.tools.cli import main
from tests.support import crawl
from tests.tools.cli.conftest import Cli

KEYS = ["a.test", "-a.test"]  # a host name may begin with a hyphen, like an option


def opened(job: Path, **frontier: object) -> Frontier:
    polite = {"min_delay": 0, "delay_factor": 0, "max_delay": 0}
    chosen = {"politeness": polite, "retry": {"delay": 900, "max_retries": 2}, **frontier}
    return Frontier.open(job / "frontier", Settings.from_dict({"frontier": chosen}))


def over_budget(job: Path, key: str) -> None:
    with opened(job, queue_total_budget=1) as f:
        f.schedule_many([f"http://{key}/{n}" for n in range(5)])
        while leases := f.lease(1):
            f.finish(leases[0])


def without_replenishment(job: Path, key: str) -> None:
    with opened(job, balance_replenish_amount=0) as f:
        f.schedule(f"http://{key}/")
        assert f.lease(1) == []


def beyond_the_floor(job: Path, key: str) -> None:
    with opened(job, precedence_floor=3) as f:
        f.schedule(f"http://{key}/")


def beyond_the_floor_by_successes(job: Path, key: str) -> None:
    policy = {"success-counts": {"tiers": [1]}}
    with opened(job, precedence=2, precedence_floor=4, precedence_policy=policy) as f:
        f.schedule_many([f"http://{key}/{page}" for page in range(4)])
        crawl(f)


def beyond_the_floor_by_uris(job: Path, key: str) -> None:
    with opened(job, precedence=2, precedence_floor=3, precedence_policy="highest-uri") as f:
        f.schedule(f"http://{key}/")


def retired(job: Path, key: str) -> None:
    with opened(job) as f:
        f.schedule(f"http://{key}/")
        f.retire(key)


def retired_by_a_worker(job: Path, key: str) -> None:
    with opened(job) as f:
        f.schedule_many([f"http://{key}/", f"http://{key}/2"])
        f.finish(f.lease(1)[0], retire_queue=True)


def failed(job: Path, key: str) -> None:
    with opened(job) as f:
        f.schedule(f"http://{key}/")
        f.finish(f.lease(1)[0], Outcome.RETRY, reason="no connection (-2)")


def snoozed(job: Path, key: str) -> None:
    with opened(job) as f:
        f.schedule(f"http://{key}/")
        f.snooze(key, until=time.time() + 3600)
        f.lease(1)


def completed(job: Path, key: str) -> None:
    with opened(job, keep_urls=True) as f:
        f.schedule_many([f"http://{key}/", f"http://{key}/2"])
        f.set_queue(key, max_completed=1)
        f.finish(f.lease(1)[0])
        f.lease(1)


def paused(job: Path, key: str) -> None:
    with opened(job) as f:
        f.schedule(f"http://{key}/")
        f.pause(reason="lunch")


def paused_for_its_scope(job: Path, key: str) -> None:
    with opened(job) as f:
        f.schedule(f"http://{key}/")
        f.pause(reason="scope", who="crawl")


def over_a_quota(job: Path, key: str) -> None:
    with opened(job, quotas={"host": {"urls": 1, "bytes": 10**9}}) as f:
        f.schedule_many(f"http://{key}/{page}" for page in range(3))
        f.finish(f.lease(1)[0])
        assert f.lease(1) == []


def over_a_quota_of_a_group(job: Path, key: str) -> None:
    settings = {"groups": [{"name": "site", "by": "registered-domain", "quotas": {"urls": 1, "bytes": 10**9}}]}
    with Frontier.open(job / "frontier", Settings.from_dict(settings)) as f:
        f.schedule_many(f"http://{key}/{page}" for page in range(3))
        f.finish(f.lease(1)[0])
        f.wake(key)
        assert f.lease(1) == []


def dead(job: Path, key: str) -> None:
    with opened(job) as f:
        f.schedule(f"http://{key}/")
        f.finish(f.lease(1)[0], Outcome.DEAD, reason="gone")


def deleted(job: Path, key: str) -> None:
    with opened(job) as f:
        f.schedule(f"http://{key}/")
        f.delete(queue=key)


SITUATIONS: dict[str, Callable[[Path, str], None]] = {
    "over-total-budget": over_budget,
    "no-replenishment": without_replenishment,
    "ineligible": beyond_the_floor,
    "ineligible by its successes": beyond_the_floor_by_successes,
    "ineligible by its URIs": beyond_the_floor_by_uris,
    "over-quota": over_a_quota,
    "over-quota of a group": over_a_quota_of_a_group,
    "retired-by-name": retired,
    "retired": retired_by_a_worker,
    "snoozed": snoozed,
    "snoozed after a failure": failed,
    "completed": completed,
    "dead-letters": dead,
    "deleted": deleted,
    "paused": paused,
    "paused for its scope": paused_for_its_scope,
}


def reasons(job: Path, target: str) -> dict[str, str | None]:
    with Reader(job / "frontier") as reader:
        return {reason.code: reason.command for reason in explain(reader, target, job=str(job)).reasons}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("name", SITUATIONS)
def test_the_command_that_explain_suggests_ends_the_situation(name: str, key: str, tmp_path: Path) -> None:
    SITUATIONS[name](tmp_path, key)
    code = name.partition(" ")[0]
    command = reasons(tmp_path, key)[code]
    assert command is not None
    assert main(shlex.split(command)[1:]) == 0
    with Frontier.open(tmp_path / "frontier") as frontier:  # what a command leaves for the engine is applied
        assert frontier.lease(1) or code == "snoozed"
    assert code not in reasons(tmp_path, key)


@pytest.mark.parametrize(("state", "then"), [("RETIRED", "it is revived and activated"), ("EXHAUSTED", "it holds one")])
def test_the_snooze_of_a_queue_that_hands_nothing_out_is_told_and_ended(tmp_path: Path, state: str, then: str) -> None:
    with opened(tmp_path) as f:
        f.schedule("http://a.test/")
        if state == "RETIRED":
            f.retire("a.test")
        else:
            f.finish(f.lease(1)[0])
        f.snooze("a.test", until=time.time() + 7200, who="alice", reason="night")
        f.commit()
        assert f.queue("a.test").state == state  # type: ignore[union-attr]
    with Reader(tmp_path / "frontier") as reader:
        told = {reason.code: reason for reason in explain(reader, "a.test", job=str(tmp_path)).reasons}["snoozed"]
    assert f"Once {then}, it is SNOOZED for " in told.text and "alice" in told.text
    assert told.command is not None and main(shlex.split(told.command)[1:]) == 0
    assert "snoozed" not in reasons(tmp_path, "a.test")


@pytest.mark.parametrize("make", [paused, paused_for_its_scope])
def test_the_remedy_of_the_verdict_ends_a_pause_that_no_process_runs(
    make: Callable[[Path, str], None], tmp_path: Path, cli: Cli
) -> None:
    make(tmp_path, "a.test")
    with Reader(tmp_path / "frontier") as reader:
        before = reader.verdict()
    assert before.remedy is not None and "paused" in before.text
    assert main(shlex.split(before.remedy)[1:]) == 0
    with Reader(tmp_path / "frontier") as reader:
        after = reader.verdict()
    assert "paused" not in after.text
    assert after.remedy == f"budgetfrontier crawl CONFIG --job {tmp_path}"


def test_a_dead_letter_is_queued_again_by_the_command_that_explain_suggests(tmp_path: Path) -> None:
    with opened(tmp_path) as f:
        f.schedule("http://a.test/")
        f.finish(f.lease(1)[0], Outcome.DEAD)
    command = reasons(tmp_path, "http://a.test/")["dead-letter"]
    assert command is not None and main(shlex.split(command)[1:]) == 0
    assert "queued" in reasons(tmp_path, "http://a.test/")


def test_a_url_that_was_never_scheduled_is_by_the_command_that_explain_suggests(tmp_path: Path) -> None:
    opened(tmp_path).close()
    command = reasons(tmp_path, "http://a.test/")["never-scheduled"]
    assert command is not None and main(shlex.split(command)[1:]) == 0
    assert "queued" in reasons(tmp_path, "http://a.test/")


def waits_politely(job: Path) -> None:
    with opened(job, politeness={"min_delay": 30, "max_delay": 30}) as f:
        f.schedule_many(["http://a.test/", "http://a.test/2"])
        f.finish(f.lease(1)[0])


def test_no_wake_is_suggested_where_nobody_would_lease_before_the_wait_is_over(tmp_path: Path) -> None:
    waits_politely(tmp_path)
    assert reasons(tmp_path, "a.test")["snoozed"] is None  # the crawl has to be started first
    with opened(tmp_path, politeness={"min_delay": 30, "max_delay": 30}):
        assert reasons(tmp_path, "a.test")["snoozed"] == f"budgetfrontier wake {tmp_path} a.test"
    with Reader(tmp_path / "frontier") as reader:
        told = explain(reader, "a.test", job=str(tmp_path), now=time.time() + 60).reasons[0]
    assert told.command is None and "due: it joins" in told.text


def test_no_command_is_suggested_on_a_crawl_that_was_terminated(tmp_path: Path) -> None:
    over_budget(tmp_path, "a.test")
    with opened(tmp_path) as f:
        f.terminate()
    for target in ("a.test", "http://a.test/0", "http://never.test/"):
        assert set(reasons(tmp_path, target).values()) == {None}


def test_a_finished_crawl_goes_on_by_itself_only_where_a_process_runs_it(tmp_path: Path) -> None:
    def finished() -> str:
        with Reader(tmp_path / "frontier") as reader:
            told = explain(reader, "a.test", job=str(tmp_path)).reasons
        return next(reason.text for reason in told if reason.code == "finished")

    with opened(tmp_path) as f:
        f.schedule("http://a.test/")
        f.finish(f.lease(1)[0])
        f.commit()
        assert "goes on by itself when" in finished()
    assert "goes on, once it is started, when" in finished()


@pytest.mark.parametrize("key", ["*", "a?*", "a,*"])
def test_a_remedy_is_for_one_queue_whatever_signs_its_key_has(tmp_path: Path, cli: Cli, key: str) -> None:
    with opened(tmp_path, queue_total_budget=1) as f:
        f.schedule_many(
            CrawlUri(f"http://a.test/{n}{name}", queue=name) for n in range(5) for name in (key, "ab", "a,b")
        )
        while leases := f.lease(1):
            f.finish(leases[0])
    with Reader(tmp_path / "frontier") as reader:
        reasons = explain(reader, key, job=str(tmp_path)).reasons
        command = next(one.command for one in reasons if one.command is not None and " adjust " in one.command)
    assert main(shlex.split(command)[1:]) == 0
    with Reader(tmp_path / "frontier") as reader:
        assert [one.queue for one in reader.queues() if one.state != "RETIRED"] == [key]
