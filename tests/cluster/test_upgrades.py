"""Two releases in one crawl: each has the same tables after the other's log, and goes on where the other was.

The next release has another policy and one setting more.
"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from budgetfrontier import Settings
from budgetfrontier.bus.interface import Received
from tests.cluster.log import CRAWL, Contents, Log, Owner, copied
from tests.cluster.releases import CHANGES, NextRelease
from tests.cluster.test_partition import FRONTIER, random_log

STEPS = 150
COSTS = {"settings/policies/cost.py": ("constant: Final = 1\n", "constant: Final = 3\n")}
"""What the next release decides otherwise: the cost of a page."""

COPY = """
import json, sys
from pathlib import Path
import budgetfrontier
from tests.cluster.test_upgrades import log_in, shown
from tests.cluster.log import copied
folder = Path(sys.argv[1])
print(json.dumps([budgetfrontier.__file__, shown(copied(folder / sys.argv[2], log_in(folder)))]))
"""
OWN = """
import json, sys
from contextlib import closing
from pathlib import Path
from random import Random
import budgetfrontier
from tests.cluster.log import Owner
from tests.cluster.test_partition import random_log
from tests.cluster.test_upgrades import STEPS, log_in, shown, write
folder = Path(sys.argv[1])
log = log_in(folder)
with closing(Owner(folder / sys.argv[2], log)) as owner:
    random_log(owner, Random(int(sys.argv[3])), STEPS)
    contents = owner.contents()
write(folder, log)
print(json.dumps([budgetfrontier.__file__, shown(contents)]))
"""


def log_in(folder: Path) -> Log:
    """The log that was written to a folder, from which an owner goes on."""
    log = Log(Settings.from_dict({"crawl": CRAWL, "frontier": FRONTIER}))
    found = json.loads((folder / "log.json").read_text())
    log.entries = [Received(0, offset, bytes.fromhex(data), time) for offset, (data, time) in enumerate(found)]
    log.time = log.entries[-1].time if log.entries else log.time
    for _ in log.entries:
        next(log.nonces)
    return log


def write(folder: Path, log: Log) -> None:
    """Write a log to a folder."""
    (folder / "log.json").write_text(json.dumps([(entry.data.hex(), entry.time) for entry in log.entries]))


def shown(contents: Contents) -> dict[str, list[str]]:
    """Rows as text."""
    return {table: [f"{key.hex()} {value.hex()}" for key, value in rows] for table, rows in contents.items()}


@pytest.fixture(scope="module")
def next_release(tmp_path_factory: pytest.TempPathFactory) -> NextRelease:
    return NextRelease(tmp_path_factory.mktemp("next"), CHANGES | COSTS)


@pytest.mark.parametrize("seed", range(3))
def test_releases_that_decide_otherwise_have_the_same_tables_and_go_on_from_each_other(
    tmp_path: Path, next_release: NextRelease, seed: int
) -> None:
    write(tmp_path, Log())
    log = log_in(tmp_path)
    with closing(Owner(tmp_path / "first", log)) as owner:
        random_log(owner, Random(seed), STEPS)
        contents = shown(owner.contents())
    write(tmp_path, log)
    assert next_release.run(COPY, tmp_path, "second") == contents

    contents = next_release.run(OWN, tmp_path, "second", seed)
    log = log_in(tmp_path)
    assert shown(copied(tmp_path / "first", log)) == contents
    assert any(b"of_tomorrow".hex() in row for row in contents["meta"])
    assert shown(copied(tmp_path / "third", log)) == contents, "from the beginning, too"

    with closing(Owner(tmp_path / "first", log)) as owner:
        random_log(owner, Random(seed), STEPS)
        owner.partition.frontier.check()
        contents = shown(owner.contents())
    write(tmp_path, log)
    assert next_release.run(COPY, tmp_path, "second") == contents
