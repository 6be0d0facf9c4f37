"""Who may read and who may change: hosts, origins, tokens, sessions."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from budgetfrontier.core.endpoints.tokens import TokenFile
from budgetfrontier.errors import FrontierError
from budgetfrontier.tools.console.access import HEADERS, Access
from budgetfrontier.tools.console.app import Console
from budgetfrontier.tools.console.console_server import serve
from tests.support import PATIENCE, logged, token_file
from tests.tools.console.conftest import TOKEN, Client, get, jobs_at, visit

pytestmark = pytest.mark.usefixtures("forked_programs")


def test_a_name_that_resolves_here_is_refused(job: Path) -> None:
    status, text = get(job, "/", headers={"Host": "evil.test"})
    assert status == 421 and "resting" not in text and "--allow-host" in text


def test_every_answer_forbids_scripts_frames_and_guessing(job: Path) -> None:
    async def act(client: Client, console: Console) -> None:
        for path in ("/", "/nothing", "/-/icon.svg", "/-/console.js", "/queues?start=x"):
            async with client.get(path) as answer:
                for name in HEADERS.keys() - {"Cache-Control"}:
                    assert answer.headers[name] == HEADERS[name], (path, name)
        policy = HEADERS["Content-Security-Policy"]
        assert "unsafe" not in policy and "*" not in policy and "default-src 'none'" in policy

    visit(job, act)


def test_without_a_token_nothing_can_be_posted(job: Path) -> None:
    async def act(client: Client, console: Console) -> None:
        for path in ("/-/sign-in", "/-/sign-out", "/"):
            async with client.post(
                path, data={"token": ""}, headers={"Origin": str(client.make_url("/"))[:-1]}
            ) as answer:
                assert answer.status in (400, 404), path
        async with client.get("/-/sign-in") as answer:
            assert answer.status == 404

    visit(job, act)


def test_with_a_token_everything_needs_it(job: Path) -> None:
    async def act(client: Client, console: Console) -> None:
        async with client.get("/?live=1") as answer:
            assert answer.status == 401, "no script follows a redirect to a form"
        for path in ("/", "/queues", "/queue/named.test"):
            async with client.get(path, allow_redirects=False) as answer:
                assert answer.status == 303 and answer.headers["Location"].startswith("/-/sign-in?next=/")
                assert "named.test" not in await answer.text()
            async with client.get(path, headers={"Authorization": "Bearer not it"}, allow_redirects=False) as answer:
                assert answer.status == 401
        async with client.get("/queues", headers={"Authorization": f"Bearer {TOKEN}"}) as answer:
            assert answer.status == 200
        for path in ("/-/console.js", "/-/icon.svg"):
            async with client.get(path) as answer:
                assert answer.status == 200

    visit(job, act, token=TOKEN)


def test_signing_in_takes_the_token_and_a_form_of_this_site(job: Path) -> None:
    async def act(client: Client, console: Console) -> None:
        here = {"Origin": str(client.make_url("/"))[:-1]}
        form = {"token": TOKEN, "who": "alice", "next": "/queues"}
        for origin in ({}, {"Origin": "null"}, {"Origin": "http://evil.test"}, {"Origin": "http://127.0.0.1:1"}):
            async with client.post("/-/sign-in", data=form, headers=origin, allow_redirects=False) as answer:
                assert answer.status == 400 and "Set-Cookie" not in answer.headers
        async with client.post("/-/sign-in", data=form | {"token": "wrong"}, headers=here) as answer:
            assert answer.status == 403 and "not the token" in await answer.text()
        async with client.post("/-/sign-in", data=form, headers=here, allow_redirects=False) as answer:
            assert answer.status == 303 and answer.headers["Location"] == "/queues"
            cookie = answer.headers["Set-Cookie"]
            assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and TOKEN not in cookie
        async with client.get("/queues") as answer:
            text = await answer.text()
            assert answer.status == 200 and "alice" in text
        csrf = text.partition('name="csrf" value="')[2].partition('"')[0]
        async with client.post("/-/sign-out", data={"csrf": "x" + csrf}, headers=here) as answer:
            assert answer.status == 400 and "another session" in await answer.text()
        async with client.post("/-/sign-out", data={"csrf": csrf}, headers=here, allow_redirects=False) as answer:
            assert answer.status == 303
        async with client.get("/queues", allow_redirects=False) as answer:
            assert answer.status == 303

    visit(job, act, token=TOKEN)


@pytest.mark.parametrize("target", ["//evil.test/", "/\\evil.test", "https://evil.test/", "javascript:alert(1)", ""])
def test_signing_in_leads_to_no_other_site(job: Path, target: str) -> None:
    async def act(client: Client, console: Console) -> str:
        here = {"Origin": str(client.make_url("/"))[:-1]}
        form = {"token": TOKEN, "who": "a", "next": target}
        async with client.post("/-/sign-in", data=form, headers=here, allow_redirects=False) as answer:
            return answer.headers["Location"]

    assert visit(job, act, token=TOKEN) == "/"


def test_a_session_ends_and_there_are_not_too_many() -> None:
    access = Access(None)
    first = access.begin("a")
    names = [access.begin("b") for _ in range(100)]
    assert access.session(first) is None and access.session(names[-1]) is not None
    access.end(names[-1])
    assert access.session(names[-1]) is None and access.session(None) is None


def test_another_token_in_the_file_ends_all_sessions(tmp_path: Path) -> None:
    token = TokenFile(token_file(tmp_path, "x" * 40))
    access = Access(token)
    session = access.begin("a")
    assert access.session(session) is not None and access.holder("x" * 40)
    token_file(tmp_path, "y" * 40)
    assert access.session(session) is None
    assert access.holder("y" * 40) and not access.holder("x" * 40)
    assert access.session(access.begin("a")) is not None


def test_only_loopback_is_listened_on_without_a_token(job: Path) -> None:
    for listen in ("0.0.0.0:0", "[::]:0", "192.0.2.1:0", "console.example:0"):
        with pytest.raises(FrontierError, match="give --token-file, listen on"):
            serve(jobs_at(job), listen=listen, token_file=None, started=lambda where: None)


def test_two_consoles_on_one_host_have_sessions_of_their_own(job: Path) -> None:
    async def act(client: Client, console: Console) -> list[str]:
        names = []
        for host in ("127.0.0.1:8089", "127.0.0.1:8090", "[::1]:8089", "localhost"):
            headers = {"Host": host, "Origin": f"http://{host}"}
            async with client.post(
                "/-/sign-in", data={"token": TOKEN}, headers=headers, allow_redirects=False
            ) as answer:
                names.append(answer.headers["Set-Cookie"].partition("=")[0])
        return names

    prefix = "budgetfrontier-session-"
    assert visit(job, act, token=TOKEN) == [f"{prefix}{port}" for port in ("8089", "8090", "8089", "default")]


def test_signing_out_ends_the_pages_that_are_kept_current(job: Path) -> None:
    async def act(client: Client, console: Console) -> None:
        here = {"Origin": str(client.make_url("/"))[:-1]}
        async with client.post("/-/sign-in", data={"token": TOKEN}, headers=here) as answer:
            csrf = (await answer.text()).partition('name="csrf" value="')[2].partition('"')[0]
        async with client.get("/?live=1") as stream:
            assert stream.status == 200
            async with client.post("/-/sign-out", data={"csrf": csrf}, headers=here, allow_redirects=False) as answer:
                assert answer.status == 303
            rest = await asyncio.wait_for(stream.text(), PATIENCE)
            assert "RETIRED" not in rest

    visit(job, act, token=TOKEN)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/x-www-form-urlencoded; charset=nope", b"token=a"),
        ("application/x-www-form-urlencoded; charset=utf-16", b"token=a"),
        ("application/x-www-form-urlencoded", b"token=\xff"),
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=a", b"x"),
        ("multipart/form-data; boundary=a", b"--a\r\nContent-Type: multipart/mixed\r\n\r\n--a--"),
        (f"multipart/form-data; boundary={'a' * 200}", b"--a"),
        ("multipart/form-data; boundary=a", b"--a\r\nContent-Disposition: form-data; name=x\r\n"
         b"Content-Transfer-Encoding: no\r\n\r\nb\r\n--a--\r\n"),
    ],
)  # fmt: skip
def test_a_form_that_cannot_be_read_is_refused_without_a_traceback(
    job: Path, caplog: pytest.LogCaptureFixture, kind: str, body: bytes
) -> None:
    async def act(client: Client, console: Console) -> int:
        here = {"Origin": str(client.make_url("/"))[:-1], "Content-Type": kind}
        return (await client.post("/-/sign-in", data=body, headers=here)).status

    assert visit(job, act, token=TOKEN) in (400, 403)  # 403: a form without the token
    assert not logged(caplog, "budgetfrontier", "aiohttp", "asyncio")
