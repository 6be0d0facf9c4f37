"""Nothing that the console, its API or `report` shows of a job has a secret of its settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from budgetfrontier import Frontier, Settings
from budgetfrontier.reports.kinds import KINDS, formats
from budgetfrontier.tools.cli import main
from budgetfrontier.tools.console.api import PREFIX
from budgetfrontier.tools.console.app import Console
from budgetfrontier.tools.console.pages.table import PAGES
from tests.settings.test_redaction import SECRET
from tests.settings.test_redaction import SETTINGS as SECRETS
from tests.tools.console.api.test_api_routes import READING, path_of
from tests.tools.console.conftest import SETTINGS, Client, visit


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
