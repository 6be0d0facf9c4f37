"""`statuses`: what hosts have answered, by class and by kind."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import pytest

from budgetfrontier import CrawlUri, Directive, Finish, Frontier, Outcome, Settings
from tests.tools.cli.conftest import Cli

ENDS = {
    "good.test": [(Outcome.SUCCESS, 200, "")] * 9 + [(Outcome.SUCCESS, 404, "")],
    "bad.test": [(Outcome.FAILURE, 500, "")] * 3 + [(Outcome.FAILURE, 503, "")],
    "down.test": [(Outcome.FAILURE, 0, f"no answer from 192.0.2.{n} after {n} s") for n in range(1, 3)],
    "silent.test": [(Outcome.SUCCESS, 0, "")],
}


@pytest.fixture
def answered(tmp_path: Path) -> Path:
    """A job whose hosts have answered in different ways."""
    settings = Settings.from_dict(
        {"crawl": "test", "frontier": {"politeness": {"min_delay": 0, "delay_factor": 0}, "backoff": {"delay": 0}}}
    )
    with Frontier.open(tmp_path / "job" / "frontier", settings) as frontier:
        for host, ends in ENDS.items():
            frontier.schedule_many(f"http://{host}/{number}" for number in range(len(ends)))
            for outcome, status, reason in ends:
                [lease] = frontier.lease()
                frontier.finish_many([Finish(lease, outcome, status=status, reason=reason, size=1)])
    return tmp_path / "job"


def rows(cli: Cli, *arguments: object) -> list[dict[str, str]]:
    said = cli("statuses", *arguments, "--format", "csv")
    assert said.code == 0
    return list(csv.DictReader(StringIO(said.out)))


def test_hosts_with_most_errors_come_first(answered: Path, cli: Cli) -> None:
    assert [row["queue"] for row in rows(cli, answered)] == ["bad.test", "down.test", "good.test"]
    assert [row["queue"] for row in rows(cli, answered, "--limit", "1")] == ["bad.test"]
    (bad,) = rows(cli, answered, "--match", "host:bad.test")
    assert (bad["2xx"], bad["5xx"], bad["none"], bad["error_share"]) == ("0", "4", "0", "1.0")
    assert bad["kinds"] == "status 500 (3), status 503 (1)"


@pytest.mark.parametrize(
    ("status", "queues"),
    [
        ("5xx", ["bad.test"]),
        ("none", ["down.test"]),
        ("2XX", ["good.test"]),
        ("404", ["good.test"]),
        ("503", ["bad.test"]),
        ("no answer from ADDRESS after N s", ["down.test"]),
        ("418", []),
    ],
)
def test_a_class_a_status_or_a_kind_may_be_asked_for(answered: Path, cli: Cli, status: str, queues: list[str]) -> None:
    assert [row["queue"] for row in rows(cli, answered, "--status", status)] == queues


def test_kinds_have_their_numbers_and_their_worst_queue(answered: Path, cli: Cli) -> None:
    assert [tuple(row.values()) for row in rows(cli, answered, "--by", "kind")] == [
        ("status 500", "3", "1", "bad.test", "3"),
        ("no answer from ADDRESS after N s", "2", "1", "down.test", "2"),
        ("status 404", "1", "1", "good.test", "1"),
        ("status 503", "1", "1", "bad.test", "1"),
    ]


def test_text_and_json_have_the_totals(answered: Path, cli: Cli) -> None:
    told = cli("statuses", answered).out.splitlines()
    assert (
        told[0] == "17 attempts of 4 queues: 9 2xx (52.9%), 1 4xx (5.9%), 4 5xx (23.5%), 2 without an answer (11.8%), "
        "1 whose status was not reported (5.9%)."
    )
    assert told[2].split()[:9] == ["bad.test", "0", "0", "0", "4", "0", "0", "100%", "-"]
    found = json.loads(cli("statuses", answered, "--format", "json").out)
    assert found["totals"] == {"2xx": 9, "3xx": 0, "4xx": 1, "5xx": 4, "none": 2}
    assert [row["queue"] for row in found["rows"]] == ["bad.test", "down.test", "good.test"]


def test_wrong_statuses_are_refused_and_none_is_no_error(answered: Path, cli: Cli, tmp_path: Path) -> None:
    refused = cli("statuses", answered, "--status", "200")
    assert refused.code == 2 and "nor a status from 400 on" in refused.err
    assert "no attempt ended so" in cli("statuses", answered, "--status", "418").err
    with Frontier.open(tmp_path / "new" / "frontier", Settings.from_dict({"crawl": "new"})):
        pass
    assert "No attempt has ended so far" in cli("statuses", tmp_path / "new").out
    for choice in ("--status", ""), ("--by", "kind", "--status", "404"):
        assert cli("statuses", answered, *choice).code == 2
    none = cli("statuses", answered, "--match", "zzz*")
    assert len(none.out.splitlines()) == 1 and none.err == "no attempt has ended in a queue that matches zzz*\n"


def test_successes_without_a_status_are_attempts_too(cli: Cli, tmp_path: Path) -> None:
    with Frontier.open(tmp_path / "frontier", Settings.from_dict({"frontier": {"politeness": {"min_delay": 0}}})) as f:
        f.schedule_many(f"http://{host}.test/{number}" for host in ("quiet", "drop") for number in range(4))
        failing = 2
        while leases := f.lease(1):
            fails = failing > 0 and leases[0].queue == "drop.test"
            failing -= fails
            f.finish(leases[0], Outcome.FAILURE if fails else Outcome.SUCCESS)
    (drop,) = rows(cli, tmp_path)
    assert (drop["queue"], drop["none"], drop["unreported"], drop["error_share"]) == ("drop.test", "2", "2", "0.5")
    said = "8 attempts of 2 queues: 2 without an answer (25.0%), 6 whose status was not reported (75.0%)."
    assert cli("statuses", tmp_path).out.splitlines()[0] == said


def test_a_status_that_is_only_the_reason_is_an_answer(cli: Cli, tmp_path: Path) -> None:
    """A robots.txt is finished with its status as the reason alone, so that it sets no back-off of another host."""
    with Frontier.open(tmp_path / "frontier", Settings.from_dict({"frontier": {"politeness": {"min_delay": 0}}})) as f:
        f.schedule_many(["http://rob.test/1", "http://gone.test/1"])
        f.schedule(CrawlUri("http://rob.test/robots.txt", directive=Directive.HIGHEST))
        for lease in f.lease(3):
            reason = "status 500" if lease.queue == "rob.test" else "connection refused"
            f.finish(lease, Outcome.RETRY, reason=reason)
    assert [(row["queue"], row["none"]) for row in rows(cli, tmp_path, "--status", "5xx")] == [("rob.test", "0")]
    assert [row["queue"] for row in rows(cli, tmp_path, "--status", "none")] == ["gone.test"]


def test_a_small_share_of_repeated_contents_is_no_figure(cli: Cli, tmp_path: Path) -> None:
    with Frontier.open(tmp_path / "frontier", Settings.from_dict({"frontier": {"politeness": {"min_delay": 0}}})) as f:
        f.schedule_many(f"http://{host}.test/{number}" for host in ("same", "other") for number in range(40))
        while leases := f.lease(1):
            digest = b"same" if leases[0].queue == "same.test" else leases[0].uri.url.encode()
            f.finish(leases[0], status=404 if leases[0].uri.url.endswith("/0") else 200, digest=digest)
    told = cli("statuses", tmp_path).out
    assert "under 25%" in told and "about 97%" in told
