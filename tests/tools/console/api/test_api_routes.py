"""The API: each resource answers as the document says, listings page by cursors, and errors are problems."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from budgetfrontier import Frontier, Settings
from budgetfrontier.reports.alert_state import AlertDelivery, AlertState
from budgetfrontier.reports.crawl_comparison import Comparison
from budgetfrontier.reports.kinds import KINDS
from budgetfrontier.reports.operators import OperatorCommand
from budgetfrontier.rules.alert_conditions import RaisedAlert
from budgetfrontier.tools.console import scan_schedule
from budgetfrontier.tools.console.api import MOST_ROWS, PREFIX, ApiResource, Listing
from budgetfrontier.tools.console.api.crawl_resources import AuditItem
from budgetfrontier.tools.console.api.openapi import PROBLEM, ApiProblem
from budgetfrontier.tools.console.api.resource_table import RESOURCES
from budgetfrontier.tools.console.app import Console
from budgetfrontier.tools.console.columns import SORTS
from budgetfrontier.tools.console.pages.queues import CHOICES
from budgetfrontier.tools.job_operator import JobOperator
from tests.tools.console.conftest import SETTINGS, TOKEN, Client, get, visit

pytestmark = pytest.mark.usefixtures("forked_programs")
READING = [one for one in RESOURCES if one.method == "GET" and "{task}" not in one.path]
REQUIRED = {
    "queue": "key=capped.test",
    "explain": "target=http://capped.test/1",
    "uris": "queue=capped.test",
    "report": "kind=hosts",
    "compare-runs": "run=1&run2=1",
}
"""The query of resources that need one."""
EMPTY = ("leases", "quotas", "labels", "adjustments", "traps", "alerts", "compare-runs", "removed")
"""The listings that have no rows of the job of these tests."""
PATHS_WITH_MORE_ROWS = ("retired?limit=1", "seeds?limit=1", "retired", "seeds")


def path_of(resource: ApiResource, job: str = "job") -> str:
    path = resource.path.format(job=job, other=job)
    return f"{PREFIX}{path}?{REQUIRED.get(resource.name, '')}".rstrip("?")


def asked(folders: Path | tuple[Path, ...], *paths: str, **options: Any) -> list[tuple[int, str, bytes]]:
    """The status, the type and the body of each answer."""

    async def act(client: Client, console: Console) -> list[tuple[int, str, bytes]]:
        found = []
        for path in paths:
            async with client.get(PREFIX + path.removeprefix(PREFIX), **options) as answer:
                found.append((answer.status, answer.content_type, await answer.read()))
        return found

    return visit(folders, act)


def test_each_resource_answers_with_what_its_struct_says(job: Path) -> None:
    for resource, (status, kind, body) in zip(READING, asked(job, *map(path_of, READING)), strict=True):
        assert (status, kind) == (200, "application/json"), (resource.path, body)
        found = msgspec.json.decode(body, type=resource.result)
        if hasattr(found, "rows") and resource.name not in EMPTY:
            assert found.rows, resource.path


def test_head_is_answered_as_get_without_the_body(job: Path) -> None:
    async def act(client: Client, console: Console) -> list[tuple[int, str, bytes]]:
        found = []
        for path in (*map(path_of, READING), f"{PREFIX}/jobs/none"):
            async with client.head(path) as answer:
                found.append((answer.status, answer.content_type, await answer.read()))
        return found

    *there, missing = visit(job, act)
    assert set(there) == {(200, "application/json", b"")}
    assert missing == (404, PROBLEM, b"")


def keys_in(value: Any) -> Iterator[str]:
    """All keys of the objects in an answer."""
    if isinstance(value, dict):
        yield from value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from keys_in(one)


def test_no_name_in_an_answer_has_a_space(job: Path, tmp_path: Path) -> None:
    shutil.copytree(job, tmp_path / "other")
    paths = [f"{path_of(one)}" for one in READING if one.name not in ("report", "errors")]  # reasons are keys of errors
    paths += [f"/jobs/job/report?kind={kind}" for kind in KINDS if kind != "frontier"]
    found = asked((job, tmp_path / "other"), *paths)
    assert {status for status, *_ in found} == {200}
    assert [name for _, _, body in found for name in keys_in(json.loads(body)) if " " in name] == []


def test_the_document_names_parameters_and_answers(job: Path) -> None:
    ((status, kind, body),) = asked(job, "/openapi.json")
    document = json.loads(body)
    assert (status, kind) == (200, "application/json") and document["openapi"] == "3.1.0"
    operations = [one for path in document["paths"].values() for one in path.values()]
    assert len({one["operationId"] for one in operations}) == len(operations) == len(RESOURCES)
    listing = document["paths"][f"{PREFIX}/jobs/{{job}}/queues"]["get"]
    parameters = {one["name"]: one for one in listing["parameters"]}
    assert list(parameters) == ["job", "limit", "cursor", "state", "q", "sort", "reverse"]
    assert parameters["limit"]["schema"] == {"type": "integer", "minimum": 1, "maximum": MOST_ROWS, "default": 50}
    assert {*parameters["state"]["schema"]["enum"]} == CHOICES.keys() and parameters["state"]["description"]
    assert {"turn", "queue", *SORTS} <= {*parameters["sort"]["schema"]["enum"]}
    text = body.decode()
    for reference in {part.partition('"')[0] for part in text.split('"$ref": "#/components/schemas/')[1:]}:
        assert reference in document["components"]["schemas"]
    assert "security" not in document


@pytest.mark.parametrize(
    "path", ["queues?sort=queue", "queues?sort=queued", "queues?state=RETIRED&sort=turn", "retired?", "seeds?"]
)
def test_a_cursor_leads_through_all_rows(job: Path, path: str) -> None:
    async def act(client: Client, console: Console) -> tuple[list[Any], list[Any]]:
        async def rows(more: str) -> dict[str, Any]:
            async with client.get(f"{PREFIX}/jobs/job/{path}{more}") as answer:
                found = await answer.json()
                assert answer.status == 200, found
                return dict(found)

        whole, found, following = await rows("&limit=1000"), [], ""
        while True:
            part = await rows(f"&limit=1{following}")
            found += part["rows"][:1]
            if part["next"] is None:
                return whole["rows"], found
            following = f"&cursor={quote(part['next'])}"

    whole, found = visit(job, act)
    assert len(whole) > 1 and [*map(json.dumps, found)] == [*map(json.dumps, whole[: len(found)])]


def test_rows_to_which_no_cursor_leads_are_in_the_note(job: Path) -> None:
    poor = {"match": "domain:poor.test", "set": {"queue_total_budget": 0}}
    settings = SETTINGS | {
        "overrides": [*SETTINGS["overrides"], poor],
        "seeds": ["http://nor.test/", "http://no.test/"],
    }
    with Frontier.open(job / "frontier", Settings.from_dict(settings)) as frontier:
        frontier.schedule_many(f"http://poor.test/{number}" for number in range(4))
        while leases := frontier.lease(1):
            frontier.finish(leases[0])
        frontier.adjust(match="queue:none.test", precedence=2)
    few, seeds, all_of_them, all_seeds = (
        json.loads(body) for *_, body in asked(job, *(f"/jobs/job/{path}" for path in PATHS_WITH_MORE_ROWS))
    )
    assert len(few["rows"]) == 1 + 1 and "more queues that will retire again than `limit`" in few["note"]
    assert "more seeds that were never scheduled than `limit`" in seeds["note"]
    assert sum(row["again"] for row in all_of_them["rows"]) > 1 and not all_of_them["note"] and not all_seeds["note"]


def test_statuses_are_those_of_a_fresh_scan_and_of_the_last_commit_without_one(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [f"statuses?limit={limit}{more}" for limit, more in ((1, ""), (2, ""), (101, ""), (1, "&match=dead.test"))]

    async def act(client: Client, console: Console) -> list[list[Any]]:
        async def answers() -> list[Any]:
            found = []
            for path in paths:
                async with client.get(f"{PREFIX}/jobs/job/{path}") as answer:
                    found.append(await answer.json())
            return found

        first = await answers()
        while console.jobs[0].scans.latest is None:
            await asyncio.sleep(0.05)
        scanned = await answers()
        monkeypatch.setattr(scan_schedule, "FRESH", 0.0)
        return [first, scanned, await answers()]

    first, scanned, later = visit(job, act)
    assert [one.pop("as_of") is None for one in first] == [True] * 4 and first[0]["kinds"]
    assert [one.pop("as_of") is None for one in scanned] == [False, False, True, True]
    assert [one.pop("as_of") is None for one in later] == [True] * 4
    assert first == scanned == later


def test_pages_of_queues_have_the_filters_of_the_console(job: Path) -> None:
    paths = [f"/jobs/job/queues?{query}" for query in ("state=RETIRED", "q=capped&sort=queued", "sort=queued&limit=2")]
    found = [[row["queue"] for row in json.loads(body)["rows"]] for _, _, body in asked(job, *paths)]
    assert sorted(found[0]) == ["capped.test", "named.test"] and found[1] == ["capped.test"]
    assert found[2] == ["snoozed.test", "capped.test"]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/jobs/nowhere", 404, "There is no job 'nowhere' here"),
        ("/nothing", 404, "openapi.json has all of them"),
        ("/jobs/job/queue?key=cappd.test", 404, "did you mean capped.test"),
        ("/jobs/job/queue", 400, "missing: key"),
        ("/jobs/job/queues?limit=0", 400, "limit: expected int >= 1"),
        ("/jobs/job/queues?limit=x", 400, "limit: expected int, got str"),
        ("/jobs/job/queues?stat=RETIRED", 400, "did you mean state"),
        ("/jobs/job/queues?state=RETIRED&state=READY", 400, "more than once"),
        ("/jobs/job/runs?cursor=start:3", 400, "'cursor' is no parameter of this resource"),
        ("/jobs/job/queues?cursor=7", 400, "begin without a cursor"),
        ("/jobs/job/queues?cursor=after:zz", 400, "go back to the first"),
        ("/jobs/job/seeds?cursor=start:3", 400, "start"),
        ("/jobs/job/rates?since=long", 400, "since"),
        ("/jobs/job/rates?since=-1", 400, "since: expected a duration (seconds, or such as"),
        ("/jobs/job/rates?since=99999999d", 400, 'got "99999999d", which is more than 3650d'),
        ("/jobs/job/report?kind=hosts&since=long", 400, "since"),
        ("/jobs/job/report?kind=seeds&since=1h", 400, "is as of now"),
        ("/jobs/job/report?kind=host", 400, "kind: expected str matching regex"),
        ("/jobs/job/uris?queue=cappd.test", 404, "did you mean capped.test"),
        ("/jobs/job/leases?queue=cappd.test", 404, "did you mean capped.test"),
        ("/jobs/job/dead-letters?queue=cappd.test", 404, "did you mean capped.test"),
        ("/jobs/job/statuses?status=6xx", 400, "6xx is no class that is counted"),
        ("/jobs/job/statuses?match=regex:[", 400, 'match: "regex:[" is not a regular expression'),
        ("/jobs/job/audit?outcome=true", 400, "give its `id`, too"),
        ("/jobs/job/audit?outcome=true&id=99", 404, "no entry 99"),
        ("/jobs/job/compare/jobb", 404, "did you mean job"),
        ("/jobs/job/compare-runs?run=1&run2=7", 404, "there is no run 7"),
        ("/jobs/job/curves?span=2h", 400, "span"),
    ],
)
def test_errors_are_problems_that_say_what_to_do(job: Path, path: str, status: int, words: str) -> None:
    ((found, kind, body),) = asked(job, path)
    problem = msgspec.json.decode(body, type=ApiProblem)
    assert (found, kind, problem.status) == (status, PROBLEM, status) and words in problem.detail, problem


def test_a_queue_may_be_given_in_any_spelling_of_its_host(job: Path) -> None:
    found = asked(job, "/jobs/job/dead-letters?queue=DEAD.test.", "/jobs/job/leases?queue=DEAD.test.")
    assert [len(json.loads(body)["rows"]) for _, _, body in found] == [1, 0]


def test_several_jobs_have_the_names_of_their_pages(job: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(job, other)
    listing, one = asked((job, other), "/jobs", "/jobs/other")
    assert sorted(row["name"] for row in json.loads(listing[2])["rows"]) == ["job", "other"]
    assert json.loads(one[2])["name"] == "other"


def test_two_jobs_are_compared_as_by_the_command(job: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(job, other)
    with Frontier.open(other / "frontier") as frontier:
        frontier.schedule("http://new.test/")
        (lease,) = frontier.lease(1)
        frontier.finish(lease)
    ((_, _, body),) = asked((job, other), "/jobs/job/compare/other?limit=1")
    found = msgspec.json.decode(body, type=Comparison)
    assert found.queues == {"only_in_first": 0, "only_in_second": 1, "in_both": 3}
    assert [(row.queue, row.first) for row in found.rows] == [("new.test", None)]


def test_what_has_followed_an_adjustment_is_with_its_entry(job: Path) -> None:
    operator = JobOperator(job, job / "frontier")
    change = {"match": "queue:capped.test", "set": {"queue_total_budget": 2}}
    entry = operator.apply(OperatorCommand("adjust", change, "alice")).entry
    assert entry is not None
    ((_, _, body),) = asked(job, f"/jobs/job/audit?outcome=true&id={entry.id}")
    (row,) = msgspec.json.decode(body, type=Listing[AuditItem]).rows
    assert row.outcome is not None and (row.outcome.queues, row.outcome.fetched) == (1, 0)
    assert "fetched 0 of the 2 promised" in row.followed


def test_alerts_say_which_sinks_were_told(job: Path) -> None:
    ((_, _, body),) = asked(job, "/jobs/job/alerts")
    assert json.loads(body) == {"rows": [], "next": None, "as_of": None, "note": "Nobody has watched this crawl yet."}
    about = RaisedAlert(level="bad", text="it was killed", since=7.0)
    sent = AlertDelivery(id="1", sink="desk", condition="killed", raised=True, time=8.0, about=about, error="refused")
    state = AlertState(looked=9.0, raised={"killed": about}, deliveries=[sent])
    (job / "alerts.json").write_bytes(msgspec.json.encode(state))
    ((_, _, body),) = asked(job, "/jobs/job/alerts")
    told = {"sink": "desk", "attempts": 0, "done": None, "error": "refused"}
    row = {"condition": "killed", "level": "bad", "since": 7.0, "text": "it was killed", "told": [told]}
    assert json.loads(body)["rows"] == [row] and json.loads(body)["as_of"] == 9.0


def test_a_page_describes_the_api(job: Path) -> None:
    status, text = get(job, PREFIX)
    assert status == 200 and f'href="{PREFIX}/openapi.json"' in text and "Jobs here: <code>job</code>" in text
    for resource in RESOURCES:
        assert f"<code>{resource.method} {PREFIX}{resource.path}</code>" in text and resource.summary in text
    assert "<code>key</code> (required): the key of the queue" in text and "role admin" in text


def test_a_console_with_a_token_asks_for_it(job: Path) -> None:
    async def act(client: Client, console: Console) -> list[tuple[int, str | None, str]]:
        found = []
        for headers in ({}, {"Authorization": "Bearer another"}, {"Authorization": f"Bearer {TOKEN}"}):
            async with client.get(f"{PREFIX}/jobs", headers=headers, allow_redirects=False) as answer:
                found.append((answer.status, answer.headers.get("WWW-Authenticate"), answer.content_type))
        async with client.get(f"{PREFIX}/openapi.json", headers=headers) as answer:
            assert (await answer.json())["security"] == [{"token": []}]
        return found

    assert visit(job, act, token=TOKEN) == [(401, "Bearer", PROBLEM)] * 2 + [(200, None, "application/json")]
