"""What `explain` says of a queue that a command of an operator has retired, blocked or emptied, with many or alone."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Frontier, Outcome, Reader, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.reports import queue_past
from budgetfrontier.reports.explain import explain
from budgetfrontier.reports.explanation import Explanation
from budgetfrontier.reports.url_past import Attempt, Past
from budgetfrontier.storage.records import NAMED_QUEUES, AuditEntry, Progress, StartedCommand
from budgetfrontier.tools.cli import main
from tests.support import START

MANY = NAMED_QUEUES + 20  # more queues than an entry names
COMMANDS = [("retired-by-name", "retire"), ("snoozed", "snooze")]


def give(f: Frontier, op: str, who: str, reason: str = "", **args: Any) -> AuditEntry:
    if op == "snooze":
        args.setdefault("until", time.time() + 7200)
    return f.internals.apply(Command(op, args, who, reason))


def opened(path: Path, hosts: str | int = "ab") -> Frontier:
    polite = {"min_delay": 0, "delay_factor": 0, "max_delay": 0}
    frontier = Frontier.open(path / "frontier", Settings.from_dict({"frontier": {"politeness": polite}}))
    names = hosts if isinstance(hosts, str) else map("h{}".format, range(hosts))
    frontier.schedule_many(f"http://{host}.test/{n}" for host in names for n in range(2))
    return frontier


def explained(path: Path, key: str = "a.test") -> Explanation:
    with Reader(path / "frontier") as reader:
        return explain(reader, key, job=str(path))


def told(path: Path, code: str, key: str = "a.test") -> str:
    return next((reason.text for reason in explained(path, key).reasons if reason.code == code), "")


@pytest.mark.parametrize(("code", "op"), COMMANDS)
@pytest.mark.parametrize("hosts", [2, MANY])
@pytest.mark.parametrize("for_good", [False, True])
def test_a_command_on_many_queues_is_found_with_its_author_reason_and_selection(
    tmp_path: Path, code: str, op: str, hosts: int, for_good: bool
) -> None:
    with opened(tmp_path, hosts) as f:
        give(f, op, "alice", "relaunch", match="regex:test", states=["INACTIVE"], for_good=for_good)
        give(f, op, "bob", match="queue:other.test")
        give(f, op, "bob", queue="h0.test")
    text = told(tmp_path, code, f"h{hosts - 1}.test")
    assert (" perhaps an operator " in text) is (for_good and hosts == MANY)
    assert " (alice, 20" in text and ": relaunch) with all queues in state INACTIVE that match regex:test." in text
    assert "by name" not in text and "clients of a service" not in text


def test_all_queues_are_no_pattern(tmp_path: Path) -> None:
    with opened(tmp_path) as f:
        give(f, "retire", "alice", match="*")
    assert told(tmp_path, "retired-by-name").endswith("UTC) with all queues.")


def test_of_a_long_pattern_the_beginning_is_told(tmp_path: Path) -> None:
    with opened(tmp_path) as f:
        give(f, "retire", "alice", match=f"queues:a.test,{','.join(map('h{}.test'.format, range(999)))}")
    text = told(tmp_path, "retired-by-name")
    assert " that match queues:a.test,h0.test,h1.test" in text and text.endswith("….") and len(text) < 400


@pytest.mark.parametrize(("code", "op"), COMMANDS)
def test_the_command_that_changed_the_queue_is_told_and_no_later_one_that_found_it_so(
    tmp_path: Path, code: str, op: str
) -> None:
    with opened(tmp_path, MANY) as f:
        f.schedule("http://a.test/")
        if op == "snooze":
            f.snooze("a.test", until=time.time() + 90_000, who="alice")
        else:
            f.retire("a.test", who="alice")
        give(f, op, "bob", match="*")
    assert "(alice, " in told(tmp_path, code) and "bob" not in told(tmp_path, code)


def test_a_retirement_that_was_undone_is_not_the_cause(tmp_path: Path) -> None:
    with opened(tmp_path) as f:
        f.retire("a.test", who="alice")
        give(f, "unretire", "carol", match="*")
        undone = give(f, "retire", "bob", match="*")
        f.undo(undone.id)
        f.undo(undone.id - 1)
        queue = f.queue("a.test")
        assert queue is not None and queue.by_name
    assert "by name (alice, " in told(tmp_path, "retired-by-name")


def test_what_was_discarded_is_found_all_the_same(tmp_path: Path) -> None:
    with opened(tmp_path, MANY) as f:
        entry = give(f, "retire", "alice", match="*")
        f.internals.discard(entry.id)
    assert "an operator retired it (alice, " in told(tmp_path, "retired-by-name", f"h{MANY - 1}.test")


def test_the_snooze_of_a_block_is_found_again_though_the_block_was_ended_meanwhile(tmp_path: Path) -> None:
    with opened(tmp_path) as f:
        give(f, "snooze", "alice", queue="a.test")
        give(f, "wake", "bob", match="*")
    assert "alice" not in told(tmp_path, "snoozed")
    with opened(tmp_path, "") as f:
        f.undo(2)
    assert "an operator snoozed it (alice, " in told(tmp_path, "inactive") + told(tmp_path, "snoozed")
    assert not told(tmp_path, "snoozed", "b.test")


def test_no_more_of_a_long_audit_is_read_than_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_past, "MOST_ENTRIES", 2)
    with opened(tmp_path) as f:
        give(f, "snooze", "alice", match="*")
        f.retire("b.test")
    assert "alice" in told(tmp_path, "inactive") + told(tmp_path, "snoozed")
    with opened(tmp_path, "") as f:
        f.unretire("b.test")
    assert "the last 2 entries of the audit have no `snooze` for that" in told(tmp_path, "snoozed")


# -- EXHAUSTED


def test_the_queue_whose_uris_were_deleted_names_the_command_and_its_undo(tmp_path: Path) -> None:
    with opened(tmp_path, "abc") as f:
        f.delete(queue="c.test", who="bob")
        entry = give(f, "delete", "alice", "not wanted", match="regex:test", states=["INACTIVE"])
        f.delete(pattern="/nothing/", who="bob")
        f.delete(queue="b.test", who="bob")
    found = explained(tmp_path)
    assert [reason.code for reason in found.reasons][:2] == ["exhausted", "deleted"]
    text = found.reasons[1].text
    assert text.startswith(f"Its URIs were deleted by entry {entry.id} of the audit (alice, 20"), text
    assert ": not wanted): match regex:test, state INACTIVE, which the command undoes." in text
    assert (found.reasons[0].verdict, found.reasons[1].verdict) == ("now", "blocked")
    assert found.reasons[1].command is not None
    assert main(shlex.split(found.reasons[1].command)[1:]) == 0
    assert "deleted" not in [reason.code for reason in explained(tmp_path).reasons]
    with Reader(tmp_path / "frontier") as reader:
        assert reader.queue("a.test").queued == 2  # type: ignore[union-attr]


def test_the_undo_of_a_deletion_is_forced_if_uris_have_come_since(tmp_path: Path) -> None:
    with opened(tmp_path, "a") as f:
        f.delete(queue="a.test", who="alice")
        f.schedule("http://a.test/new")
        f.finish(f.lease(1)[0])
    [reason] = [reason for reason in explained(tmp_path).reasons if reason.code == "deleted"]
    assert reason.text.startswith("Some of its URIs were deleted by entry 1 ")
    assert reason.command is not None and main(shlex.split(reason.command)[1:]) == 0
    with Reader(tmp_path / "frontier") as reader:
        assert reader.queue("a.test").queued == 2  # type: ignore[union-attr]


def test_a_url_that_was_deleted_names_the_command_and_its_undo(tmp_path: Path) -> None:
    with opened(tmp_path) as f:
        f.schedule(CrawlUri("http://a.test/later", not_before=time.time() + 1e6))
        f.delete(queue="b.test", who="bob")
        entry = give(f, "delete", "alice", "a trap", match="regex:a.test", pattern="/(1|later)$")
    for url in ("http://a.test/1", "http://a.test/later"):
        [reason] = explained(tmp_path, url).reasons
        assert reason.text.startswith(f"It was deleted by entry {entry.id} of the audit (alice, 20"), reason
        assert ": a trap): match regex:a.test, pattern /(1|later)$, which the command undoes." in reason.text
        assert (reason.code, reason.verdict) == ("deleted", "blocked")
    assert not told(tmp_path, "deleted", "http://a.test/0")
    assert reason.command is not None and main(shlex.split(reason.command)[1:]) == 0
    for url in ("http://a.test/1", "http://a.test/later"):
        assert {"queued", "future"} & {reason.code for reason in explained(tmp_path, url).reasons}


def test_a_url_that_was_fetched_since_its_deletion_was_not_deleted_last(tmp_path: Path) -> None:
    with opened(tmp_path) as f:
        f.delete(queue="a.test", pattern="/1$", who="alice")
    for day, code in (("2000-01-01T00:00:00.000Z", "deleted"), ("2096-01-01T00:00:00.000Z", "fetched")):
        past = Past([Attempt(day, 200, 9, "text/html", "", "")], 1, None, "crawl.log")
        with Reader(tmp_path / "frontier") as reader:
            found = explain(reader, "http://a.test/1", job="job", past={"http://a.test/1": past}.get)
        assert [reason.code for reason in found.reasons] == [code]


def test_a_retry_of_a_blocked_queue_is_not_given_up_before_the_block_ends(tmp_path: Path) -> None:
    clock = ManualClock(START)
    settings = Settings.from_dict({"frontier": {"retry": {"scope": "uri", "max_retries": 1, "delay": "10m"}}})
    with Frontier.open(tmp_path / "frontier", settings, clock=clock) as f:
        f.schedule_many(("http://a.test/0", "http://a.test/1"))
        f.finish(f.lease(1)[0], Outcome.RETRY, reason="timeout")
        f.snooze("a.test", until=START + 7200)
    with Reader(tmp_path / "frontier") as reader:
        found = explain(reader, "http://a.test/0", job="job", now=START)
    [reason] = [reason for reason in found.reasons if reason.code == "future"]
    assert "if all fail, it is given up in 2h at the earliest" in reason.text


def test_a_deletion_of_some_uris_is_told_as_that(tmp_path: Path) -> None:
    with opened(tmp_path, "a") as f:
        f.delete(queue="a.test", pattern="/1$", who="alice")
        f.finish(f.lease(1)[0])
    assert told(tmp_path, "deleted").startswith("Some of its URIs were deleted by entry 1 of the audit (alice, ")


@pytest.mark.parametrize(
    ("queue", "pattern", "begins"),
    [
        ("a.test", None, "Its URIs were deleted for good by "),
        ("a.test", "/[01]$", "Some of its URIs were deleted for good by "),
        ("a.*", None, "Its URIs were deleted for good by "),
        ("a.*", "/[01]$", "Perhaps some of its URIs were deleted for good by "),
    ],
)
def test_a_deletion_for_good_has_no_undo(tmp_path: Path, queue: str, pattern: str | None, begins: str) -> None:
    with opened(tmp_path) as f:
        f.delete(queue=queue, pattern=pattern, for_good=True, who="alice")
    found = explained(tmp_path)
    [reason] = [reason for reason in found.reasons if reason.code == "deleted"]
    assert reason.command is None and reason.text.startswith(begins) and "undoes" not in reason.text
    assert found.reasons[0].verdict == "never"


@pytest.mark.parametrize(
    ("leased", "before", "begins"),
    [
        (False, None, "Its URIs were deleted by entry 1 of the audit (alice, "),
        (False, "a.test", "Perhaps some of its URIs were deleted by entry 2 of the audit (alice, "),
        (True, None, "Perhaps some of its URIs were deleted by entry 1 of the audit (alice, "),
    ],
)
def test_a_deletion_of_all_that_was_discarded_is_certain_of_a_queue_that_was_not_empty_before(
    tmp_path: Path, leased: bool, before: str | None, begins: str
) -> None:
    """Of one that was crawled, or emptied before, it may have deleted nothing."""
    clock = ManualClock(START)
    polite = {"min_delay": 0, "delay_factor": 0, "max_delay": 0}
    settings = Settings.from_dict({"frontier": {"politeness": polite}})
    with Frontier.open(tmp_path / "frontier", settings, clock=clock) as f:
        f.schedule_many(f"http://{host}.test/{n}" for host in "ab" for n in range(2))
        if leased:
            f.finish(f.lease(1)[0])
        if before:
            f.delete(queue=before, for_good=True, who="bob")
        clock.advance(10)
        entry = give(f, "delete", "alice", match="*")
        discard = give(f, "discard", "carol", "no room", id=entry.id)
    text = told(tmp_path, "deleted")
    assert text.startswith(begins), text
    told_of = f": match *; entry {discard.id} of the audit (carol, "
    assert told_of in text and text.endswith(": no room) discarded what it had kept for undo.")


def test_deletions_are_looked_through_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_past, "MOST_BLOCKS", 0)
    with opened(tmp_path) as f:
        f.delete(pattern="test/[01]$", who="alice")
    assert told(tmp_path, "deleted").startswith("Perhaps some of its URIs were deleted by entry 1 of the audit (alice")


def test_a_queue_of_which_only_dead_letters_are_left_says_so_and_how_to_replay_them(tmp_path: Path) -> None:
    with opened(tmp_path) as f:
        while leases := f.lease(1):
            f.finish(leases[0], Outcome.DEAD, reason=f"no connection to {leases[0].queue} (-2)")
    found = explained(tmp_path)
    text, command = found.reasons[1].text, found.reasons[1].command
    assert found.reasons[1].code == "dead-letters" and found.reasons[1].verdict == "blocked"
    assert text.startswith("All its 2 URIs are dead letters; the last, http://a.test/1, was given up ")
    assert text.endswith(" ago: no connection to a.test (-2). The command replays them.")
    assert command is not None and main(shlex.split(command)[1:]) == 0
    with Reader(tmp_path / "frontier") as reader:
        assert {key: reader.queue(key).queued for key in ("a.test", "b.test")} == {  # type: ignore[union-attr]
            "a.test": 2,
            "b.test": 0,
        }
    assert "dead-letters" not in [reason.code for reason in explained(tmp_path).reasons]


def test_dead_letters_are_looked_through_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("budgetfrontier.reports.exhausted_reasons.MOST_LETTERS", 2)
    with opened(tmp_path, "ba") as f:
        f.schedule("http://a.test/2")
        while leases := f.lease(1):
            f.finish(leases[0], Outcome.DEAD, reason="gone")
    assert told(tmp_path, "dead-letters").startswith(
        "At least 2 of its URIs are dead letters; the last, http://a.test/2, "
    )


def test_dead_letters_that_would_end_as_before_are_not_replayed(tmp_path: Path) -> None:
    with opened(tmp_path, "a") as f:
        f.finish(f.lease(1)[0])
        f.finish(f.lease(1)[0], Outcome.DEAD, reason="refused (-5001)")
    found = explained(tmp_path)
    assert found.reasons[1].text.startswith("1 of its URIs is a dead letter; ")
    assert "A replay would end in the same way" in found.reasons[1].text
    assert found.reasons[1].command is None and found.reasons[0].verdict == "never"


def test_an_exhausted_queue_says_when_the_first_of_its_uris_for_later_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    with opened(tmp_path, "") as f:
        f.schedule_many(CrawlUri(f"http://b.test/{n}", not_before=now + 1000 * n) for n in range(1, 6))
        f.schedule_many(CrawlUri(f"http://a.test/{n}", not_before=now + 3600 * n) for n in range(2, 5))
        f.schedule("http://a.test/dead")
        f.finish(f.lease(1)[0], Outcome.DEAD, reason="gone")
    with Reader(tmp_path / "frontier") as reader:
        found = explain(reader, "a.test", job="job", now=now)
        assert "3 are scheduled for later, the first of them, http://a.test/2, in 2h" in found.reasons[0].text
        assert found.when == pytest.approx(now + 7200) and found.reasons[0].verdict == "later"
        assert found.reasons[1].code == "dead-letters"
        assert found.reasons[1].text.startswith("1 of its URIs is a dead letter; http://a.test/dead, was given up ")
        monkeypatch.setattr("budgetfrontier.reports.exhausted_reasons.MOST_LATER", 2)
        found = explain(reader, "a.test", job="job", now=now)
        assert "3 are scheduled for later, none of them within 33m" in found.reasons[0].text
        assert found.when == pytest.approx(now + 2000)


def test_the_command_in_progress_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(tmp_path).close()
    with Reader(tmp_path / "frontier") as reader, reader.view() as view:
        effect = {"changed": 1, "queues": ["a.test"]}
        begun = StartedCommand(1, "snooze", {"match": "*", "until": 9e9}, "bob", "night", 9), Progress([], effect)
        monkeypatch.setattr(view, "in_progress", lambda: begun)
        causes = []
        for key in ("a.test", "b.test"):
            queue = reader.queue(key)
            assert queue is not None
            queue.block = 9e9
            causes.append(queue_past.QueuePast(view, queue).snooze())
        assert causes[0] is not None and causes[0].told() == " (bob, in progress: night) with all queues"
        assert causes[1] is None
