"""How the tests are laid out: as the package is."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "budgetfrontier"


def test_each_folder_of_the_package_has_tests() -> None:
    folders = {path.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*/*.py")}
    assert 10 <= len(folders) <= 14, "the folders at the top are the architecture: a reader must see all at once"
    assert [folder for folder in folders if not any((TESTS / folder).rglob("test_*.py"))] == []


def test_folders_of_tests_are_those_of_the_package_and_a_few_more() -> None:
    across = {"benchmarks", "crash", "docs", "fuzz", "sites", "stateful"}
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}
    strange = [str(folder) for folder in folders if str(folder) not in across and not (PACKAGE / folder).exists()]
    assert set(strange) <= {"leasing"}, "budgetfrontier has no such folder"  # a module, with tests of several kinds
