"""Commands through the API: dry runs, results, refusals, roles, and the name in the audit."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer

from budgetfrontier import Frontier, Reader
from budgetfrontier.engine.commands.mailbox import Command, Mailbox
from budgetfrontier.storage.seed_list import listed
from budgetfrontier.tools.console import named_tokens
from budgetfrontier.tools.console.access import Access
from budgetfrontier.tools.console.api import PREFIX, api_routes
from budgetfrontier.tools.console.api.command_bodies import CommandResult, result_of
from budgetfrontier.tools.console.api.openapi import ApiProblem
from budgetfrontier.tools.console.api.resource_table import RESOURCES
from budgetfrontier.tools.console.app import Console
from budgetfrontier.tools.console.forms import SubmittedCommand
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.named_tokens import NamedTokens, Role
from budgetfrontier.tools.console.query import NotThere
from budgetfrontier.tools.console.steer_process import SteerLine, SteerOrder
from budgetfrontier.tools.console.steering import Task, Tasks
from tests.engine_process import running_engine
from tests.support import PATIENCE, audited
from tests.tools.console.conftest import Client, jobs_at

pytestmark = pytest.mark.usefixtures("forked_programs")
COMMANDS = [one for one in RESOURCES if one.method == "POST"]


class Caller:
    """A program with the token of alice."""

    def __init__(self, client: Client, token: str, tasks: Tasks) -> None:
        self.client, self.headers, self.tasks = client, {"Authorization": f"Bearer {token}"}, tasks

    async def give(self, name: str, body: Any, *, status: int = 200, **options: Any) -> Any:
        """Give a command, wait for its end, and return its result or the problem."""
        options = {"headers": self.headers, "json": body} | options
        async with self.client.post(f"{PREFIX}/jobs/job/{name}", **options) as answer:
            found, where = await answer.json(), answer.headers.get("Location")
        while where is not None:
            async with self.client.get(where, headers=self.headers) as answer:
                found = await answer.json()
            if found["ended"]:
                assert (status == 409) is (found["error"] is not None), found
                return msgspec.convert(found, CommandResult)
            await asyncio.sleep(0.05)
        assert answer.status == status, found
        return msgspec.convert(found, CommandResult if status == 200 else ApiProblem)


def called(job: Path, act: Callable[[Caller], Any], role: Role = Role.STEER) -> Any:
    """Let a program with a role use the API of a console of a job."""
    file = job / "tokens"
    token = named_tokens.add(file, "alice", role)

    async def within() -> Any:
        console = Console(jobs_at(job), Access(None, named=NamedTokens(file)))
        async with TestClient(TestServer(console.application())) as client:
            return await act(Caller(client, token, console.tasks))

    return asyncio.run(within())


def test_a_dry_run_changes_nothing_and_the_command_is_in_the_audit(steered: Path) -> None:
    async def act(caller: Caller) -> tuple[CommandResult, int, CommandResult]:
        body = {"queue": "snoozed.test", "reason": "a trap"}
        shown = await caller.give("retire", body | {"dry_run": True})
        return shown, len(audited(steered)), await caller.give("retire", body)

    shown, before, given = called(steered, act)
    assert before == 1 and shown.dry_run and shown.effect["after"]["state"] == "RETIRED" and shown.id is None
    entry = audited(steered)[-1]
    assert (entry.command, entry.who, entry.reason) == ("retire", "alice", "a trap")
    assert given.id == entry.id and given.effect == entry.effect and not given.dry_run


BODIES: dict[str, dict[str, Any]] = {
    "pause": {},
    "resume": {},
    "adjust": {"match": "queue:capped.test", "set": {"queue_total_budget": 10}},
    "undo": {"id": 1},
    "retire": {"queue": "capped.test"},
    "unretire": {"queue": "named.test"},
    "snooze": {"queue": "capped.test", "for": "2h"},
    "wake": {"queue": "snoozed.test"},
    "delete": {"queue": "named.test"},
    "replay": {"ids": None},
    "drop": {"ids": None, "for_good": True},
    "import": {"uris": ["http://new.test/", "http://capped.test/1"], "seeds": True},
    "forget": {"uris": ["http://dead.test/", "http://none.test/"]},
    "terminate": {},
}
"""A body of each command that a job without `keep_urls` or adjustments carries out, in an order in which all apply."""


def test_each_command_is_carried_out(job: Path) -> None:
    async def act(caller: Caller) -> dict[str, CommandResult]:
        return {name: await caller.give(name, body | {"reason": name}) for name, body in BODIES.items()}

    results = called(job, act, Role.ADMIN)
    assert {one.name for one in COMMANDS} == BODIES.keys() | {"withdraw", "discard", "set-queue", "simulate"}
    found = {entry.reason: entry for entry in audited(job)[1:]}
    assert {name: entry.error for name, entry in found.items()} == dict.fromkeys(BODIES)
    assert {entry.who for entry in found.values()} == {"alice"}
    assert results["import"].effect is not None and results["import"].effect["added"] == 1
    with Reader(job / "frontier") as reader, reader.view() as view:
        assert "http://new.test/" in {seed.row.url for seed in listed(view)}


@pytest.mark.parametrize(
    ("name", "body"),
    [
        *((name, body) for name, body in BODIES.items() if name not in ("import", "forget")),
        ("withdraw", {"id": 2}),
        ("discard", {"ids": [2]}),
        ("discard", {"ids": None, "older_than": "30d"}),
        ("undo", {"id": 2, "force": True}),
        ("undo", {"id": 2, "list": True}),
        ("retire", {"match": "host:*.test", "states": ["READY"]}),
        ("wake", {"queues": ["capped.test", "named.test"]}),
        ("set-queue", {"match": "host:*.test", "interval": 60.0, "max_completed": 9}),
        ("snooze", {"queue": "capped.test", "until": 1e9}),
        ("delete", {"queue": "a*", "pattern": "b", "match": "host:a.test", "states": ["READY"], "for_good": True}),
        ("replay", {"ids": None, "match": "host:a.test", "why": "*"}),
        ("drop", {"ids": [1, 2], "for_good": True}),
        ("import", {"uris": ["http://new.test/"], "seeds": True, "force": True}),
        ("forget", {"uris": ["http://dead.test/"], "for_good": True}),
        ("forget", {"match": "host:a.test", "pattern": "b"}),
        ("simulate", {"until": "12h", "fetchers": 4, "max_fetches": 100, "draws": 2, "seed": 7}),
        ("simulate", {"set": {"queue_total_budget": 50}, "match": "host:a.test"}),
    ],
)
def test_an_answer_has_the_arguments_under_the_names_of_the_request(job: Path, name: str, body: Any) -> None:
    (resource,) = (one for one in COMMANDS if one.name == name)
    given = body | ({} if name == "simulate" else {"reason": "x"})
    (console_job,) = jobs_at(job)
    asked = resource.answer(console_job, msgspec.convert(given, resource.parameters))
    args = result_of(Task(console_job, asked, "alice", dry_run=True, back="")).args
    assert args.keys() <= set(resource.parameters.__struct_encode_fields__)
    folded = {"queues": "match", "for": "until"}
    assert {folded.get(one, one) for one in body} <= args.keys()
    assert {one: args[one] for one in body.keys() - folded} == {one: body[one] for one in body.keys() - folded}


@pytest.mark.parametrize("minute", ["1m", "60", 60, 60.0])
def test_durations_of_commands_are_seconds_or_texts(job: Path, minute: float | str) -> None:
    def args(name: str, **given: Any) -> dict[str, Any]:
        (resource,) = (one for one in COMMANDS if one.name == name)
        body = msgspec.convert({"match": "*", "reason": "x"} | given, resource.parameters)
        return resource.answer(jobs_at(job)[0], body).args  # type: ignore[no-any-return]

    assert args("set-queue", interval=minute)["interval"] == 60.0
    before = time.time()
    assert before + 60.0 <= args("snooze", **{"for": minute})["until"] <= time.time() + 60.0


def test_what_is_kept_for_undo_is_listed_and_discarded(steered: Path) -> None:
    async def act(caller: Caller) -> list[Any]:
        async def removed(query: str = "") -> Any:
            async with caller.client.get(f"{PREFIX}/jobs/job/removed{query}", headers=caller.headers) as answer:
                return (await answer.json())["rows"]

        await caller.give("drop", {"ids": None, "reason": "old"})
        deleted = await caller.give("delete", {"queue": "capped.test", "reason": "a trap"})
        undone = await caller.give("undo", {"id": deleted.id, "reason": "no trap", "dry_run": True})
        listed, older, one = await removed(), await removed("?older_than=1h"), await removed("?limit=1")
        body = {"ids": [deleted.id], "reason": "the disk is full"}
        shown, given = await caller.give("discard", body | {"dry_run": True}), await caller.give("discard", body)
        refused = await caller.give("undo", {"id": deleted.id, "reason": "x"}, status=409)
        return [undone, listed, older, one, shown, given, refused, await removed()]

    undone, listed, older, one, shown, given, refused, left = called(steered, act, Role.ADMIN)
    assert (undone.effect["command"], undone.effect["returned"]) == ("delete", 3)
    assert [(row["command"], row["uris"], row["reason"]) for row in listed] == [
        ("delete", 3, "a trap"),
        ("drop", 1, "old"),
    ]
    assert older == [] and one == listed[:1] and left == listed[1:]
    assert shown.effect == {"discarded": 1, "bytes": listed[0]["bytes"]}
    discard = audited(steered)[3]
    assert given.effect == shown.effect | {"entries": [discard.id]} and given.id is None
    assert (discard.command, discard.who, discard.args) == ("discard", "alice", {"id": 3})
    assert "has discarded what was kept of it" in refused.detail


def test_all_that_is_kept_for_undo_is_discarded_each_by_its_entry(steered: Path) -> None:
    async def act(caller: Caller) -> list[Any]:
        await caller.give("drop", {"ids": None, "reason": "old"})
        await caller.give("delete", {"queue": "capped.test", "reason": "a trap"})
        body: dict[str, Any] = {"ids": None, "reason": "the disk is full"}
        found = [await caller.give("discard", body | {"older_than": "1h"})]
        found += [await caller.give("discard", {"ids": [2, 77], "reason": "x"}, status=409)]
        found += [await caller.give("discard", body | {"dry_run": True}), await caller.give("discard", body)]
        return [*found, await caller.give("discard", body)]

    none, refused, shown, given, again = called(steered, act, Role.ADMIN)
    assert none.effect == again.effect == {"discarded": 0, "bytes": 0, "entries": []}
    assert "77" in refused.detail and shown.effect["discarded"] == 2 and shown.effect["bytes"] > 0
    assert given.effect == shown.effect | {"entries": [4, 5]}
    assert [(one.command, one.args) for one in audited(steered)[3:]] == [("discard", {"id": 2}), ("discard", {"id": 3})]


@pytest.mark.parametrize(
    ("selection", "changed"),
    [
        ({"match": "domain:named.test"}, ["named.test"]),
        ({"states": ["RETIRED"]}, ["capped.test", "named.test"]),
        ({"match": "host:*.test", "states": ["SNOOZED"]}, ["snoozed.test"]),
        ({"queues": ["named.test", "snoozed.test"]}, ["named.test", "snoozed.test"]),
    ],
)
def test_a_command_on_queues_takes_those_that_are_selected(job: Path, selection: Any, changed: list[str]) -> None:
    async def act(caller: Caller) -> tuple[CommandResult, CommandResult]:
        body = selection | {"for": "1d", "reason": "at night"}
        return await caller.give("snooze", body | {"dry_run": True}), await caller.give("snooze", body)

    shown, given = called(job, act)
    assert shown.effect is not None and given.effect is not None
    assert sorted(shown.effect["queues"]) == sorted(given.effect["queues"]) == changed


def test_an_adjustment_of_queues_is_withdrawn(job: Path) -> None:
    async def act(caller: Caller) -> tuple[Any, list[Any]]:
        body = {"queues": ["capped.test", "named.test"], "set": {"queue_total_budget": 9}, "reason": "more"}
        given = await caller.give("adjust", body)
        async with caller.client.get(f"{PREFIX}/jobs/job/adjustments", headers=caller.headers) as answer:
            rows = (await answer.json())["rows"]
        await caller.give("withdraw", {"id": given.id, "reason": "enough"})
        return given, rows

    given, (row,) = called(job, act)
    assert (row["id"], row["set"], row["who"]) == (given.id, {"queue_total_budget": 9}, "alice")
    with Reader(job / "frontier") as reader:
        assert reader.adjustments == []


def test_queues_uris_and_dead_letters_are_selected_by_pattern_state_and_reason(job: Path) -> None:
    async def act(caller: Caller) -> list[Any]:
        bodies: list[tuple[str, dict[str, Any]]] = [
            ("snooze", {"match": "*.test", "states": ["RETIRED"], "for": "2h"}),
            ("wake", {"states": ["SNOOZED"], "dry_run": True}),
            ("delete", {"match": "host:capped.test", "dry_run": True}),
            ("replay", {"ids": None, "match": "dead.test", "why": "poi*", "dry_run": True}),
        ]
        return [await caller.give(name, body | {"reason": "x"}) for name, body in bodies]

    snoozed, woken, deleted, replayed = called(job, act)
    assert snoozed.effect["states"] == {"RETIRED": 2} and woken.effect["matched"] == 1
    assert snoozed.args["match"] == "queue:*.test" and woken.args["match"] == "*"
    assert deleted.effect["deleted"] == 3 and replayed.effect["first"] == ["http://dead.test/"]


@pytest.mark.parametrize("dry_run", [True, False])
def test_each_command_on_a_terminated_crawl_says_so(job: Path, dry_run: bool) -> None:
    bodies = {"withdraw": {"id": 2}} | BODIES | {"discard": {"ids": None}, "undo": {"id": 3}}
    bodies |= {"set-queue": {"queue": "named.test", "interval": 60}}
    assert {one.name for one in COMMANDS} == bodies.keys() | {"simulate"}
    with Frontier.open(job / "frontier") as f:
        f.adjust(match="queue:capped.test", queue_total_budget=9)
        f.snooze("named.test", until=time.time() + 60)
        f.terminate()

    async def act(caller: Caller) -> dict[str, str]:
        told = {}
        for name, body in bodies.items():
            asked = body | {"reason": "x", "dry_run": dry_run}
            async with caller.client.post(f"{PREFIX}/jobs/job/{name}", headers=caller.headers, json=asked) as answer:
                told[name] = await answer.text()
        async with caller.client.post(f"{PREFIX}/jobs/job/simulate", headers=caller.headers, json={}) as answer:
            return told | {"simulate": await answer.text()}

    told = called(job, act, Role.ADMIN)
    assert "keep_urls" in told.pop("set-queue")  # is refused here
    assert {name: text for name, text in told.items() if "crawl was terminated, for good: " not in text} == {}


def test_names_that_name_nothing_are_said(job: Path) -> None:
    async def act(caller: Caller) -> list[CommandResult]:
        body = {"queues": ["named.test", "nmed.test"], "reason": "x"}
        found = [await caller.give("unretire", body | {"dry_run": True}), await caller.give("unretire", body)]
        return [*found, await caller.give("retire", {"match": "*", "reason": "x", "dry_run": True})]

    assert [one.note for one in called(job, act)] == ["No queue: nmed.test; check the spelling."] * 2 + [""]


@pytest.mark.parametrize("for_disk", [True, False])
def test_a_crawl_that_goes_on_with_a_full_disk_is_said_to_be_paused_again(job: Path, for_disk: bool) -> None:
    with Frontier.open(job / "frontier") as f:
        f.pause(reason=f"{'disk: ' * for_disk}1 B free in /a", who="guard")

    async def act(caller: Caller) -> list[CommandResult]:
        undo = {"id": 2, "reason": "x"}
        return [
            await caller.give("resume", {"reason": "x", "dry_run": True}),
            await caller.give("undo", undo | {"dry_run": True}),
            await caller.give("undo", undo),
        ]

    told = "It was paused because of its disk: while less than guards.min_free is free, the guard pauses it again at "
    told += "its next look, in ten seconds at most."
    assert [one.note for one in called(job, act)] == [told * for_disk] * 3


def test_an_undo_of_crawl_windows_tells_how_many_queues_open(job: Path) -> None:
    day = time.strftime("%a", time.gmtime(time.time() + 48 * 3600)).lower()

    async def act(caller: Caller) -> tuple[CommandResult, CommandResult]:
        adjusted = await caller.give(
            "adjust", {"match": "*", "set": {"guards.windows": [f"{day} 02:00-05:00"]}, "reason": "nights"}
        )
        undo = {"id": adjusted.id, "reason": "days, too"}
        return await caller.give("undo", undo | {"dry_run": True}), await caller.give("undo", undo)

    shown, given = called(job, act)
    assert shown.effect is not None and given.effect is not None and shown.effect["opened_count"] > 1
    assert given.effect["promised"]["opened_count"] == shown.effect["opened_count"]


def test_dry_runs_of_import_and_forget_tell_what_then_happens(job: Path) -> None:
    urls = ["http://new.test/", "http://new.test/#top", "http://capped.test/1", "http://dead.test/"]

    async def act(caller: Caller) -> list[Any]:
        found = []
        for name in ("import", "forget", "import"):
            body = {"uris": urls, "reason": "x"}
            found.append((await caller.give(name, body | {"dry_run": True})).effect)
            found.append((await caller.give(name, body)).effect)
        return found

    effects = called(job, act)
    assert effects[0] == effects[1] == {"added": 1, "duplicate": 3, "full": 0, "invalid": 0, "reasons": {}}
    counts = [{name: one[name] for name in ("forgotten", "waiting", "unknown")} for one in effects[2:4]]
    assert counts == [{"forgotten": 1, "waiting": 3, "unknown": 0}] * 2
    assert effects[4] == effects[5] and effects[5]["added"] == 1


def test_a_simulation_changes_nothing_and_its_result_is_asked_for(job: Path) -> None:
    async def act(caller: Caller) -> CommandResult:
        body = {"set": {"queue_total_budget": 50}, "match": "domain:capped.test", "max_fetches": 100, "draws": 2}
        found: CommandResult = await caller.give("simulate", body)
        return found

    found = called(job, act)
    assert found.dry_run and found.error is None and found.done == 1.0 and found.effect is not None
    assert found.effect["today"]["fetches"] + 3 == found.effect["proposed"]["fetches"]
    assert any("may be needed" in one for one in found.effect["notes"])
    assert found.args["draws"] == len(found.effect["today"]["draws"]) == len(found.effect["proposed"]["draws"]) == 2
    assert any("the 2 draws end after" in one for one in found.effect["doubts"])
    assert [entry.command for entry in audited(job)] == ["retire"]


def test_a_job_has_one_simulation_at_a_time_and_it_ends_with_the_console(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = []

    async def steered(self: ConsoleJob, order: SteerOrder) -> AsyncIterator[SteerLine]:
        yield SteerLine(done=0.25)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(order.op)

    monkeypatch.setattr(api_routes, "_PATIENCE", 0.0)
    monkeypatch.setattr(ConsoleJob, "steer", steered)

    async def act(caller: Caller) -> tuple[Any, str]:
        async with caller.client.post(f"{PREFIX}/jobs/job/simulate", json={}, headers=caller.headers) as answer:
            assert answer.status == 202
            place = answer.headers["Location"]
        await asyncio.sleep(0)
        async with caller.client.get(place, headers=caller.headers) as answer:
            found = await answer.json()
        refused: ApiProblem = await caller.give("simulate", {}, status=409)
        return found, refused.detail

    found, words = called(job, act)
    assert (found["ended"], found["done"]) == (False, 0.25) and "one at a time" in words
    assert ended == ["simulate"]


def test_a_simulation_is_cancelled_and_its_process_ends(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_routes, "_PATIENCE", 0.0)

    async def act(caller: Caller) -> list[Any]:
        path = f"{PREFIX}/jobs/job/simulate"
        async with caller.client.post(path, json={"max_fetches": 5_000_000}, headers=caller.headers) as answer:
            place = answer.headers["Location"]
        found = []
        for method in ("DELETE", "GET", "DELETE"):
            async with caller.client.request(method, place, headers=caller.headers) as answer:
                found.append((answer.status, await answer.json()))
        return found

    (status, cancelled), (_, seen), (again, problem) = called(job, act)
    assert status == 200 and cancelled == seen and cancelled["ended"] and cancelled["effect"] is None
    assert cancelled["error"] == "alice has cancelled it" and cancelled["done"] < 1
    assert again == 409 and "ended already" in problem["detail"]


def test_nobody_cancels_with_the_role_read(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Task, "_run", lambda task: asyncio.sleep(PATIENCE))

    async def act(caller: Caller) -> tuple[int, Any]:
        task = Task(jobs_at(job)[0], SubmittedCommand("simulate", {}, ""), "bob", dry_run=True, back="/")
        caller.tasks.begin(task)
        path = f"{PREFIX}/jobs/job/commands/{task.id}"
        async with caller.client.delete(path, headers=caller.headers) as answer:
            return answer.status, await answer.json()

    status, problem = called(job, act, Role.READ)
    assert status == 403 and "role steer" in problem["detail"]


def test_a_body_that_is_empty_and_a_pattern_that_is_none_cannot_be_meant(job: Path) -> None:
    async def act(caller: Caller) -> list[Any]:
        wrong = {"match": "regex:[", "reason": "x"}
        found = [
            await caller.give(name, wrong | more, status=400)
            for name, more in (("retire", {}), ("snooze", {"for": "1h"}))
        ]
        empty = {"json": None, "data": b"", "headers": caller.headers | {"Content-Type": "application/json"}}
        return [*found, await caller.give("retire", None, status=400, **empty)]

    *patterns, empty = called(job, act)
    assert all(one.detail.startswith('match: "regex:[" is not a regular expression') for one in patterns)
    assert empty.detail.startswith("the body is empty: give a JSON object")


def test_a_command_is_found_at_its_own_job_alone(job: Path, tmp_path: Path) -> None:
    mine, other = jobs_at(job, tmp_path / "other")

    async def act() -> None:
        tasks = Tasks()
        task = Task(mine, SubmittedCommand("simulate", {}, ""), "bob", dry_run=True, back="/")
        tasks.begin(task)
        assert tasks.find(task.id) is tasks.find(task.id, mine) is task
        with pytest.raises(NotThere, match="no such command"):
            tasks.find(task.id, other)
        tasks.cancel(task, "bob")

    asyncio.run(act())


def test_what_a_terminated_crawl_would_do_nothing_for_is_refused(job: Path) -> None:
    async def act(caller: Caller) -> list[str]:
        await caller.give("terminate", {"reason": "enough"})
        names = ("import", "replay", "resume", "pause")
        bodies = [(name, BODIES[name] | {"reason": "x", "dry_run": shown}) for name in names for shown in (True, False)]
        return [(await caller.give(name, body, status=409)).detail for name, body in bodies]

    for words in called(job, act, Role.ADMIN):
        assert "was terminated" in words and "crawl CONFIG --job DIR" in words
    assert audited(job)[-1].command == "terminate"


@pytest.mark.parametrize(
    ("name", "body", "status", "words"),
    [
        ("forget", {"match": "*", "reason": "x"}, 409, "keep_urls"),
        ("forget", {"match": "*", "reason": "x", "dry_run": True}, 409, "keep_urls"),
        ("forget", {"uris": ["http://a.test/"], "match": "*", "reason": "x"}, 400, "forget what"),
        ("forget", {"uris": ["http://a.test/"], "pattern": "a", "reason": "x"}, 400, "forget what"),
        ("forget", {"uris": ["http://a.test/"], "for_good": True, "reason": "x"}, 403, "role admin"),
        ("simulate", {"match": "host:a.test"}, 400, "it is for `set`"),
        ("simulate", {"until": "long"}, 400, "until: expected a duration"),
        ("simulate", {"set": {"cost_policy": "os:system"}}, 400, "module:name"),
        ("simulate", {"max_fetches": 10**9}, 400, "max_fetches"),
        ("simulate", {"draws": 0}, 400, "draws"),
        ("simulate", {"draws": 101}, 400, "draws"),
        ("replay", {"ids": ["0/1"], "reason": "x"}, 400, "no id of a dead letter here"),
        ("replay", {"ids": [99], "reason": "x"}, 409, "there is no dead letter 99; "),
        ("drop", {"ids": [99], "reason": "x", "dry_run": True}, 409, "there is no dead letter 99; "),
        ("retire", {"queue": "nowhere.test", "reason": "x"}, 409, "there is no queue"),
        ("undo", {"id": 77, "reason": "x"}, 409, "77"),
        ("undo", {"id": "0/1", "reason": "x"}, 400, "entry of the audit"),
        ("set-queue", {"queue": "capped.test", "interval": 5, "reason": "x"}, 409, "keep_urls"),
        ("set-queue", {"queue": "capped.test", "reason": "x"}, 400, "change what"),
        ("retire", {"queue": "capped.test"}, 400, "missing: reason"),
        ("retire", {"queue": "capped.test", "reason": ""}, 400, "reason: expected str of length >= 1"),
        (
            "retire",
            {"queue": "capped.test", "reason": "x", "qeue": 1},
            400,
            "unknown field qeue; the body has reason, ",
        ),
        ("wake", {"match": "sheet:x", "reason": "x"}, 409, "sheet"),
        ("wake", {"states": ["SLEEPING"], "reason": "x"}, 400, "states[0]: invalid enum value"),
        ("snooze", {"queue": "capped.test", "reason": "x"}, 400, "Give `for`"),
        ("snooze", {"queue": "capped.test", "reason": "x", "for": "long"}, 400, 'not "long"'),
        ("adjust", {"set": {"queue_total_budget": 1}, "reason": "x"}, 400, "which queues"),
        ("adjust", {"match": "*", "set": {}, "reason": "x"}, 400, "change what"),
        ("adjust", {"match": "*", "set": {"queue_total_budgt": 1}, "reason": "x"}, 400, "did you mean"),
        ("adjust", {"match": "*", "set": {"cost_policy": "os:system"}, "reason": "x"}, 400, "module:name"),
        ("delete", {"reason": "x"}, 400, "delete what"),
        ("replay", {"ids": [], "reason": "x"}, 400, "which dead letters"),
        ("drop", {"ids": [1], "why": "x", "reason": "x"}, 400, "which dead letters"),
        ("wake", {"match": "sheet:one", "reason": "x"}, 409, "nothing is selected by its sheet"),
        ("discard", {"ids": [], "reason": "x"}, 400, "discard what"),
        ("discard", {"ids": [1], "older_than": "1d", "reason": "x"}, 400, "discard what"),
        ("discard", {"ids": None, "older_than": "old", "reason": "x"}, 400, "older_than: expected a duration"),
        ("import", {"uris": ["gopher://x.test/"], "reason": "x"}, 400, "uris[0]"),
        ("import", {"uris": [f"http://x.test/{'a' * 99999}"], "reason": "x"}, 400, "cannot be crawled: too-long"),
        ("terminate", {"reason": "x"}, 403, "needs a token with the role admin; that of alice has the role steer"),
        ("delete", {"queue": "*", "for_good": True, "reason": "x"}, 403, "role admin"),
    ],
)
def test_what_cannot_be_done_is_refused_with_words(
    job: Path, name: str, body: dict[str, Any], status: int, words: str
) -> None:
    async def act(caller: Caller) -> ApiProblem:
        found: ApiProblem = await caller.give(name, body, status=status)
        return found

    problem = called(job, act)
    assert problem.status == status and words in problem.detail
    assert [entry.command for entry in audited(job) if entry.error is None] == ["retire"]


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        ({"data": b"{", "json": None}, 400, "truncated"),
        ({"data": b'{"reason": "x", "reason": "y"}', "json": None}, 400, '"reason" is given more than once'),
        ({"data": b"[" * 100_000, "json": None}, 400, ""),
        ({"data": b'{"reason": "x"}', "json": None, "type": "text/plain"}, 415, "application/json"),
        ({"data": io.BytesIO(b" " * (5 << 20)), "json": None}, 413, "4,096 KiB"),
    ],
)
def test_a_body_that_is_none_is_refused(job: Path, options: dict[str, Any], status: int, words: str) -> None:
    async def act(caller: Caller) -> ApiProblem:
        kind = options.pop("type", "application/json")
        found: ApiProblem = await caller.give(
            "pause", None, status=status, headers=caller.headers | {"Content-Type": kind}, **options
        )
        return found

    assert words in called(job, act).detail


def test_commands_need_the_token_itself(job: Path) -> None:
    async def act(caller: Caller) -> list[int]:
        client, body = caller.client, {"reason": "x"}
        here = {"Origin": str(client.make_url("/"))[:-1]}
        path, found = f"{PREFIX}/jobs/job/pause", []
        for headers in ({}, {"Authorization": "Bearer another"}):
            async with client.post(path, json=body, headers=headers) as answer:
                found.append(answer.status)
        form = {"token": caller.headers["Authorization"].split()[1], "who": "x"}
        async with client.post("/-/sign-in", data=form, headers=here) as answer:
            assert answer.status == 200
        async with client.get(f"{PREFIX}/jobs") as answer:  # a browser may read what its pages show
            found.append(answer.status)
        async with client.post(path, json=body, headers=here) as answer:
            found.append(answer.status)
        return found

    assert called(job, act) == [401, 401, 200, 401] and len(audited(job)) == 1


def test_a_console_without_tokens_takes_no_command(job: Path) -> None:
    async def within() -> tuple[int, str]:
        path, server = f"{PREFIX}/jobs/job/pause", TestServer(Console(jobs_at(job), Access(None)).application())
        async with TestClient(server) as client, client.post(path, json={"reason": "x"}) as answer:
            return answer.status, await answer.text()

    status, text = asyncio.run(within())
    assert status == 403 and "--tokens" in text


def test_a_command_that_the_crawl_ends_after_the_wait_for_it_has_its_end_under_its_address(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def steered(self: ConsoleJob, order: SteerOrder) -> AsyncIterator[SteerLine]:
        yield SteerLine(error="retire by me is in progress", in_progress=True, number=1)

    monkeypatch.setattr(ConsoleJob, "steer", steered)

    async def act(caller: Caller) -> list[Any]:
        async with caller.client.post(
            f"{PREFIX}/jobs/job/pause", json={"reason": "x"}, headers=caller.headers
        ) as answer:
            found, place = [await answer.json()], answer.headers["Location"]
        while len(found) < 3 or not found[-1]["ended"]:
            async with caller.client.get(place, headers=caller.headers) as answer:
                found.append(await answer.json())
            if len(found) == 2:
                mailbox = Mailbox(job / "frontier")
                mailbox.post(Command("pause", {"reason": "night"}, "anna", "night"))
                mailbox.close()
            await asyncio.sleep(0.05)
        return found

    with running_engine(job):
        begun, waiting, *_, found = called(job, act)
    assert begun["ended"] is waiting["ended"] is False and waiting["error"] == "retire by me is in progress"
    assert (found["ended"], found["error"], found["id"]) == (True, None, audited(job)[-1].id)


def test_a_command_that_takes_long_is_found_under_its_address(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_routes, "_PATIENCE", 0.0)

    async def act(caller: Caller) -> tuple[Any, int]:
        path, body = f"{PREFIX}/jobs/job/pause", {"reason": "night"}
        async with caller.client.post(path, json=body, headers=caller.headers) as answer:
            begun = answer.status, json.loads(await answer.text())["ended"], answer.headers["Location"]
        reader = {"Authorization": f"Bearer {named_tokens.add(job / 'tokens', 'monitor', Role.READ)}"}
        while True:
            async with caller.client.get(begun[2], headers=reader) as answer:
                found = await answer.json()
            if found["ended"]:
                break
            await asyncio.sleep(0.05)
        async with caller.client.get(f"{PREFIX}/jobs/job/commands/none", headers=caller.headers) as answer:
            return (begun, found), answer.status

    (begun, found), missing = called(job, act)
    assert begun[:2] == (202, False) and found["id"] == audited(job)[-1].id and missing == 404
