"""`forget`: URLs of crawl.log, of a frontier that keeps its URLs, and those that are given."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier import CrawlUri, Frontier, Reader, Settings
from budgetfrontier.tools.cli import forget
from tests.tools.cli.conftest import Cli

LINE = "2027-01-01T00:00:00.000Z {status} 10 {url} {hops} - text/html #1 1 - - -\n"


def log_of(job: Path, *urls: str) -> None:
    lines = [LINE.format(status=200, url=url, hops="L") for url in urls]
    lines.append(LINE.format(status=200, url="http://snoozed.test/robots.txt", hops="P"))
    (job / "logs").mkdir(exist_ok=True)
    (job / "logs" / "crawl.log").write_text("".join(lines))


def test_urls_of_the_log_that_wait_for_nothing_are_forgotten(job: Path, cli: Cli) -> None:
    log_of(job, "http://snoozed.test/0", "http://snoozed.test/0", "http://snoozed.test/1", "http://gone.test/")
    would = cli("forget", job, "--match", "*", "--dry-run")
    assert (would.out, would.err) == ("would forget 2 URLs, and not 1 that waits\n", "dry run: nothing was changed\n")
    none = cli("forget", job, "--match", "domain:gone.test", "--pattern", "/x")
    assert none.out == "forgot 0 URLs\n"
    log = job / "logs" / "crawl.log"
    assert none.err.startswith(f"domain:gone.test matches no URL in {log}; give deleted ones by name, ")
    done = cli("forget", job, "--match", "domain:snoozed.test", "--reason", "again")
    assert "Forgot 1 URL (match domain:snoozed.test)." in cli("audit", job).out
    assert done.out == "forgot 1 URL, and not 1 that waits\n" and "to take it back: budgetfrontier undo" in done.err
    explained = cli("explain", job, "http://snoozed.test/0").out
    assert "It is not recorded as seen" in explained and "--force" not in explained
    assert f"import {job} http://snoozed.test/0" in explained
    robots = " ".join(cli("explain", job, "http://snoozed.test/robots.txt").out.split())
    assert "It is not recorded as seen: no robots.txt is" in robots and "forgotten" not in robots
    assert "added 1," in cli("import", job, "http://snoozed.test/0").out
    assert "duplicate 1," in cli("import", job, "http://gone.test/").out
    number = done.err.split()[done.err.split().index("undo") + 2]
    assert "would make 0 URLs known again\n" in cli("undo", job, number, "--dry-run").out  # it was scheduled since
    assert cli("undo", job, number).out == f"undone {number}, forget: 0 URLs known again\n"


def test_what_cannot_be_forgotten_is_refused(stopped: Path, cli: Cli, tmp_path: Path) -> None:
    assert cli("forget", stopped).code == 2
    assert cli("forget", stopped, "--reason", "x", "http://none.test/", "http://no.test/").out.endswith(
        "2 were not known\n"
    )
    assert cli("forget", stopped, "http://a.test/", "--match", "*").code == 2
    assert "crawl.log, where" in cli("forget", stopped, "--match", "*").err
    assert "is no file; it would be one where" in cli("forget", stopped, "--match", "*", "--log", tmp_path).err
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    assert "no line of a fetch" in cli("forget", stopped, "--match", "*", "--log", tmp_path / "binary").err
    assert "'no URL' is no URL that" in cli("forget", stopped, "no URL").err
    assert "'' is no URL that" in cli("forget", stopped, "", "--dry-run").err
    assert "no queues or labels" in cli("forget", stopped, "--match", "queue:a.test").err
    bloom = tmp_path / "bloom"
    with Frontier.open(bloom / "frontier", Settings.from_dict({"frontier": {"duplicates": "bloom"}})) as f:
        f.schedule("http://a.test/")
    assert "a Bloom filter cannot forget" in cli("forget", bloom, "http://a.test/").err


def test_a_frontier_that_keeps_its_urls_is_asked(cli: Cli, tmp_path: Path) -> None:
    job = tmp_path / "kept"
    with Frontier.open(job / "frontier", Settings.from_dict({"frontier": {"keep_urls": True}})) as f:
        f.schedule_many(CrawlUri(f"http://a.test/{n}") for n in range(3))
        for lease in f.lease(1):
            f.finish(lease)
    assert cli("forget", job, "--match", "a.*", "--dry-run").out == "would forget 1 URL, and not 2 that wait\n"
    unknown = "b.* matches no URL that is kept; give deleted ones by name, for they may be known all the same\n"
    assert cli("forget", job, "--match", "b.*", "--dry-run").err.startswith(unknown)
    assert cli("forget", job, "--match", "queue:a.test").out == "forgot 1 URL, and not 2 that wait\n"
    assert (
        cli("forget", job, "http://a.test/0", "http://a.test/1").out
        == "forgot 0 URLs, and not 1 that waits; 1 was not known\n"
    )
    assert cli("delete", job, "--match", "*", "--for-good").code == 0
    assert "give deleted ones by name" in cli("forget", job, "--match", "a.*").err
    assert cli("forget", job, "http://a.test/2").out == "forgot 1 URL\n"


def test_one_command_has_one_entry_however_many_urls_its_log_has(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forget, "AT_A_TIME", 2)
    job, log = tmp_path / "job", tmp_path / "crawl.log"
    with Frontier.open(job / "frontier") as f:
        f.schedule_many(CrawlUri(f"http://a.test/{n}") for n in range(6))
        f.delete(queue="a.test", for_good=True)
        f.schedule(CrawlUri("http://a.test/5", force=True))
    log.write_text("".join(LINE.format(status=200, url=f"http://a.test/{n}", hops="L") for n in range(8)))
    told = cli("forget", job, "--match", "*", "--log", log)
    assert told.out == "forgot 5 URLs, and not 1 that waits; 2 were not known\n"
    assert told.err.count("to take it back: ") == 1
    with Reader(job / "frontier") as reader:
        entry = reader.audit()[-1]
    assert (entry.id, entry.effect["forgotten"], entry.args["uris"]) == (2, 5, 7)
    assert cli("undo", job, 2).out == "undone 2, forget: 5 URLs known again\n"
    assert cli("verify", job).code == 0
