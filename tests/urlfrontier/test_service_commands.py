"""The other commands on a job while it is served, and after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support import until
from tests.urlfrontier.service_client import Process, command, discovered


def report(job: Path) -> dict[str, Any]:
    """The report of a job, as JSON."""
    done = command("report", job, "--format", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


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
