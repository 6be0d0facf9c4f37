"""Lists that people write: one reader for seed files, `import` and SURT files, with one strictness."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from budgetfrontier import CrawlUri, Frontier
from budgetfrontier.core.model import Tally
from budgetfrontier.crawler.seeds import MOST_TOLD, bad_lines, left_out, refused_seeds, scheduled_seeds
from budgetfrontier.errors import SettingsError
from budgetfrontier.settings import Settings
from budgetfrontier.settings.surts import SurtPrefixes
from budgetfrontier.settings.url_lists import ListedUrl, objection, parse_line, seed_urls
from budgetfrontier.tools.cli import main
from budgetfrontier.tools.importers import lists
from budgetfrontier.tools.importers.allowance import Allowance
from budgetfrontier.tools.importers.import_items import BadRecord, Record, SourceNote

BAD = {
    "http://a.test/ http://b.test/": (16, "more than one entry on a line"),
    "http://a.test/\thttp://b.test/?x=1": (16, "more than one entry on a line"),
    "  http://a.test/ score=1": (18, '"score=1" follows a blank; metadata, NAME=VALUE, follows a tab'),
    "http://a.test/my page": (18, '"page" follows a blank; write a blank in a URL as %20'),
    "http://a.test/\tx=1\tscore": (20, '"score" follows a tab and is no metadata, NAME=VALUE'),
    "http://a.test/\tseed=http://b.test/": (16, 'metadata cannot be named "seed"'),
    "http://a.test/\trevisit=1": (16, 'metadata cannot be named "revisit"'),
    "http:/a.test/": (1, "two slashes and a host follow the scheme"),
    "https:a.test": (1, "two slashes and a host follow the scheme"),
    "http:\\\\a.test\\": (1, "two slashes and a host follow the scheme"),
    "http://a.test\\b": (1, 'it has a backslash; write "/"'),
    "http://a.test/\x01": (1, "it has a blank; write %20"),
    "http://a b.test/": (10, '"b.test/" follows a blank'),
}


@pytest.mark.parametrize("line", BAD)
def test_each_list_refuses_what_a_browser_forgives(line: str, tmp_path: Path) -> None:
    """In the same words, at the same place."""
    column, words = BAD[line]
    path = tmp_path / "list.txt"
    path.write_text(f"# a list\n{line}\nhttp://ok.test/\n")
    seeds = Settings.from_dict({"seeds": [{"file": str(path)}]}).seeds
    [told] = bad_lines(seeds)
    assert told.startswith(f"{path}:2:{column}: ") and words in told
    assert [uri.url for uri in scheduled_seeds(Settings(seeds=seeds))] == ["http://ok.test/"]
    assert [*seed_urls(seeds[0])] == ["http://ok.test/"]

    bad, good = lists.read(io.BytesIO(path.read_bytes()), "list.txt", unlimited())
    assert isinstance(bad, BadRecord) and words in bad.detail
    assert bad.location == f"list.txt:2:{column - len(line) + len(line.lstrip())}"
    assert isinstance(good, Record) and good.uri == CrawlUri("http://ok.test/")

    if "\t" not in line:  # of metadata, a file of SURT prefixes says that it has none
        with pytest.raises(SettingsError) as caught:
            SurtPrefixes.read(path)
        assert caught.value.problems[0].startswith(f"{path}:2:{column}: ")
        assert words in caught.value.problems[0]


def unlimited() -> Allowance:
    allowance = Allowance()
    allowance.grant(1 << 20)
    return allowance


def test_lines_that_are_left_out_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("http:/a.test/\n" * (MOST_TOLD + 2))
    *told, last = left_out(Settings.from_dict({"seeds": [{"file": str(path)}]}).seeds)
    assert len(told) == MOST_TOLD and last == "2 more lines of files of seeds are left out"


def test_seeds_that_are_refused_are_told_by_the_reason() -> None:
    tally = Tally(invalid=5, reasons={"scheme": 1, "host": 1, "queue": 2, "too-large": 1})
    assert [*refused_seeds(tally)] == [
        "2 seeds are not http or https URLs (1 host, 1 scheme)",
        "2 seeds were refused: a queue policy returned what is no text of 1 to 255 bytes",
        "1 seed was refused: with the metadata, more than 1048576 bytes",
    ]


@pytest.mark.parametrize(
    "url", ["http:/a.test/", "http:a.test", "http://a.test\\b", "http://a.test/ b", "http://a.test/\tx=1"]
)
def test_the_yaml_is_as_strict(url: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(f"seeds: [{url!r}]\n".replace("'", '"'))
    with pytest.raises(SettingsError, match="cannot be crawled: syntax"):
        Settings.from_yaml(tmp_path / "c.yaml")


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ("", None),
        ("  \t ", None),
        ("# http://a.test/", None),
        ("http://a.test/#top # the front page", ListedUrl("http://a.test/#top", 1, None)),
        ("  http://a.test/?q=a\\b  ", ListedUrl("http://a.test/?q=a\\b", 3, None)),
        ("http://a.test/\tnutch.score=10\t\tnutch.fetchInterval=86400",
         ListedUrl("http://a.test/", 1, {"nutch.score": "10", "nutch.fetchInterval": "86400"})),
        ("http://a.test/ \t title=My page = home ", ListedUrl("http://a.test/", 1, {"title": "My page = home"})),
        ("http://a.test/\ttag=a\ttag=b\ttag=c", ListedUrl("http://a.test/", 1, {"tag": ["a", "b", "c"]})),
        ("(org,example,", ListedUrl("(org,example,", 1, None)),
    ],
)  # fmt: skip
def test_lines_as_they_are_meant(line: str, entry: ListedUrl | None) -> None:
    assert parse_line(line) == entry


def test_a_host_without_scheme_is_answered_with_the_url() -> None:
    assert objection("example.org/a") == '"example.org/a" has no scheme; did you mean "https://example.org/a"?'
    assert objection("http://example.org/") is None


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_bytes(b"http://a.test/\xff\n")
    assert [*bad_lines(Settings.from_dict({"seeds": [{"file": str(path)}]}).seeds)] == [f"{path}:1:15: not UTF-8"]
    [bad] = lists.read(io.BytesIO(path.read_bytes()), "l", unlimited())
    assert bad == BadRecord("l:1:15", "encoding", "not UTF-8")


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_each_list_has_lines_that_end_in_cr_lf_or_both(end: str, tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_bytes(f"# a list{end}http://a.test/1{end}{end}http://a.test/2{end}".encode())
    seeds = Settings.from_dict({"seeds": [{"file": str(path)}]})
    file = io.BytesIO(path.read_bytes())
    urls = ["http://a.test/1", "http://a.test/2"]
    assert [uri.url for uri in scheduled_seeds(seeds)] == urls
    assert list(lists.read(file, "l", unlimited())) == [
        Record("l:2", CrawlUri(urls[0])),
        Record("l:4", CrawlUri(urls[1])),
    ]
    assert not file.closed


def test_metadata_is_stored_with_its_url_and_said_to_change_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, config = tmp_path / "list.txt", tmp_path / "c.yaml"
    path.write_text("http://a.test/\tnutch.score=10\nhttp://b.test/\n")
    record, _, note = lists.read(io.BytesIO(path.read_bytes()), "list.txt", unlimited())
    assert isinstance(record, Record) and record.uri.meta == {"nutch.score": "10"}
    told = "the metadata behind URLs (nutch.score) is stored with them, as their meta, and changes nothing in the crawl"
    assert note == SourceNote(f"list.txt: {told}")
    config.write_text("crawl: x\nseeds: [{file: list.txt}]\nfetch: {user_agent: a@b}\n")
    assert main(["check-config", str(config)]) == 0
    assert told in capsys.readouterr().err
    with Frontier.open(":memory:") as f:
        f.schedule_many(scheduled_seeds(Settings.from_yaml(config)))
        assert [lease.uri.meta for lease in f.lease(2)] == [{"nutch.score": "10"}, None]
