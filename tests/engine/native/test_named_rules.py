"""What the kernel repeats is named beside it, and there is what it names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCES = sorted((ROOT / "budgetfrontier/engine/native/src").rglob("*.rs"))


def defined() -> set[str]:
    """The functions and classes of the package, as MODULE.NAME and CLASS.METHOD, and all by themselves."""
    names = set[str]()
    for path in [*(ROOT / "budgetfrontier").rglob("*.py"), *(ROOT / "policies").glob("*.py")]:
        for owner in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(owner, ast.Module | ast.ClassDef):
                name = owner.name if isinstance(owner, ast.ClassDef) else path.stem
                found = [node.name for node in owner.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
                names |= {name, *found, *(f"{name}.{each}" for each in found)}
    return names


def test_the_kernel_names_what_it_repeats() -> None:
    known = defined()
    for path in SOURCES:
        comments = "\n".join(re.findall(r"//[/!]? ?(.*)", path.read_text(encoding="utf-8")))
        for name in re.findall(r"`([a-zA-Z_/]+\.py)`", comments):
            assert any((ROOT / folder / name).is_file() for folder in ("", "budgetfrontier")), f"{path.name}: {name}"
        copied = re.findall(r"(?:copies `|^`(?=\w+\.))([A-Za-z_.]+)`(?! of py-lmdb)", comments, re.MULTILINE)
        for name in copied + re.findall(r"\(([A-Z]\w+\.[a-z_]+)\)", comments):
            assert name.endswith(".py") or name in known, f"{path.name}: {name}"


def test_what_decides_in_the_kernel_is_named() -> None:
    """The rules that turns and ends of leases repeat."""
    text = "".join(path.read_text(encoding="utf-8") for path in SOURCES)
    rules = ("budgets.is_over_total", "budgets.must_retire", "queue_states.may_lease", "queue_states.after_finish")
    others = ("charges.charge", "Politeness.__call__", "Turns.rest_after_lease", "queued_totals.is_queued")
    more = ("group_limits.state", "GroupTurns.ended", "Turns._complete")
    for rule in (*rules, *others, *more, "queue_history.count"):
        assert f"`{rule}`" in text
