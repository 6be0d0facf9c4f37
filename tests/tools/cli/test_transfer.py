"""Commands that move URIs: import, export, dead-letters."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Directive, Frontier, Outcome
from budgetfrontier.engine.admission.admit import Admitter
from budgetfrontier.storage.reader import Reader
from budgetfrontier.tools.cli import submission
from budgetfrontier.tools.importers import lists
from tests.support import child_process, make_settings, until
from tests.tools.cli.conftest import Cli


def pending(job: Path, key: str) -> list[CrawlUri]:
    with Reader(job / "frontier") as reader:
        return [item.uri for item in reader.pending(key)]


# -- import


def test_import_of_a_list(job: Path, tmp_path: Path, cli: Cli) -> None:
    cli("pause", job)  # so that what is imported stays where it can be seen
    listed = tmp_path / "urls.txt"
    listed.write_bytes(
        b"\xef\xbb\xbfhttp://new.test/a\r\n\n# a comment\n  http://new.test/b  \nhttp://gone.test/\nftp://no.test/\n\xff\xfe\n"
    )
    answer = cli("import", job, listed)
    assert answer.code == 0
    assert answer.out == "added 2, duplicate 1, full 0, invalid 2 (encoding 1, scheme 1)\n"
    assert f"{listed}:7:1: not UTF-8" in answer.err
    assert [uri.url for uri in pending(job, "new.test")] == ["http://new.test/a", "http://new.test/b"]


def test_import_of_json_lines(job: Path, tmp_path: Path, cli: Cli) -> None:
    cli("pause", job)
    listed = tmp_path / "uris.jsonl"
    lines = [
        {"url": "http://new.test/1", "priority": 5, "meta": {"a": [1]}, "payload": "AAH/", "hops": "LL"},
        {"url": "http://new.test/2", "directive": "HIGHEST", "method": "POST", "body": "eA==", "headers": {"A": "b"}},
        {"url": "http://new.test/3", "queue": "elsewhere", "cost": 7},
        {"url": "http://new.test/4", "colour": "red"},
        {"url": 5},
        {"priority": 1},
        {"url": "http://gone.test/", "force": True},
    ]
    listed.write_text("\n".join(map(json.dumps, lines)) + "\n{not json\n")
    answer = cli("import", job, listed, "--format", "json")
    counts = {"added": 4, "duplicate": 0, "invalid": 4, "full": 0, "seen": 0, "dead": 0, "reasons": {"json": 4}}
    told = json.loads(answer.out)
    with Reader(job / "frontier") as reader:
        newest = max(reader.audit(), key=lambda entry: entry.id)
    assert told.pop("audit") == [newest.id] and newest.command == "schedule"
    assert told == counts
    assert f"{listed}:4: unknown field 'colour'" in answer.err
    assert f"{listed}:5: " in answer.err and f"{listed}:6: no url" in answer.err and f"{listed}:8: " in answer.err
    second, first = pending(job, "new.test")
    assert (first.priority, first.meta, first.payload, first.hops) == (5, {"a": [1]}, b"\0\1\xff", "LL")
    assert (second.directive, second.method, second.body) == (Directive.HIGHEST, "POST", b"x")
    assert second.headers == {"A": "b"}
    assert [uri.cost for uri in pending(job, "elsewhere")] == [7]
    assert [uri.url for uri in pending(job, "gone.test")] == ["http://gone.test/"]


def test_import_says_which_limit_leaves_no_room(tmp_path: Path, cli: Cli) -> None:
    with Frontier.open(tmp_path / "frontier", make_settings(max_queued=3, max_queue_size=2)):
        pass
    urls = [f"http://{host}.test/{n}" for host in "abc" for n in range(3)]
    answer = cli("import", tmp_path, *urls, "mailto:a")
    assert answer.out.splitlines()[-1] == "added 3, duplicate 0, full 6 (max_queue_size 1, max_queued 5), invalid 0"


def test_import_is_audited_with_who_and_why(job: Path, cli: Cli) -> None:
    told = cli("import", job, "http://new.test/", "http://new.test/", "--who", "bob", "--reason", "wanted")
    assert told.out == "added 1, duplicate 1, full 0, invalid 0\n"
    assert cli("import", job, "http://other.test/", "--seen", "--who", "eve").code == 0
    with Reader(job / "frontier") as reader:
        entries = reader.audit()[1:]
    assert [(e.command, e.args["uris"], e.effect["added"], e.who, e.reason) for e in entries] == [
        ("schedule", 2, 1, "bob", "wanted"),
        ("mark_seen", 1, 1, "eve", ""),
    ]


def test_one_import_has_one_entry_in_the_audit_whatever_its_size(
    job: Path, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "CHUNK", 2)
    cli("pause", job)
    with Reader(job / "frontier") as reader:
        before = len(reader.audit())
    listed, other = tmp_path / "some.txt", tmp_path / "others.txt"
    listed.write_text("".join(f"http://new.test/{n}\n" for n in range(9)))
    other.write_text("http://new.test/1\nmailto:a\nhttp://new.test/10\n")
    told = json.loads(cli("import", job, other, listed, "http://new.test/11", "--format", "json").out)
    assert (told["added"], told["duplicate"], told["invalid"], told["reasons"]) == (11, 1, 1, {"scheme": 1})
    with Reader(job / "frontier") as reader:
        (entry,) = reader.audit()[before:]
    assert (entry.id, entry.args, entry.effect["added"]) == (told["audit"][0], {"uris": 12}, 11)
    cli("import", job, "http://new.test/12")
    with Reader(job / "frontier") as reader:
        assert len(reader.audit()) == before + 2


def test_import_into_a_terminated_crawl_is_refused(job: Path, cli: Cli) -> None:
    cli("terminate", job)
    answer = cli("import", job, "http://new.test/")
    assert (answer.code, answer.out) == (1, "")
    assert "terminated" in answer.err and "crawl CONFIG --job DIR" in answer.err
    with Reader(job / "frontier") as reader:
        assert reader.queue("new.test") is None


def test_import_from_stdin_and_by_force(job: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("pause", job)
    for options, expected in (([], "added 0, duplicate 1"), (["--force"], "added 1, duplicate 0")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"http://gone.test/\n")))
        assert cli("import", job, "-", *options).out.startswith(expected)


def test_import_of_more_than_a_chunk(job: Path, tmp_path: Path, cli: Cli) -> None:
    cli("pause", job)
    listed = tmp_path / "many.txt"
    listed.write_text("".join(f"http://many.test/{n}\n" for n in range(2500)))
    assert cli("import", job, listed).out == "added 2,500, duplicate 0, full 0, invalid 0\n"
    urls = [uri.url for uri in pending(job, "many.test")]
    assert urls == [f"http://many.test/{n}" for n in range(2500)]


def test_import_of_large_uris(job: Path, tmp_path: Path, cli: Cli) -> None:
    listed = tmp_path / "large.jsonl"
    lines = [json.dumps({"url": f"http://large.test/{n}", "meta": "x" * 900_000}) for n in range(40)]
    listed.write_text("\n".join(lines))
    assert cli("import", job, listed).out == "added 40, duplicate 0, full 0, invalid 0\n"


def test_import_says_what_is_wrong_with_each_line(job: Path, tmp_path: Path, cli: Cli) -> None:
    listed = tmp_path / "urls.txt"
    listed.write_text("example.org\nmailto:a@b.c\nhttp://[/\nhttp://a.test:99999/\nhttp://new.test/\n")
    answer = cli("import", job, listed)
    assert answer.out == "added 1, duplicate 0, full 0, invalid 4 (host 1, port 1, scheme 2)\n"
    told = [line for line in answer.err.splitlines() if line.startswith(str(listed))]
    assert told[:2] == [
        f'{listed}:1:1: "example.org" has no scheme; did you mean "https://example.org"?',
        f'{listed}:2:1: "mailto:a@b.c" cannot be crawled: scheme: mailto',
    ]
    assert [line.removeprefix(f"{listed}:")[0] for line in told] == ["1", "2", "3", "4"]


def test_import_of_urls_and_files_together(job: Path, tmp_path: Path, cli: Cli) -> None:
    cli("pause", job)
    listed = tmp_path / "urls.txt"
    listed.write_text("http://new.test/b\n")
    answer = cli(
        "import", job, "http://new.test/a", listed, "HTTPS://new.test/c", "http://gone.test/", "http://\udcff[/"
    )
    assert answer.code == 0
    assert answer.out.startswith("added 3, duplicate 1, full 0, invalid 1 (")
    lines = answer.err.splitlines()
    assert lines[:3] == ["http://new.test/a: added", "HTTPS://new.test/c: added", "http://gone.test/: duplicate"]
    assert [uri.url for uri in pending(job, "new.test")] == [
        "http://new.test/a",
        "http://new.test/b",
        "https://new.test/c",
    ]


def test_import_of_seeds(job: Path, tmp_path: Path, cli: Cli) -> None:
    cli("pause", job)
    cli("import", job, "http://new.test/link")
    listed = tmp_path / "seeds.jsonl"
    lines = [
        {"url": "http://new.test/2", "meta": {"mine": 1}, "hops": "LL", "priority": 3},
        {"url": "http://new.test/3", "meta": [1]},
        {"url": "http://new.test/4", "directive": "HIGH"},
    ]
    listed.write_text("HTTP://new.test:80/1#top\nhttp://gone.test/\n" + "\n".join(map(json.dumps, lines)))
    answer = cli("import", job, listed, "--seeds")
    assert answer.out == "added 3, duplicate 1, full 0, invalid 1 (json 1)\n"
    assert f"{listed}:4: the meta of a seed is an object" in answer.err
    assert "duplicates were seen before: they are listed as seeds" in answer.err
    seeds = [(uri.url, uri.directive, uri.meta, uri.hops) for uri in pending(job, "new.test")]
    assert seeds == [
        ("http://new.test/4", Directive.HIGH, {"seed": "http://new.test/4"}, ""),
        ("http://new.test/2", Directive.MEDIUM, {"mine": 1, "seed": "http://new.test/2"}, ""),
        ("http://new.test/1", Directive.MEDIUM, {"seed": "http://new.test/1"}, ""),
        ("http://new.test/link", Directive.NORMAL, None, ""),
    ]
    answer = cli("import", job, "http://gone.test/", "--seeds", "--force")
    assert answer.err.startswith("http://gone.test/: added\n") and "duplicates" not in answer.err
    assert [uri.meta for uri in pending(job, "gone.test")] == [{"seed": "http://gone.test/"}]


def test_import_into_a_crawl_that_nobody_runs_tells_how_to_go_on(stopped: Path, cli: Cli) -> None:
    answer = cli("import", stopped, "http://new.test/")
    assert answer.err.splitlines()[1] == (
        f"no process runs this crawl; to go on: budgetfrontier crawl CONFIG --job {stopped}"
    )
    assert cli("import", stopped, "http://new.test/").err == "http://new.test/: duplicate\n"


def test_import_into_a_running_crawl_tells_no_more(running: Path, cli: Cli) -> None:
    assert cli("import", running, "http://new.test/").err == "http://new.test/: added\n"


def test_import_says_that_it_takes_no_other_scheme(stopped: Path, cli: Cli) -> None:
    answer = cli("import", stopped, "ftp://new.test/a")
    assert (answer.code, answer.out) == (2, "")
    expected = "give http or https URLs, files and folders with URLs, or redis://HOST"
    assert answer.err.endswith(f"budgetfrontier import: error: ftp://new.test/a: {expected}\n")


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_was_imported_before_an_error_is_counted(job: Path, tmp_path: Path, cli: Cli, form: str) -> None:
    good = tmp_path / "good.txt"
    good.write_text("http://new.test/1\nhttp://new.test/2\n")
    answer = cli("import", job, good, "missing.txt", "--format", form)
    assert answer.code == 1 and "missing.txt" in answer.err
    added = json.loads(answer.out)["added"] if form == "json" else int(answer.out.split()[1].rstrip(","))
    assert added == 2


@pytest.mark.parametrize(("operations", "stored"), [(1, 2), (100_000, 0)])
def test_an_interrupted_import_counts_what_is_in_the_frontier(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, operations: int, stored: int
) -> None:
    settings = make_settings(commit_operations=operations)
    Frontier.open(tmp_path / "job" / "frontier", settings).close()
    (tmp_path / "urls.txt").write_text("".join(f"http://new.test/{n}\n" for n in range(9)))
    monkeypatch.setattr(submission, "CHUNK", 2)
    monkeypatch.setattr(submission, "COMMIT_EVERY", 3600.0)
    taken: list[int] = []
    take = Admitter.take

    def interrupted(admitter: Admitter, batch: list[Any], *more: Any) -> None:
        taken.append(len(batch))
        if len(taken) == 2:
            raise KeyboardInterrupt
        take(admitter, batch, *more)

    monkeypatch.setattr(Admitter, "take", interrupted)
    answer = cli("import", tmp_path / "job", tmp_path / "urls.txt")
    assert (answer.code, answer.out) == (130, f"added {stored}, duplicate 0, full 0, invalid 0\n")
    assert answer.err.startswith(f"not counted: {4 - stored} URIs sent last, which may have been added")
    assert len(pending(tmp_path / "job", "new.test")) == stored


def test_import_of_a_file_that_is_not_there(job: Path, cli: Cli) -> None:
    answer = cli("import", job, "/no/such/file")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == "budgetfrontier: /no/such/file: No such file or directory\n"


# -- import of what other crawlers keep


def test_import_of_a_frontier_of_kumo(job: Path, tmp_path: Path, cli: Cli) -> None:
    cli("pause", job)
    folder = tmp_path / "kumo"
    folder.mkdir()

    def request(url: str, **fields: object) -> dict[str, object]:
        return {"request": {"url": url, "priority": 2} | fields, "depth": 1, "retry_count": 1}

    queue = [request("http://new.test/1"), request("http://new.test/1", dont_filter=True), {"request": 5}]
    (folder / "queue.json").write_text(json.dumps(queue))
    (folder / "leases.json").write_text(json.dumps([{"id": "x", "request": request("http://new.test/0")}]))
    (folder / "seen.json").write_text(json.dumps([f"http://new.test/{n}" for n in (0, 1, 7)] + ["ftp://x.test/"]))
    answer = cli("import", job, folder)
    assert answer.code == 0
    assert answer.out == "added 3, duplicate 0, full 0, invalid 2 (request 1, scheme 1), marked as seen 1\n"
    assert f"{folder}/queue.json: element 3: " in answer.err
    assert f"{folder}: left out, because a frontier cannot store it: retry_count (3)" in answer.err
    assert [(uri.url, uri.priority, uri.hops) for uri in pending(job, "new.test")] == [
        ("http://new.test/0", 2, "L"),
        ("http://new.test/1", 2, "L"),
        ("http://new.test/1", 2, "L"),
    ]
    assert cli("import", job, "http://new.test/7").out.startswith("added 0, duplicate 1")


def test_import_of_a_journal_of_heritrix_charges_what_was_fetched(job: Path, tmp_path: Path, cli: Cli) -> None:
    cli("pause", job)
    journal = tmp_path / "frontier.recover.gz"
    lines = [f"F+ http://old.test/{n} L http://old.test/" for n in range(9)]
    lines += [f"Fs http://old.test/{n} L http://old.test/" for n in range(5)] + [
        "F+ http://old.test/x L http://old.test/"
    ]
    journal.write_bytes(gzip.compress("\n".join(lines).encode()))
    assert cli("import", job, journal).out == "added 5, duplicate 5, full 0, invalid 0, marked as seen 5\n"
    assert [uri.url[-1] for uri in pending(job, "old.test")] == ["5", "6", "7", "8", "x"]
    with Reader(job / "frontier") as reader:
        queue = reader.queue("old.test")
        assert queue is not None and (queue.expenditure, queue.queued) == (5, 5)
    assert cli("import", job, journal).out == "added 0, duplicate 10, full 0, invalid 0\n"
    with Reader(job / "frontier") as reader:
        queue = reader.queue("old.test")
        assert queue is not None and queue.expenditure == 5
        reader.check()


def test_no_line_of_a_journal_is_dropped_without_a_word(job: Path, tmp_path: Path, cli: Cli) -> None:
    """Lines with hops that are no path are listed, by what is wrong with them, whatever they end with."""
    cli("pause", job)
    journal = tmp_path / "frontier.recover"
    deep = "12+" + 50 * "L"  # as Heritrix shortens it
    lines = [
        "F+ http://old.test/1 lL http://b/",
        "F+ http://old.test/2 xP",
        "Fs http://old.test/3 l!",
        "Fs http://b/ zP",
    ]
    lines += [f"F+ http://old.test/4 {deep} http://b/", "F+ http://old.test/robots.txt LP http://b/", "F+ dns:b P"]
    journal.write_text("\n".join(lines))
    answer = cli("import", job, journal)
    assert answer.out == "added 1, duplicate 0, full 0, invalid 4 (hops 4)\n"
    assert [uri.hops for uri in pending(job, "old.test")] == [deep]
    assert {line.split(": ")[0] for line in answer.err.splitlines()} >= {f"{journal}:{n}" for n in range(1, 5)}
    assert "2 URIs of DNS look-ups and prerequisites left out" in answer.err
    listed = tmp_path / "uris.jsonl"
    listed.write_text('{"url": "http://b/", "method": "A B"}\n{"url": "http://b/", "hops": "?"}\n')
    assert cli("import", job, listed).out == "added 0, duplicate 0, full 0, invalid 2 (hops 1, request 1)\n"


def test_import_of_a_jobdir_of_scrapy(job: Path, tmp_path: Path, cli: Cli) -> None:
    cli("pause", job)
    with tarfile.open(Path(__file__).parents[2] / "data" / "peers.tar.xz") as samples:
        samples.extractall(tmp_path, filter="data")
    folder = tmp_path / "peers" / "scrapy" / "2.19.0" / "PickleLifoDiskQueue"
    answer = cli("import", job, folder)
    assert answer.out == "added 5, duplicate 0, full 0, invalid 0\n"
    assert "4 fingerprints of Scrapy's own cannot be turned into URLs" in answer.err
    assert f"{folder}: left out, because a frontier cannot store it: a part of meta (1), its class (1)\n" in answer.err
    assert [uri.url for uri in pending(job, "a.test")] == [f"http://a.test/{n}" for n in (2, 1, 3)]
    assert [uri.method for uri in pending(job, "b.test")] == ["POST", "GET"]


def test_what_was_fetched_elsewhere_is_marked_as_seen(job: Path, tmp_path: Path, cli: Cli) -> None:
    cli("pause", job)
    listed = tmp_path / "fetched.txt"
    listed.write_text("http://new.test/1 # a page\nhttp://new.test/2\nhttp://gone.test/\nnew.test\n")
    answer = cli("import", job, "--seen", listed, "http://new.test/3")
    assert answer.out == "added 0, duplicate 0, full 0, invalid 1 (scheme 1), marked as seen 3\n"
    assert answer.err.splitlines()[-1] == "http://new.test/3: seen"
    assert pending(job, "new.test") == []
    assert cli("import", job, listed).out.startswith("added 0, duplicate 3")
    assert cli("import", job, "--seen", "--force", listed).code == 2
    assert "was imported as seen" in cli("explain", job, "http://new.test/1").out


def test_bad_records_without_end_are_told_a_few_times_and_counted(stopped: Path, tmp_path: Path, cli: Cli) -> None:
    listed = tmp_path / "urls.txt"
    large = [
        '{"url": "http://a.test/", "meta": [18446744073709551616]}',
        f'{{"url": "http://a.test/", "cost": {1 << 70}}}',
    ]
    listed.write_text("\n".join(["mailto:a@b.c"] * 1000 + ["{", *large]))
    answer = cli("import", stopped, listed)
    assert answer.out == "added 0, duplicate 0, full 0, invalid 1,003 (json 3, scheme 1,000)\n"
    assert answer.code == 1
    assert len(answer.err.splitlines()) == 25
    assert answer.err.endswith(f"{listed}: no URI in it could be imported\n")
    assert f"{listed}: scheme: 980 more of these" in answer.err


def test_the_kind_of_a_source_can_be_named(stopped: Path, tmp_path: Path, cli: Cli) -> None:
    listed = tmp_path / "urls"
    listed.write_text("F+ http://new.test/ \n")
    assert cli("import", stopped, listed, "--from", "list").out.startswith("added 0")
    assert cli("import", stopped, listed, "--from", "heritrix").out.startswith("added 1")
    answer = cli("import", stopped, tmp_path)
    assert answer.code == 1
    assert answer.err.startswith(f"budgetfrontier: {tmp_path} is a folder, but neither a JOBDIR of Scrapy")
    assert cli("import", stopped, tmp_path, "--from", "frontera").code == 2


# -- export


def test_export_of_a_list(job: Path, tmp_path: Path, cli: Cli) -> None:
    answer = cli("export", job, "-")
    assert answer.out.splitlines() == [
        "http://snoozed.test/1",
        "http://snoozed.test/2",
        "http://named.test/0",
        "http://named.test/1",
        "http://capped.test/1",
        "http://capped.test/2",
        "http://capped.test/3",
        "http://later.test/",
    ]
    assert answer.err == (
        "8 URIs exported\nleft out, as this format has no place for it: not_before (1); --format jsonl has\n"
        "1 dead letter is not among them; `budgetfrontier dead-letters` lists it and puts it back\n"
    )
    assert len(cli("export", job, "-", "--state", "retired").out.splitlines()) == 5
    assert len(cli("export", job, "-", "--match", "snoozed.*").out.splitlines()) == 2


def test_exports_to_one_file_at_the_same_time_do_not_mix(
    stopped: Path, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, each_pending = tmp_path / "pending.txt", Reader.each_pending
    others = iter(["snoozed.*"])

    def meanwhile(*given: Any, **options: Any) -> Iterator[Any]:
        for item in each_pending(*given, **options):
            yield item
            for other in others:
                assert cli("export", stopped, file, "--match", other).code == 0
                assert len(file.read_text().splitlines()) == 2

    monkeypatch.setattr(Reader, "each_pending", meanwhile)
    assert cli("export", stopped, file).code == 0
    assert len(file.read_text().splitlines()) == 8  # the one that ended last, whole
    assert list(others) == [] == list(tmp_path.glob("*.partial"))


def test_an_export_removes_what_killed_ones_have_left(stopped: Path, tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "pending.txt"
    begin = (
        "import os, signal, sys\nfrom budgetfrontier.tools.cli import main\n"
        "from budgetfrontier.storage.reader import Reader\n"
        "Reader.each_pending = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)\n"
        "main(['export', *sys.argv[1:]])"
    )
    killed = subprocess.run([sys.executable, "-c", begin, str(stopped), str(file)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(list(tmp_path.glob("pending.txt.*.partial"))) == 1
    mine = tmp_path / "pending.txt.old.partial"  # of this name no export makes a file
    mine.touch()
    assert cli("export", stopped, file).code == 0
    assert list(tmp_path.glob("*.partial")) == [mine]


def test_what_was_exported_can_be_imported(stopped: Path, tmp_path: Path, cli: Cli) -> None:
    given = [
        CrawlUri("http://x.test/1", via="http://x.test/", hops="L", priority=3, meta={"a": 1}, payload=b"\0\xff"),
        CrawlUri("http://x.test/2", method="POST", body=b"x=1", headers={"A": "b"}, directive=Directive.HIGH),
        CrawlUri("http://x.test/3", queue="x", source="seed"),
    ]
    with Frontier.open(stopped / "frontier") as frontier:
        frontier.schedule_many(given)
    listed = tmp_path / "pending.jsonl"
    assert cli("export", stopped, listed, "--match", "x*").code == 0
    assert list(tmp_path.glob("*.partial")) == []
    other = tmp_path / "other"
    Frontier.open(other / "frontier").close()
    assert cli("import", other, listed).out.startswith("added 3,")
    for key in ("x.test", "x"):
        assert pending(other, key) == pending(stopped, key)


@pytest.mark.parametrize("name", ["frontier.recover.gz", "all.jsonl.gz", "urls.gz", "urls.txt"])
def test_exports_are_read_back_whatever_their_format(job: Path, tmp_path: Path, cli: Cli, name: str) -> None:
    cli("pause", job)
    cli("import", job, "http://new.test/1")
    target = tmp_path / name
    assert cli("export", job, target).err.startswith("9 URIs exported\n")
    assert target.read_bytes().startswith(b"\x1f\x8b") is name.endswith(".gz")
    other = tmp_path / "other"
    Frontier.open(other / "frontier").close()
    assert cli("import", other, target).out.startswith("added 9,")
    assert sorted(cli("export", other, "-").out.splitlines()) == sorted(cli("export", job, "-").out.splitlines())


def test_an_export_for_heritrix(stopped: Path, tmp_path: Path, cli: Cli) -> None:
    with Frontier.open(stopped / "frontier") as frontier:
        frontier.schedule(CrawlUri("http://x.test/1", via="http://x.test/", hops="LE"))
    out = cli("export", stopped, "-", "--format", "heritrix", "--match", "x.test").out
    assert out == "F+ http://x.test/1 LE http://x.test/\n"


def test_an_export_that_fails_leaves_the_old_file(stopped: Path, tmp_path: Path, cli: Cli) -> None:
    target = tmp_path / "old.txt"
    target.write_text("old")
    assert cli("export", stopped, target, "--match", "regex:(", "--force").code == 4
    assert target.read_text() == "old"
    assert cli("export", stopped, tmp_path / "no" / "folder.txt").code == 1


def test_an_export_replaces_no_file_unless_told_to(stopped: Path, tmp_path: Path, cli: Cli) -> None:
    target = tmp_path / "old.txt"
    target.write_text("old")
    answer = cli("export", stopped, target)
    assert (answer.code, answer.err) == (1, f"budgetfrontier: {target} is there already; --force replaces it\n")
    assert target.read_text() == "old"
    assert cli("export", stopped, target, "--force").code == 0
    assert len(target.read_text().splitlines()) == 8


def test_an_export_goes_into_what_is_no_file(stopped: Path, tmp_path: Path, cli: Cli) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with child_process(["cat", str(pipe)], stdout=subprocess.PIPE) as reading:
        assert cli("export", stopped, pipe, "--force").code == 0
        assert reading.stdout is not None and len(reading.stdout.read().splitlines()) == 8
    assert pipe.is_fifo() and list(tmp_path.glob("*.partial")) == []


@pytest.mark.parametrize("name", ["full.txt", "full.txt.gz"])
def test_an_export_to_a_full_disk_names_its_file(stopped: Path, tmp_path: Path, cli: Cli, name: str) -> None:
    target = tmp_path / name
    target.symlink_to("/dev/full")
    answer = cli("export", stopped, target)
    assert answer.code == 3 and answer.err.startswith(f"budgetfrontier: {target}: No space left on device; free")


def test_an_export_says_what_its_format_leaves_out(stopped: Path, tmp_path: Path, cli: Cli) -> None:
    with Frontier.open(stopped / "frontier") as frontier:
        frontier.schedule(CrawlUri("http://x.test/1", method="POST", via="http://x.test/", hops="L", force=True))
    told = cli("export", stopped, "-", "--match", "x.test").err
    assert "no place for it: force (1), hops (1), method (1), via (1); --format jsonl has\n" in told
    told = cli("export", stopped, "-", "--match", "x.test", "--format", "heritrix").err
    assert "no place for it: force (1), method (1); --format jsonl has\n" in told
    assert "left out" not in cli("export", stopped, "-", "--match", "x.test", "--format", "jsonl").err


def test_what_no_json_can_say_goes_into_a_running_frontier_too(job: Path, tmp_path: Path, cli: Cli) -> None:
    cli("pause", job)
    uri = CrawlUri("http://new.test/", meta={1: b"\0", "n": float("inf")}, cost=0)
    listed = tmp_path / "one.jsonl"
    listed.write_text(lists.to_json(uri))
    assert cli("import", job, listed).out.startswith("added 1,")
    assert pending(job, "new.test") == [uri]


# -- import of nothing, and of a part


def test_an_import_without_urls_is_an_error(stopped: Path, tmp_path: Path, cli: Cli) -> None:
    listed, good = tmp_path / "empty.txt", tmp_path / "good.txt"
    listed.write_text("# nothing yet\n")
    good.write_text("http://new.test/\n")
    answer = cli("import", stopped, listed)
    assert (answer.code, answer.out) == (1, "added 0, duplicate 0, full 0, invalid 0\n")
    assert answer.err == f"{listed}: no URI in it could be imported\n"
    answer = cli("import", stopped, listed, good)
    assert answer.code == 1 and answer.out.startswith("added 1,")
    assert cli("import", stopped, good).code == 0  # a duplicate is one
    assert cli("import", stopped, "http://[/").code == 1


def test_an_import_of_a_part_is_an_error(stopped: Path, tmp_path: Path, cli: Cli) -> None:
    listed = tmp_path / "torn.gz"
    listed.write_bytes(gzip.compress(b"http://new.test/1\nhttp://new.test/2\n")[:-4])
    answer = cli("import", stopped, listed)
    assert answer.code == 1 and answer.out == "added 2, duplicate 0, full 0, invalid 1 (torn 1)\n"
    assert answer.err.splitlines()[:2] == [
        f"{listed}: breaks off after line 2 (Compressed file ended before the end-of-stream marker was reached); "
        "what is before was read",
        f"{listed}: only a part of it could be read; that part was imported",
    ]


def test_an_import_from_a_pipe(stopped: Path, tmp_path: Path, cli: Cli) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with child_process(["sh", "-c", f"seq -f http://new.test/%g 2000 > '{pipe}'"]):
        assert cli("import", stopped, pipe).out.startswith("added 2,000,")


def test_what_is_too_large_for_a_frontier_is_told(job: Path, tmp_path: Path, cli: Cli) -> None:
    listed = tmp_path / "large.jsonl"
    listed.write_text(json.dumps({"url": "http://new.test/", "source": "x" * (1 << 20)}) + "\nhttp://new.test/2\n")
    answer = cli("import", job, listed)
    assert (answer.code, answer.out) == (0, "added 1, duplicate 0, full 0, invalid 1 (too-large 1)\n")
    assert f"{listed}:1: 1,048," in answer.err and "at most" in answer.err


# -- dead letters


def test_dead_letters_are_listed(job: Path, cli: Cli) -> None:
    (letter,) = json.loads(cli("dead-letters", job, "--format", "json").out)
    assert (letter["queue"], letter["url"], letter["reason"]) == ("dead.test", "http://dead.test/", "poison")
    (line,) = csv.DictReader(io.StringIO(cli("dead-letters", job, "--format", "csv").out))
    assert line["url"] == "http://dead.test/"
    assert "poison" in cli("dead-letters", job).out
    assert json.loads(cli("dead-letters", job, "--match", "gone.test", "--format", "json").out) == []


@pytest.mark.parametrize("which", ["all", "id"])
def test_dead_letters_are_replayed(job: Path, cli: Cli, which: str) -> None:
    cli("pause", job)
    (letter,) = json.loads(cli("dead-letters", job, "--format", "json").out)
    assert cli("dead-letters", job, "--replay", "all" if which == "all" else letter["id"]).out == "replayed 1\n"
    assert json.loads(cli("dead-letters", job, "--format", "json").out) == []
    assert [uri.url for uri in pending(job, "dead.test")] == ["http://dead.test/"]


def test_dead_letters_are_dropped(job: Path, cli: Cli) -> None:
    assert cli("dead-letters", job, "--drop", 999_999).code == 1
    assert cli("dead-letters", job, "--drop", "all").out == "dropped 1\n"
    assert json.loads(cli("dead-letters", job, "--format", "json").out) == []
    assert pending(job, "dead.test") == []


@pytest.mark.parametrize("action", ["--drop", "--replay"])
@pytest.mark.parametrize("options", [["--limit", 1], ["--offset", 1], ["--reverse"], ["--sort", "url"], [7]])
def test_what_selects_rows_of_the_listing_never_changes_all_letters(
    stopped: Path, cli: Cli, action: str, options: list[object]
) -> None:
    before = cli("dead-letters", stopped).out
    answer = cli("dead-letters", stopped, action, "all", *options)
    assert answer.code == 2 and not answer.out and "ids" in answer.err
    assert cli("dead-letters", stopped).out == before


@pytest.mark.parametrize("options", [[], ["--match", ""], ["--why", ""], ["--dry-run"]])
def test_letters_are_chosen_by_something(stopped: Path, cli: Cli, options: list[str]) -> None:
    answer = cli("dead-letters", stopped, "--drop", *options)
    assert answer.code == 2 and "give ids, `all`, or --match or --why" in answer.err
    assert cli("dead-letters", stopped, "--dry-run").code == 2
    assert cli("dead-letters", stopped, "--drop", "1", "--why", "x").code == 2


def test_letters_are_chosen_by_pattern_and_reason(job: Path, cli: Cli) -> None:
    would = cli("dead-letters", job, "--replay", "--why", "poi*", "--match", "*.test", "--dry-run")
    assert would.code == 0 and would.err == "dry run: nothing was changed\n"
    assert would.out == "would replay 1 dead letter of 1 queue\nhttp://dead.test/\n"
    assert cli("dead-letters", job, "--drop", "--why", "timeout*").out == "dropped 0\n"
    assert cli("dead-letters", job, "--drop", "all", "--match", "host:nothing.test").out == "dropped 0\n"
    assert "no dead letter matches timeout*" in cli("dead-letters", job, "--why", "timeout*").err
    assert "http://dead.test/" in cli("dead-letters", job, "--why", "poison").out
    dropped = cli("dead-letters", job, "--drop", "--match", "regex:^http://dead")
    assert dropped.out == "dropped 1\n" and "to take it back" in dropped.err


def test_an_id_is_a_number(stopped: Path, cli: Cli) -> None:
    answer = cli("dead-letters", stopped, "--replay", "everything")
    assert answer.code == 2 and "expected the id of a dead letter" in " ".join(answer.err.split())


def test_the_export_of_a_running_job_sees_what_it_has_committed(running: Path, cli: Cli) -> None:
    cli("retire", running, "snoozed.test")
    until(lambda: "snoozed" in cli("export", running, "-", "--state", "retired").out)
    assert "http://snoozed.test/1\n" in cli("export", running, "-", "--state", "retired").out


def test_dead_letters_are_counted_by_reason(stopped: Path, cli: Cli) -> None:
    with Frontier.open(stopped / "frontier") as frontier:
        frontier.schedule_many(f"http://h{n}.test/" for n in range(5))
        for n, lease in enumerate(frontier.lease(5)):
            frontier.finish(lease, Outcome.DEAD, reason="timeout" if n else "poison")
    rows = json.loads(cli("dead-letters", stopped, "--by-reason", "--format", "json").out)
    assert [(row["reason"], row["letters"], row["queues"]) for row in rows] == [("timeout", 4, 4), ("poison", 2, 2)]
    assert rows[1]["url"] == "http://dead.test/"
    some = cli("dead-letters", stopped, "--by-reason", "--match", "h?.test", "--limit", 1, "--format", "csv").out
    assert some.splitlines() == ["reason,letters,queues,url", "timeout,4,4,http://h1.test/"]
    assert cli("dead-letters", stopped, "--by-reason", "--replay", "all").code == 2
