"""Steering: a dry run first, then the command, confirmed by its audit entry, for stopped and for running jobs."""

from __future__ import annotations

import asyncio
import html
import json
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from multidict import MultiDict

from budgetfrontier import Frontier, Reader
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.engine.commands.undo_checks import FORCE
from budgetfrontier.errors import FrontierError
from budgetfrontier.tools.console import app, forms
from budgetfrontier.tools.console.api import PREFIX
from budgetfrontier.tools.console.app import Console
from budgetfrontier.tools.console.forms import SubmittedCommand
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.steer_process import SteerLine, SteerOrder
from budgetfrontier.tools.console.steering import Task
from budgetfrontier.tools.job_operator import JobOperator
from tests.support import audited
from tests.tools.console.conftest import TOKEN, Client, get, visit


@pytest.fixture(autouse=True)
def processes(request: pytest.FixtureRequest) -> None:
    """Fork the processes of dry runs, commands and scans, but for the test that has all three."""
    if request.function is not test_a_command_is_tried_then_applied_and_confirmed_from_the_audit:
        request.getfixturevalue("forked_programs")


class Operator:
    """Somebody who has signed in, and sends forms as a browser does."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._here = {"Origin": str(client.make_url("/"))[:-1]}

    async def sign_in(self, who: str = "alice") -> None:
        form = {"token": TOKEN, "who": who}
        async with self._client.post("/-/sign-in", data=form, headers=self._here) as answer:
            assert answer.status == 200

    async def get(self, path: str) -> str:
        async with self._client.get(path) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.text()

    async def send(self, form: dict[str, Any], *, status: int = 200) -> str:
        """Send a form, and wait until the page that follows it has its end."""
        csrf = fields(await self.get("/steer"))["csrf"]
        async with self._client.post("/steer", data=form | {"csrf": csrf}, headers=self._here) as answer:
            text, where = await answer.text(), answer.url.raw_path
            assert answer.status == status, text
        while "is in progress" in text:
            await asyncio.sleep(0.1)
            text = await self.get(where)
        return text

    async def apply(self, shown: str, **more: str) -> str:
        """Press the button below a dry run."""
        return await self.send(fields(shown) | more)


def fields(text: str) -> dict[str, str]:
    """The hidden fields of a page."""
    found = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', text)
    return {name: html.unescape(value) for name, value in found}


def test_a_command_is_tried_then_applied_and_confirmed_from_the_audit(steered: Path) -> None:
    async def act(client: Client, console: Console) -> tuple[str, str]:
        operator = Operator(client)
        await operator.sign_in()
        form = {"op": "retire", "queue": '"snoozed.test"', "reason": "a trap", "back": "/queue/snoozed.test"}
        shown = await operator.send(form)
        assert len(audited(steered)) == 1, "the dry run has changed nothing"
        return shown, await operator.apply(shown)

    shown, applied = visit(steered, act, token=TOKEN)
    assert "nothing was changed" in shown and "SNOOZED" in shown and 'href="/queue/snoozed.test"' in shown
    assert "<b><bdi>RETIRED</bdi></b>" in shown and "<b><bdi>yes</bdi></b>" in shown, "what it would be afterwards"
    entry = audited(steered)[-1]
    assert (entry.command, entry.who, entry.reason, entry.args["queue"]) == (
        "retire",
        "alice",
        "a trap",
        "snoozed.test",
    )
    assert "Applied." in applied and f'id={entry.id}"' in applied and "RETIRED" in applied


def test_the_dry_run_of_a_snooze_shows_times_for_people(job: Path) -> None:
    async def act(client: Client, console: Console) -> tuple[str, str]:
        operator = Operator(client)
        await operator.sign_in()
        form = {"op": "snooze", "queue": '"snoozed.test"', "for": "2d", "reason": "their admin asked"}
        return await operator.send(form), await operator.get("/queue/named.test")

    shown, queue = visit(job, act, token=TOKEN)
    asked = shown.partition("What was asked")[2]
    assert re.search(r"<dt><bdi>until</bdi></dt><dd><bdi>20\d\d-\d\d-\d\dT[\d:]+Z</bdi>", asked)
    assert not re.search(r">\d{10}", shown)
    assert "queue named.test" in queue.partition("History")[2] and "{" not in queue.partition("History")[2]


def test_what_a_dry_run_has_shown_is_applied_once(steered: Path) -> None:
    async def act(client: Client, console: Console) -> tuple[list[str], str]:
        operator = Operator(client)
        await operator.sign_in()
        form = {"op": "snooze", "queue": '"named.test"', "for": "1h", "reason": "x"}
        shown = await operator.send(form)
        pages = await asyncio.gather(*(operator.apply(shown) for _ in range(5)))
        return [*pages, await operator.apply(shown)], await operator.get(f"/steer/{fields(shown)['dry_run']}")

    applied, again = visit(steered, act, token=TOKEN)
    assert [entry.command for entry in audited(steered)] == ["retire", "snooze"]
    assert all("Applied." in page and "Entry" in page for page in applied)
    assert "This was applied" in again and "Apply:" not in again


def test_a_dry_run_that_was_overtaken_is_shown_again_with_what_has_changed(steered: Path) -> None:
    async def act(client: Client, console: Console) -> list[str]:
        operator = Operator(client)
        await operator.sign_in("bob")
        shown = await operator.send({"op": "snooze", "queue": '"named.test"', "for": "1h", "reason": "x"})
        other = {"op": "unretire", "queue": '"named.test"', "reason": "wanted after all"}
        elsewhere = {"op": "wake", "queue": '"snoozed.test"', "reason": "x"}
        await operator.apply(await operator.send(elsewhere))
        unchanged = await operator.get(f"/steer/{fields(shown)['dry_run']}")
        await operator.apply(await operator.send(other))
        overtaken = await operator.apply(shown)
        return [unchanged, overtaken, await operator.apply(overtaken)]

    unchanged, overtaken, applied = visit(steered, act, token=TOKEN)
    assert "Since this dry run" not in unchanged, "the other command was about another queue"
    assert "Applied." not in overtaken and "wanted after all" in overtaken and "and was RETIRED" in overtaken
    assert "Applied." in applied and audited(steered)[-1].command == "snooze"


@pytest.mark.parametrize(
    "form",
    [
        {"op": "adjust", "which": "match", "match": "queue:named.test", "total": "5", "reason": "x"},
        {"op": "delete", "glob": "named.test", "pattern": "", "reason": "x"},
    ],
)
def test_a_dry_run_is_not_overtaken_by_commands_on_other_queues(steered: Path, form: dict[str, str]) -> None:
    async def act(client: Client, console: Console) -> tuple[str, str, str]:
        operator = Operator(client)
        await operator.sign_in("bob")
        shown = await operator.send(form)
        page = f"/steer/{fields(shown)['dry_run']}"
        await operator.apply(await operator.send({"op": "wake", "queue": '"snoozed.test"', "reason": "x"}))
        elsewhere = await operator.get(page)
        await operator.apply(await operator.send({"op": "unretire", "queue": '"named.test"', "reason": "x"}))
        return shown, elsewhere, await operator.get(page)

    shown, elsewhere, here = visit(steered, act, token=TOKEN)
    assert "Since this dry run" not in shown and "Since this dry run" not in elsewhere
    assert "Since this dry run" in here and "unretire" in here


def test_a_dry_run_that_has_not_ended_is_neither_offered_nor_applied(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its result may be here before its process has ended."""
    end = asyncio.Event()

    async def run(task: Task) -> None:
        task.step = SteerLine(done=1.0, effect={"queue": "snoozed.test"})
        await end.wait()

    async def act(client: Client, console: Console) -> str:
        monkeypatch.setattr(Task, "_run", run)
        operator = Operator(client)
        await operator.sign_in()
        task = Task(
            console.jobs[0],
            SubmittedCommand("retire", {"queue": "snoozed.test"}, "a trap"),
            "alice",
            dry_run=True,
            back="/",
        )
        console.tasks.begin(task)
        while not task.step.effect:
            await asyncio.sleep(0)
        page = await operator.get(f"/steer/{task.id}")
        await operator.send({"step": "apply", "dry_run": task.id, "seen": "9"}, status=404)
        end.set()
        await task.ended.wait()
        return page + "ENDED" + await operator.get(f"/steer/{task.id}")

    before, _, after = visit(job, act, token=TOKEN).partition("ENDED")
    assert "is in progress" in before and "Apply" not in before and "Apply: retire" in after
    assert len(audited(job)) == 1


def refused(job: Path, form: dict[str, str]) -> str:
    """The page that answers a form that cannot be meant."""

    async def act(client: Client, console: Console) -> str:
        operator = Operator(client)
        await operator.sign_in()
        return await operator.send(form, status=400)

    return visit(job, act, token=TOKEN)


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ({"op": "adjust", "queue": '"a.test"', "total_budget": "7", "total": "8", "reason": "a trap"}, "total_budget"),
        ({"op": "pause", "reason": "night", "dry": "1"}, "dry"),
        ({"op": "pause", "step": "apply", "args": '{"reason": "night"}', "reason": "night", "dry": "1"}, "dry"),
        ({"step": "apply", "dry_run": "x", "total": "8"}, "total"),
    ],
)
def test_a_field_that_a_form_does_not_have_is_refused(job: Path, form: dict[str, str], name: str) -> None:
    assert f"{name}&#39; is no field of this form" in refused(job, form)
    assert len(audited(job)) == 1


@pytest.mark.parametrize("number", ["", "nonsense", "another's"])
def test_a_dry_run_that_is_not_there_is_not_applied(job: Path, number: str) -> None:
    async def act(client: Client, console: Console) -> None:
        operator = Operator(client)
        await operator.sign_in("bob")
        shown = await operator.send({"op": "retire", "queue": '"snoozed.test"', "reason": "x"})
        await operator.sign_in("eve")
        chosen = fields(shown)["dry_run"] if number == "another's" else number
        await operator.send({"step": "apply", "dry_run": chosen}, status=404)

    visit(job, act, token=TOKEN)
    assert len(audited(job)) == 1


def test_several_queues_get_a_budget_as_one_adjustment(job: Path) -> None:
    async def act(client: Client, console: Console) -> tuple[str, str, str]:
        operator = Operator(client)
        await operator.sign_in()
        listed = await operator.get("/retired")
        form = {"op": "adjust", "which": "ticked", "total": "5", "reason": "more of them", "back": "/retired"}
        ticked = [("queues", '"capped.test"'), ("queues", '"named.test"')]
        shown = await operator.send({**form, "queues": ticked[0][1]})
        both = await operator.send(form | {"which": "match", "match": "queues:capped.test,named.test"})
        return listed, shown, await operator.apply(both)

    listed, shown, applied = visit(job, act, token=TOKEN)
    assert 'name="queues" value="&#34;capped.test&#34;"' in listed
    assert (
        'retired queues that revive</dt><dd>1 <a class="chip" href="/queue/capped.test"><bdi>capped.test</bdi></a>'
        in shown
    )
    assert "Applied." in applied
    (entry,) = audited(job)[1:]
    assert entry.args["match"] == "queues:capped.test,named.test" and entry.args["set"] == {"queue_total_budget": 5}
    with Reader(job / "frontier") as reader:
        queue = reader.queue("capped.test")
        assert queue is not None and queue.state == "INACTIVE"


def test_what_a_dry_run_has_promised_stands_in_the_audit(steered: Path) -> None:
    async def act(client: Client, console: Console) -> tuple[str, str]:
        operator = Operator(client)
        await operator.sign_in()
        form = {"op": "adjust", "match": "queue:capped.test", "total": "50", "reason": "worth it"}
        shown = await operator.send(form)
        await operator.apply(shown)
        return shown, await operator.get(f"/audit?id={audited(steered)[-1].id}")

    shown, told = visit(steered, act, token=TOKEN)
    entry = audited(steered)[-1]
    promised = entry.effect["promised"]
    assert (promised["matched"], promised["revived_count"]) == (1, 1) and entry.effect["reconsidered_count"] >= 1
    spend = re.search(r"<dt>what the revived would spend</dt><dd>.*?</dd>", shown)
    assert spend and promised["spend"] > 0 and spend[0] in told.partition("What the dry run had promised")[2]
    assert "promised" not in told.partition("What it did")[0].partition("What was asked")[2]


def test_an_adjustment_is_listed_and_withdrawn(steered: Path) -> None:
    async def act(client: Client, console: Console) -> tuple[str, str, str]:
        operator = Operator(client)
        await operator.sign_in()
        form = {"op": "adjust", "match": "domain:snoozed.test", "set": "error_penalty_amount=7", "reason": "they fail"}
        applied = await operator.apply(await operator.send(form))
        listed = await operator.get("/adjustments")
        (button,) = re.findall(r'name="row" value="([^"]*)"', listed)
        shown = await operator.send({"row": html.unescape(button), "reason": "they are back"})
        return applied, listed, await operator.apply(shown)

    applied, listed, withdrawn = visit(steered, act, token=TOKEN)
    assert "<bdi>error_penalty_amount</bdi> = <bdi>7</bdi>" in applied
    assert "domain:snoozed.test" in listed and "they fail" in listed and "domain:capped.test" in listed
    assert "Applied." in withdrawn and "<bdi>error_penalty_amount</bdi> = <bdi>0</bdi>" in withdrawn
    with Reader(steered / "frontier") as reader:
        assert reader.adjustments == []


def undo_buttons(text: str) -> list[int]:
    """The entries that a page of the audit has buttons for."""
    return [int(number) for number in re.findall(r'name="row" value="\[&#34;undo&#34;, (\d+)\]"', text)]


def test_a_command_is_undone_from_the_audit(steered: Path) -> None:
    async def act(client: Client, console: Console) -> list[str]:
        operator = Operator(client)
        await operator.sign_in()
        pages = [await operator.get("/audit")]
        (number,) = undo_buttons(pages[0])
        pages.append(await operator.send({"row": f'["undo", {number}]', "back": "/audit"}))
        assert len(audited(steered)) == 1, "the dry run has changed nothing"
        assert "Give a reason" in await operator.send(fields(pages[-1]), status=400)
        pages.append(await operator.apply(pages[-1], reason="a mistake"))
        pages.append(await operator.get("/audit"))
        pages.append(await operator.send({"op": "undo", "id": str(number), "reason": "again"}))
        return pages

    listed, shown, applied, after, again = visit(steered, act, token=TOKEN)
    assert undo_buttons(listed) == [1] and "retire by alice: not what we want" in shown and "named.test" in shown
    entry = audited(steered)[-1]
    assert (entry.command, entry.args["id"], entry.who, entry.reason) == ("undo", 1, "alice", "a mistake")
    assert "Applied." in applied and f'id={entry.id}"' in applied
    assert undo_buttons(after) == [entry.id], "the undo can be undone, and nothing twice"
    assert 'role="alert"' in again and "undone already" in again
    with Reader(steered / "frontier") as reader:
        queue = reader.queue("named.test")
        assert queue is not None and queue.state != "RETIRED"


def test_a_list_of_adjustments_is_undone_from_the_audit(job: Path) -> None:
    """The newest entry of a list that can be undone has a button for all of it, and so has the page of each."""
    with Frontier.open(job / "frontier") as f:
        for place, key in enumerate(("fast.test", "slow.test"), 1):
            args = {"match": f"queue:{key}", "set": {"queue_total_budget": 9}}
            f.internals.apply(Command("adjust", args | {"list": {"name": "x", "place": place, "of": 2}}, "bob", ""))
    first, last = (one.id for one in audited(job)[-2:])

    async def act(client: Client, console: Console) -> list[str]:
        operator = Operator(client)
        await operator.sign_in()
        pages = [await operator.get("/audit"), await operator.get(f"/audit?id={first}")]
        await operator.apply(await operator.send({"op": "undo", "id": str(last)}), reason="this one")
        without = await operator.get("/audit")
        assert without.count("Undo the list") == 2 and f'["undo", {first}, 0, 1]' in html.unescape(without)
        undone = audited(job)[-1].id
        await operator.apply(await operator.send({"op": "undo", "id": str(undone)}), reason="a mistake")
        pages.append(await operator.send({"row": f'["undo", {last}, 0, 1]', "back": "/audit"}))
        pages.append(await operator.apply(pages[-1], reason="too strict"))
        pages.append(await operator.get("/audit"))
        pages.append(await operator.send({"op": "undo", "id": str(first), "list": "1", "reason": "again"}))
        return pages

    listed, one, shown, applied, after, again = visit(job, act, token=TOKEN)
    assert [page.count("Undo the list") for page in (listed, one, after)] == [2, 2, 0], "its text and its label"
    assert "It undoes" in shown and f"{last}, adjust, and its list: 2 adjustments" in shown and "Applied." in applied
    assert audited(job)[-1].effect["entries"] == [last, first]
    assert "is undone already, with its list" in again
    with Reader(job / "frontier") as reader:
        assert reader.adjustments == []


def test_what_has_changed_since_is_undone_only_with_force(steered: Path) -> None:
    async def act(client: Client, console: Console) -> tuple[str, str, str]:
        operator = Operator(client)
        await operator.sign_in()
        form = {"op": "unretire", "queue": '"named.test"', "reason": "wanted after all"}
        await operator.apply(await operator.send(form))
        refused = await operator.send({"op": "undo", "id": "1", "reason": "x"})
        sure = await operator.send(fields(refused))
        return refused, sure, await operator.apply(sure)

    refused, sure, applied = visit(steered, act, token=TOKEN)
    assert 'role="alert"' in refused and "has changed since" in refused and "Dry run with force" in refused
    assert "nothing was changed" in sure and "Applied." in applied
    assert audited(steered)[-1].args == {"id": 1, "force": True}


def test_an_undo_is_offered_where_it_would_be_taken_and_else_the_page_says_why_not(job: Path) -> None:
    with Frontier.open(job / "frontier") as f:
        f.adjust(match="domain:snoozed.test", queue_total_budget=5, reason="first")
        f.adjust(match="domain:snoozed.test", queue_total_budget=6, reason="second")
        f.adjust(match="domain:other.test", queue_total_budget=6, reason="third")
        f.unretire("named.test")
        f.pause(reason="night")
        f.resume()
        f.snooze("snoozed.test", until=time.time() + 9e5)
        f.wake("snoozed.test")
        f.delete(queue="named.test", reason="emptied")
        f.schedule("http://named.test/new")
        f.delete(queue="snoozed.test", pattern="/39", reason="some")
        f.retire("capped.test")
        f.terminate()

    async def act(client: Client, console: Console) -> tuple[str, str, str, str]:
        operator = Operator(client)
        await operator.sign_in()
        api = f"{PREFIX}/jobs/job/audit"
        return (
            await operator.get("/audit"),
            await operator.get(api),
            await operator.get("/audit?id=2"),
            await operator.send({"row": '["undo", 10, 1]', "reason": "x"}),
        )

    page, body, one, forced = visit(job, act, token=TOKEN)
    rows = {row["id"]: row for row in json.loads(body)["rows"]}
    with JobOperator(job, job / "frontier") as operator:
        for number, row in rows.items():
            try:
                operator.dry_run("undo", {"id": number})
            except FrontierError as error:
                assert not row["can_undo"] and row["no_undo"] in ("", str(error)), row
            else:
                assert row["can_undo"] and not row["no_undo"], row
    assert {number for number, row in rows.items() if row["can_undo"]} == set(undo_buttons(page))
    by_force = [int(number) for number in re.findall(r'name="row" value="\[&#34;undo&#34;, (\d+), 1\]"', page)]
    print({number: (row["command"], row["can_undo"], row["no_undo"]) for number, row in rows.items()}, by_force)
    assert by_force == [number for number, row in rows.items() if row["no_undo"].endswith(FORCE)] and by_force
    assert page.count("No undo") == sum(row["no_undo"] != "" for row in rows.values())
    assert "what 2 has changed is not in force any more" in rows[2]["no_undo"] and "What 2 has changed is not" in one
    assert "crawl is TERMINATED: there is nothing left of 6" in rows[6]["no_undo"] and "Undo" not in one
    assert "Apply: undo" in forced


@pytest.mark.parametrize("op", ["adjust", "pause", "snooze", "delete"])
def test_each_kind_of_command_is_undone(steered: Path, op: str) -> None:
    forms: dict[str, dict[str, str]] = {
        "adjust": {"match": "domain:snoozed.test", "total": "5"},
        "pause": {},
        "snooze": {"queue": '"snoozed.test"', "for": "2d"},
        "delete": {"glob": "snoozed.test"},
    }

    async def act(client: Client, console: Console) -> tuple[str, str]:
        operator = Operator(client)
        await operator.sign_in()
        await operator.apply(await operator.send({"op": op, "reason": "x", **forms[op]}))
        number = undo_buttons(await operator.get("/audit"))[0]
        shown = await operator.send({"op": "undo", "id": str(number), "reason": "y"})
        return shown, await operator.apply(shown)

    with Reader(steered / "frontier") as reader:
        before = reader.summary(), reader.queue("snoozed.test"), reader.adjustments
    shown, applied = visit(steered, act, token=TOKEN)
    assert "nothing was changed" in shown and "Applied." in applied
    with Reader(steered / "frontier") as reader:
        after = reader.summary(), reader.queue("snoozed.test"), reader.adjustments
    assert after[0].state == before[0].state and after[2] == before[2]
    assert after[1] is not None and before[1] is not None
    assert (after[1].queued, after[1].wake_time) == (before[1].queued, before[1].wake_time)


def test_nothing_can_be_undone_without_a_token(job: Path) -> None:
    assert undo_buttons(get(job, "/audit")[1]) == undo_buttons(get(job, "/audit?id=1")[1]) == []


def test_a_deletion_for_good_keeps_nothing(job: Path) -> None:
    async def act(client: Client, console: Console) -> str:
        operator = Operator(client)
        await operator.sign_in()
        form = {"op": "delete", "glob": "capped.test", "for_good": "yes", "reason": "the disk is full"}
        return await operator.apply(await operator.send(form))

    assert "Applied." in visit(job, act, token=TOKEN)
    assert "kept" not in audited(job)[-1].effect and not (job / "frontier" / "removed").exists()


def test_what_a_deletion_has_kept_is_discarded_from_the_audit(job: Path) -> None:
    async def act(client: Client, console: Console) -> tuple[str, str, str]:
        operator = Operator(client)
        await operator.sign_in()
        form = {"op": "delete", "glob": "capped.test", "reason": "a trap"}
        await operator.apply(await operator.send(form))
        listed = await operator.get("/audit?kept=1")
        (button,) = re.findall(r'name="row" value="([^"]*discard[^"]*)"', listed)
        shown = await operator.send({"row": html.unescape(button)})
        assert "Then entry 2 cannot be undone any more." in shown
        applied = await operator.apply(shown, reason="the disk is full")
        return listed, applied, await operator.get("/audit?kept=1")

    listed, applied, left = visit(job, act, token=TOKEN)
    assert "kept for undo in all" in listed and "retire 1" not in listed and undo_buttons(listed) == [2]
    assert "Applied." in applied and "No command matches" in left
    assert (audited(job)[-1].command, audited(job)[-1].reason) == ("discard", "the disk is full")
    assert "No command matches" in get(job, "/audit?kept=1&older_than=1h")[1]


def test_dead_letters_are_replayed(job: Path) -> None:
    async def act(client: Client, console: Console) -> str:
        operator = Operator(client)
        await operator.sign_in()
        listed = await operator.get("/dead-letters")
        number = listed.partition('name="id" value="')[2].partition('"')[0]
        shown = await operator.send({"op": "replay", "which": "ticked", "id": number, "reason": "the host is back"})
        assert "replayed" in shown
        return await operator.apply(shown)

    assert "Applied." in visit(job, act, token=TOKEN)
    with Reader(job / "frontier") as reader:
        assert reader.summary().dead == 0 and [item.uri.url for item in reader.pending("dead.test")] == [
            "http://dead.test/"
        ]


def test_the_crawl_is_paused_and_resumed(steered: Path) -> None:
    async def act(client: Client, console: Console) -> list[str]:
        operator = Operator(client)
        await operator.sign_in()
        states = []
        for op in ("pause", "resume"):
            await operator.apply(await operator.send({"op": op, "reason": "maintenance"}))
            with Reader(steered / "frontier") as reader:
                states.append(str(reader.summary().state))
        return states

    assert visit(steered, act, token=TOKEN) == ["PAUSED", "RUNNING"]


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"op": "explode", "reason": "x"}, "not a command"),
        ({"op": "pause", "reason": "x" * 1001}, "at most 1,000"),
        ({"op": "retire", "queue": '"snoozed.test"', "match": "*"}, "not both"),
        ({"op": "retire", "reason": "x"}, "not one of the console"),
        ({"op": "retire", "reason": "x", "queue": "[1]"}, "not one of the console"),
        ({"op": "snooze", "reason": "x", "queue": '"a"', "for": "soon"}, "Snooze for how long"),
        ({"op": "adjust", "reason": "x"}, "Change what"),
        ({"op": "adjust", "reason": "x", "set": "nonsense"}, "NAME=VALUE"),
        ({"op": "adjust", "reason": "x", "set": "queue_totl_budget=1"}, "queue_total_budget"),
        ({"op": "adjust", "reason": "x", "total": "5", "match": "nowhere"}, "not a match"),
        ({"op": "adjust", "reason": "x", "total": "5", "which": "ticked"}, "Tick the queues"),
        ({"op": "replay", "reason": "x"}, "Tick the dead letters"),
        ({"op": "replay", "reason": "x", "id": "-1"}, "'-1' is no id of a dead letter here"),
        ({"op": "delete", "reason": "x"}, "Delete what"),
        ({"op": "undo", "reason": "x"}, "Choose the entry"),
        ({"op": "set_queue", "queue": '"a.test"', "max_completed": "5", "reason": "x"}, "not a command"),
        ({"op": "undo", "reason": "x", "id": "1; 2"}, "Choose the entry"),
        ({"op": "adjust", "step": "apply", "args": "[]"}, "not one of the console"),
        ({"op": "adjust", "step": "apply", "args": "{"}, "not one of the console"),
        ({"op": "pauze", "reason": "x"}, "did you mean pause?"),
        ({"op": "pauze", "step": "apply", "args": "{}", "reason": "x"}, "did you mean pause?"),
        (
            {"op": "pause", "step": "aply", "reason": "x"},
            "give step=apply, or no step for a dry run; did you mean apply?",
        ),
        ({"step": "aply", "dry_run": "x"}, "'aply' is no step: give step=apply"),
    ],
)
def test_a_form_that_cannot_be_meant_is_answered_with_what_is_wrong(job: Path, form: dict[str, str], said: str) -> None:
    assert said in html.unescape(refused(job, form))
    assert len(audited(job)) == 1


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"op": "retire", "queue": '"nowhere.test"', "reason": "x"}, "there is no queue"),
        ({"op": "adjust", "step": "apply", "args": '{"match": "nowhere", "set": {}}', "reason": "x"}, "not a match"),
        ({"op": "retire", "step": "apply", "args": "{}", "reason": "x"}, "queue"),
        ({"op": "delete", "pattern": "(", "reason": "x"}, "regular expression"),
        ({"op": "undo", "id": "77", "reason": "x"}, "there is no audit entry 77"),
    ],
)
def test_a_command_that_is_refused_says_why_and_changes_nothing(job: Path, form: dict[str, str], said: str) -> None:
    async def act(client: Client, console: Console) -> str:
        operator = Operator(client)
        await operator.sign_in()
        return await operator.send(form)

    text = visit(job, act, token=TOKEN)
    assert 'role="alert"' in text and said in html.unescape(text) and "Applied" not in text
    assert [entry for entry in audited(job) if not entry.error] == audited(job)[:1]


def test_steering_needs_the_session_its_forms_and_this_site(job: Path) -> None:
    async def act(client: Client, console: Console) -> None:
        operator = Operator(client)
        here = {"Origin": str(client.make_url("/"))[:-1]}
        form = {"op": "terminate", "step": "apply", "args": "{}", "reason": "mischief"}
        async with client.post("/steer", data=form, headers=here, allow_redirects=False) as answer:
            assert answer.status == 303 and "sign-in" in answer.headers["Location"]
        await operator.sign_in()
        csrf = fields(await operator.get("/steer"))["csrf"]
        for data, headers in (
            (form, here),
            (form | {"csrf": "guess"}, here),
            (form | {"csrf": csrf}, {"Origin": "https://evil.test"}),
            (form | {"csrf": csrf}, {"Origin": "null"}),
            (form | {"csrf": csrf}, {}),
        ):
            async with client.post("/steer", data=data, headers=headers) as answer:
                assert answer.status == 400, headers

    visit(job, act, token=TOKEN)
    assert len(audited(job)) == 1


def applied_by_script(job: Path, op: str, args: dict[str, Any], reason: str) -> str:
    """The page that a script gets with the token, once its command has ended."""

    async def act(client: Client, console: Console) -> str:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        form = {"op": op, "step": "apply", "args": json.dumps(args), "reason": reason}
        async with client.post("/steer", data=form, headers=headers) as answer:
            text, where = await answer.text(), answer.url.raw_path
        while "is in progress" in text:
            await asyncio.sleep(0.1)
            text = await (await client.get(where, headers=headers)).text()
        return text

    return visit(job, act, token=TOKEN)


def test_a_script_is_answered_in_json(job: Path) -> None:
    async def act(client: Client, console: Console) -> list[tuple[int, Any]]:
        headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json"}
        found = []
        for args in ({"queue": "snoozed.test"}, {"queue": "snozed.test"}):
            form = {"op": "retire", "step": "apply", "args": json.dumps(args), "reason": "a trap"}
            async with client.post("/steer", data=form, headers=headers) as answer:
                status, told, where = answer.status, await answer.json(), answer.url.path
            while not told["ended"]:
                told = await (await client.get(where, headers=headers)).json()
            found.append((status, told))
        return found

    (_, applied), (_, refused) = visit(job, act, token=TOKEN)
    assert (applied["op"], applied["dry_run"], applied["entry"]["reason"]) == ("retire", False, "a trap")
    assert applied["entry"]["effect"]["after"]["state"] == "RETIRED" and "error" not in applied
    assert "there is no queue 'snozed.test'" in refused["error"] and "entry" not in refused


def test_a_script_steers_with_the_token(job: Path) -> None:
    assert "Applied." in applied_by_script(job, "pause", {"reason": "night"}, "night")
    assert audited(job)[-1].command == "pause"


@pytest.mark.parametrize(
    "spec", ["os:system", {"os:system": {}}, {"policy": "os:system"}, {"policy": "os:system", "additive": 1}]
)
@pytest.mark.parametrize("step", ["apply", ""])
@pytest.mark.parametrize("name", ["cost_policy", "cost-policy"])
def test_no_code_comes_into_a_crawl_through_the_console(job: Path, spec: object, step: str, name: str) -> None:
    async def act(client: Client, console: Console) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        args = {"match": "*", "set": {name: spec}}
        tried = {"match": "*", "set": f"{name}={json.dumps(spec)}"}
        form = {"op": "adjust", "reason": "x"} | ({"step": step, "args": json.dumps(args)} if step else tried)
        async with client.post("/steer", data=form, headers=headers) as answer:
            return answer.status, await answer.text()

    status, text = visit(job, act, token=TOKEN)
    assert status == 400 and "is code that the crawl runs" in text
    assert not any(entry.command == "adjust" for entry in audited(job))


@pytest.mark.parametrize("args", [{}, {"queue": None, "pattern": None}, {"pattern": ""}, {"glob": "a.test"}])
def test_a_deletion_that_names_nothing_is_refused(job: Path, args: dict[str, Any]) -> None:
    with Reader(job / "frontier") as reader:
        before = reader.summary().queued
    text = applied_by_script(job, "delete", args, "x")
    assert "delete what?" in text or "delete does not take" in text
    with Reader(job / "frontier") as reader:
        assert reader.summary().queued == before > 0


def test_nobody_sees_the_task_of_another(job: Path) -> None:
    async def act(client: Client, console: Console) -> int:
        operator = Operator(client)
        await operator.sign_in("alice")
        await operator.send({"op": "retire", "queue": '"snoozed.test"', "reason": "x"})
        number = next(iter(console.tasks._tasks))
        await operator.sign_in("bob")
        async with client.get(f"/steer/{number}") as answer:
            return answer.status

    assert visit(job, act, token=TOKEN) == 404


def test_all_queues_that_match_are_retired_and_brought_back(steered: Path) -> None:
    async def act(client: Client, console: Console) -> tuple[str, str, str, str]:
        operator = Operator(client)
        await operator.sign_in()
        listed = await operator.get("/queues?q=test&sort=queue&state=SNOOZED")
        form = {"op": "retire", "match": "queue:*test*", "states": "SNOOZED"}
        shown = await operator.send(form)
        applied = await operator.apply(shown, reason="all of them")
        refused = await operator.send(form | {"states": "ASLEEP"}, status=400)
        return listed, shown, applied, refused

    listed, shown, applied, refused = visit(steered, act, token=TOKEN)
    assert 'value="queue:*test*"' in listed and 'name="states" value="SNOOZED"' in listed
    assert "<bdi>queues selected</bdi></dt><dd><bdi>1</bdi>" in shown and "<bdi>snoozed.test</bdi>" in shown
    assert "Applied." in applied and "ASLEEP" in refused and "is no state" in refused
    entry = audited(steered)[-1]
    assert (entry.command, entry.args["match"], entry.reason) == ("retire", "queue:*test*", "all of them")
    with Reader(steered / "frontier") as reader:
        queue = reader.queue("snoozed.test")
        assert queue is not None and queue.state == "RETIRED"


def test_a_terminated_crawl_offers_nothing_that_would_have_it_go_on(job: Path) -> None:
    async def act(client: Client, console: Console) -> tuple[str, str]:
        operator = Operator(client)
        await operator.sign_in()
        return await operator.get("/retired"), await operator.get("/") + await operator.get("/dead-letters")

    retired, overview = visit(job, act, token=TOKEN)
    assert ">Replay<" in overview and ">Drop<" in overview
    assert "Raise to" in retired and "Change the budget" in retired and "Replay or drop them" in overview
    with Frontier.open(job / "frontier") as frontier:
        frontier.terminate()
    retired, overview = visit(job, act, token=TOKEN)
    assert "capped.test" in retired and "no budget has it hand out" in retired
    assert not any(words in retired for words in ("Raise to", "Change the budget", "Unretire", "checkbox"))
    assert "Which URIs" in overview and "Replay or drop them" not in overview
    assert ">Replay<" not in overview and ">Drop<" in overview


def test_pages_say_what_follows_an_undo_of_windows_or_of_a_pause_by_the_guard(job: Path) -> None:
    day = time.strftime("%a", time.gmtime(time.time() + 48 * 3600)).lower()
    with Frontier.open(job / "frontier") as f:
        f.adjust(match="*", **{"guards.windows": [f"{day} 02:00-05:00"]})  # type: ignore[arg-type]
        f.pause(reason="disk: 1 B free in /a", who="guard")

    async def act(client: Client, console: Console) -> list[str]:
        operator = Operator(client)
        await operator.sign_in()
        pages = []
        for number in (2, 3):
            shown = await operator.send({"op": "undo", "id": str(number), "reason": "x"})
            pages += [shown, await operator.apply(shown)]
        return [*pages, await operator.get("/audit?id=4")]

    windows_shown, windows_done, pause_shown, pause_done, audit = visit(job, act, token=TOKEN)
    opened = r"<dt>queues that are outside their crawl windows no more</dt><dd>[2-9]</dd>"
    for page in (windows_shown, windows_done, audit):
        assert re.search(opened, page), page
    assert "What the dry run had promised" in windows_done and "What followed" in audit
    for page in (pause_shown, pause_done):
        assert "the guard pauses it again at its next look" in page
    assert "the guard pauses" not in windows_done


def test_a_simulation_is_begun_followed_and_its_settings_are_tried(job: Path) -> None:
    async def act(client: Client, console: Console) -> tuple[str, str, str, str]:
        operator = Operator(client)
        await operator.sign_in()
        page = await operator.get("/simulate")
        form = {"op": "simulate", "match": "domain:capped.test", "total": "50", "set": "precedence=2"}
        form |= {"max_fetches": "100", "draws": "2"}
        result = await operator.send(form)
        again = {"op": "adjust", "match": re.findall('name="match" value="(.*?)"', result)[0]}
        lines = re.findall('name="set" value="(.*?)"', result)
        shown = await operator.send(again | {"set": [*map(html.unescape, lines)]})
        other = await operator.send(form | {"match": "host:none.test", "total": "", "max_fetches": "1"})
        return page, result, shown, other

    page, result, shown, other = visit(job, act, token=TOKEN)
    assert 'value="simulate"' in page
    assert "nothing was changed" in result and "How sure it is" in result and "the 2 draws end after" in result
    row = 'URIs in retired queues</th><td class="n wrap">5</td><td class="n wrap">2</td>'
    assert row in result and re.search(r"max fetches\W+bdi\W+dt\W+dd\W+bdi\W100<", result)
    assert "Apply: adjust" in shown and "queue_total_budget=50 precedence=2" in shown
    assert "Host:none.test matches no URI that is next in its queue" in other
    assert [entry.command for entry in audited(job)] == ["retire"]


def test_a_simulation_of_the_crawl_as_it_is_has_no_settings_to_try(job: Path) -> None:
    async def act(client: Client, console: Console) -> str:
        operator = Operator(client)
        await operator.sign_in()
        return await operator.send({"op": "simulate", "match": "", "total": "", "set": "", "max_fetches": "9"})

    result = visit(job, act, token=TOKEN)
    assert "How sure it is" in result and "Dry run of these settings" not in result


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"match": "domain:capped.test"}, "it is for `set`"),
        ({"until": "soon"}, "until: expected a duration"),
        ({"max_fetches": "0"}, "max_fetches is a whole number from 1"),
        ({"fetchers": "0"}, "fetchers is a whole number from 1"),
        ({"draws": "101"}, "draws is a whole number from 1 to 100"),
        ({"step": "apply", "args": "{}"}, "changes nothing"),
        ({"set": "cost_policy=os:system"}, "module:name"),
    ],
)
def test_a_simulation_that_cannot_be_meant_is_answered_with_what_is_wrong(
    job: Path, form: dict[str, str], said: str
) -> None:
    assert said in html.unescape(refused(job, {"op": "simulate"} | form))


def test_a_second_simulation_leads_to_the_first_or_is_refused(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def steered(self: ConsoleJob, order: SteerOrder) -> AsyncIterator[SteerLine]:
        yield SteerLine(done=0.25)
        await asyncio.Event().wait()

    monkeypatch.setattr(app, "_SHORT", 0.05)
    monkeypatch.setattr(ConsoleJob, "steer", steered)

    async def act(client: Client, console: Console) -> list[tuple[int, str, str]]:
        found = []
        for who in ("alice", "alice", "bob"):
            operator = Operator(client)
            await operator.sign_in(who)
            form = {"op": "simulate", "csrf": fields(await operator.get("/steer"))["csrf"]}
            here = {"Origin": str(client.make_url("/"))[:-1]}
            async with client.post("/steer", data=form, headers=here) as answer:
                found.append((answer.status, answer.url.raw_path, await answer.text()))
            pages.append(await operator.get("/simulate"))
        return found

    pages: list[str] = []
    first, second, third = visit(job, act, token=TOKEN)
    assert first[:2] == second[:2] and first[0] == 200 and "in progress, 25%" in second[2]
    assert third[0] == 409 and "one at a time" in third[2]
    assert all("<bdi>alice</bdi> is in progress, 25%" in page and ">Simulate</button>" not in page for page in pages)
    assert [f'href="{first[1]}"' in page for page in pages] == [True, True, False]


def test_a_simulation_is_cancelled_by_its_owner_or_another(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def steered(self: ConsoleJob, order: SteerOrder) -> AsyncIterator[SteerLine]:
        yield SteerLine(done=0.25)
        await asyncio.Event().wait()

    monkeypatch.setattr(app, "_SHORT", 0.05)
    monkeypatch.setattr(ConsoleJob, "steer", steered)

    async def act(client: Client, console: Console) -> list[str]:
        here, found = {"Origin": str(client.make_url("/"))[:-1]}, []
        for who, page in (("alice", None), ("bob", "/simulate")):
            alice = Operator(client)
            await alice.sign_in("alice")
            csrf = fields(await alice.get("/steer"))["csrf"]
            async with client.post("/steer", data={"op": "simulate", "csrf": csrf}, headers=here) as answer:
                page = page or answer.url.raw_path
            await alice.sign_in(who)
            shown = await alice.get(page)
            action = re.findall('action="(/steer/[^"]*/cancel)"', shown)[0]
            csrf = fields(await alice.get("/steer"))["csrf"]
            async with client.post(action, data={"csrf": csrf}, headers=here) as answer:
                found += [answer.url.raw_path, await answer.text()]
        return found

    place, own, place_of_other, form = visit(job, act, token=TOKEN)
    assert place.startswith("/steer/") and "alice has cancelled it" in own and "Cancel" not in own
    assert place_of_other == "/simulate" and 'value="simulate"' in form


def test_a_terminated_crawl_is_not_simulated(job: Path) -> None:
    with Frontier.open(job / "frontier") as frontier:
        frontier.terminate()

    async def act(client: Client, console: Console) -> str:
        operator = Operator(client)
        await operator.sign_in()
        return await operator.get("/simulate")

    text = visit(job, act, token=TOKEN)
    assert "This crawl was terminated" in text and 'value="simulate"' not in text


def test_all_dead_letters_for_a_reason_are_chosen() -> None:
    form = MultiDict({"op": "replay", "which": "why", "why": "timeout (host)", "reason": "up again"})
    assert forms.read(form).args == {"ids": None, "why": "timeout (host)"}
