"""The table of compatibility is whole, and each test that it names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "compatibility.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("| ").split(" | ")]
    for line in PAGE.splitlines()
    if re.match(r"\| [KQS]\d", line)
]


def test_every_row_is_there_once_and_in_order() -> None:
    expected = [
        f"{system}{number}" for system, count in (("K", 30), ("Q", 27), ("S", 20)) for number in range(1, count + 1)
    ]
    assert [row[0] for row in ROWS] == expected
    assert all(len(row) == 4 and all(row) for row in ROWS)


def test_every_row_names_tests_that_exist() -> None:
    for number, _, _, shown in ROWS:
        tests = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", shown)
        assert tests and len(tests) == shown.count("`") / 2, f"{number} names no test"
        for file, name in tests:
            defined = re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
            assert defined, f"{number}: {file} has no {name}"
