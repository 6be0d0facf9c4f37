"""How the tests are laid out: as the package is."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "budgetfrontier"
POLICIES = TESTS.parent / "policies"

CLASSES = {"Decoder", "Encoder", "Scheduler"}
"""Names that two classes may have: those of a codec, as Frontera has them, and the schedulers of asyncio and Scrapy."""
IN_EACH_FOLDER = {"__init__", "options", "settings"}
FILES = {
    "adjustments", "alerts", "asynchronous", "audit", "compare", "dead_letters", "errors", "html", "kafka",
    "leases", "logs", "overview", "queues", "rates", "removed", "runs", "scheduler", "seeds", "series", "steer",
    "verify", "worker",
}  # fmt: skip
"""Names that two files may have: one subject in several layers, such as a table, its command and its page; a format."""


def test_each_folder_of_the_package_has_tests() -> None:
    folders = {path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*/*.py")}
    assert 10 <= len(folders) <= 14, "the folders at the top are the architecture: a reader must see all at once"
    assert [folder for folder in folders if not any((TESTS / folder).rglob("test_*.py"))] == []


def test_folders_of_tests_are_those_of_the_package_and_a_few_more() -> None:
    across = {"benchmarks", "crash", "docs", "fuzz", "sites", "stateful"}
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}
    strange = [str(folder) for folder in folders if str(folder) not in across and not (PACKAGE / folder).exists()]
    assert set(strange) <= {"leasing"}, "budgetfrontier has no such folder"  # a module, with tests of several kinds


def modules() -> list[Path]:
    linked = {"policies", "templates"}  # in a source distribution they are copies
    mine = [path for path in PACKAGE.rglob("*.py") if not linked & set(path.relative_to(PACKAGE).parts)]
    return sorted([*mine, *POLICIES.rglob("*.py")])


def class_names() -> Iterator[str]:
    for module in modules():
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield node.name.lstrip("_")


def several(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}


def test_the_name_of_a_class_has_one_meaning() -> None:
    assert several(class_names()) <= CLASSES, "name a class by what sets it apart from the other of the same name"


def test_the_name_of_a_file_stands_once() -> None:
    names = several(module.stem for module in modules()) - IN_EACH_FOLDER
    assert names <= FILES, "name a file by its subject, as nothing else in the package is named"
