"""The examples of the README and the docs: Python runs, YAML is valid, and commands parse.

The Python blocks of a page run in one process, one after another, in an empty folder. A block that starts with a
comment naming a file, `# crawl.yaml` or `# my_policies.py`, is written to that file first; such Python is imported by
what follows, not run.
"""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from budgetfrontier import Settings
from budgetfrontier.settings.loader import load_adjustments
from budgetfrontier.tools.cli import build_parser
from tests.support import PATIENCE

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(p for p in (ROOT / "docs").rglob("*.md") if "_build" not in p.parts)]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# ([\w./-]+\.\w+)$")


class Block(NamedTuple):
    language: str
    text: str
    line: int
    """Of the page, from 1, where `text` starts."""

    @property
    def file(self) -> str | None:
        named = _FILE.match(self.text.partition("\n")[0])
        return named[1] if named else None


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(m[1], m[2], text.count("\n", 0, m.start(2)) + 1) for m in _BLOCK.finditer(text)]


def pages_with(language: str) -> list[object]:
    chosen = [page for page in PAGES if any(block.language == language for block in blocks(page))]
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in chosen]


def write_files(page: Path, folder: Path) -> None:
    """Write the blocks that name a file, and the files that YAML examples mention."""
    (folder / "seeds.txt").write_text("https://www.example.org/\n", encoding="utf-8")
    for block in blocks(page):
        if block.file:
            (folder / block.file).write_text(block.text, encoding="utf-8")


def script_of(page: Path) -> str:
    """Return the Python of a page that is run, with as many lines before a block as the page has."""
    script = ""
    for block in blocks(page):
        if block.language == "python" and not block.file:
            script += "\n" * (block.line - 1 - script.count("\n")) + block.text  # tracebacks name the page's lines
    return script


@pytest.mark.parametrize("page", pages_with("python"))
def test_python_runs(page: Path, tmp_path: Path) -> None:
    write_files(page, tmp_path)
    (tmp_path / "page.py").write_text(script_of(page), encoding="utf-8")
    command = [sys.executable, "-W", "error", "page.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert run.returncode == 0, f"{page}\n{run.stdout}\n{run.stderr}"


ONE_BY_ONE = """
import os, shutil, sys, traceback
import budgetfrontier.aio, budgetfrontier.engine.frontier, budgetfrontier.leasing  # once for all

sys.path.insert(0, "")
failed = []
for name in sys.argv[1:] * 2:
    child = os.fork()
    if not child:
        try:
            shutil.copytree(name.removesuffix(".py"), ".", dirs_exist_ok=True)
            with open(name) as script:
                exec(compile(script.read(), name, "exec"), {"__name__": "__main__"})
            sys.stdout.flush()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        failed.append(name)
sys.exit(f"failed: {failed}" if failed else 0)
"""


def test_the_python_of_all_pages_runs_twice_in_one_folder(tmp_path: Path) -> None:
    names = []
    for page in PAGES:
        if script := script_of(page):
            (tmp_path / f"page_{page.stem}").mkdir()
            write_files(page, tmp_path / f"page_{page.stem}")
            names.append(f"page_{page.stem}.py")
            (tmp_path / names[-1]).write_text(script, encoding="utf-8")
    assert len(names) == len(set(names)) > 10
    command = [sys.executable, "-W", "error", "-c", ONE_BY_ONE, *names]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"


def test_blocks_of_the_page_on_asyncio_have_their_imports() -> None:
    """Each may be copied alone, but for names that another block assigns."""
    trees = [ast.parse(b.text) for b in blocks(ROOT / "docs/howto/asyncio.md") if b.language == "python"]
    imported = [
        {alias.asname or alias.name.partition(".")[0] for node in ast.walk(tree)
         if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names}
        for tree in trees
    ]  # fmt: skip
    assert len(trees) == 4
    for tree, own in zip(trees, imported, strict=True):
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert used & set().union(*imported) <= own


@pytest.mark.parametrize("page", pages_with("yaml"))
def test_yaml_is_valid(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(page, tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for block in blocks(page):
        if block.language == "yaml":
            path = tmp_path / (block.file or "example.yaml")
            path.write_text(block.text, encoding="utf-8")
            if path.name.endswith(".adjust.yaml"):
                load_adjustments(path)
            else:
                Settings.from_yaml(path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_parse(page: Path) -> None:
    parser = build_parser()
    text = page.read_text(encoding="utf-8")
    lines = re.findall(r"`(budgetfrontier \w[^`]* [^`]*)`", _BLOCK.sub("", text))
    for block in blocks(page):
        if block.language == "sh":
            lines += block.text.replace("\\\n", " ").splitlines()
    for line in lines:
        words = shlex.split(line.partition("|")[0], comments=True)
        if words[:1] == ["budgetfrontier"] and words[1:] != ["COMMAND", "--help"]:
            try:
                parser.parse_args(words[1:])
            except SystemExit:
                pytest.fail(f"{page}: {line}")
