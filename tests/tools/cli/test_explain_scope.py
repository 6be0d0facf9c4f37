"""What `explain` tells of a crawl's scope: from the stored settings, for URLs that it knows and others."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Directive, Frontier, Outcome, Settings
from tests.support import PATIENCE
from tests.tools.cli.conftest import Cli

SEED = "https://example.org/"


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A crawl with a page done, a page pending, and an archive pending from before its scope was changed."""
    (tmp_path / "seeds.txt").write_text("# more\nhttps://more.test/\nno URL\n", encoding="utf-8")
    settings = {
        "seeds": [SEED, {"file": str(tmp_path / "seeds.txt")}],
        "scope": {
            "accept": ["seed-hosts", "embeds"],
            "rules": [{"accept": "surt:(org,example,)/downloads"}, {"reject": "ext:zip"}, {"reject": "size:>1MB"}],
            "max_hops": 3,
        },
    }
    with Frontier.open(tmp_path / "frontier", Settings.from_dict(settings)) as frontier:
        frontier.schedule(SEED)
        lease = frontier.lease(1)[0]
        found = [
            CrawlUri(SEED + "a.html", hops="L"),
            CrawlUri(SEED + "a.zip", hops="L"),
            CrawlUri("https://cdn.test/a.css", hops="LE"),
            CrawlUri("https://moved.test/b", hops="RL", meta={"seed": "https://moved.test/"}),
            CrawlUri(SEED + "far", hops="LLLL"),
        ]
        frontier.finish(lease, Outcome.SUCCESS, discovered=found)
        frontier.schedule(CrawlUri("https://dead.test/", hops="L"))
        while dead := [lease for lease in frontier.lease(10) if lease.uri.url == "https://dead.test/"]:
            frontier.finish(dead[0], Outcome.DEAD)
            break
    return tmp_path


def explained(cli: Cli, job: Path, url: str) -> tuple[str, list[str], dict[str, Any] | None, str]:
    """Verdict, codes, scope, and what the reason about the scope says."""
    answer = json.loads(cli("explain", job, url, "--format", "json").out)
    told = [reason for reason in answer["reasons"] if "scope" in reason["code"]]
    return answer["verdict"], [r["code"] for r in answer["reasons"]], answer["scope"], told[0]["text"] if told else ""


@pytest.mark.parametrize(
    ("url", "accepted", "rule"),
    [
        ("a.html", True, "seed-hosts"),
        ("a.zip", False, "rules[1] reject ext:zip"),
        ("https://cdn.test/a.css", True, "embeds"),
        ("https://moved.test/b", True, "seed-hosts"),
        ("far", False, "max_hops"),
        ("https://dead.test/", False, "not accepted"),
        ("never/seen.html", True, "seed-hosts"),
        ("downloads/never.zip", False, "rules[1] reject ext:zip"),
        ("downloads/never", True, "rules[0] accept surt:(org,example,)/downloads"),
        ("https://more.test/", True, "seed"),
        ("https://more.test/b", True, "seed-hosts"),
        ("https://cdn.test/b.css", False, "not accepted"),
    ],
)
def test_the_last_word_is_told(job: Path, cli: Cli, url: str, accepted: bool, rule: str) -> None:
    _, codes, scope, text = explained(cli, job, url if "://" in url else SEED + url)
    assert scope == {"accepted": accepted, "rule": rule}
    assert codes[0] == ("in-scope" if accepted else "out-of-scope") and rule in text


def test_what_was_imported_is_no_seed(job: Path, cli: Cli) -> None:
    url = "https://elsewhere.test/x.zip"
    with Frontier.open(job / "frontier") as frontier:
        frontier.schedule(url)
    told = "1. Scope: accepted because it is no link: it was imported, or scheduled by a program.\n"
    assert told in cli("explain", job, url).out
    with Frontier.open(job / "frontier") as frontier:
        frontier.delete(queue="elsewhere.test")
    assert "(taken as a link of a seed; what is imported is always in scope)" in cli("explain", job, url).out


def test_in_words(job: Path, cli: Cli) -> None:
    assert (
        "1. Scope: accepted by seed-hosts; type and size are asked once it answers."
        in cli("explain", job, SEED + "a.html").out
    )
    assert (
        "1. Out of scope: rules[1] reject ext:zip (taken as a link of a seed; what is imported is always in scope).\n"
        in cli("explain", job, SEED + "b.zip").out
    )
    assert "the scope kept it out" in cli("explain", job, SEED + "b.zip").out
    assert "the scope kept it out" not in cli("explain", job, SEED + "b.html").out


def test_what_is_pending_out_of_scope_will_be_dropped(job: Path, cli: Cli) -> None:
    with Frontier.open(job / "frontier") as frontier:  # which gives back what was out
        assert frontier.summary().in_process == 0
    verdict, codes, _, text = explained(cli, job, SEED + "a.zip")
    assert (verdict, codes[:2]) == ("never", ["out-of-scope", "queued"])
    assert text == "Out of scope: rules[1] reject ext:zip. It will be disregarded when its turn comes."


def test_a_seed_file_that_is_gone_is_told(job: Path, cli: Cli) -> None:
    (job / "seeds.txt").unlink()
    gone = f"without the seeds of {job / 'seeds.txt'}, which cannot be read (No such file or directory)"
    _, codes, scope, text = explained(cli, job, "https://more.test/b")
    assert codes[0] == "scope-unknown" and scope == {"accepted": None, "rule": "not accepted"} and gone in text
    _, codes, _, text = explained(cli, job, SEED + "b")
    assert codes[0] == "in-scope" and gone in text


def test_a_surt_file_that_is_gone_is_told(tmp_path: Path, cli: Cli) -> None:
    settings = {"scope": {"accept": [f"surt-file:{tmp_path / 'scope.txt'}"]}}
    with Frontier.open(tmp_path / "frontier", Settings.from_dict(settings)) as frontier:
        frontier.schedule(SEED)
    _, codes, scope, text = explained(cli, tmp_path, SEED)
    assert codes[0] == "scope-unknown" and scope == {"accepted": None, "rule": None}
    assert text == f"Scope: it cannot be told: {tmp_path / 'scope.txt'}: cannot be read: No such file or directory."


def test_hosts_of_imported_seeds_and_of_redirects_are_in_scope(job: Path, cli: Cli) -> None:
    imported = "https://imported.test/"
    with Frontier.open(job / "frontier") as frontier:
        frontier.schedule(CrawlUri(imported, directive=Directive.MEDIUM, meta={"seed": imported}))
        leases = {lease.uri.url: lease for lease in frontier.lease(10)}
        target = CrawlUri("https://moved-to.test/", hops="R", via=imported, directive=Directive.MEDIUM)
        frontier.finish(leases[imported], discovered=[target])
    for url in (f"{imported}page", "https://moved-to.test/page"):
        _, codes, scope, _ = explained(cli, job, url)
        assert codes[0] == "in-scope" and scope == {"accepted": True, "rule": "seed-hosts"}
    assert explained(cli, job, "https://moved-to.test/")[2] is not None
    assert explained(cli, job, "https://unrelated.test/")[1][0] == "out-of-scope"


def test_a_frontier_without_scope_or_seeds_has_no_word(tmp_path: Path, cli: Cli) -> None:
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule(SEED)
    assert explained(cli, tmp_path, SEED)[2] is None
    assert explained(cli, tmp_path, "https://other.test/")[2] is None


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("10.0.0.1/", "10.0.0.1 is a private address, and fetch.allow_private is false"),
        ("more.test:25/", "more.test:25 is a port that browsers refuse to open, and no seed names it"),
    ],
)
@pytest.mark.parametrize("known", ["never", "pending", "seen"])
def test_no_command_imports_what_the_crawl_would_not_fetch(
    job: Path, cli: Cli, place: str, told: str, known: str
) -> None:
    url = f"http://{place}"
    with Frontier.open(job / "frontier") as frontier:
        if known != "never":
            frontier.schedule(CrawlUri(url, directive=Directive.HIGHEST))
        while known == "seen" and (leases := frontier.lease(10)):
            frontier.finish_many(leases)
    answer = json.loads(cli("explain", job, url, "--format", "json").out)
    texts = {reason["code"]: reason["text"] for reason in answer["reasons"]}
    assert texts.get("refused", "") == ("" if known == "seen" else f"The crawl does not fetch it: {told}.")
    assert answer["verdict"] == "never"
    assert not [reason for reason in answer["reasons"] if "budgetfrontier import" in (reason["command"] or "")]


def test_it_needs_no_extra(job: Path) -> None:
    extras = ("aiohttp", "brotlicffi", "fastwarc", "protego", "rich", "yarl", "multidict")
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({extras!r}))\n"
        f"from budgetfrontier.tools.cli import main; sys.exit(main(['explain', {str(job)!r}, {SEED!r}]))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert run.returncode == 0 and "Scope: accepted as a seed.\n" in run.stdout, run.stderr
