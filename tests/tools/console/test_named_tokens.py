"""Tokens with names and roles: their file, what each role may do, and the name in the audit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from budgetfrontier import Reader
from budgetfrontier.core.endpoints.tokens import TokenFile
from budgetfrontier.errors import FrontierError
from budgetfrontier.tools.cli import main
from budgetfrontier.tools.console import named_tokens
from budgetfrontier.tools.console.access import Access
from budgetfrontier.tools.console.app import Console
from budgetfrontier.tools.console.named_tokens import NamedTokens, Role
from tests.support import token_file
from tests.tools.console.conftest import TOKEN, Client, jobs_at

pytestmark = pytest.mark.usefixtures("forked_programs")


def run(job: Path, access: Access, act: Callable[[Client], Awaitable[Any]]) -> Any:
    async def within() -> Any:
        async with TestClient(TestServer(Console(jobs_at(job), access).application())) as client:
            return await act(client)

    return asyncio.run(within())


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", "Accept": "application/json"}


def test_the_command_makes_lists_and_removes_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tokens"
    assert main(["token", str(file), "add", "alice", "--role", "steer"]) == 0
    token = capsys.readouterr().out.strip()
    assert file.stat().st_mode & 0o777 == 0o600 and token not in file.read_text()
    held = NamedTokens(file)
    assert held.holder(token) == ("alice", Role.STEER) and held.holder(token[1:]) is None
    assert main(["token", str(file), "add", "bob"]) == 0 and main(["token", str(file), "list"]) == 0
    assert capsys.readouterr().out.split()[1:] == ["name", "role", "alice", "steer", "bob", "read"]
    assert main(["token", str(file), "remove", "alice"]) == 0
    assert held.holder(token) is None and [one.name for one in named_tokens.read(file)] == ["bob"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("add alice", "has a token of alice already"),
        ("add a/b", "is no name"),
        ("add böss", '"böss" is no name: the letters a to z, '),
        ("remove alise", "did you mean alice"),
        ("list alice", "takes no NAME"),
        ("add", "needs a NAME"),
        ("remove alice --role read", "--role is for add"),
    ],
)
def test_what_the_command_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, said: str) -> None:
    named_tokens.add(tmp_path / "tokens", "alice", Role.READ)
    try:
        code = main(["token", str(tmp_path / "tokens"), *line.split()])
    except SystemExit as end:
        code = int(str(end.code))
    assert code and said in capsys.readouterr().err


@pytest.mark.parametrize("line", ["alice", "alice owner " + "0" * 64, "alice read 7", "a/b read " + "0" * 64])
def test_a_file_with_a_line_that_is_no_token_is_refused(tmp_path: Path, line: str) -> None:
    file = token_file(tmp_path, line)
    with pytest.raises(FrontierError, match="line 1 is not NAME ROLE SHA256"):
        NamedTokens(file)


def test_a_role_is_enough_for_what_it_is_for(job: Path, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    tokens = {role: named_tokens.add(file, role.name.lower(), role) for role in Role}
    forms = [
        (Role.STEER, {"op": "snooze", "queue": '"capped.test"', "for": "1h", "reason": "x"}),
        (Role.STEER, {"op": "delete", "glob": "named.test", "reason": "x"}),
        (Role.ADMIN, {"op": "delete", "glob": "named.test", "for_good": "1", "reason": "x"}),
        (Role.ADMIN, {"op": "terminate", "reason": "x"}),
    ]

    async def act(client: Client) -> None:
        for role, token in tokens.items():
            async with client.get("/queue/capped.test", headers={"Authorization": f"Bearer {token}"}) as answer:
                assert answer.status == 200 and ("Dry run" in await answer.text()) is (role >= Role.STEER)
            pages = ""
            for path in ("/steer", "/dead-letters", "/"):
                async with client.get(path, headers={"Authorization": f"Bearer {token}"}) as answer:
                    pages += await answer.text()
            assert ('value="pause"' in pages) is (">Replay<" in pages) is (role >= Role.STEER)
            assert ('value="terminate"' in pages) is ("for_good" in pages) is (role >= Role.ADMIN)
            assert 'id="seen"' not in pages  # needs keep_urls
            assert ("Replay or drop them" in pages) is ("Which URIs" not in pages) is (role >= Role.STEER)
            for needed, form in forms:
                async with client.post("/steer", data=form, headers=bearer(token)) as answer:
                    found = await answer.json()
                    assert answer.status == (200 if role >= needed else 403), (role, form, found)
                    assert role >= needed or f"needs a token with the role {needed.name.lower()}" in found["message"]

    run(job, Access(None, named=NamedTokens(file)), act)


def test_the_audit_has_the_name_of_the_token_whatever_a_browser_says(job: Path, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    alice = named_tokens.add(file, "alice", Role.STEER)
    access = Access(TokenFile(token_file(tmp_path, TOKEN)), named=NamedTokens(file))

    async def act(client: Client) -> None:
        here = {"Origin": str(client.make_url("/"))[:-1]}
        for token, who in ((alice, "mallory"), (TOKEN, "carol")):
            form = {"token": token, "who": who}
            async with client.post("/-/sign-in", data=form, headers=here) as answer:
                text = await answer.text()
            csrf = text.partition('name="csrf" value="')[2].partition('"')[0]
            form = {"op": "wake", "queue": '"snoozed.test"', "reason": "x", "csrf": csrf}
            form |= {"step": "apply", "args": '{"queue": "snoozed.test"}'}
            del form["queue"]
            async with client.post("/steer", data=form, headers=here) as answer:
                text, task = await answer.text(), answer.url.raw_path
            while "is in progress" in text:
                async with client.get(task) as answer:
                    text = await answer.text()
            assert "Applied." in text

    run(job, access, act)
    with Reader(job / "frontier") as reader:
        assert [entry.who for entry in reader.audit() if entry.command == "wake"] == ["alice", "carol"]


def test_a_token_that_is_removed_ends_the_sessions_begun_with_it(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    token = named_tokens.add(file, "alice", Role.READ)
    named_tokens.add(file, "bob", Role.READ)
    access = Access(None, named=NamedTokens(file))
    holder = access.holder(token)
    assert holder is not None and (session := access.begin(*holder)) and access.session(session) is not None
    named_tokens.remove(file, "alice")
    assert access.session(session) is None and access.holder(token) is None
