"""The map of the architecture is that of the tree: every layer, every module, and every place that it sends one to."""

from __future__ import annotations

import re
import tomllib

from docs import module_map

TEXT = module_map.PAGE.read_text(encoding="utf-8")


def section(title: str) -> str:
    return TEXT.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_every_module_has_its_line() -> None:
    assert module_map.filled(TEXT) == TEXT, "the list of modules is not that of the tree: python -m docs.module_map"


def test_every_module_says_what_it_holds() -> None:
    assert [module for module in module_map.modules() if not module_map.first_line(module)] == []


def test_the_layers_are_those_that_imports_keep_to() -> None:
    contracts = tomllib.loads((module_map.ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    kept = {name.strip().removeprefix("budgetfrontier.") for layer in layers for name in layer.split("|")}
    first_cells = re.findall(r"^\| (`.*?) \|", section("The layers"), re.MULTILINE)
    assert {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)} == kept


def test_whatever_it_sends_one_to_is_there() -> None:
    named = set()
    for title in ("The way of one URI", "The way of one remote finish", "Where to change what"):
        named |= set(re.findall(r"`([\w/]+(?:\.\w+|/))`", section(title)))
    assert len(named) > 20
    assert [
        path
        for path in sorted(named)
        if not any((module_map.ROOT / top / path).exists() for top in ("budgetfrontier", ""))
    ] == []
