"""What followed an adjustment: spend and fetches since, beside what its dry run promised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from budgetfrontier import Frontier, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.reports import audit_sentences
from budgetfrontier.reports.adjustment_outcomes import AdjustmentOutcome, outcomes_of, sentence, summed
from budgetfrontier.reports.operators import OperatorCommand
from budgetfrontier.tools.job_operator import JobOperator
from tests.support import START, crawl, memory, on_disk, pages


def outcomes(f: Frontier, folder: Path, now: float) -> list[AdjustmentOutcome | None]:
    f.commit()
    with Reader(folder / "frontier") as reader, reader.view() as view:
        entries = reader.audit()
        found = outcomes_of(view, {entry.id: entry for entry in entries}, now)
        return [found.get(entry.id) for entry in entries]


def test_spend_fetches_and_retirements_since_are_those_of_its_queues(tmp_path: Path) -> None:
    with on_disk(tmp_path, clock := ManualClock(START), queue_total_budget=1) as f:
        f.schedule_many(pages("ABC", 9))
        crawl(f)  # two of each, then RETIRED
        f.adjust(match="queues:a.test,b.test", queue_total_budget=4)
        f.adjust(match="host:b.test", queue_total_budget=20)
        f.pause()
        f.resume()
        clock.advance(60)
        crawl(f)
        both, of_b, *others = outcomes(f, tmp_path, START + 90)
        assert others == [None, None]
        assert both == AdjustmentOutcome(
            queues=2, seconds=90.0, spent=3 + 7, fetched=3 + 7, retired=1, retired_again=1, retired_before=2
        )
        assert of_b == AdjustmentOutcome(
            queues=1, seconds=90.0, spent=7, fetched=7, retired=0, retired_again=0, retired_before=0
        )


def test_what_was_not_counted_is_not_told(tmp_path: Path) -> None:
    with on_disk(tmp_path, ManualClock(START)) as f:
        f.schedule_many(f"https://h{n}.test/" for n in range(1001))
        f.adjust(match="domain:test", queue_total_budget=4)
        (found,) = outcomes(f, tmp_path, START + 5)
        assert found is not None and (found.queues, found.spent, found.fetched, found.retired_before) == (
            1001, None, None, None
        )  # fmt: skip
        assert "spend unknown" in sentence(found, {})


def test_an_operator_keeps_what_a_dry_run_promises(tmp_path: Path) -> None:
    with on_disk(tmp_path, queue_total_budget=1) as f:
        f.schedule_many(pages("AB", 9))
        crawl(f)
    args: dict[str, Any] = {"match": "queue:a.test", "set": {"queue_total_budget": 4}}
    with JobOperator(tmp_path, tmp_path / "frontier") as operator:
        shown = operator.dry_run("adjust", args)
        effect = operator.apply(OperatorCommand("adjust", args, "me")).effects[0]
    assert (effect["promised"]["uris"], effect["promised"]["spend"]) == (shown["uris"], shown["spend"]) == (3, 3)
    assert effect["then"] == {
        "expenditure": 2,
        "charges": 2,
        "retired": 1,
        "retired_upto": effect["then"]["retired_upto"],
    }
    with on_disk(tmp_path) as f:
        crawl(f)
    with JobOperator(tmp_path, tmp_path / "frontier") as operator:
        (row,) = operator.audit().rows
        found = operator.outcomes([row])[row.id]
    told = sentence(found, row.entry.effect)
    assert "fetched 3 of the 3 promised, spent 3 of 3 (up to 3 with URIs that come later), " in told
    assert ", 1 of 1 queue RETIRED (1 since then), 1 before" in told


def told_after(folder: Path, args: dict[str, Any]) -> tuple[str, str]:
    """Return the outcome of an adjustment by an operator once the crawl went on, and its sentence in the audit."""
    with JobOperator(folder, folder / "frontier") as operator:
        operator.apply(OperatorCommand("adjust", args, "me"))
    with on_disk(folder) as f:
        crawl(f)
    with JobOperator(folder, folder / "frontier") as operator:
        (row,) = operator.audit().rows
        return sentence(operator.outcomes([row])[row.id], row.entry.effect), audit_sentences.sentence(row.entry)


def test_another_budget_of_waiting_queues_is_promised_too(tmp_path: Path) -> None:
    with on_disk(tmp_path, queue_total_budget=300) as f:
        f.schedule_many(pages("AB", 3))
    outcome, entry = told_after(tmp_path, {"match": "queue:a.test", "set": {"queue_total_budget": 20}})
    assert "fetched 3 of the 3 promised, spent 3 of 3 (up to 21 with URIs that come later)" in outcome
    assert "another budget for 1 queue not retired then, a spend of 3 on 3 URIs instead of" in entry


def test_more_than_was_promised_is_no_part_of_that(tmp_path: Path) -> None:
    with on_disk(tmp_path, queue_total_budget=300) as f:
        f.schedule_many(pages("A", 2))
    args = {"match": "queue:a.test", "set": {"queue_total_budget": 20}}
    with JobOperator(tmp_path, tmp_path / "frontier") as operator:
        operator.apply(OperatorCommand("adjust", args, "me"))
    with on_disk(tmp_path) as f:
        f.schedule_many(f"http://a.test/more/{number}" for number in range(7))
        crawl(f)
    with JobOperator(tmp_path, tmp_path / "frontier") as operator:
        (row,) = operator.audit().rows
        told = sentence(operator.outcomes([row])[row.id], row.entry.effect)
    assert "fetched 9 where 2 were promised, spent 9 where 2 were promised (up to " in told


def test_queues_that_an_adjustment_retires_are_no_others(tmp_path: Path) -> None:
    with on_disk(tmp_path, queue_total_budget=300) as f:
        f.schedule_many(pages("A", 3))
        f.lease(1)
    args = {"match": "queue:a.test", "set": {"queue_total_budget": 0, "retire_when": "reached"}}
    _, entry = told_after(tmp_path, args)
    assert "1 queue retired; another budget for 1 queue not retired then, a spend of 0" in entry


def test_what_concerns_no_budget_promises_nothing(tmp_path: Path) -> None:
    with on_disk(tmp_path) as f:
        f.schedule_many(pages("A", 3))
    outcome, _ = told_after(tmp_path, {"match": "queue:a.test", "set": {"precedence": 2}})
    assert "fetched 1, spent 1, 0 of 1 queue RETIRED" in outcome


def test_a_promise_for_some_queues_says_for_how_many(tmp_path: Path) -> None:
    with on_disk(tmp_path, queue_total_budget=1) as f:
        f.schedule_many(pages("A", 5))
        crawl(f)
        f.adjust(match="queue:b.test", queue_total_budget=9)
        f.schedule_many(pages("B", 3))
    with JobOperator(tmp_path, tmp_path / "frontier") as operator:
        args: dict[str, Any] = {"match": "queues:a.test,b.test", "set": {"queue_total_budget": 9}}
        operator.apply(OperatorCommand("adjust", args, "me"))
        row = next(iter(operator.audit().rows))
        assert " of the 3 promised for 1 queue, " in sentence(operator.outcomes([row])[row.id], row.entry.effect)


def test_what_follows_the_end_of_an_adjustment_is_not_its_outcome(tmp_path: Path) -> None:
    with on_disk(tmp_path, clock := ManualClock(START), queue_total_budget=1) as f:
        f.schedule_many(pages("AB", 30))
        crawl(f)  # two of each, then RETIRED
        undone = f.adjust(match="host:a.test", queue_total_budget=4)
        crawl(f)
        clock.advance(3)
        f.undo(undone.id)
        replaced = f.adjust(match="queue:a.test", queue_total_budget=6)
        crawl(f)
        clock.advance(5)
        last = f.adjust(match="queue:a.test", queue_total_budget=-1)
        assert [one["id"] for one in last.replaced] == [replaced.id]
        crawl(f)
        taken = f.internals.apply(Command("withdraw", {"id": last.id}, "me", ""))
        f.adjust(match="queue:b.test", queue_total_budget=-1)
        crawl(f)
        first, _, second, third, withdrawn, _ = outcomes(f, tmp_path, START + 90)
        assert first is not None and second is not None and third is not None and withdrawn is not None
        assert (first.fetched, first.spent, first.seconds, first.ended, first.ended_by) == (
            3,
            3,
            3,
            "undone",
            undone.id + 1,
        )
        assert (first.retired, first.retired_again, first.retired_before) == (1, None, 1)
        assert sentence(first, {}).startswith(
            f"in 3s, until it was undone by {first.ended_by}, fetched 3, spent 3, 1 of 1 "
        )
        assert (second.fetched, second.seconds, second.ended, second.ended_by) == (2, 5, "replaced", last.id)
        assert (third.fetched, third.ended, third.ended_by) == (23, "taken back", taken.id)
        assert (withdrawn.fetched, withdrawn.ended) == (0, "")
        f.undo(taken.id)
        _, _, _, third, withdrawn, *_ = outcomes(f, tmp_path, START + 90)
        assert third is not None and third.ended == "" and withdrawn is not None and withdrawn.ended == "undone"


def test_an_operator_counts_for_an_undo_too(tmp_path: Path) -> None:
    with on_disk(tmp_path) as f:
        f.schedule_many(f"https://h{n}.test/" for n in range(1001))
    args: dict[str, Any] = {"match": "domain:test", "set": {"queue_total_budget": 9}}
    for op, given in (("adjust", args), ("undo", {"id": 1})):
        with JobOperator(tmp_path, tmp_path / "frontier") as operator:
            entry = operator.apply(OperatorCommand(op, given, "me")).entry
            assert entry is not None and entry.error is None
    with on_disk(tmp_path) as f:
        crawl(f)
    with JobOperator(tmp_path, tmp_path / "frontier") as operator:
        undo, row = operator.audit().rows
        assert undo.entry.args == {"id": 1}
        assert "until it was undone by 2, fetched 0 of the 1,001" in sentence(
            operator.outcomes([row])[row.id], row.entry.effect
        )


def test_an_undo_of_an_adjustment_keeps_its_promise_and_shows_what_followed(tmp_path: Path) -> None:
    with on_disk(tmp_path, queue_total_budget=1) as f:
        f.schedule_many(pages("AB", 9))
        f.adjust(match="queue:a.test", queue_total_budget=0)
        f.retire("b.test")
        f.unretire("b.test")
        crawl(f)  # one of a, two of b, then RETIRED

    def undo(number: int) -> None:
        with JobOperator(tmp_path, tmp_path / "frontier") as operator:
            entry = operator.apply(OperatorCommand("undo", {"id": number}, "me")).entry
            assert entry is not None and entry.error is None

    def followed() -> dict[int | str, str]:
        with JobOperator(tmp_path, tmp_path / "frontier") as operator:
            rows = [*operator.audit().rows]
            found = operator.outcomes(rows)
            told = {row.id: sentence(found[row.id], row.entry.effect) for row in rows if row.id in found}
            told[0] = audit_sentences.sentence(rows[0].entry)
            return told

    undo(1)
    with on_disk(tmp_path) as f:
        assert f.audit()[-1].effect["promised"]["revived_count"] == 1
        crawl(f)
    told = followed()
    assert "promised: 1 queue matched; 1 queue revived, for a spend of 1 on 1 URI" in str(told[0])
    assert (
        "fetched 1 of the 1 promised, spent 1 of 1 (up to 1 with URIs that come later), 1 of 1 queue RETIRED" in told[4]
    )
    assert "until it was undone by 4, fetched 1, spent 1" in told[1]
    undo(4)
    assert "until it was undone by 5, fetched 1 of the 1 promised" in followed()[4]


def test_undos_on_many_queues_end_no_adjustment(tmp_path: Path) -> None:
    with on_disk(tmp_path, ManualClock(START)) as f:
        f.schedule_many(pages("AB", 9))
        undone = f.adjust(match="queue:a.test", queue_total_budget=4)
        f.internals.apply(Command("retire", {"match": "*"}, "me", ""))
        f.undo(2)
        f.undo(undone.id)
        found = outcomes(f, tmp_path, START + 5)
        assert [one and one.ended_by for one in found] == [4, None, None, None]


def test_outcomes_of_partitions_are_summed() -> None:
    one = AdjustmentOutcome(queues=1, seconds=5, spent=2, fetched=1, retired=1, retired_again=0, retired_before=None)
    other = AdjustmentOutcome(queues=2, seconds=9, spent=3, fetched=3, retired=0, retired_again=0, retired_before=1)
    assert summed([one, other]) == AdjustmentOutcome(
        queues=3, seconds=9, spent=5, fetched=4, retired=1, retired_again=0, retired_before=None
    )


def test_an_adjustment_of_groups_that_are_gone_has_no_outcome() -> None:
    with memory(groups=[{"name": "hosts", "by": "host"}]) as f:
        f.schedule_many(pages("A", 2))
        f.adjust(match="group:hosts", **{"group.total_budget": 5})  # type: ignore[arg-type]
        (entry,) = f.audit()
        view = f._tables.flushed()
        assert outcomes_of(view, {entry.id: entry}, START)
