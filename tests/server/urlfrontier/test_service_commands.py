"""The other commands on a job while it is served, and after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.server.urlfrontier.service_client import Process, command, discovered, known, serving
from tests.support import until


def report(job: Path) -> dict[str, Any]:
    """The report of a job, as JSON."""
    done = command("report", job, "--format", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_crawlers_steer_queues_without_a_trace_and_give_way_to_operators(tmp_path: Path) -> None:
    """QueueRegulatorBolt of StormCrawler does it for each response."""
    job = tmp_path / "jobs" / "c"
    with Process(tmp_path / "jobs") as server, server.client() as client:
        client.put(*[discovered(f"http://a.test/{n}") for n in range(9)])
        for number in range(50):
            client.SetDelay(crawlID="c", key="a.test", delay_requestable=number % 2)
            client.BlockQueueUntil(crawlID="c", key="a.test", time=(number % 2) << 40)
            client.SetCrawlLimit(crawlID="c", key="a.test", limit=number)
            client.put(discovered(f"http://a.test/x{number}", bf_budget=number % 3))
        client.SetDelay(crawlID="c", key="a.test", delay_requestable=0)
        client.BlockQueueUntil(crawlID="c", key="a.test", time=0)
        client.SetCrawlLimit(crawlID="c", key="a.test", limit=0)
        done = command("audit", job, "--format", "json")
        assert json.loads(done.stdout) == []
        assert client.get() == ["http://a.test/0", "http://a.test/1"]  # the budget is 1: exceeded by the second
        assert "what crawlers asked for" in command("explain", job, "a.test").stdout
        done = command("adjust", job, "--match", "queue:a.test", "--total-budget", "3")
        assert done.returncode == 0, done.stderr
        client.put(discovered("http://a.test/more", bf_budget=0))
        assert len(client.get(max_urls_per_queue=9)) == 2
        assert command("verify", job).returncode == 0


def test_an_operator_sets_the_interval_and_the_limit_of_a_queue(tmp_path: Path) -> None:
    job = tmp_path / "jobs" / "c"
    with serving(tmp_path / "jobs") as client:
        client.put(*[discovered(f"http://a.test/{n}") for n in range(9)])
        done = command("set-queue", job, "a.test", "--interval", "0", "--limit", "2", "--reason", "a favour")
        assert done.stdout == "a.test: interval of the settings -> 0s; limit of completed URLs none -> 2\n", done.stderr
        assert len(client.get(max_urls_per_queue=1)) == len(client.get(max_urls_per_queue=2)) == 1
        client.put(known("http://a.test/0"), known("http://a.test/1"))
        assert client.get() == []
        assert command("undo", job, "1").returncode == 0
        given: list[str] = []

        def has_more() -> bool:
            given.extend(client.get(max_urls_per_queue=3))
            return bool(given)

        until(has_more)  # at the next interval
        assert len(given) == 3
    assert "limit" in command("set-queue", job, "a.test").stderr
    assert command("set-queue", job, "b.test", "--limit", "1").returncode == 1


def test_a_job_is_seen_and_steered_while_it_is_served(tmp_path: Path) -> None:
    job = tmp_path / "jobs" / "c"
    with Process(tmp_path / "jobs") as server, server.client() as client:
        client.put(*[discovered(f"http://{host}.test/{n}") for host in "ab" for n in range(3)])
        found = report(job)
        assert found["process"]["alive"] is True
        assert found["process"]["program"] == "budgetfrontier serve"
        assert found["verdict"]["slug"] not in ("command", "hung")
        assert command("retire", job, "a.test").returncode == 0
        assert client.get(max_urls_per_queue=1) == ["http://b.test/0"]
        assert command("pause", job).returncode == 0
        until(lambda: report(job)["verdict"]["slug"] in ("paused", "pausing"))
        client.SetDelay(crawlID="c", key="b.test", delay_requestable=0)
        assert client.get() == []
        assert command("resume", job).returncode == 0
        assert command("unretire", job, "a.test").returncode == 0
        assert len(client.get()) == 5
        for words in (("queues",), ("queue", "a.test"), ("explain", "http://a.test/1"), ("leases",), ("verify",)):
            assert command(words[0], job, *words[1:]).returncode == 0
        assert server.stop() == 0
    assert report(job)["process"]["last_stop"]["end"] == "SIGNAL"
