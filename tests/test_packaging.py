"""What a wheel must carry, and what importing must not."""

from __future__ import annotations

import pydoc
import subprocess
import sys
import tomllib
from importlib.metadata import metadata, version
from importlib.resources import files
from pathlib import Path

import pytest

import budgetfrontier
from tests.support import PATIENCE

ROOT = Path(__file__).parents[1]
HEAVY = {"aiohttp", "lmdb", "protego", "requests", "rich", "tldextract", "yaml"}


def imported_by(statement: str) -> set[str]:
    """The top-level modules that are loaded after a statement, in a fresh interpreter."""
    script = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=PATIENCE)
    return set(run.stdout.split())


@pytest.mark.parametrize(("link", "target"), [("policies", "policies"), ("profiles", "config")])
def test_top_level_folders_are_linked_into_the_package(link: str, target: str) -> None:
    assert (ROOT / "budgetfrontier" / link).resolve() == ROOT / target


def test_profiles_and_type_marker_are_package_data() -> None:
    package = files("budgetfrontier")
    assert package.joinpath("py.typed").is_file()
    for name in ("default", "demo", "round-robin", "site-first", "budgeted-rotation", "capped"):
        assert package.joinpath("profiles", f"{name}.yaml").is_file(), name


def test_version_is_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert version("budgetfrontier") == budgetfrontier.__version__ == project["version"]
    assert metadata("budgetfrontier")["License-Expression"] == "Apache-2.0"


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert not HEAVY & imported_by("import budgetfrontier")


def test_the_public_names_are_found_by_those_who_look() -> None:
    assert set(dir(budgetfrontier)) >= set(budgetfrontier.__all__)
    text = pydoc.TextDoc().docmodule(budgetfrontier)
    assert "class Frontier" in pydoc.plain(text) and "__getattr__" not in text


def test_scrapy_that_is_missing_is_named_by_its_extra() -> None:
    script = (
        "import sys; sys.modules['scrapy'] = None\n"
        "try:\n    import budgetfrontier.scrapy\nexcept ImportError as error:\n    print(error)"
    )
    printed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert printed.startswith('this needs the extra "scrapy"')


def test_help_imports_nothing_heavy() -> None:
    statement = "from budgetfrontier.cli import build_parser; build_parser()"
    assert not HEAVY & imported_by(statement)


def test_the_library_needs_no_extra_and_no_suffix_list() -> None:
    statement = "from budgetfrontier import Frontier; Frontier.open(':memory:').close()"
    assert HEAVY & imported_by(statement) == {"lmdb"}


def test_policies_are_not_installed_as_a_package_of_their_own(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", "import policies"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert "ModuleNotFoundError" in run.stderr
