"""The action directory of a job: files put there are applied while it is crawled."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier, Reader
from budgetfrontier.core.model import CrawlState
from budgetfrontier.errors import FrontierError
from budgetfrontier.tools.cli import action_directory
from budgetfrontier.tools.cli.action_directory import ActionDirectory
from tests.crawler.process import forked_main
from tests.crawler.site import Site, linking
from tests.forked import ForkedProcess
from tests.support import PATIENCE, until
from tests.tools.cli.conftest import Cli

PAGES = {"a.test/": linking("/2"), "a.test/2": "x", "b.test/": linking("/2"), "b.test/2": "x", "c.test/": "x"}


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site(PAGES) as site:
        yield site


@pytest.fixture
def config(site: Site, tmp_path: Path) -> Path:
    site.hits.clear()
    path = tmp_path / "crawl.yaml"
    settings = {
        "seeds": ["http://a.test/"],
        "fetch": {"resolve": {"*.test": site.address}, "robots": "ignore"},
        "frontier": {"politeness": {"min_delay": "10ms", "delay_factor": 0}, "pause_at_finish": False},
    }
    path.write_text(json.dumps(settings))
    return path


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job's folder with an empty action directory, into which a crawl looks at short intervals."""
    monkeypatch.setattr(action_directory, "SCAN_EVERY", 0.05)
    (tmp_path / "job" / "action").mkdir(parents=True)
    return tmp_path / "job"


def results(job: Path) -> dict[str, dict[str, Any]]:
    """The results by the names of the files."""
    found = [json.loads(path.read_text()) for path in (job / "action" / "done").glob("*.json")]
    return {one["file"]: one for one in found}


def test_seeds_urls_and_adjustments_are_applied_and_a_wrong_file_changes_nothing(
    site: Site, config: Path, job: Path, cli: Cli
) -> None:
    action = job / "action"
    (action / "1.seeds").write_text("http://b.test/\tbudget=7\nnonsense\n")
    (action / "2.urls.gz").write_bytes(gzip.compress(b"http://c.test/\n"))
    (action / "3.adjust.yaml").write_text("- {match: 'host:c.test', set: {precedence: 4}, reason: late}\n")
    (action / "4.adjust.yaml").write_text("- {match: 'host:c.test', set: {precedenc: 4}}\n")
    (action / "notes.txt").write_text("x")
    (action / ".5.urls").write_text("http://hidden.test/\n")
    answer = cli("crawl", config, "--job", job)
    assert answer.code == 0
    assert set(site.hits) == {"a.test/", "a.test/2", "b.test/", "b.test/2", "c.test/"}
    added = "added 1, duplicate 0, full 0, invalid 1"
    assert f"{action}/1.seeds: {added}; {action}/done/1.seeds." in answer.err
    assert f"{action}/3.adjust.yaml: 1 adjustment applied; {action}/done/3.adjust.yaml." in answer.err
    assert f"warning: {action}/4.adjust.yaml: {action}/4.adjust.yaml:1:32: [0].set: unknown setting" in answer.err
    assert f"warning: {action}/notes.txt: nothing takes it; names end in .seeds, .urls, .adjust.yaml" in answer.err
    assert sorted(os.listdir(action)) == [".5.urls", "done", "notes.txt"]
    found = results(job)
    assert sorted(found) == ["1.seeds", "2.urls.gz", "3.adjust.yaml", "4.adjust.yaml"]
    assert found["1.seeds"]["result"]["added"] == 1 and found["1.seeds"]["result"]["invalid"] == 1
    assert any(f"{action}/1.seeds:2" in line for line in found["1.seeds"]["messages"])
    assert (found["2.urls.gz"]["exit_code"], found["2.urls.gz"]["result"]["added"]) == (0, 1)
    with Reader(job / "frontier") as reader:
        assert [one.match for one in reader.adjustments] == ["queue:b.test", "host:c.test"]
        entries = {entry.id: entry for entry in reader.audit()}
    adjusted = entries[found["3.adjust.yaml"]["result"]["adjustments"][0]["id"]]
    assert (adjusted.who, adjusted.reason) == ("action", "late")
    assert {entry.reason for entry in entries.values()} >= {"action/1.seeds", "action/2.urls.gz"}
    for number in found["2.urls.gz"]["result"]["audit"]:
        assert entries[number].command == "schedule"
    assert found["4.adjust.yaml"]["exit_code"] == 4
    assert found["4.adjust.yaml"]["meaning"] == "invalid configuration"
    _is_a_problem_until_its_result_is_gone(job, cli)


def _is_a_problem_until_its_result_is_gone(job: Path, cli: Cli) -> None:
    result = next((job / "action" / "done").glob("4.adjust.yaml.*.error.json"))
    sentence = f"1 file of action/ failed: see {result}, and delete that once it is dealt with."
    assert sentence in cli("report", job).out
    result.unlink()
    assert "of action/ failed" not in cli("report", job).out


@pytest.mark.parametrize("pause", [False, True])
def test_a_crawl_that_was_over_goes_on_with_a_file(
    site: Site, config: Path, job: Path, cli: Cli, *, pause: bool
) -> None:
    config.write_text(
        config.read_text().replace('"pause_at_finish": false', f'"pause_at_finish": {str(pause).lower()}')
    )
    assert cli("crawl", config, "--job", job).code == 0
    with Reader(job / "frontier") as reader:
        assert reader.summary().state is (CrawlState.PAUSED if pause else CrawlState.FINISHED)
    (job / "action" / "more.urls").write_text("http://c.test/\n")
    assert cli("crawl", config, "--job", job).code == 0
    assert "c.test/" in site.hits and set(results(job)) == {"more.urls"}


def test_a_file_is_complete_once_it_stays_the_same_between_two_looks(job: Path) -> None:
    directory, action = ActionDirectory(job, say=print, warn=print), job / "action"
    (action / "b.urls").write_text("http://a.test/\n")
    (action / "a.seeds").write_text("http://a.test/\n")
    (action / ".c.urls").write_text("http://a.test/\n")
    assert directory.complete() == []
    with (action / "b.urls").open("a") as file:
        file.write("http://b.test/\n")
    assert directory.complete() == ["a.seeds"]
    assert directory.complete() == ["a.seeds", "b.urls"]


def test_links_folders_and_pipes_are_named_and_not_taken(site: Site, config: Path, job: Path, cli: Cli) -> None:
    action, secret = job / "action", job.parent / "secret"
    secret.write_text("root:x:0:0\nhttp://c.test/\n")
    (action / "a.urls").mkdir()
    os.mkfifo(action / "b.seeds")
    for name in ("c.urls", "d.seeds", "e.adjust.yaml"):
        (action / name).symlink_to(secret)
    (action / "f.urls").write_text("http://b.test/\n")  # the crawl waits for it
    answer = cli("crawl", config, "--job", job)
    assert answer.code == 0 and "b.test/" in site.hits and "c.test/" not in site.hits
    for name in ("a.urls", "b.seeds", "c.urls", "d.seeds", "e.adjust.yaml"):
        assert answer.err.count(f"{action / name} is not taken: it is no regular file") == 1
    assert "root:x" not in answer.err and set(results(job)) == {"f.urls"}
    assert sorted(os.listdir(action)) == ["a.urls", "b.seeds", "c.urls", "d.seeds", "done", "e.adjust.yaml"]


@pytest.mark.parametrize("name", ["action", "action/done"])
def test_a_link_in_place_of_a_folder_is_not_followed(
    site: Site, config: Path, job: Path, tmp_path: Path, cli: Cli, name: str
) -> None:
    """Files would be taken from another folder, or their results written there."""
    other = tmp_path / "other"
    other.mkdir()
    if name == "action":
        (job / name).rmdir()
    (job / name).symlink_to(other)
    (job / "action" / "a.urls").write_text("http://c.test/\n")
    answer = cli("crawl", config, "--job", job)
    assert answer.code == 0 and "c.test/" not in site.hits
    assert f"a link is not followed: put a folder in its place: '{job / name}'" in answer.err
    assert os.listdir(other) == (["a.urls"] if name == "action" else [])


@pytest.mark.parametrize("name", ["a.urls", "a.seeds", "a.adjust.yaml"])
def test_a_file_that_has_become_a_link_is_not_read(job: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Somebody may replace it between the look into the folder and its command."""
    action, secret = job / "action", job.parent / "secret"
    secret.write_text("root:x:0:0\n")
    (action / name).write_text("http://c.test/\n")
    run = ActionDirectory._run

    async def replaced(self: ActionDirectory, name: str, command: tuple[str, ...]) -> Any:
        (action / name).unlink()
        (action / name).symlink_to(secret)
        return await run(self, name, command)

    monkeypatch.setattr(ActionDirectory, "_run", replaced)
    Frontier.open(job / "frontier").close()
    watch(job, lambda directory: bool(results(job)))
    [result] = results(job).values()
    assert result["exit_code"] != 0 and "x:0:0" not in json.dumps(result)
    assert "Too many levels of symbolic links" in json.dumps(result)


Stub = Callable[[str], None]


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stub:
    """Run a shell script in the place of the command that takes a file; $5 is the file."""

    def use(script: str) -> None:
        path = tmp_path / "stub"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))

    return use


def watch(job: Path, until: Callable[[ActionDirectory], bool]) -> list[str]:
    """Watch the directory of a job until something is so; return what was said."""
    said: list[str] = []

    async def main() -> None:
        directory = ActionDirectory(job, say=said.append, warn=said.append)
        async with directory.watched(), asyncio.timeout(PATIENCE):
            while not until(directory):
                await asyncio.sleep(0.01)

    asyncio.run(main())
    return said


def test_a_file_that_takes_long_is_said_to_be_applied(
    job: Path, tmp_path: Path, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(action_directory, "LONG", 0.0)
    stub("exit 0")
    (job / "action" / "a.adjust.yaml").write_text("- {match: '*', set: {precedence: 4}}\n")
    begun, ended = watch(job, lambda directory: bool(results(job)) and not directory.has_files())[:2]
    assert (
        begun.startswith(f"{job}/action/a.adjust.yaml: it is being applied, and other files wait") and "result" in ended
    )


def test_a_file_that_is_being_applied_at_the_end_stays(job: Path, tmp_path: Path, stub: Stub) -> None:
    began = tmp_path / "began"
    stub(f"echo $$ >{began}.new; mv {began}.new {began}; while :; do sleep 0.05; done")
    (job / "action" / "a.urls").write_text("http://a.test/\n")
    watch(job, lambda directory: began.exists() and directory.has_files())
    with pytest.raises(ProcessLookupError):
        os.kill(int(began.read_text()), 0)
    assert os.listdir(job / "action" / "done") == [] and (job / "action" / "a.urls").exists()


def test_a_crawl_that_is_killed_leaves_no_process_behind_and_the_file_for_the_next_run(
    site: Site, config: Path, job: Path, cli: Cli
) -> None:
    file = job / "action" / "many.urls"
    file.write_text("\n".join(f"http://a.test/more/{n}" for n in range(30_000)))
    config.write_text(config.read_text().replace("10ms", "30s"))  # nothing but the import goes on
    with ForkedProcess(forked_main, "crawl", str(config), "--job", str(job)) as process:
        try:
            until(lambda: _pending(job) > 1000, process)
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        finally:
            process.kill()
    assert children
    until(lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in children))
    assert file.exists() and not results(job)
    counts = json.loads(cli("import", job, file, "--format", "json").out)  # as the next run does
    assert counts["duplicate"] >= 1000 and counts["added"] + counts["duplicate"] == 30_000
    assert 29_990 < _pending(job) <= 30_001


def _pending(job: Path) -> int:
    try:
        with Reader(job / "frontier") as reader:
            return reader.summary().queued
    except FrontierError:  # not there yet
        return 0


def test_a_file_that_changes_while_it_is_applied_is_applied_again(job: Path, tmp_path: Path, stub: Stub) -> None:
    stub(f'test -e {tmp_path}/once || echo http://b.test/ >>"$5"; touch {tmp_path}/once; echo 5; echo told >&2')
    (job / "action" / "a.urls").write_text("http://a.test/\n")
    watch(job, lambda directory: not directory.has_files())
    [moved] = [path for path in (job / "action" / "done").iterdir() if path.suffix != ".json"]
    assert moved.read_text() == "http://a.test/\nhttp://b.test/\n"
    assert (results(job)["a.urls"]["result"], results(job)["a.urls"]["messages"]) == (5, ["told"])


def test_a_folder_that_cannot_be_written_is_said_once_and_holds_no_crawl(job: Path, stub: Stub) -> None:
    stub("exit 0")
    (job / "action" / "done").write_text("in the way")
    (job / "action" / "a.urls").write_text("http://a.test/\n")
    first, *others = watch(job, lambda directory: not directory.has_files())
    assert first.startswith(f"{job}/action/a.urls is not taken until it changes: ")
    assert not [line for line in others if "a.urls" in line]
    assert (job / "action" / "a.urls").exists()


def test_a_file_in_the_place_of_the_folder(job: Path) -> None:
    (job / "action").rmdir()
    (job / "action").write_text("")
    said: list[str] = []

    async def main() -> None:
        directory = ActionDirectory(job, say=said.append, warn=said.append)
        async with directory.watched():
            while not said:
                await asyncio.sleep(0.01)
            assert not directory.has_files()

    asyncio.run(main())
    assert said[0].startswith("files for actions are not taken: ")


def test_a_name_as_long_as_names_may_be(job: Path, stub: Stub) -> None:
    stub("exit 3")
    name = f"{'ü' * 120}.urls"
    (job / "action" / name).write_text("http://a.test/\n")
    watch(job, lambda directory: not directory.has_files())
    assert len(os.listdir(job / "action" / "done")) == 2
    assert results(job)[name]["meaning"] == "disk full"
