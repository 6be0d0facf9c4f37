"""The same commands on one frontier and on a crawl in partitions: what they answer is the same, whatever the mix."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import starmap
from pathlib import Path
from random import Random
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Frontier, Outcome, Settings
from budgetfrontier.cluster.client import ClusterFrontier
from budgetfrontier.cluster.operators import crawl_owners
from budgetfrontier.cluster.operators.crawl_owners import CrawlOwners
from budgetfrontier.cluster.partitions import partition
from budgetfrontier.core.model import Finish
from budgetfrontier.engine.commands import runner
from budgetfrontier.reports.kinds import KINDS
from budgetfrontier.rules import series_periods
from budgetfrontier.tools.cli import clusters, main
from tests.cluster.workers import running
from tests.support import PATIENCE, until

PARTITIONS = 3
URL = "kafka://nowhere/test"
HOSTS = [f"h{number}.test" for number in range(9)]
SETTINGS: dict[str, Any] = {
    "crawl": "test",
    "seeds": [f"https://{host}/" for host in HOSTS[:4]] + ["https://h0.test/never", "nonsense"],
    "frontier": {
        "queue_total_budget": 40,
        "keep_urls": True,
        "quotas": {"host": {"urls": 30, "error_bytes": 5}},
        "retry": {"max_retries": 0},
        "politeness": {"min_delay": 0, "max_delay": 0, "delay_factor": 0},  # states do not depend on when it is
    },
}
NAMES = re.compile(
    r"\b[0-9a-f]{16}\b|\b\d+/\d+\b|^\d+(?=[ ,])"
    r"|(?<=undone )\d+|(?<=undo )\d+|(?<=adjustment )\d+|(?<=^what )\d+|(?<=left of )\d+|(?<=changed since )\d+"
    r"|(?<=that )\d+(?=, )"
)
"""Where the ids of entries are in answers."""
OTHER = re.compile(
    r"in partitions? [\d, -]+: |: \d partitions?|budgetfrontier: |FINISHED -> FINISHED|no process runs.*"
    r"|\d{4}-\d\d-\d\dT[\d:]+Z|[\d,]+ bytes|to (take it back|restore those left, too): .*"
)
"""What only one of the two says, times, and the ids and the bytes of what is kept for `undo`."""
TIMES = {"wake_time", "last_lease_time", "as_of", "time", "generated", "began", "age", "deadline"}
SAME = {
    "crawl-summary": {"crawl", "status", "discovered", "queued", "succeeded", "dead", "queues", "expenditure", "bytes"},
    "seeds": {"code", "status", "seed", "queue", "detail"},
    "hosts": {"host", "remaining", "expenditure", "state"},
    "mimetypes": set(),
    "responsecodes": set(),
    "sourcetags": set(),
    "threads": {"url"},
    "labels": {"label", "seeds", "waiting", "successes", "errors", "bytes", "novel", "novel_bytes"},
    "quotas": {"share", "used", "limit", "amount", "kind", "name"},
    "groups": {"group"},
    "rates": {"figure"},
    "busiest": {"queue", "spent", "spent_most", "fetched", "fetched_most"},
    "forecast": {"bound"},
    "scope": {"why", "urls", "share"},
    "settings": {"setting", "value", "default"},
}
"""The columns of reports that do not depend on when something happened."""
COMMANDS = {
    "adjust": ["--total-budget", "{small}", "--match", "{match}"],
    "retire": ["{host}"],
    "unretire": ["{host}"],
    "snooze": ["{host}", "--until", "4000000000"],
    "wake": ["{host}"],
    "pause": [],
    "resume": [],
    "undo": ["{id}", "{force}"],
    "delete": ["--pattern", "{pattern}"],
    "delete for good": ["--for-good", "--pattern", "{pattern}"],
    "dead-letters": ["--drop", "{letter}"],
    "forget": ["https://{host}/0", "https://{host}/none"],
    "retire many": ["--match", "domain:{host}"],
    "undo --discard": ["{id}", "--discard"],
}


def fill(frontier: Any) -> None:
    """Crawl a little: some URIs succeed, and one of each host is a dead letter."""
    frontier.schedule_many(CrawlUri(url, source=url[8:10]) for url in SETTINGS["seeds"][:4])
    frontier.schedule_many(f"https://{host}/{page}{'?x' * (page % 3)}" for host in HOSTS for page in range(20))
    leases = frontier.lease(len(HOSTS))
    assert len(leases) == len(HOSTS)
    frontier.schedule_many(f"https://cal.test/calendar/{year}/04" for year in range(2100, 2120))
    frontier.finish_many([Finish(lease, Outcome.RETRY, reason="no answer") for lease in leases])


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Any]]:
    """A job's folder, and the owners of a crawl in partitions, with the same URIs."""
    settings, folder = Settings.from_dict(SETTINGS), tmp_path_factory.mktemp("both")
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(series_periods, "next_row", lambda now: now)  # else there are rates a minute later
        with Frontier.open(folder / "job" / "frontier", settings) as frontier:
            fill(frontier)
        patch.setattr(partition, "COMMIT_EVERY", 0.02)
        patch.setattr(runner, "STEP", 7)
        patch.setattr(crawl_owners, "WAIT", PATIENCE)
        cluster = stack.enter_context(running(folder, settings, [(0, 1), (2,)], PARTITIONS))
        until(lambda: len(cluster.directory.read()) == PARTITIONS)
        with ClusterFrontier("test", cluster.directory) as client:
            fill(client)

        @contextmanager
        def connected(job: str, **options: Any) -> Iterator[CrawlOwners]:
            with ClusterFrontier("test", cluster.directory) as frontier:
                yield CrawlOwners(frontier, job=URL, patience=PATIENCE)

        patch.setattr(clusters, "connected", connected)
        yield folder / "job", cluster.directory


class Side:
    """One of the two, with the ids that its audit has given."""

    def __init__(self, job: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.job, self._capsys = job, capsys

    def run(self, command: str, *arguments: str) -> tuple[int, str, str]:
        """Run a command."""
        self._capsys.readouterr()
        code = main([command, self.job, *arguments])
        return code, *self._capsys.readouterr()

    def rows(self, command: str, *arguments: str) -> Any:
        """Return what a command prints as JSON."""
        code, out, err = self.run(command, *arguments, "--format", "json")
        assert code == 0, err
        return json.loads(out)

    def told(self, command: str, *arguments: str) -> tuple[int, str]:
        """Return the code and the words of a command, without the names of entries and partitions."""
        code, out, err = self.run(command, *arguments)
        names = {name: f"#{place}" for place, name in enumerate(self.names())} if command in ("undo", "adjust") else {}
        text = NAMES.sub(lambda found: names.get(found[0], found[0]), (out + err).removeprefix("budgetfrontier: "))
        text = OTHER.sub("", text)
        return code, text.strip().replace(self.job, "JOB").replace("it is PAUSED", "it is paused")

    def names(self) -> list[str]:
        """Return the ids of all commands that were not refused, in order: an undo that is refused is given to none."""
        return [str(row["id"]) for row in self.applied()]

    def applied(self) -> list[dict[str, Any]]:
        """Return the audit without what was refused, and without imports, which are not in that of partitions."""
        return [row for row in self.rows("audit") if not row["error"] and row["command"] != "schedule"]

    def letters(self) -> dict[str, str]:
        """Return the ids of dead letters by URL."""
        return {row["url"]: str(row["id"]) for row in self.rows("dead-letters")}


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without times, and without what depends on other queues."""
    return {name: value for name, value in row.items() if name not in TIMES}


@pytest.mark.parametrize("seed", [0, 3])
def test_commands_answer_alike(both: tuple[Path, Any], seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    random = Random(seed)
    sides = Side(str(both[0]), capsys), Side(URL, capsys)
    for side in sides:
        assert side.run("import", *(f"https://{host}/{seed}-{page}" for host in HOSTS for page in range(3)))[0] == 0
    for _ in range(10):
        chosen_command = random.choice([*COMMANDS, "undo", "undo"])
        command = chosen_command.partition(" ")[0]
        values = {
            "small": str(random.randrange(1, 60)), "match": random.choice(["*", "domain:h1.test", "queue:h2.test"]),
            "host": random.choice(HOSTS), "force": random.choice(["--force", ""]),
            "pattern": random.choice([r"\?x$", "/1[0-4]", "nothing"]),
        }  # fmt: skip
        place, url = random.random(), random.random()
        answers = []
        for side in sides:
            names, letters = side.names(), sorted(side.letters().items())
            if (command == "undo" and not names) or (command == "dead-letters" and not letters):
                break
            chosen = values | {
                "id": names[int(place * len(names))] if names else "",
                "letter": letters[int(url * len(letters))][1] if letters else "",
            }
            arguments = [text.format(**chosen) for text in COMMANDS[chosen_command]]
            answers.append(side.told(command, *filter(None, arguments)))
        if answers:
            assert answers[0] == answers[1], (command, values)
    one, many = ([plain(row) for row in side.rows("queues", "--sort", "queue")] for side in sides)
    assert one == many
    one, many = ([row["command"] for row in side.applied()] for side in sides)
    assert one == many
    assert sides[0].letters().keys() == sides[1].letters().keys()


UNDONE = {
    "adjust": ["--total-budget", "7", "--match", "queue:cal.test"],
    "retire": ["cal.test"],
    "snooze": ["cal.test", "--until", "4000000000"],
    "set-queue": ["cal.test", "--interval", "1h"],
    "pause": [],
    "retire many": ["--match", "domain:cal.test"],
    "set-queue many": ["--match", "domain:cal.test", "--interval", "1h"],
    "delete": ["--queue", "cal.test"],
}
"""Commands that change something, from each kind of those that can be undone."""


@pytest.mark.parametrize("kind", UNDONE)
def test_a_command_is_undone_once_in_both(
    both: tuple[Path, Any], kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command, *many = kind.split()
    once = many or command == "delete"  # the undo of these cannot be undone
    answers = []
    for side in (Side(str(both[0]), capsys), Side(URL, capsys)):
        side.run("resume")
        assert side.run(command, *UNDONE[kind])[0] == 0
        number = side.names()[-1]
        assert side.told("undo", number)[0] == 0
        undo = side.names()[-1]
        given = [(number,), (number, "--force"), (undo,), (undo,), *[(number,), (number,)][: 0 if once else 2]]
        answers.append([side.told("undo", *one) for one in given])
    assert answers[0] == answers[1]
    refused = [f"{command}, is undone already" in answer[1] for answer in answers[0]]
    assert refused == ([True, True, False, False] if once else [True, True, False, True, False, True])
    assert [answer[0] for answer in answers[0]] == ([1] * 4 if once else [1, 1, 0, 1, 0, 1])


def test_a_list_of_adjustments_is_undone_alike(
    both: tuple[Path, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed, answers = tmp_path / "more.adjust.yaml", []
    listed.write_text("".join(f"- {{match: 'queue:{host}', set: {{queue_total_budget: 7}}}}\n" for host in HOSTS))
    for side in (Side(str(both[0]), capsys), Side(URL, capsys)):
        assert side.run("adjust", "--file", str(listed))[0] == 0
        *_, first, last = (row for row in side.applied() if row["command"] == "adjust")
        assert last["effect"]["promised"]["matched"] == 1 and last["args"]["list"]["of"] == len(HOSTS)
        of_last, of_first = ("undo", str(last["id"]), "--list"), ("undo", str(first["id"]))
        asked = (*of_last, "--dry-run"), of_last, (*of_first, "--list"), of_first
        answers.append(
            [(code, text.splitlines()[0].partition("removed")[0]) for code, text in starmap(side.told, asked)]
        )
        row = side.applied()[-1]
        assert [len(row["effect"][name]) for name in ("entries", "removed")] == [len(HOSTS), len(HOSTS)]
        assert row["args"]["id"] == last["id"] in row["effect"]["entries"]
        assert side.told("undo", str(row["id"]))[0] == side.told("undo", str(last["id"]), "--list")[0] == 0
    assert answers[0] == answers[1]
    assert [code for code, _ in answers[0]] == [0, 0, 1, 1]


def test_traps_are_the_same(both: tuple[Path, Any], capsys: pytest.CaptureFixture[str]) -> None:
    one, many = (Side(str(both[0]), capsys), Side(URL, capsys))
    for arguments in ([], ["--match", "cal.test"], ["--match", "h1.test"], ["--limit", "1"]):
        found = [[row | {"command": ""} for row in side.rows("traps", *arguments)] for side in (one, many)]
        assert found[0] == found[1]
        assert [row["queue"] for row in found[0]] == ([] if "h1.test" in arguments else ["cal.test"])
    for arguments in (["cal.test", "--dry-run"], ["h1.test"], ["unknown.test"]):
        assert one.told("traps", "--apply", *arguments) == many.told("traps", "--apply", *arguments)


def test_answers_of_hosts_are_the_same(both: tuple[Path, Any], capsys: pytest.CaptureFixture[str]) -> None:
    one, many = (Side(str(both[0]), capsys), Side(URL, capsys))
    for arguments in ([], ["--match", "h1.test"], ["--status", "none"], ["--limit", "2"]):
        found = [side.rows("statuses", *arguments) for side in (one, many)]
        assert found[1].pop("missing_partitions") == []
        for each in found:
            each["kinds"] = sorted((row["kind"], row["attempts"], row["queues"]) for row in each["kinds"])
        assert found[0] == found[1]
        assert any(found[0]["classes"]) and found[0]["rows"]


def test_comparisons_are_the_same(both: tuple[Path, Any], capsys: pytest.CaptureFixture[str]) -> None:
    one, many = (Side(str(both[0]), capsys), Side(URL, capsys))
    found = [side.rows("compare", other.job, "--limit", "0") for side, other in ((one, many), (many, one))]
    assert found[1].pop("missing_partitions") == []
    for each in found:
        assert each["queues"] == {"only_in_first": 0, "only_in_second": 0, "in_both": len(each["rows"])}
        assert all(row["first"] == row["second"] for row in each["rows"])
    assert found[0]["rows"]


def test_all_kinds_of_reports_are_alike(both: tuple[Path, Any], capsys: pytest.CaptureFixture[str]) -> None:
    sides = Side(str(both[0]), capsys), Side(URL, capsys)
    since = {"rates": ["--since", "2h"]}  # however long ago this machine has filled the job
    reports = [
        {kind: side.rows("report", "--kind", kind, *since.get(kind, ())) for kind in KINDS[1:]} for side in sides
    ]
    for kind in KINDS[1:]:
        one, many = (found[kind] for found in reports)
        one["rows"] = [row for row in one["rows"] if row.get("bound") != "disk"]  # workers have disks of their own
        assert (one["crawl"], many["crawl"], many["missing_partitions"]) == ("test", "test", []), kind
        assert bool(one["unknown"]) == bool(many["unknown"]), kind
        rows = [
            sorted(({n: v for n, v in row.items() if n in SAME[kind]} for row in found["rows"]), key=str)
            for found in (one, many)
        ]
        if kind == "rates" and not all(rows):
            continue  # one of them was filled within a second, which has no rate
        assert rows[0] == rows[1], kind
    assert len(reports[1]["seeds"]["rows"]) == len(SETTINGS["seeds"])
    for arguments in (
        ["seeds"],
        ["rates", "--since", "2h"],
        ["forecast"],
        ["threads"],
        ["crawl-summary", "--since", "1h"],
    ):
        code, out, _ = sides[1].run("report", "--kind", *arguments)
        assert (code, bool(out)) == (0, True)
    assert "--kind seeds is text, json or csv" in sides[1].run("report", "--kind", "seeds", "--format", "html")[2]
