"""The console of a crawl in partitions changes it, for those who may, after a dry run that nothing has overtaken."""

from __future__ import annotations

import asyncio
import html
import json
import re
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer

from budgetfrontier import CrawlUri, Directive, Outcome, Settings
from budgetfrontier.cluster.client import ClusterFrontier
from budgetfrontier.cluster.operators import crawl_owners
from budgetfrontier.cluster.operators.cluster_operator import ClusterOperator
from budgetfrontier.cluster.operators.crawl_owners import CrawlOwners
from budgetfrontier.cluster.partitions import partition
from budgetfrontier.core.endpoints.tokens import TokenFile
from budgetfrontier.engine.commands.undo_checks import FORCE
from budgetfrontier.reports.alert_state import AlertFiles, AlertState
from budgetfrontier.reports.operators import OperatorCommand
from budgetfrontier.rules.alert_conditions import RaisedAlert
from budgetfrontier.tools.cli import clusters, main
from budgetfrontier.tools.console import console_server, made_by_commands, missing_partitions, partitioned_job
from budgetfrontier.tools.console.access import Access
from budgetfrontier.tools.console.api import PREFIX
from budgetfrontier.tools.console.api.crawl_resources import ReportParameters, report
from budgetfrontier.tools.console.api.resource_table import RESOURCES
from budgetfrontier.tools.console.app import Console
from budgetfrontier.tools.console.pages.partitioned import PAGES
from budgetfrontier.tools.console.partitioned_job import PartitionedJob
from budgetfrontier.tools.console.query import Query
from tests.cluster.workers import running
from tests.support import PATIENCE, token_file, until

PARTITIONS = 2
SETTINGS = {"crawl": "test", "frontier": {"politeness": {"min_delay": 0, "max_delay": 0}}}
URL = "kafka://nowhere/test"
TOKEN = "a token of sixteen"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
Answer = tuple[int, str, str]
NO_OWNERS: Any = None  # any look fails
Do = Callable[..., Coroutine[Any, Any, Answer]]


@pytest.fixture
def console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that runs a visit of the console, of a crawl with four queues."""
    monkeypatch.setattr(partition, "COMMIT_EVERY", 0.02)
    monkeypatch.setattr(crawl_owners, "WAIT", PATIENCE)
    monkeypatch.setattr(partitioned_job, "FRESH", 0.0)
    with (
        running(tmp_path, Settings.from_dict(SETTINGS), [(0,), (1,)], PARTITIONS) as cluster,
        ClusterFrontier("test", cluster.directory) as frontier,
        ClusterFrontier("test", cluster.directory) as second,
    ):
        until(lambda: len(cluster.directory.read()) == PARTITIONS)
        frontier.schedule_many(f"https://h{host}.test/{page}" for host in range(4) for page in range(3))
        operator = CrawlOwners(second, job=URL, patience=PATIENCE)

        async def visit(scenario: Callable[[Do, CrawlOwners], Coroutine[Any, Any, None]], **known: Any) -> None:
            first, other = (CrawlOwners(each, job=URL) for each in (frontier, second))
            job = PartitionedJob(URL, first, other, words=["--cluster", URL], **known)
            app = Console([job], Access(TokenFile(token_file(tmp_path, TOKEN))), pages=PAGES).application()
            async with TestClient(TestServer(app)) as client:

                async def do(path: str, headers: dict[str, str] | None = None, body: Any = None, **form: str) -> Answer:
                    """Get a page, or send a form and follow its task to the end; or send a body to the API."""
                    more: Any = {"headers": BEARER if headers is None else headers, "allow_redirects": False}
                    if body is not None:
                        async with client.post(path, json=body, **more) as answer:
                            return answer.status, await answer.text(), ""
                    async with client.post(path, data=form, **more) if form else client.get(path, **more) as answer:
                        text, place = await answer.text(), answer.headers.get("Location", "")
                    while place.startswith("/steer/"):
                        async with client.get(place, headers=BEARER) as answer:
                            text = await answer.text()
                        if "looks again by itself" not in text:
                            return answer.status, text, place.rpartition("/")[2]
                        await asyncio.sleep(0.05)
                    return answer.status, text, place

                await scenario(do, operator)

        yield lambda scenario, **known: asyncio.run(visit(scenario, **known))


def test_a_command_that_partitions_apply_later_has_its_end_under_its_address(
    console: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its task says so once all have, so that a program that asks for it does not wait for ever."""
    wait_for, answers = CrawlOwners.applied, list[bool]()

    def applied(self: CrawlOwners, name: bytes, **options: Any) -> Any:
        return wait_for(self, name, **options) if options.get("within") is not None and answers else {}

    monkeypatch.setattr(CrawlOwners, "applied", applied)

    async def scenario(do: Do, operator: CrawlOwners) -> None:
        base = f"{PREFIX}/jobs/test"
        status, text, _ = await do(f"{base}/retire", body={"match": "*", "reason": "x"})
        task = json.loads(text)
        assert (status, task["ended"], task["id"]) == (202, False, None)
        _, text, _ = await do(f"{base}/commands/{task['task']}")
        assert json.loads(text)["error"].startswith("not applied yet by partitions 0-1 of 2: ")
        answers.append(True)
        while not task["ended"]:
            _, text, _ = await do(f"{base}/commands/{task['task']}")
            task = json.loads(text)
        assert (task["error"], task["effect"]["changed"]) == (None, 4)
        _, text, _ = await do(f"{base}/audit")
        assert json.loads(text)["rows"][0]["id"] == task["id"]

    console(scenario)


def test_alerts_and_simulations_of_partitions_have_pages(tmp_path: Path, console: Any) -> None:
    async def scenario(do: Do, operator: CrawlOwners) -> None:
        base = f"{PREFIX}/jobs/test"
        _, text, _ = await do("/alerts")
        assert "--state FILE" in text and "raised" not in text
        _, text, _ = await do(f"{base}/alerts")
        assert json.loads(text)["rows"] == [] and "--state FILE" in json.loads(text)["note"]
        _, text, _ = await do("/simulate")
        assert "--config FILE" in text and 'value="simulate"' not in text
        status, text, _ = await do(f"{base}/simulate", body={})
        assert status == 409 and "--config FILE" in text

    async def watched(do: Do, operator: CrawlOwners) -> None:
        _, text, _ = await do("/alerts")
        assert "nobody has watched this crawl yet" in text and f"--state {state}" in text and "Sinks: chat." in text
        about = RaisedAlert(level="bad", text="1 partition does not answer.", since=time.time() - 60)
        found = AlertState(looked=time.time(), raised={"unanswered": about})
        state.write_bytes(msgspec.json.encode(found))
        _, text, _ = await do("/alerts")
        assert "1 alert raised" in text and "1 partition does not answer." in text
        _, text, _ = await do(f"{PREFIX}/jobs/test/alerts")
        assert [row["condition"] for row in json.loads(text)["rows"]] == ["unanswered"]
        _, text, _ = await do("/")
        assert "Alert unanswered since" in text and '<a class="mend" href="/alerts">Who was told</a>' in text
        _, text, _ = await do(f"{PREFIX}/jobs/test")
        assert any(one["slug"] == "alert_unanswered" for one in json.loads(text)["wrong"])
        _, text, _ = await do("/simulate")
        assert 'value="simulate"' in text and "from the newest snapshot of each partition" in text
        _, text, _ = await do("/steer", op="simulate", max_fetches="10")
        assert "there is no snapshot of partition 0" in text, text[-6000:]

    state = tmp_path / "alerts.json"
    workers = Settings.from_dict(
        SETTINGS
        | {"cluster": {"partitions": PARTITIONS, "snapshots": (tmp_path / "snapshots").as_uri()}}
        | {"alerts": {"sinks": [{"name": "chat", "webhook": "https://chat.test/"}]}}
    )
    (tmp_path / "snapshots").mkdir()
    console(scenario)
    console(watched, workers=workers, alert_files=AlertFiles.beside(state))


def finish_all(operator: CrawlOwners) -> None:
    """Finish the URIs of the four queues: those of h0.test and h1.test become dead letters."""
    ended = 0
    while ended < 12:  # as far as owners have committed it
        for lease in operator.frontier.lease(1):
            ill = lease.queue in ("h0.test", "h1.test")
            outcome, reason = (Outcome.DEAD, "poison") if ill else (Outcome.SUCCESS, "")
            operator.frontier.finish(lease, outcome, status=404 if ill else 200, reason=reason, delay=0.0)
        totals = ClusterOperator(operator).head().totals
        ended = totals.succeeded + totals.dead


def test_keys_that_no_queue_has_are_named_in_the_note(console: Any) -> None:
    async def scenario(do: Do, operator: CrawlOwners) -> None:
        asked = {"queues": ["nosuch.test", "h1.test"], "reason": "x"}
        for dry_run in (True, False):
            status, text, _ = await do(f"{PREFIX}/jobs/test/retire", body=asked | {"dry_run": dry_run})
            assert (status, json.loads(text)["note"]) == (200, "No queue: nosuch.test; check the spelling.")

    console(scenario)


def test_commands_are_given_after_a_dry_run(console: Any) -> None:
    async def scenario(do: Do, operator: CrawlOwners) -> None:
        pause = {"op": "pause", "reason": "maintenance"}
        status, _, place = await do("/steer", headers={}, **pause)
        assert (status, place[:10]) == (303, "/-/sign-in")
        assert (await do("/steer", headers={"Authorization": "Bearer other"}, **pause))[0] == 401
        _, _, shown = await do("/steer", op="pause")
        assert "Give a reason" in (await do("/steer", step="apply", dry_run=shown, seen="0"))[1]
        status, text, shown = await do("/steer", **pause)
        assert (status, "RUNNING" in text, "Apply: pause" in text) == (200, True, True)
        _, text, _ = await do("/steer", step="apply", dry_run=shown, seen="0")
        assert "<b>Applied.</b>" in text
        assert "PAUSED" in (await do("/steer"))[1]
        _, text, _ = await do("/steer", op="retire", queue='"h1.test"', reason="a trap")
        assert "Apply: retire" in text
        (_, page, _), (_, queues, _) = await do("/queue/h1.test"), await do("/queues")
        assert "https://h1.test/0" in page and "explain" not in page
        assert "/queue/h1.test" in queues
        assert "There is no queue" in (await do("/queue/h9.test"))[1]
        _, text, _ = await do("/steer", op="snooze", match="*", **{"for": "1h"}, reason="many")
        assert "<dt><bdi>queues selected</bdi>" in text and "reconsidered" not in text, text
        _, text, shown = await do("/steer", op="delete", pattern="/1$", reason="old")
        assert "<dt><bdi>deleted</bdi></dt><dd><bdi>4</bdi></dd>" in text
        operator.applied(operator.give(OperatorCommand("resume", {}, "other", "go on")))
        status, text, again = await do("/steer", step="apply", dry_run=shown, seen="0")
        assert (again, "the last by <bdi>other" in text) == (shown, True)  # it was overtaken
        _, text, _ = await do("/steer", step="apply", dry_run=shown, seen="1")
        assert "<b>Applied.</b>" in text
        assert sum(one.summary.queued for one in operator.standings().values()) == 8
        _, text, _ = await do(f"{PREFIX}/jobs/test/removed")
        kept = json.loads(text)["rows"]
        assert [(one["command"], one["uris"]) for one in kept] == [("delete", 4)]
        for ids in (None, [kept[0]["id"]]):
            body = {"ids": ids, "reason": "room", "dry_run": True}
            _, text, _ = await do(f"{PREFIX}/jobs/test/discard", body=body)
            assert json.loads(text)["effect"]["discarded"] == 1 and json.loads(text)["effect"]["bytes"] > 0, text
        _, text, _ = await do("/audit")
        (row,) = {
            html.unescape(row) for row in re.findall('name="row" value="([^"]*delete[^"]*|[^"]*undo[^"]*)"', text)[:1]
        }
        _, text, shown = await do("/steer", row=row, reason="it was none")
        assert "<dt><bdi>returned</bdi></dt><dd><bdi>4</bdi></dd>" in text
        seen = re.search('name="seen" value="([0-9]+)"', text)
        assert seen is not None
        _, text, _ = await do("/steer", step="apply", dry_run=shown, seen=seen[1], reason="it was none")
        assert "<b>Applied.</b>" in text
        assert sum(one.summary.queued for one in operator.standings().values()) == 12

    console(scenario)


def test_pages_have_the_answers_of_all_partitions(console: Any) -> None:
    async def scenario(do: Do, operator: CrawlOwners) -> None:
        await asyncio.to_thread(finish_all, operator)
        (_, errors, _), (_, statuses, _) = await do("/errors"), await do("/statuses")
        assert "<bdi>status 404</bdi>" in errors and "<bdi>poison</bdi>" in errors
        assert 'aria-label="attempts by status: 2xx 6, 4xx 6"' in statuses
        assert "h0.test" in statuses and "h1.test" in statuses and "h2.test" not in statuses
        _, letters, _ = await do("/dead-letters?reason=poison")
        assert "6 dead letters" in letters and ">0/" in letters and ">1/" in letters
        for path in ("/", "/rates"):
            _, text, _ = await do(path)
            assert "<h2>Over time" in text, path
        assert "0 leases out" in (await do("/leases"))[1]

    console(scenario)


def test_dead_letters_of_partitions_are_replayed_and_dropped(console: Any) -> None:
    async def scenario(do: Do, operator: CrawlOwners) -> None:
        await asyncio.to_thread(finish_all, operator)
        _, text, _ = await do("/dead-letters")
        rows = [json.loads(html.unescape(row)) for row in re.findall('name="row" value="([^"]*)"', text)]
        names = [subject for op, subject in rows if op == "replay"]
        assert len(names) == 6 and rows == [[op, name] for name in names for op in ("replay", "drop")]
        assert {name.partition("/")[0] for name in names} == {"0", "1"}

        async def applied(**form: str) -> None:
            _, text, shown = await do("/steer", **form)
            assert "<dt><bdi>replayed</bdi>" in text or "<dt><bdi>dropped</bdi>" in text, text
            seen = re.search('name="seen" value="([0-9]+)"', text)
            assert seen is not None
            _, text, _ = await do("/steer", step="apply", dry_run=shown, seen=seen[1], reason="x")
            assert "<b>Applied.</b>" in text, text

        async def left() -> list[str]:
            found = await asyncio.to_thread(
                lambda: [str(name) for name, _ in ClusterOperator(operator).dead_letters().rows]
            )
            return sorted(found)

        await applied(row=json.dumps(["replay", names[0]]))
        await applied(row=json.dumps(["drop", names[1]]))
        await applied(op="drop", which="ticked", id=names[2])
        while await left() != sorted(names[3:]):  # owners tell what they have committed
            pass
        await applied(op="replay", which="why", why="poison")
        while await left():
            pass
        assert [one.summary.queued for one in operator.standings().values()].count(0) < PARTITIONS
        assert "there is no dead letter" in (await do("/steer", row=json.dumps(["replay", names[0]])))[1]
        for form in ({"op": "replay", "id": "1"}, {"row": '["drop", 1]'}, {"op": "replay", "id": "0/x"}):
            assert "is no id of a dead letter here" in (await do("/steer", **form))[1]
        _, text, _ = await do("/steer", op="drop", step="apply", args='{"ids": ["x"]}', reason="x")
        assert "there is no dead letter x" in text

    console(scenario)


def test_adjustments_are_listed_withdrawn_and_undone(console: Any) -> None:
    async def scenario(do: Do, operator: CrawlOwners) -> None:
        _, text, shown = await do("/steer", op="adjust", match="*", total="5", reason="enough")
        assert "queues that it matches</dt><dd>4</dd>" in text
        await do("/steer", step="apply", dry_run=shown, seen="0")
        _, text, _ = await do("/adjustments")
        name = text.partition('value="[&#34;withdraw&#34;, &#34;')[2].partition("&#34;")[0]
        assert len(name) == 16
        _, text, shown = await do("/steer", op="withdraw", id=name, reason="too few")
        await do("/steer", step="apply", dry_run=shown, seen="0")
        assert "0 in force" in (await do("/adjustments"))[1]
        _, text, _ = await do("/audit")
        undo = text.partition('value="[&#34;undo&#34;, &#34;')[2].partition("&#34;")[0]
        assert ("Undo" in text, "0-1" in text) == (True, True)
        assert f"<small>entry {undo}" in (await do(f"/audit?id={undo}"))[1]
        _, text, shown = await do("/steer", op="undo", id=undo, reason="a mistake")
        assert "Apply: undo" in text
        await do("/steer", step="apply", dry_run=shown, seen="0")
        assert "1 in force" in (await do("/adjustments"))[1]
        assert "is no id in a crawl" in (await do("/steer", op="undo", id="99", reason="x"))[1]

    console(scenario)


def test_an_undo_in_partitions_is_offered_where_it_would_be_taken(console: Any) -> None:
    async def scenario(do: Do, operator: CrawlOwners) -> None:
        base, names = f"{PREFIX}/jobs/test", []
        for op, body in (
            ("adjust", {"match": "*", "set": {"queue_total_budget": 5}}),
            ("adjust", {"match": "*", "set": {"queue_total_budget": 6}}),
            ("retire", {"queue": "h1.test"}),
            ("unretire", {"queue": "h1.test"}),
        ):
            status, text, _ = await do(f"{base}/{op}", body=body | {"reason": "x"})
            assert status == 200, text
            names.append(json.loads(text)["id"])
        replaced, adjusted, retired, unretired = names
        rows: dict[str, Any] = {}
        while len(rows) < len(names):  # owners tell what they have committed
            _, text, _ = await do(f"{base}/audit")
            rows = {row["id"]: row for row in json.loads(text)["rows"]}
        for name, row in rows.items():
            status, text, _ = await do(f"{base}/undo", body={"id": name, "reason": "x", "dry_run": True})
            assert (status == 200) is row["can_undo"] is (row["no_undo"] == ""), (row, text)
            assert status == 200 or json.loads(text)["detail"] == row["no_undo"]
        assert [name for name in names if rows[name]["can_undo"]] == [adjusted, unretired]
        assert f"what {replaced} has changed is not in force" in rows[replaced]["no_undo"]
        assert rows[retired]["no_undo"].startswith("in partition") and rows[retired]["no_undo"].endswith(FORCE)
        _, text, _ = await do("/audit")
        buttons = [json.loads(html.unescape(row)) for row in re.findall('name="row" value="([^"]*)"', text)]
        assert buttons == [["undo", unretired], ["undo", retired, 1], ["undo", adjusted]]
        assert text.count("No undo: ") == text.count("No undo, except by force: ") == 1
        assert "Apply: undo" in (await do("/steer", row=json.dumps(["undo", retired, 1]), reason="x"))[1]

    console(scenario)


def test_the_audit_goes_back_page_by_page_and_the_order_by_key_is_reversed(
    console: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Query.__init__, "__kwdefaults__", {"target": "", "rows": 3})

    async def scenario(do: Do, operator: CrawlOwners) -> None:
        for number in range(5):
            command = OperatorCommand("pause" if number % 2 else "resume", {}, "me", f"r{number}")
            operator.applied(operator.give(command))
        found = []
        for start in (0, 3):
            _, text, _ = await do(f"/audit?start={start}")
            found.append([reason for reason in ("r0", "r1", "r2", "r3", "r4") if f">{reason}<" in text])
            assert ("/audit?start=3" in text) == (start == 0)
        assert found == [["r2", "r3", "r4"], ["r0", "r1"]]
        assert (await do("/audit?before=2"))[0] == 400
        assert "There is no entry x" in (await do("/audit?id=x"))[1]
        assert "/queues?sort=queue&amp;reverse=1" in (await do("/queues?sort=queue"))[1]
        assert 'href="/queues?sort=queue"' in (await do("/queues?sort=queue&reverse=1"))[1]

    console(scenario)


def test_the_overview_has_the_figures_and_the_forecast_of_all_partitions(console: Any) -> None:
    async def scenario(do: Do, operator: CrawlOwners) -> None:
        _, text, _ = await do("/")
        assert '<span class="name">queued</span><b class="good">12' in text and "in 4 queues" in text
        assert "<h2>Forecast</h2>" in text and 'href="/retired"' in text and 'href="/logs"' not in text

    console(scenario)


def test_the_api_answers_and_takes_commands(console: Any) -> None:
    async def scenario(do: Do, operator: CrawlOwners) -> None:
        base = f"{PREFIX}/jobs/test"
        required = {"queue": "key=h1.test", "explain": "target=h1.test", "uris": "queue=h1.test"}
        required["compare-runs"] = "run=1&run2=1"
        for one in RESOURCES:
            if one.method == "GET" and "{task}" not in one.path and one.of_partitions and one.name != "report":
                path = PREFIX + one.path.replace("{job}", "test") + f"?{required.get(one.name, '')}"
                status, text, _ = await do(path)
                assert status == 200, (path, text)
                msgspec.json.decode(text, type=one.result)
        _, text, _ = await do(f"{base}/queues?sort=queue&limit=3&q=h*")
        part = json.loads(text)
        _, text, _ = await do(f"{base}/queues?sort=queue&limit=3&q=h*&cursor={part['next']}")
        found = [row["queue"] for row in [*part["rows"], *json.loads(text)["rows"]]]
        assert found == [f"h{host}.test" for host in range(4)]
        status, text, _ = await do(f"{base}/retire", body={"queue": "h1.test", "reason": "a trap"})
        given = json.loads(text)
        assert (status, given["error"], given["effect"]["after"]["state"]) == (200, None, "RETIRED")
        status, text, _ = await do(f"{base}/undo", body={"id": given["id"], "reason": "no trap"})
        assert status == 200, text
        _, text, _ = await do(f"{base}/audit")
        assert [(row["command"], row["can_undo"]) for row in json.loads(text)["rows"]] == [
            ("undo", True),
            ("retire", False),
        ]
        status, text, _ = await do(f"{base}/undo", body={"id": 7, "reason": "x"})
        assert status == 409, text

    console(scenario)


def test_the_api_lists_retired_queues_and_seeds_of_partitions(console: Any) -> None:
    async def scenario(do: Do, operator: CrawlOwners) -> None:
        base, frontier = f"{PREFIX}/jobs/test", operator.frontier
        frontier.schedule_many(CrawlUri(f"https://s{n}.test/", directive=Directive.MEDIUM) for n in range(3))
        for key in ("h0.test", "h1.test", "h2.test"):
            operator.applied(operator.give(OperatorCommand("retire", {"queue": key}, "me", "x")))

        async def rows(path: str) -> list[Any]:
            found: list[Any] = []
            following: str | None = ""
            while following is not None:
                _, text, _ = await do(f"{base}/{path}{following}")
                part = json.loads(text)
                found += part["rows"]
                following = part["next"] and f"&cursor={part['next']}"
            return found

        retired: list[Any] = []
        while len(retired) < 3:  # owners tell what they have committed
            retired = await rows("retired?limit=2")
        assert sorted(row["queue"]["queue"] for row in retired) == ["h0.test", "h1.test", "h2.test"]
        assert {row["why"] for row in retired} == {"by an operator"}
        for row in retired:
            assert row["commands"] == [f"budgetfrontier unretire {URL} {row['queue']['queue']}"]
        seeds: list[Any] = []
        while len(seeds) < 3:
            seeds = await rows("seeds?limit=2")
        assert sorted(row["seed"] for row in seeds) == [f"https://s{n}.test/" for n in range(3)]
        assert {row["status"] for row in seeds} == {"PENDING"} and await rows("seeds?fate=DEAD") == []
        _, text, _ = await do("/retired?match=queue:h1.test")
        assert "Matching: 1" in text and ">by an operator<" in text
        assert "<b>h0.test" not in text and ">h0.test<" not in text
        _, text, _ = await do("/seeds?fate=WAITING")
        assert "https://s1.test/" in text and "seeds.csv" not in text

    console(scenario)


def test_a_report_of_partitions_is_made_by_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, given = tmp_path / "program", tmp_path / "given"
    program.write_text(
        f"#!{sys.executable}\nimport json, sys\nopen({str(given)!r}, 'w').write(json.dumps(sys.argv[3:]))\n"
        """print('{"rows": [{"queue": "a.test"}], "unknown": null, "missing_partitions": [3]}')\n"""
        """sys.exit("partition 3: away")\n"""
    )
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(made_by_commands, "SHORT", PATIENCE)
    job = PartitionedJob(URL, NO_OWNERS, words=["--cluster", URL, "--tls-ca", "system"])
    with missing_partitions.collected() as missing:
        found = report(job, ReportParameters(kind="hosts", limit=3))
    assert found.rows == [{"queue": "a.test"}] and missing.told().startswith("Partition 3: away. ")
    words = ["report", "--cluster", URL, "--tls-ca", "system", "--kind", "hosts", "--limit", "3", "--format", "json"]
    assert json.loads(given.read_text()) == words


def test_the_api_imports_forgets_and_takes_dead_letters_of_partitions(console: Any) -> None:
    async def scenario(do: Do, operator: CrawlOwners) -> None:
        base = f"{PREFIX}/jobs/test"

        async def given(name: str, **body: Any) -> dict[str, Any]:
            status, text, _ = await do(f"{base}/{name}", body=body | {"reason": "x"})
            found = json.loads(text)
            assert status == 200, found
            return dict(found)

        urls = ["https://h1.test/0", "https://h2.test/new", "https://h3.test/new"]
        shown = await given("import", uris=urls, dry_run=True)
        done = await given("import", uris=urls)
        assert shown["effect"] == done["effect"] and (shown["dry_run"], done["id"]) == (True, None)
        assert (done["effect"]["added"], done["effect"]["duplicate"]) == (2, 1)

        async def until_known(known: list[str], **effect: int) -> None:
            urls = [*known, "https://h2.test/none"]
            while (await given("forget", uris=urls, dry_run=True))["effect"] != effect | {"unknown": 1}:
                await asyncio.sleep(0.05)  # owners tell what they have committed

        await until_known(urls, forgotten=0, waiting=3)
        (fetched,) = operator.frontier.lease(1)
        operator.frontier.finish(fetched)
        await until_known([fetched.uri.url], forgotten=1, waiting=0)
        assert (await given("forget", uris=[fetched.uri.url]))["effect"]["forgotten"] == 1
        for lease in operator.frontier.lease(2):
            operator.frontier.finish(lease, Outcome.DEAD, reason="poison")
        letters: list[Any] = []
        while len(letters) < 2:
            letters = [str(name) for name, _ in ClusterOperator(operator).dead_letters().rows]
            await asyncio.sleep(0.05)
        dropped = await given("drop", ids=letters[:1])
        assert (await given("undo", id=dropped["id"], dry_run=True))["effect"]["returned"] == 1
        assert (await given("undo", id=dropped["id"]))["effect"]["returned"] == 1
        status, text, _ = await do(f"{base}/replay", body={"ids": ["0/99"], "reason": "x"})
        assert status == 409 and "no dead letter 0/99" in text
        status, text, _ = await do(f"{base}/replay", body={"ids": [1], "reason": "x"})
        assert status == 400 and "no id of a dead letter here" in text
        assert (await given("replay", ids=letters[:1], dry_run=True))["effect"]["replayed"] == 1
        assert (await given("replay", ids=letters[:1]))["error"] is None
        assert (await given("drop", ids=letters[1:], for_good=True))["error"] is None

    console(scenario)


def test_nothing_is_put_into_a_crawl_that_was_terminated(
    console: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def scenario(do: Do, operator: CrawlOwners) -> None:
        @contextmanager
        def connected(job: str, **options: Any) -> Iterator[CrawlOwners]:
            yield operator

        await asyncio.to_thread(finish_all, operator)
        base = f"{PREFIX}/jobs/test"
        assert (await do(f"{base}/terminate", body={"reason": "enough"}))[0] == 200
        bodies: dict[str, Any] = {"import": {"uris": ["https://h1.test/9"]}, "replay": {"ids": None}}
        for name in ("import", "resume", "replay", "pause"):
            for dry_run in (True, False):
                body = {"reason": "x", "dry_run": dry_run} | bodies.get(name, {})
                status, text, _ = await do(f"{base}/{name}", body=body)
                assert status == 409 and "was terminated" in text and "another name of `crawl`" in text, (name, text)
        _, text, _ = await do("/steer", op="resume", reason="x")
        assert "was terminated" in text
        text = ""
        while "was terminated" not in text:  # owners tell what they have committed
            _, text, _ = await do("/")
        assert "Which URIs" in text and "Replay or drop" not in text and 'value="resume"' not in text
        monkeypatch.setattr(clusters, "connected", connected)
        capsys.readouterr()
        code = await asyncio.to_thread(main, ["import", "--cluster", URL, "https://h1.test/9"])
        out, err = capsys.readouterr()
        assert (code, out) == (1, "") and "was terminated" in err
        code = await asyncio.to_thread(main, ["resume", "--cluster", URL])
        out, err = capsys.readouterr()
        assert (code, out) == (1, "TERMINATED -> TERMINATED\n") and "another name of `crawl`" in err
        assert sum(one.summary.scheduled for one in operator.standings().values()) == 12

    console(scenario)


def test_the_command_takes_the_configuration_of_workers_and_the_file_of_alerts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served: list[PartitionedJob] = []

    @contextmanager
    def connected(job: str, **options: Any) -> Iterator[Any]:
        yield SimpleNamespace(frontier=None, job=URL, ends=None)

    monkeypatch.setattr(clusters, "connected", connected)
    monkeypatch.setattr(console_server, "serve", lambda jobs, **options: served.extend(jobs))
    config, other = tmp_path / "workers.yaml", tmp_path / "other.yaml"
    snapshots = (tmp_path / "snapshots").as_uri()
    config.write_text(json.dumps({"crawl": "test", "cluster": {"snapshots": snapshots}, "alerts": {"every": "1m"}}))
    other.write_text('{"crawl": "other"}')
    options = ["--config", str(config), "--state", str(tmp_path / "alerts.json")]
    assert main(["console", "--cluster", URL, *options]) == 0 and main(["console", "--cluster", URL]) == 0
    known, unknown = served
    assert known.alert_files == AlertFiles.beside(tmp_path / "alerts.json") and unknown.alert_files is None
    assert known.alert_settings is not None and known.alert_settings.every == 60 and unknown.alert_settings is None
    assert "--config FILE" in unknown.why_no_simulation
    assert main(["console", "--cluster", URL, "--config", str(other)]) == 1
    assert "is the crawl 'test', not 'other'" in capsys.readouterr().err
    assert main(["console", "--cluster", URL, "--state", str(tmp_path)]) == 2
    assert main(["console", str(tmp_path), "--state", str(tmp_path / "alerts.json")]) == 2
    assert "--state is for a crawl in partitions" in capsys.readouterr().err
