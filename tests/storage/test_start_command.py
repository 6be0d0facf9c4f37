"""The command that starts a crawl again, by what its folder shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from budgetfrontier import Frontier
from budgetfrontier.rules.run_history import CRAWL, SERVE
from budgetfrontier.storage.start_command import note_crawl, note_server, start_command


@pytest.mark.parametrize(
    ("frontier", "asked", "command"),
    [
        ("job/frontier", "job", "budgetfrontier crawl CONFIG --job {job}"),
        ("queue", "queue", None),
        ("spider/frontier", "spider", "scrapy crawl news -s JOBDIR={job}"),
        ("spider/frontier", "spider/frontier", "scrapy crawl news -s JOBDIR={job}"),
        ("nothing here", "nobody", "budgetfrontier crawl CONFIG --job {job}"),
    ],
)
def test_the_command_follows_the_folder(tmp_path: Path, frontier: str, asked: str, command: str | None) -> None:
    Frontier.open(tmp_path / frontier).close()
    if frontier.startswith("spider"):
        (tmp_path / "spider" / "budgetfrontier.json").write_text('{"spider": "news", "command": ["crawl", "news"]}')
    job = str(tmp_path / asked)
    assert start_command(job) == (None if command is None else command.format(job=job))


def test_a_frontier_with_the_cache_of_a_crawl_is_that_of_a_job(tmp_path: Path) -> None:
    Frontier.open(tmp_path / "job" / "frontier").close()
    (tmp_path / "job" / "frontier" / "crawl").mkdir()
    command = start_command(str(tmp_path / "job" / "frontier"))
    assert command == f"budgetfrontier crawl CONFIG --job {tmp_path / 'job'}"


@pytest.mark.parametrize(
    ("noted", "command"),
    [
        (["crawl", "news"], "scrapy crawl news -s JOBDIR={job}"),
        (["runspider", "/spiders/my news.py"], "scrapy runspider '/spiders/my news.py' -s JOBDIR={job}"),
        (None, None),
    ],
)
def test_a_spider_goes_on_by_the_command_that_has_run_it(
    tmp_path: Path, noted: list[str] | None, command: str | None
) -> None:
    (tmp_path / "budgetfrontier.json").write_text(json.dumps({"spider": "news", "command": noted}))
    job = str(tmp_path)
    assert start_command(job) == (None if command is None else command.format(job=job))


def test_a_server_and_a_crawl_are_started_with_the_options_that_they_had(tmp_path: Path) -> None:
    job, config = tmp_path / "jobs" / "news", tmp_path / "crawl.yaml"
    Frontier.open(job / "frontier").close()
    assert start_command(str(job), SERVE) is None  # nobody has noted any
    note_server(job.parent, ["--listen", "127.0.0.1:9", "--token-file", "/etc/the token"])
    served = f"budgetfrontier serve {job.parent} --listen 127.0.0.1:9 --token-file '/etc/the token'"
    assert start_command(str(job), SERVE) == start_command(str(job / "frontier"), SERVE) == served
    config.touch()
    note_crawl(job, config, ["--metrics", "127.0.0.1:9464"])
    command = start_command(str(job))
    assert command is not None and command.startswith("budgetfrontier crawl ")
    assert command.endswith(f"crawl.yaml --job {job} --metrics 127.0.0.1:9464")


def test_a_users_own_program_is_not_started_as_a_crawl(tmp_path: Path) -> None:
    job, config = tmp_path / "job", tmp_path / "crawl.yaml"
    Frontier.open(job / "frontier").close()
    assert start_command(str(job), "spider.py") is None
    assert start_command(str(job), CRAWL) == start_command(str(job)) == f"budgetfrontier crawl CONFIG --job {job}"
    config.touch()
    note_crawl(job, config)  # the program has changed the frontier of a crawl
    assert start_command(str(job), "spider.py") == start_command(str(job), CRAWL) != start_command(str(tmp_path / "no"))
