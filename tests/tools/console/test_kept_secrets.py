"""Nothing that the console, its API or `report` shows of a job has a secret of its settings."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import quote

import pytest

from budgetfrontier import CrawlUri, Directive, Frontier, Outcome, Settings
from budgetfrontier.reports.kinds import KINDS, formats
from budgetfrontier.tools.cli import main
from budgetfrontier.tools.console.api import PREFIX
from budgetfrontier.tools.console.app import Console
from budgetfrontier.tools.console.pages.table import PAGES
from tests.settings.test_redaction import SECRET
from tests.settings.test_redaction import SETTINGS as SECRETS
from tests.tools.console.api.test_api_routes import READING, path_of
from tests.tools.console.conftest import SETTINGS, TOKEN, Client, visit

pytestmark = pytest.mark.usefixtures("forked_programs")


@pytest.fixture
def secretive(job: Path) -> Path:
    """The job, with secrets in its settings."""
    settings = {name: value for name, value in SECRETS.items() if name != "seeds"}
    with Frontier.open(job / "frontier", Settings.from_dict(SETTINGS | settings)):
        pass
    return job


def test_no_page_and_no_answer_has_a_secret(secretive: Path) -> None:
    pages = [page.path or "/" for page in PAGES if "{" not in page.path and page.path != "/queue"]
    files = [f"/reports/{kind}.{ending}" for kind in KINDS for ending in formats(kind).values()]
    paths = [*pages, "/queue/capped.test", *files, *map(path_of, READING), f"{PREFIX}/jobs/job/report?kind=settings"]

    async def act(client: Client, console: Console) -> dict[str, str]:
        found = {}
        for path in paths:
            async with client.get(path) as answer:
                assert answer.status == 200, (path, await answer.text())
                found[path] = await answer.text()
        return found

    found = visit(secretive, act)
    assert [path for path, text in found.items() if SECRET in text] == []
    for path in ("/settings", f"{PREFIX}/jobs/job/settings", "/reports/settings.txt"):
        assert "hooks.test/***" in found[path] and "broker.test:9092?***" in found[path], path


def test_settings_are_listed_with_their_defaults_and_those_that_are_changed_first(
    secretive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def act(client: Client, console: Console) -> tuple[str, str]:
        texts = [await (await client.get(path)).text() for path in (f"{PREFIX}/jobs/job/settings", "/settings")]
        return texts[0], texts[1]

    body, page = visit(secretive, act)
    rows, note = json.loads(body)["rows"], json.loads(body)["note"]
    assert [row["changed"] for row in rows] == sorted((row["changed"] for row in rows), reverse=True)
    delay = next(row for row in rows if row["setting"] == "frontier.politeness.min_delay")
    assert (delay["value"], delay["default"], delay["changed"], delay["hidden"]) == (3600.0, 3.0, True, False)
    assert [row["setting"] for row in rows if row["hidden"]] == [
        "scope.reject", "fetch.proxy", "fetch.requests", "alerts.sinks", "cluster.kafka",
    ] and "Secrets are hidden in scope.reject, fetch.proxy" in note  # fmt: skip
    assert "<code><bdi>1h</bdi></code>" in page and "<code><bdi>3s</bdi></code>" in page and "Secrets are" in page
    assert main(["report", str(secretive), "--kind", "settings"]) == 0
    out, err = capsys.readouterr()
    assert "frontier.politeness.min_delay" in out and "1h" in out and SECRET not in out and "secrets are hidden" in err
    assert main(["report", str(secretive), "--kind", "settings", "--format", "json"]) == 0
    told = {row["setting"]: row["value"] for row in json.loads(capsys.readouterr().out)["rows"]}
    assert told == {row["setting"]: row["value"] for row in rows}


def url(host: str) -> str:
    """A URL with a password that has characters which JSON, HTML and other URLs write in another way."""
    return f"http://alice:{SECRET}'x&%22y@{host}/"


@pytest.fixture
def with_passwords(job: Path) -> Path:
    """The job, with passwords in the URLs of a seed, of what waits, is out, is dead, and is for later."""
    settings = SETTINGS | {"seeds": [url("seed.test"), url("never.test")]}
    settings |= {"overrides": [{"match": f"regex:{re.escape(url('over.test'))}", "set": {"precedence": 2}}]}
    with Frontier.open(job / "frontier", Settings.from_dict(settings), keep_leases=True) as frontier:
        frontier.schedule(CrawlUri(url("gone.test"), via=url("via.test"), directive=Directive.HIGHEST))
        (lease,) = frontier.lease(1)
        frontier.finish(lease, Outcome.DEAD, reason=f"no answer from {url('proxy.test')}")
        frontier.schedule(CrawlUri(url("seed.test"), directive=Directive.MEDIUM))
        frontier.schedule(CrawlUri(url("out.test"), via=url("via.test"), directive=Directive.HIGHEST))
        frontier.schedule(CrawlUri(url("capped.test"), via=url("via.test"), not_before=4e9))
        frontier.schedule(CrawlUri(url("waits.test") + "calendar/2030/01", via=url("via.test")))
        frontier.lease(1)
        frontier.adjust(match=f"regex:{re.escape(url('over.test'))}", precedence=3, reason=url("reason.test"))
        frontier.delete(pattern=re.escape(url("waits.test")), reason=url("reason.test"))
    for folder, name in (("logs", "crawl.log"), ("reports", "frontier.txt")):
        (job / folder).mkdir()
        line = f"2026-11-29T20:00:00.000Z   200 1 {url('log.test')} L {url('via.test')} text/html - - - - -"
        (job / folder / name).write_text(f"{line}\n" * 3000)
    return job


def test_no_page_and_no_answer_has_a_password_of_a_url(with_passwords: Path) -> None:
    """Whoever may read, or steer, sees no password of a URL; what is masked still names the URL."""
    pages = [page.path or "/" for page in PAGES if "{" not in page.path and page.path != "/queue"]
    files = [f"/reports/{kind}.{ending}" for kind in KINDS for ending in formats(kind).values()]
    hosts = ("gone.test", "seed.test", "out.test", "waits.test")
    paths = [*pages, *files, *map(path_of, READING), "/reports/file?name=frontier.txt", "/logs?file=crawl.log&q=alice"]
    paths += [f"/queue/{host}" for host in hosts] + [f"{PREFIX}/jobs/job/uris?queue={host}" for host in hosts]
    paths += [f"{PREFIX}/jobs/job/explain?target={quote(url(host))}" for host in hosts]
    paths += ["/audit?id=2", "/audit?id=3", f"/audit?q={quote(url('reason.test'))}", "/seeds?live=1"]
    masked = f"{PREFIX}/jobs/job/explain?target={quote('http://alice:***@seed.test/')}"
    headers = {"Authorization": f"Bearer {TOKEN}"}
    bodies = {
        "forget": {"uris": [url("new.test"), "http://alice:***@gone.test/"]},
        "import": {"uris": [url("new.test")]},
    }

    async def act(client: Client, console: Console) -> dict[str, str]:
        found = {}
        for path in (*paths, masked):
            async with client.get(path, headers=headers) as answer:
                assert answer.status == 200, (path, await answer.text())
                live = path.endswith("live=1")
                found[path] = (await answer.content.readuntil(b"\n\nevent")).decode() if live else await answer.text()
        for name, body in bodies.items():
            order = {"reason": url("reason.test"), "dry_run": True} | body
            async with client.post(f"{PREFIX}/jobs/job/{name}", json=order, headers=headers) as answer:
                found[name] = await answer.text()
        form = {"op": "forget", "urls": url("seed.test"), "reason": url("reason.test")}
        async with client.post("/steer", data=form, headers=headers) as answer:
            found["steer"] = await answer.text()
        return found

    found = visit(with_passwords, act, token=TOKEN)
    seen = {path: text[max(0, text.index(SECRET) - 60) :][:120] for path, text in found.items() if SECRET in text}
    assert seen == {}
    for path in ("/seeds", "/dead-letters", "/leases", "/audit", "steer", "/logs?file=crawl.log&q=alice"):
        assert "alice:***@" in found[path], path
    assert '"forgotten":1' in found["forget"] and found["/reports/file?name=frontier.txt"].count("log.test") == 3000
    assert json.loads(found[masked])["queue"] == "seed.test"
