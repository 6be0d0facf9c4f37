"""Precedences of URIs from files: which values count, when a file is read, and what survives a kill in between."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Frontier, Outcome, Reader, Settings
from budgetfrontier.engine import preloaded_table
from budgetfrontier.errors import CorruptFrontier, FrontierError, SettingsError
from budgetfrontier.settings import precedence_lists
from budgetfrontier.storage import keys, meta, verify
from budgetfrontier.storage.backup import compact
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.repair.repair_steps import repair
from tests.storage.repair.damaging import damaging
from tests.support import logged

NO_WAIT = {"delay_factor": 0, "min_delay": 0, "max_delay": 0}


def settings(file: Path, *, overrides: Any = (), **policy: Any) -> Settings:
    preloaded = {"preloaded": {"file": str(file), **policy}}
    frontier = {"politeness": NO_WAIT, "uri_precedence_policy": preloaded}
    return Settings.from_dict({"frontier": frontier, "overrides": list(overrides)})


def write(path: Path, text: str, *, seconds: int = 1) -> Path:
    path.write_text(text)
    os.utime(path, (seconds, seconds))
    return path


def precedences(frontier: Frontier) -> dict[str, int | None]:
    found = {}
    while leases := frontier.lease(1):
        found[leases[0].uri.url.rpartition("/")[2]] = leases[0].uri.precedence
        frontier.finish(leases[0], Outcome.SUCCESS)
    return found


def scheduled(frontier: Frontier, *paths: str, host: str = "https://a.test") -> dict[str, int | None]:
    frontier.schedule_many(CrawlUri(f"{host}/{path}", hops="LL", cost=9) for path in paths)
    return precedences(frontier)


def rows(path: Path) -> list[tuple[str, int, bool]]:
    with Reader(path) as reader, reader.view() as view:
        found = meta.read_preloaded(view.txn, view.db[keys.META])
    return [(Path(row.path).name, row.uris, row.whole) for row in found]


@pytest.mark.parametrize("packed", [False, True])
def test_base_and_the_value_of_the_canonical_uri_or_else_the_default_policy(tmp_path: Path, packed: bool) -> None:
    text = (
        "\ufeffhttps://a.test/low 1\nHTTPS://A.test:443/x/../high#top\t126 and more\n# a comment\n\na.test/plain -9\r\n"
        "https://a.test/low 4\nhttps://a.test/far 99999999999999999999999\nhttps://a.test/?b=%7e +6\n"
    )
    file = tmp_path / "list.txt"
    file.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    with Frontier.open(tmp_path / "f", settings(file, base=3, default="hops")) as f:
        f.schedule_many(
            CrawlUri(f"https://a.test/{path}", hops="LL") for path in ("low", "high", "none", "?b=~", "far")
        )
        f.schedule(CrawlUri("https://a.test/given", precedence=77))
        f.schedule(CrawlUri("http://a.test/plain"))
        found = precedences(f)
        f.check()
    assert found == {"low": 7, "high": 127, "none": 3, "?b=~": 9, "far": 127, "given": 77, "plain": 0}
    assert list(found) == ["plain", "none", "low", "?b=~", "given", "high", "far"]
    assert rows(tmp_path / "f") == [("list.txt", 5, True)]


@pytest.mark.parametrize(
    ("default", "precedence"),
    [("base", 1), ("cost", None), ({"base": {"base": 8}}, 8), ({"hops": {"base": 0, "navlinks_only": False}}, 2)],
)
def test_the_default_policy(tmp_path: Path, default: Any, precedence: int | None) -> None:
    file = write(tmp_path / "list.txt", "https://a.test/1 0\n")
    with Frontier.open(":memory:", settings(file, default=default)) as f:
        assert scheduled(f, "1", "2") == {"1": 1, "2": precedence}


def test_with_force_noop_methods_and_discovered_links_the_url_alone_counts(tmp_path: Path) -> None:
    file = write(tmp_path / "list.txt", "https://a.test/a 4\nhttps://a.test/b 5\n")
    given = settings(file).to_dict()
    given["frontier"]["duplicates"] = "noop"
    with Frontier.open(":memory:", Settings.from_dict(given)) as f:
        f.schedule("https://a.test/")
        f.finish(f.lease(1)[0], Outcome.SUCCESS, discovered=["https://a.test/a", "https://a.test/c"])
        f.schedule(CrawlUri("https://a.test/b", method="POST", body=b"x", force=True))
        assert precedences(f) == {"c": 1, "a": 5, "b": 6}


def test_overrides_and_adjustments_have_files_of_their_own(tmp_path: Path) -> None:
    first = write(tmp_path / "first.txt", "https://a.test/1 1\nhttps://b.test/1 1\n")
    second = write(tmp_path / "second.txt", "https://a.test/1 40\nhttps://b.test/1 40\n")
    override = {"match": "queue:b.test", "set": {"uri_precedence_policy": {"preloaded": {"file": str(second)}}}}
    with Frontier.open(tmp_path / "f", settings(first, overrides=[override])) as f:
        assert scheduled(f, "1") | {"b": scheduled(f, "1", host="https://b.test")} == {"1": 2, "b": {"1": 41}}
        for dry_run in True, False:
            with pytest.raises(FrontierError, match=r"third.txt was not read; there is .*first.txt, .*second.txt"):
                f.adjust(
                    match="*",
                    uri_precedence_policy={"preloaded": {"file": str(tmp_path / "third.txt")}},
                    dry_run=dry_run,
                )
        f.adjust(match="*", uri_precedence_policy={"preloaded": {"file": str(second), "base": 0}})
        f.schedule(CrawlUri("https://a.test/1", force=True))
        assert precedences(f) == {"1": 40}
        f.check()
    assert rows(tmp_path / "f") == [("first.txt", 2, True), ("second.txt", 2, True)]
    with Frontier.open(tmp_path / "f", Settings.from_dict({"frontier": {"politeness": NO_WAIT}})) as f:
        f.check()
    assert rows(tmp_path / "f") == [("second.txt", 2, True)], "the adjustment names it"


def test_a_file_is_read_once_and_again_when_it_has_changed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "list.txt", "https://a.test/1 10\nhttps://a.test/2 10\nhttps://a.test/3 10\n")
    with Frontier.open(tmp_path / "f", settings(file)) as f:
        f.schedule("https://a.test/1")
        assert [entry.reason for entry in f.audit()] == []
    read: list[Path] = []

    def noted(path: Path, read_: Any = precedence_lists.read) -> Any:
        read.append(path)
        return read_(path)

    monkeypatch.setattr(precedence_lists, "read", noted)
    with Frontier.open(tmp_path / "f") as f:
        assert read == []
    write(file, "https://a.test/2 20\nhttps://a.test/3 20\n", seconds=2)
    with Frontier.open(tmp_path / "f") as f:
        assert len(read) == 2, "it is looked through before it is stored"
        assert [(entry.command, entry.reason) for entry in f.audit()] == [
            ("settings", f"{file} was read again, 2 lines; URIs already queued keep their precedences")
        ]
        assert scheduled(f, "2", "3") == {"1": 11, "2": 21, "3": 21}
        f.check()
    file.unlink()
    with Frontier.open(tmp_path / "f") as f:  # such as a backup that was restored elsewhere
        f.schedule(CrawlUri("https://a.test/2", force=True))
        assert precedences(f) == {"2": 21}
    assert logged(caplog, preloaded_table.__name__) == [
        f"{file} is missing: the precedences that were read from it stay in force"
    ]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"https://a.test/", "expected a URI, a blank and its precedence, such as https://a.test/ 3; it has none"),
        (b"https://a.test/ high", '"high" is no whole number'),
        (b"https://a.test/ 1.5", '"1.5" is no whole number'),
        (b"ftp://a.test/ 1", '"ftp://a.test/" cannot be crawled'),
        (b"https://\xff.test/ 1", "not UTF-8"),
        (b"https://a.test/" + b"x" * 70_000 + b" 1", "the line has more than 65,536 bytes"),
    ],
)
def test_a_bad_line_is_named_and_nothing_changes(tmp_path: Path, line: bytes, why: str) -> None:
    file = tmp_path / "list.txt"
    file.write_bytes(b"https://a.test/1 7\n\n" + line + b"\n")
    with pytest.raises(SettingsError) as caught:
        Frontier.open(tmp_path / "new", settings(file))
    assert str(caught.value).startswith(f"{file}:3: ") and why in str(caught.value)
    assert not (tmp_path / "new" / "data.mdb").exists()
    good = write(tmp_path / "good.txt", "https://a.test/1 7\n")
    with Frontier.open(tmp_path / "f", settings(good)) as f:
        f.schedule("https://a.test/1")
    with pytest.raises(SettingsError):
        Frontier.open(tmp_path / "f", settings(file))
    assert rows(tmp_path / "f") == [("good.txt", 1, True)]
    with Frontier.open(tmp_path / "f") as f:
        assert precedences(f) == {"1": 8}


def test_a_file_that_is_not_there_or_breaks_off(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none.txt, a file of precedences of URIs, cannot be read: No such file"):
        Frontier.open(tmp_path / "f", settings(tmp_path / "none.txt"))
    with pytest.raises(SettingsError, match="cannot be read: Is a directory"):
        Frontier.open(tmp_path / "f", settings(tmp_path))
    whole = gzip.compress(b"".join(b"https://a.test/%d 1\n" % number for number in range(5000)))
    (tmp_path / "half.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SettingsError, match=r"half.gz: breaks off after line [\d,]+ \("):
        Frontier.open(tmp_path / "f", settings(tmp_path / "half.gz"))


def test_a_killed_reading_starts_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preloaded_table, "BATCH", 2)
    text = "".join(f"https://a.test/{number} {number}\n" for number in range(7))
    file = write(tmp_path / "list.txt", text)
    with Frontier.open(tmp_path / "f", settings(file)) as f:
        f.schedule("https://a.test/6")
    commits = 0
    commit = Environment.commit

    def interrupted(env: Environment) -> None:
        nonlocal commits
        if commits == last:
            raise KeyboardInterrupt
        commits += 1
        commit(env)

    last = 1
    while True:
        write(file, text.replace(" ", " 1"), seconds=last + 1)
        commits = 0
        with monkeypatch.context() as patch:
            patch.setattr(Environment, "commit", interrupted)
            try:
                f = Frontier.open(tmp_path / "f")
            except KeyboardInterrupt:
                pass
            else:
                break
        verify.verify(tmp_path / "f")
        assert rows(tmp_path / "f")[0][2] is False
        last += 1
    assert last > 8
    with f:
        f.check()
        assert scheduled(f, *"012345") == {str(number): int(f"1{number}") + 1 for number in range(6)} | {"6": 7}


def test_a_long_file_is_stored_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more lines are read ahead of a commit than are in a batch."""
    lines, looks = 200_000, 0
    ahead: list[int] = []
    file = tmp_path / "list.txt"
    file.write_text("".join(f"https://{number % 97}.test/{number} {number % 50}\n" for number in range(lines)))

    def counted(path: Path, read: Any = precedence_lists.read) -> Iterator[tuple[str, int]]:
        nonlocal looks
        looks += 1
        for entry in read(path):
            if looks == 2:  # the first look stores nothing
                ahead[-1] += 1
            yield entry

    def committed(env: Environment, commit: Any = Environment.commit) -> None:
        ahead.append(0)
        commit(env)

    monkeypatch.setattr(precedence_lists, "read", counted)
    monkeypatch.setattr(Environment, "commit", committed)
    with Frontier.open(tmp_path / "f", settings(file)) as f:
        assert (looks, sum(ahead), max(ahead)) == (2, lines, preloaded_table.BATCH)
        f.schedule_many(["https://7.test/7", "https://7.test/104"])
        assert precedences(f) == {"104": 5, "7": 8}
    assert rows(tmp_path / "f") == [("list.txt", lines, True)]


def test_what_verify_finds_repair_reads_again(tmp_path: Path) -> None:
    file = write(tmp_path / "list.txt", "https://a.test/1 5\nhttps://a.test/2 6\n")
    with Frontier.open(tmp_path / "f", settings(file)) as f:
        f.schedule("https://b.test/")
    with damaging(tmp_path / "f") as damage:
        damage.delete(keys.PRELOADED, damage.items(keys.PRELOADED)[0][0])
        damage.put(keys.PRELOADED, keys.preloaded.pack(9, b"x" * 16), keys.value.pack(1))
    with pytest.raises(CorruptFrontier, match="1 precedences of file 9, which has no record") as caught:
        verify.verify(tmp_path / "f")
    assert "list.txt has 1 precedences, not 2" in str(caught.value)
    told = repair(tmp_path / "f").first_changes
    assert any("list.txt is read again when the frontier is opened" in line for line in told), told
    verify.verify(tmp_path / "f")
    assert rows(tmp_path / "f") == [("list.txt", 2, False)]
    with Frontier.open(tmp_path / "f") as f:
        assert scheduled(f, "1", "2") == {"": 1, "1": 6, "2": 7}
    compact(tmp_path / "f")
    assert rows(tmp_path / "f") == [("list.txt", 2, True)]


def test_an_adjustment_that_names_a_file_that_is_gone_does_not_come_back_and_locks_nothing(tmp_path: Path) -> None:
    file = write(tmp_path / "rank.txt", "https://a.test/1 5\n")
    preloaded = {"uri_precedence_policy": {"preloaded": {"file": str(file), "base": 3}}}
    with Frontier.open(tmp_path / "f", settings(file)) as f:
        entry = f.adjust(match="host:a.test", **preloaded).id  # type: ignore[arg-type]
        f.undo(entry)
    file.unlink()
    plain = Settings.from_dict({"frontier": {"politeness": NO_WAIT}})
    with Frontier.open(tmp_path / "f", plain) as f, pytest.raises(FrontierError, match="was not read"):
        f.undo(entry + 1)


def test_a_missing_file_that_only_an_adjustment_names_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = write(tmp_path / "rank.txt", "https://a.test/1 5\n")
    preloaded = {"uri_precedence_policy": {"preloaded": {"file": str(file), "base": 3}}}
    with Frontier.open(tmp_path / "f", settings(file)) as f:
        f.adjust(match="host:a.test", **preloaded)  # type: ignore[arg-type]
    with damaging(tmp_path / "f") as damage:
        meta.write_preloaded(damage.txn, damage.db(keys.META), [])
    file.unlink()
    plain = Settings.from_dict({"frontier": {"politeness": NO_WAIT}})
    with Frontier.open(tmp_path / "f", plain) as f:
        assert "is missing: withdraw the adjustment" in caplog.text
        f.withdraw(f.adjustments[0].id or 0)
