"""The console as a browser sees it: pages, what is refused, and what is said when a job cannot be read."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from yarl import URL

from budgetfrontier import CrawlUri, Frontier
from budgetfrontier.tools.console import app as app_module
from budgetfrontier.tools.console import event_streams, rendering
from budgetfrontier.tools.console.app import Console
from budgetfrontier.tools.console.pages import ConsolePage
from budgetfrontier.tools.console.pages.table import PAGES as TABLE
from budgetfrontier.tools.console.query import Query
from budgetfrontier.tools.console.rendering import coded, key_path, short
from tests.tools.console.conftest import TOKEN, Client, get, visit

pytestmark = pytest.mark.usefixtures("forked_programs")

PAGES = ["/", "/queues", "/queues?state=RETIRED", "/queues?sort=queue", "/queue/snoozed.test", "/queue?key=named.test"]


@pytest.mark.parametrize("path", PAGES)
def test_each_page_is_whole_without_a_script_and_loads_nothing_from_elsewhere(job: Path, path: str) -> None:
    status, text = get(job, path)
    assert status == 200
    assert text.startswith("<!doctype html>") and text.rstrip().endswith("</html>")
    assert "<script>" not in text and "http-equiv" not in text and " style=" not in text and " onclick" not in text
    loaded = [part.partition('"')[0] for part in text.split(' src="')[1:] + text.split(' rel="icon" href="')[1:]]
    assert loaded and all(address.startswith("/-/") for address in loaded)
    assert "stylesheet" not in text and text.count("<style>") == 1, "a page that was saved is whole"


def test_the_overview_says_that_nothing_runs_and_counts_the_queues(job: Path) -> None:
    _, text = get(job, "/")
    assert "No process runs this crawl" in text
    assert "RETIRED</a> <b>2</b>" in text and "SNOOZED</a> <b>1</b>" in text
    assert "1 dead letter: URIs that have failed for good." in text


def test_the_verdict_and_the_figures_below_it_are_of_one_commit(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "_SAMPLED", 1e9)
    monkeypatch.setattr("budgetfrontier.tools.console.jobs._FRESH", 1e9)

    async def act(client: Client, console: Console) -> str:
        await (await client.get("/")).text()
        command = [sys.executable, "-m", "budgetfrontier", "retire", str(job), "snoozed.test"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return await (await client.get("/")).text()

    text = visit(job, act)
    assert "RETIRED</a> <b>3</b>" in text, "not those of a sample of a second ago"


def test_queues_are_listed_by_key_and_by_turn(job: Path) -> None:
    _, by_key = get(job, "/queues?sort=queue&q=na")
    assert "named.test" in by_key and "capped.test" not in by_key
    _, by_turn = get(job, "/queues?state=RETIRED&sort=turn")
    assert by_turn.index("named.test") < by_turn.index("capped.test")
    assert "snoozed.test" not in by_turn


def test_a_queue_shows_its_money_its_settings_its_uris_and_its_history(job: Path) -> None:
    _, text = get(job, "/queue/snoozed.test")
    assert "<b>40<small> of 41 ever</small></b>" in text and "0 out, 0 for later" in text
    assert "http://snoozed.test/7?page=7" in text
    why = "cost 2: 1 <bdi>each URI</bdi> + 1 <bdi>it has a query string</bdi>"
    assert text.partition("Next URIs")[2].partition("spread over")[0].count(why) == 1, "once for all that follow"
    assert "/N?page" in text, "the pattern of its paths"
    _, capped = get(job, "/queue/capped.test")
    assert "override 1: domain:capped.test" in capped
    _, named = get(job, "/queue/named.test")
    assert "alice" in named and "not what we want" in named


def test_uris_spread_over_a_queue_are_of_all_kinds_that_take_turns(tmp_path: Path) -> None:
    """Every second URI of a hundred would be of one kind, and the first fifty of 99 are not all over it."""
    with Frontier.open(tmp_path / "job" / "frontier") as frontier:
        for host, length in (("even.test", 100), ("odd.test", 99)):
            frontier.schedule_many(f"http://{host}/{number}/kind{number % 2}" for number in range(length))
    for host in ("even.test", "odd.test"):
        spread = get(tmp_path / "job", f"/queue/{host}")[1].partition("50 URIs spread over the queue")[2]
        assert "/kind0" in spread and "/kind1" in spread
        assert f"http://{host}/9" in spread.replace(f"http://{host}/9/", "")


def test_an_order_by_an_amount_comes_from_a_scan(job: Path) -> None:
    async def act(client: Client, console: Console) -> str:
        await (await client.get("/queues?sort=queued")).text()
        await console.jobs[0].scans.run()
        return await (await client.get("/queues?sort=queued")).text()

    text = visit(job, act)
    assert text.index("snoozed.test") < text.index("capped.test") < text.index("named.test") < text.index("dead.test")
    assert "As of <time" in text


def test_a_scan_without_a_folder_for_temporary_files_says_so(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(client: Client, console: Console) -> list[str]:
        monkeypatch.setattr(tempfile, "tempdir", None)
        monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc/none"])
        console.jobs[0].scans.want()
        await console.jobs[0].scans.run()
        return [await (await client.get(path)).text() for path in ("/", "/queues?sort=queued")]

    for text in visit(job, act):
        assert "No usable temporary directory" in text and "set the environment variable TMPDIR to a folder" in text


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/queue/nowhere.test", 404, "There is no queue"),
        ("/queue/snoozed.tes", 404, "did you mean snoozed.test?"),
        ("/queue/nsoozed.test", 404, "did you mean snoozed.test?"),
        ("/queue/snoozed.tst", 404, "did you mean snoozed.test?"),
        ("/queue?key=http://snoozed.test:80/a", 200, "http://snoozed.test:80/a"),
        ("/queue?key=http://nowhere.test/a", 404, "was never scheduled"),
        ("/queue/%ff%fe", 404, "There is no queue"),
        ("/queue?key=", 404, "There is no queue"),
        ("/nothing", 404, "There is no such page"),
        ("/queues?state=ASLEEP", 400, "state is one of"),
        ("/queues?sort=luck", 400, "sort is one of"),
        ("/queues?strat=5", 400, "did you mean start?"),
        ("/queues?limt=5", 400, "'limt' is no parameter of this page: it has state, q, start"),
        ("/queues?start=-1", 400, "start is a whole number"),
        ("/queues?start=99999999999999999999", 400, "start is a whole number"),
        ("/queues?state=RETIRED&sort=turn&after=00", 400, "go back to the first"),
        ("/queues?state=SNOOZED&sort=turn&after=" + "00" * 11, 400, "go back to the first"),
        ("/queues?sort=queue&after=00", 400, "go back to the first"),
        ("/queues?sort=queue&after=" + "61" * 300, 400, "go back to the first"),
        ("/queues?after=no", 400, "go back to the first"),
        ("/retired?after=00", 400, "go back to the first"),
        ("/queues?q=" + "x" * 3000, 400, "q has 3,000 characters"),
    ],
)
def test_a_bad_request_is_answered_with_what_is_wrong(job: Path, path: str, status: int, said: str) -> None:
    found, text = get(job, path)
    assert (found, said in text.replace("&#39;", "'")) == (status, True), text


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("text/plain", "text/plain"),
        ("text/plain;q=0.9, */*", "text/plain"),
        ("application/json, text/html", "application/json"),
        ("text/html,application/xhtml+xml,*/*;q=0.8", "text/html"),
        ("*/*", "text/html"),
        ("application/json;q=0.1, text/html", "text/html"),
        ("text/html;q=0.5, application/json; Q=0.9, text/plain;q=0.9", "application/json"),
        ("application/json;q=0, text/plain;q=none", "text/html"),
        ("", "text/html"),
    ],
)
def test_what_is_wrong_is_told_in_the_form_that_is_asked_for(job: Path, accept: str, kind: str) -> None:
    async def act(client: Client, console: Console) -> tuple[int, str, str]:
        async with client.get("/queue/snoozed.tes", headers={"Accept": accept}) as answer:
            return answer.status, answer.content_type, await answer.text()

    status, found, text = visit(job, act)
    told = "There is no queue 'snoozed.tes'; did you mean snoozed.test?"
    assert (status, found) == (404, kind)
    if kind == "text/plain":
        assert text == f"Not found: {told}\n"
    elif kind == "application/json":
        assert json.loads(text) == {"status": 404, "title": "Not found", "message": told}
    else:
        assert "<h1>Not found</h1>" in text


def test_a_method_that_an_address_does_not_take_is_told_in_that_form_too(job: Path) -> None:
    async def act(client: Client, console: Console) -> tuple[int, str, Any]:
        async with client.put("/queues", headers={"Accept": "application/json"}) as answer:
            return answer.status, answer.headers["Allow"], await answer.json()

    status, allowed, told = visit(job, act)
    assert (status, allowed, told["status"]) == (405, "GET, HEAD", 405)
    assert told["message"] == "This address takes GET, HEAD; not PUT."


def test_a_script_without_a_token_is_told_so(job: Path) -> None:
    async def act(client: Client, console: Console) -> tuple[int, Any]:
        async with client.get("/queues", headers={"Accept": "application/json"}) as answer:
            return answer.status, await answer.json()

    status, told = visit(job, act, token=TOKEN)
    assert status == 401 and "Authorization: Bearer TOKEN" in told["message"]


def test_a_job_that_was_removed_is_named_and_comes_back(job: Path, tmp_path: Path) -> None:
    async def act(client: Client, console: Console) -> list[tuple[int, str]]:
        answers = []
        for change in (
            lambda: None,
            lambda: shutil.move(job, tmp_path / "away"),
            lambda: shutil.move(tmp_path / "away", job),
        ):
            change()
            async with client.get("/queues?sort=queue") as answer:
                answers.append((answer.status, await answer.text()))
        return answers

    before, gone, after = visit(job, act)
    assert before[0] == 200 and "snoozed.test" in before[1]
    assert gone[0] == 503 and "not there any more" in gone[1]
    assert after[0] == 200 and "snoozed.test" in after[1]


def test_what_was_read_of_a_frontier_is_dropped_when_another_takes_its_place(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("budgetfrontier.tools.console.scan_schedule.Scans.is_due", False)  # scans of the test alone
    with Frontier.open(tmp_path / "other" / "frontier") as frontier:
        frontier.schedule_many(f"http://new{n}.test/{n}" for n in range(3))

    async def act(client: Client, console: Console) -> list[str]:
        seen = console.jobs[0]
        await (await client.get("/queues?sort=queued")).text()
        await seen.scans.run()
        running = asyncio.create_task(seen.scans.run())
        await asyncio.sleep(0)
        shutil.move(job, tmp_path / "old")
        shutil.copytree(tmp_path / "other", job)
        texts = [await (await client.get(path)).text() for path in ("/queues?sort=queued", "/", "/errors", "/retired")]
        await running
        assert seen.scans.latest is None, "the scan that ran was of the old frontier"
        await seen.scans.run()
        return [*texts, await (await client.get("/queues?sort=queued")).text()]

    *dropped, scanned = visit(job, act)
    assert "snoozed.test" not in "".join(dropped) and "The queues are being scanned" in dropped[0]
    assert "new2.test" in scanned and "snoozed.test" not in scanned


def test_several_jobs_have_pages_below_their_names_and_an_index(job: Path, tmp_path: Path) -> None:
    other = tmp_path / "else" / "job"
    shutil.copytree(job, other)
    status, index = get((job, other), "/")
    assert status == 200
    assert 'href="/job"' in index and 'href="/job-2"' in index
    assert get((job, other), "/job-2/queue/named.test")[0] == 200
    assert 'href="/job-2/queues"' in get((job, other), "/job-2")[1]
    assert get((job, other), "/queues")[0] == 404


def test_jobs_are_told_apart_by_name_and_folder_on_every_page(job: Path, tmp_path: Path) -> None:
    folders = tuple(tmp_path / name for name in ("one/news", "two/news", "three/news-2"))
    for folder in folders:
        shutil.copytree(job, folder)
    _, index = get(folders, "/")
    for name, folder in zip(("news", "news-3", "news-2"), folders, strict=True):
        row = next(row for row in index.split("<tr ") if f'href="/{name}"><b>{name}</b></a>' in row)
        assert f">{folder}<" in row
        for path in ("", "/queues", "/queue/named.test", "/audit"):
            _, text = get(folders, f"/{name}{path}")
            assert f"<span>{name}</span>" in text and f">{folder}<" in text and f" {name}</title>" in text


@pytest.mark.parametrize("name", ["עברית", "é", "a b+c", os.fsdecode(b"not \xff text")])
def test_a_job_with_any_name_has_all_pages_and_can_be_steered(job: Path, tmp_path: Path, name: str) -> None:
    folders = (job, tmp_path / name)
    shutil.copytree(job, folders[1])
    dry = {"op": "retire", "queue": '"snoozed.test"', "reason": "because"}

    async def act(client: Client, console: Console) -> None:
        base, headers = console.jobs[1].base, {"Authorization": f"Bearer {TOKEN}"}
        for path in ("", "/", "/queues", "/queue/named.test", "/queue?key=named.test", "/reports/frontier.json"):
            assert (await client.get(URL(base + path, encoded=True), headers=headers)).status == 200, path
        assert (await client.get("/metrics", headers=headers)).status == 200
        answer = await client.post(URL(f"{base}/steer", encoded=True), data=dry, headers=headers)
        assert answer.status == 200 and "snoozed.test" in await answer.text()

    visit(folders, act, token=TOKEN)


@pytest.mark.parametrize("key", ["a\nb", "a\r\nSet-Cookie: x", "%0A", "a\x85b\u2028c"])
def test_the_link_to_a_queue_finds_it_whatever_its_key(tmp_path: Path, key: str) -> None:
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule(CrawlUri("http://a.test/", queue=key))

    async def act(client: Client, console: Console) -> str:
        answer = await client.get(URL(key_path(key), encoded=True))
        assert answer.status == 200
        return await answer.text()

    assert "http://a.test/" in visit(tmp_path, act)


def test_a_page_of_several_jobs_says_which_cannot_be_read(job: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(job, other)

    async def act(client: Client, console: Console) -> str:
        shutil.rmtree(other)
        return await (await client.get("/")).text()

    text = visit((job, other), act)
    assert "not there any more" in text and "resting" in text


@pytest.mark.parametrize("page", [page for page in TABLE if not page.steers], ids=lambda page: page.title)
def test_a_parameter_that_a_page_does_not_have_is_refused_and_named(job: Path, page: ConsolePage) -> None:
    path = "/queue/snoozed.test" if "target" in page.path else page.path or "/"
    if page.path == "/queue":
        path = "/queue?key=snoozed.test"
    mark = "&" if "?" in path else "?"
    assert get(job, path)[0] == 200
    status, text = get(job, f"{path}{mark}since=1y")
    assert status == 400 and "since" in text and "is no parameter of this page: it has" in text


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/queues?start=-1", "start is a whole number from 0 to"),
        ("/queues?reverse=yes", "reverse is one of 1; not"),
        ("/queues?q=a&q=b", "q is given more than once"),
        ("/rates?span=1y", "span is one of"),
        ("/?since=1h", "is no parameter of this page"),
    ],
)
def test_a_wrong_value_is_refused_in_words_that_name_the_parameter(job: Path, path: str, told: str) -> None:
    status, text = get(job, path)
    assert status == 400 and told in text and "<h1>Bad request</h1>" in text


def test_the_jobs_page_has_the_verdict_on_each_and_the_worst_come_first(job: Path, tmp_path: Path) -> None:
    folders = tuple(tmp_path / name for name in ("done", "killed"))
    with Frontier.open(folders[0] / "frontier") as frontier:
        frontier.schedule("http://a.test/")
        frontier.finish_many(frontier.lease(1))
    killed(folders[1] / "frontier")
    _, index = get((*folders, job), "/")
    assert [index.index(f'href="/{name}"') for name in ("killed", "job", "done")] == sorted(
        index.index(f'href="/{name}"') for name in ("killed", "job", "done")
    )
    rows = {name: index.partition(f'href="/{name}"')[2].partition("</tr>")[0] for name in ("killed", "job", "done")}
    assert '<span class="level bad">' in rows["killed"] and "No process runs this crawl: spider" in rows["killed"]
    assert "was killed, or crashed" in rows["killed"] and 'href="/job/retired"' in rows["job"]
    assert '<span class="level good">' in rows["done"] and "The crawl is finished" in rows["done"]


def test_a_link_to_what_mends_a_problem_stands_once(tmp_path: Path) -> None:
    job = tmp_path / "job"
    with Frontier.open(job / "frontier") as frontier:
        frontier.schedule("http://a.test/")
        frontier.retire("a.test")
        assert frontier.lease(1) == []
    for jobs, base in ((job, ""), ((job, tmp_path / "other"), "/job")):
        Frontier.open(tmp_path / "other" / "frontier").close()
        _, text = get(jobs, "/")
        assert "only retired queues are left" in text and "100% of the queues are RETIRED" in text
        assert text.count(f'<a class="mend" href="{base}/retired"') == 1


def killed(path: Path) -> None:
    """Make a frontier whose process was killed with work left."""
    pid = os.fork()
    if pid == 0:
        frontier = Frontier.open(path, program="spider")
        frontier.schedule("http://a.test/")
        frontier.commit()
        os._exit(9)
    os.waitpid(pid, 0)


def test_the_live_section_is_sent_again_when_it_changes(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(client: Client, console: Console) -> list[str]:
        async with client.get("/?live=1") as answer:
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            events: list[str] = []
            while len(events) < 2:
                line = (await answer.content.readline()).decode()
                if line.startswith("data: "):
                    events.append(json.loads(line.removeprefix("data: ")))
            return events

    first, second = visit(job, act)
    assert "No process runs this crawl" in first and "No process runs this crawl" in second
    assert "<html" not in first


def test_pages_that_were_closed_take_no_place_of_open_ones(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_streams, "MOST", 2)

    async def act(client: Client, console: Console) -> list[int]:
        opened = [await client.get("/adjustments?live=1") for _ in range(3)]
        for answer in opened:
            answer.close()
        while console.streams.open:  # nothing is written to them, which would tell that they are closed
            await asyncio.sleep(0.05)
        async with client.get("/adjustments?live=1") as again:
            return [*(answer.status for answer in opened), again.status]

    monkeypatch.setattr(event_streams, "ALIVE", 1e9)
    assert visit(job, act) == [200, 200, 503, 200]


def test_too_many_requests_at_once_are_told_to_come_back(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "WAITING", 20)

    async def act(client: Client, console: Console) -> dict[int, int]:
        async def ask() -> tuple[int, str | None]:
            async with client.get("/") as answer:
                await answer.read()
                return answer.status, answer.headers.get("Retry-After")

        answers = await asyncio.gather(*(ask() for _ in range(100)))
        assert all(retry == "1" for status, retry in answers if status == 503)
        counts = {status: 0 for status, _ in answers}
        for status, _ in answers:
            counts[status] += 1
        assert (await ask())[0] == 200
        return counts

    counts = visit(job, act)
    assert counts.keys() <= {200, 503} and counts[200] >= 20 and sum(counts.values()) == 100


@pytest.mark.parametrize("page", [page for page in TABLE if page.every], ids=lambda page: page.path or "/")
@pytest.mark.usefixtures("stopped_time")
def test_every_live_section_is_part_of_its_page(job: Path, page: ConsolePage) -> None:
    """A section is made by itself, without what the template has around it."""

    async def act(client: Client, console: Console) -> tuple[str, str]:
        query = Query({"key": "snoozed.test"}, target="snoozed.test")
        found = page.build(console.jobs[0], query)
        shared = console._context(make_mocked_request("GET", "/"), console.jobs[0], page) | {"now": 0.0}
        whole = rendering.page(console.templates, page.template, shared | found)
        return whole, rendering.live(console.templates, page.template, shared | found)

    whole, section = visit(job, act)
    assert section.strip() and section.strip() in whole


def test_commands_in_sentences_are_shown_as_code_and_nothing_else_is_markup() -> None:
    assert coded("`adjust <b>` it, ` and \x07") == "<code>adjust &lt;b&gt;</code> it, ` and \\x07"
    assert coded(short("`visit` <")) == "<bdi><code>visit</code> &lt;</bdi>"
    assert coded(short("`a` b", 3)) == '<bdi title="`a` b"><code>a</code>…</bdi>'
