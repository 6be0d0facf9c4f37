"""How the tests are laid out: as the package is."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "budgetfrontier"


@pytest.mark.parametrize("package", ["engine", "store", "rules", "settings"])
def test_each_module_has_a_test_file_of_its_name(package: str) -> None:
    modules = [path.relative_to(PACKAGE) for path in (PACKAGE / package).rglob("*.py") if path.name != "__init__.py"]
    assert len(modules) >= 10
    missing = [path for path in modules if not (TESTS / path.with_name(f"test_{path.name}")).exists()]
    assert not missing, "each of these modules has no test file of its name"


def test_folders_of_tests_are_those_of_the_package_and_a_few_more() -> None:
    across = {"benchmarks", "crash", "docs", "fuzz", "sites", "stateful"}
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}
    strange = [str(folder) for folder in folders if str(folder) not in across and not (PACKAGE / folder).exists()]
    assert set(strange) <= {"leasing"}, "budgetfrontier has no such folder"  # a module, with tests of several kinds
