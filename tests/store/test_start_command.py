"""The command that starts a crawl again, by what its folder shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier import Frontier
from budgetfrontier.store.start_command import start_command


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
        (tmp_path / "spider" / "budgetfrontier.json").write_text('{"spider": "news"}')
    job = str(tmp_path / asked)
    assert start_command(job) == (None if command is None else command.format(job=job))


def test_a_frontier_with_the_cache_of_a_crawl_is_that_of_a_job(tmp_path: Path) -> None:
    Frontier.open(tmp_path / "job" / "frontier").close()
    (tmp_path / "job" / "frontier" / "crawl").mkdir()
    command = start_command(str(tmp_path / "job" / "frontier"))
    assert command == f"budgetfrontier crawl CONFIG --job {tmp_path / 'job'}"
