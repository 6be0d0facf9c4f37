"""A policy that fails in a crawl: it pauses and names it; nothing is lost, and the mended policy goes on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlState, Reader, RunEnd
from budgetfrontier.tools.cli import main
from tests.crawler.site import Site, linking, reopened
from tests.crawler.test_operating import HOME, configure

FINE = """
def cost(uri):
    return 1
def precedence(uri, *, precedence):
    return precedence
def rest(settings, *, fetch_seconds, crawl_delay, random):
    return 0
"""
BROKEN = {
    "cost": "def cost(uri):\n    return 0.9 if uri.url.endswith('/bad') else 1\n",
    "precedence": "def precedence(uri, *, precedence):\n    return ['high', 3][uri.url[-4:] != '/bad']\n",
    "rest": "def rest(settings, *, fetch_seconds, crawl_delay, random):\n    raise LookupError('so long')\n",
}
WEB = {"a.test/": linking("/1", "/2", "/bad"), "a.test/1": linking("/3"), "a.test/2": "", "a.test/3": ""}
WEB |= {"a.test/bad": linking("/4"), "a.test/4": ""}
POLICIES = {
    "cost_policy": "mended_policies:cost",
    "precedence_policy": "mended_policies:precedence",
    "politeness_policy": "mended_policies:rest",
}


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return tmp_path / "mended_policies.py"


def write(module: Path, text: str) -> None:
    """Another run, which imports what stands there now."""
    module.write_text(text)
    sys.modules.pop("mended_policies", None)


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("resumed", [False, True])
def test_it_pauses_and_goes_on_with_the_mended_policy(
    tmp_path: Path, module: Path, capsys: pytest.CaptureFixture[str], broken: str, resumed: bool
) -> None:
    write(module, FINE + BROKEN[broken])
    with Site(WEB) as site:
        config = configure(site, tmp_path, HOME, frontier=POLICIES)
        command = ["crawl", str(config), "--job", str(tmp_path / "job")]
        assert main(command) == 4
        said = " ".join(capsys.readouterr().err.split())
        named = f"policy mended_policies:{broken}"
        assert named in said
        assert ("http://a.test/" if broken == "rest" else "http://a.test/bad") in said
        assert "run the same command" in said
        with Reader(tmp_path / "job" / "frontier") as reader:
            assert reader.runs()[-1].end is RunEnd.ERROR and named in reader.runs()[-1].reason
            told = reader.verdict()
            assert told.slug == "error" and "Fix the policy, and start the crawl again" in told.text
        with reopened(tmp_path / "job") as frontier:
            assert frontier.state is CrawlState.PAUSED
            pause = [entry for entry in frontier.audit() if entry.command == "pause"]
            assert len(pause) == 1 and named in pause[0].reason
        write(module, FINE)
        if resumed:
            assert main(["resume", str(tmp_path / "job")]) == 0
        assert main(command) == 0
    assert set(site.hits) >= set(WEB)
    with reopened(tmp_path / "job") as frontier:
        assert (frontier.state, frontier.summary().succeeded) == (CrawlState.FINISHED, len(WEB))


def test_seeds_that_a_policy_fails_on_wait_for_the_mended_one(
    tmp_path: Path, module: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(module, FINE + "def cost(uri):\n    raise ValueError('not today')\n")
    with Site(WEB) as site:
        frontier: dict[str, Any] = {"cost_policy": "mended_policies:cost"}
        config = configure(site, tmp_path, HOME, frontier=frontier)
        command = ["crawl", str(config), "--job", str(tmp_path / "job")]
        assert main(command) == 4
        said = " ".join(capsys.readouterr().err.split())
        with Reader(tmp_path / "job" / "frontier") as reader:
            assert reader.runs()[-1].end is RunEnd.ERROR and "mended_policies:cost" in reader.runs()[-1].reason
        assert "mended_policies:cost raised ValueError for http://a.test/: not today" in said
        assert not site.hits
        write(module, FINE)
        assert main(command) == 0
    assert set(site.hits) >= set(WEB)
