"""Going on with a job under other settings: another crawl's name, a scope that has changed, and the way back."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from budgetfrontier import CrawlState, Frontier, Reader, Settings
from budgetfrontier.crawler.scope_change import ScopeLoss
from budgetfrontier.rules.verdict import Verdict
from budgetfrontier.tools.cli import main
from tests.crawler.conftest import Asked
from tests.crawler.process import COMMAND
from tests.crawler.site import Site, linking
from tests.support import PATIENCE, child_process

HOME = "http://a.test/"
FAST = {"politeness": {"min_delay": 0, "delay_factor": 0, "max_delay": 0}}
WEB = {"a.test/": linking(*(f"/{number}" for number in range(9))), "b.test/": "x"}


def configure(site: Site, path: Path, *seeds: str, crawl: str = "one", **sections: Any) -> Path:
    fetch = {"resolve": {"*.test": site.address}, "robots": "ignore", "user_agent": "tester/1 (+http://a.test/)"}
    config = {"crawl": crawl, "seeds": list(seeds) or [HOME], "fetch": fetch, "frontier": FAST}
    path.write_text(json.dumps(config | sections))
    return path


def begun(site: Site, folder: Path, asked: Asked) -> Path:
    """A job of the crawl "one" that has fetched its seed, and has nine links queued."""
    config, job = configure(site, folder / "one.yaml", limits={"max_uris": 1}), folder / "job"
    assert asked("crawl", config, "--job", job)[0] == 0
    return job


def verdict(job: Path) -> Verdict:
    with Reader(job / "frontier") as reader:
        return reader.verdict()


def totals(job: Path) -> tuple[CrawlState, str | None, int, int]:
    with Reader(job / "frontier") as reader:
        summary = reader.summary()
    return summary.state, summary.pause_reason, summary.queued, summary.disregarded


def effects(job: Path, command: str) -> list[dict[str, Any]]:
    with Frontier.open(job / "frontier") as frontier:
        return [entry.effect for entry in frontier.audit() if entry.command == command]


def test_another_crawls_job_is_refused(tmp_path: Path, asked: Asked) -> None:
    with Site(WEB) as site:
        job = begun(site, tmp_path, asked)
        other = configure(site, tmp_path / "two.yaml", "http://b.test/", crawl="two", scope={"accept": ["all"]})
        code, said = asked("crawl", other, "--job", job)
        assert code == 4 and "'one'" in said and "'two'" in said and "--adopt" in said
        assert totals(job) == (CrawlState.RUNNING, None, 9, 0) and site.hits.total() == 1
        code, said = asked("crawl", other, "--job", job, "--adopt")
    assert code == 0 and site.hits.total() == 11
    assert "changed since the last run: crawl: one -> two" in said
    changed = effects(job, "settings")[0]
    assert (changed["before"]["crawl"], changed["after"]["crawl"]) == ("one", "two")
    assert changed["after"]["scope.accept"] == ["all"] and "frontier" not in str(changed)


def test_a_changed_queue_assignment_leaves_queued_uris_where_they_are_unless_asked(
    tmp_path: Path, asked: Asked
) -> None:
    with Site(WEB) as site:
        job = begun(site, tmp_path, asked)
        single = FAST | {"queue_assignment_policy": "single"}
        config = configure(site, tmp_path / "two.yaml", frontier=single, limits={"max_uris": 2})
        _, said = asked("crawl", config, "--job", job)
        assert "queued URIs stay on their queues (frontier.defer_to_previous)" in said
        with Reader(job / "frontier") as reader:
            assert [(queue.queue, queue.queued) for queue in reader.queues()] == [("a.test", 8)]
        config = configure(site, tmp_path / "two.yaml", frontier=single | {"defer_to_previous": False})
        code, said = asked("crawl", config, "--job", job)
    assert code == 0 and "changed since the last run: frontier.defer_to_previous: True -> False" in said
    with Reader(job / "frontier") as reader:
        assert {queue.queue: queue.expenditure for queue in reader.queues()} == {"a.test": 2, "all": 8}


def test_a_frontier_that_nobody_named_is_anybodys(tmp_path: Path, asked: Asked) -> None:
    with Frontier.open(tmp_path / "job/frontier") as frontier:
        frontier.schedule(HOME + "1")
    with Site(WEB) as site:
        assert asked("crawl", configure(site, tmp_path / "one.yaml"), "--job", tmp_path / "job")[0] == 0
    assert site.hits["a.test/1"] == 1


def test_a_scope_that_would_empty_a_frontier_pauses_it(tmp_path: Path, asked: Asked) -> None:
    with Site(WEB) as site:
        job = begun(site, tmp_path, asked)
        wrong = configure(site, tmp_path / "wrong.yaml", "http://b.test/")
        for _ in range(2):  # asked again, it says so again
            code, said = asked("crawl", wrong, "--job", job)
            assert code == 7 and "would disregard 9 of 9 URIs" in said and "http://a.test/0: not accepted" in said
            assert f"`budgetfrontier resume {job}`" in said and f"`budgetfrontier crawl {wrong} --job {job}`" in said
            assert totals(job) == (CrawlState.PAUSED, "scope", 9, 0)
        code, said = asked("crawl", configure(site, tmp_path / "one.yaml"), "--job", job)
    assert code == 0 and site.hits.total() == 10 and "b.test/" not in site.hits  # no seed of the wrong one was taken


def test_resume_agrees_to_a_scope(tmp_path: Path, asked: Asked) -> None:
    with Site(WEB) as site:
        job = begun(site, tmp_path, asked)
        narrow = configure(site, tmp_path / "narrow.yaml", scope={"reject": ["regex:[1-8]$"]})
        assert asked("crawl", narrow, "--job", job)[0] == 7
        assert asked("resume", job)[0] == 0
        assert asked("crawl", narrow, "--job", job)[0] == 0
    assert totals(job)[2:] == (0, 8) and set(site.hits) == {"a.test/", "a.test/0"}


def test_the_remedies_of_a_scope_that_has_changed_lead_on(tmp_path: Path, asked: Asked) -> None:
    with Site(WEB) as site:
        job = begun(site, tmp_path, asked)
        narrow = configure(site, tmp_path / "narrow.yaml", scope={"reject": ["regex:[1-8]$"]})
        assert asked("crawl", narrow, "--job", job)[0] == 7
        first = verdict(job)
        assert "(the scope had changed); " in first.text and "change the scope back and start it again" in first.text
        assert first.slug == "stopped" and first.remedy == f"budgetfrontier resume {job}"
        assert asked(*first.remedy.split()[1:])[0] == 0
        second = verdict(job)
        assert "paused" not in second.text and second.remedy == f"budgetfrontier crawl {narrow} --job {job}"
        assert asked(*second.remedy.split()[1:])[0] == 0
    assert verdict(job).slug == "disregarded"


def test_seeds_that_are_gone_from_their_file_narrow_the_scope(tmp_path: Path, asked: Asked) -> None:
    seeds = tmp_path / "seeds.txt"
    seeds.write_text(HOME)
    with Site(WEB) as site:
        config = configure(site, tmp_path / "one.yaml", seeds=[{"file": str(seeds)}], limits={"max_uris": 1})
        assert asked("crawl", config, "--job", tmp_path / "job")[0] == 0
        seeds.write_text("http://b.test/\n")
        code, said = asked("crawl", config, "--job", tmp_path / "job")
    assert code == 7 and "9 of 9" in said


def test_a_pause_of_an_operators_stays_one(tmp_path: Path, asked: Asked) -> None:
    with Site(WEB) as site:
        job = begun(site, tmp_path, asked)
        assert asked("pause", job)[0] == 0
        assert asked("crawl", configure(site, tmp_path / "wrong.yaml", "http://b.test/"), "--job", job)[0] == 7
    assert totals(job) == (CrawlState.PAUSED, "operator", 9, 0)


def finished(site: Site, folder: Path, asked: Asked) -> Path:
    """A job of the crawl "one" that has paused at its finish, and whose retired queue is revived."""
    frontier = {**FAST, "pause_at_finish": True, "queue_total_budget": 3}
    job = folder / "job"
    assert asked("crawl", configure(site, folder / "one.yaml", frontier=frontier), "--job", job)[0] == 0
    assert asked("adjust", job, "--match", "queue:a.test", "--total-budget", "99")[0] == 0
    assert totals(job)[:3] == (CrawlState.PAUSED, "finish", 6)
    return job


def test_a_crawl_that_is_paused_at_its_finish_and_has_nothing_to_do_says_so(tmp_path: Path, asked: Asked) -> None:
    with Site(WEB) as site:
        config, job = (
            configure(site, tmp_path / "one.yaml", frontier={**FAST, "pause_at_finish": True}),
            tmp_path / "job",
        )
        assert asked("crawl", config, "--job", job)[0] == 0
        code, said = asked("crawl", config, "--job", job)
        assert code == 0 and "paused at its finish, and there is nothing to do: new seeds, " in said
        assert "`budgetfrontier resume" not in said


def test_a_crawl_that_is_paused_at_its_finish_is_paused_by_its_operator(tmp_path: Path, asked: Asked) -> None:
    with Site(WEB) as site:
        job = finished(site, tmp_path, asked)
        hits = site.hits.total()
        assert asked("pause", job, "--reason", "night")[0] == 0
        assert totals(job)[:3] == (CrawlState.PAUSED, "night", 6)
        command = [*COMMAND, "crawl", str(tmp_path / "one.yaml"), "--job", str(job)]
        with child_process(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stderr is not None
                assert any("the crawl is paused (night)" in line for line in process.stderr)
                process.terminate()
                process.communicate(timeout=PATIENCE)
            finally:
                process.kill()
        assert totals(job)[:3] == (CrawlState.PAUSED, "night", 6) and site.hits.total() == hits


def test_a_scope_pauses_a_crawl_that_is_paused_at_its_finish(tmp_path: Path, asked: Asked) -> None:
    with Site(WEB) as site:
        job = finished(site, tmp_path, asked)
        wrong = configure(site, tmp_path / "wrong.yaml", "http://b.test/")
        assert asked("crawl", wrong, "--job", job)[0] == 7
        assert totals(job)[:3] == (CrawlState.PAUSED, "scope", 6)
        assert asked("crawl", wrong, "--job", job)[0] == 7, "it is asked again"


def test_what_is_asked_about() -> None:
    assert not ScopeLoss(0, 0, ()).too_large
    assert not ScopeLoss(1, 100, ()).too_large and ScopeLoss(2, 100, ()).too_large
    assert not ScopeLoss(100, 1_000_000, ()).too_large and ScopeLoss(101, 1_000_000, ()).too_large


def test_passwords_are_in_no_audit(tmp_path: Path) -> None:
    secret = {"fetch": {"proxy": "http://me:hunter2@proxy.test:3128", "user_agent": "b"}}
    Frontier.open(tmp_path, Settings.from_dict({"fetch": {"user_agent": "a"}})).close()
    with Frontier.open(tmp_path, Settings.from_dict(secret)) as frontier:
        [entry] = frontier.audit()
    assert "hunter2" not in str(entry) and "fetch.proxy" in entry.effect["after"]
    assert entry.effect["before"]["fetch.user_agent"] == "a"


def test_what_a_scope_disregarded_comes_back(tmp_path: Path, asked: Asked) -> None:
    with Site(WEB | {"a.test/1": linking("/deep")}) as site:
        job = begun(site, tmp_path, asked)
        narrow = configure(site, tmp_path / "narrow.yaml", scope={"reject": ["regex:[1-8]$"]})
        for command in (["crawl", narrow, "--job", job], ["resume", job], ["crawl", narrow, "--job", job]):
            asked(*command)
        assert totals(job)[3] == 8 and site.hits["a.test/1"] == 0
        assert main(["revive", str(job), "--status", "-5000", "--dry-run"]) == 0
        assert totals(job)[2] == 0
        assert asked("revive", job, "--status", "-5000", "--reason", "a mistake")[0] == 0
        assert asked("revive", job, "--status", "-5000")[1].startswith("only lines after ")  # they came back once
        with Frontier.open(job / "frontier") as frontier:
            frontier.check()
            last = frontier.audit()[-1]
            assert (last.args["uris"], last.args["revived"], last.reason) == (8, "-5000", "a mistake")
        with Reader(job / "frontier") as reader:
            found = [row.uri for row in reader.pending("a.test")]
        assert {(uri.via, uri.hops) for uri in found} == {(HOME, "L")} and len(found) == 8
        assert asked("crawl", configure(site, tmp_path / "one.yaml"), "--job", job)[0] == 0
    assert set(site.hits.values()) == {1} and site.hits["a.test/deep"] == 1 and len(site.hits) == 11


def test_what_comes_back_keeps_the_seed_that_lets_it_in(tmp_path: Path, asked: Asked) -> None:
    with Site({"b.test/": linking("/in,seed"), "b.test/in,seed": "x"}) as site:
        job = begun(site, tmp_path, asked)
        asked("import", job, "--seeds", "http://b.test/")
        asked("crawl", configure(site, tmp_path / "two.yaml", limits={"max_uris": 2}), "--job", job)
        narrow = configure(site, tmp_path / "narrow.yaml", scope={"reject": ["all"]})
        for command in (["crawl", narrow, "--job", job], ["resume", job], ["crawl", narrow, "--job", job]):
            asked(*command)
        assert site.hits["b.test/in,seed"] == 0 and "seed:http://b.test/" in (job / "logs/crawl.log").read_text()
        assert asked("revive", job, "--status", "-5000")[0] == 0
        assert asked("crawl", configure(site, tmp_path / "one.yaml"), "--job", job)[0] == 0
    assert site.hits["b.test/in,seed"] == 1
