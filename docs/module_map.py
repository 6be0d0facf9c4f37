"""The list of modules in docs/explanation/architecture.md: `python -m docs.module_map` writes it anew.

A line of the list is the first line of a module's docstring.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/explanation/architecture.md"
BEGIN, END = "<!-- modules -->\n", "<!-- end of modules -->\n"


def modules() -> list[Path]:
    """Return the modules of the package below `budgetfrontier`, those of a folder together, without linked folders."""
    package = ROOT / "budgetfrontier"
    found = (path.relative_to(package) for path in package.rglob("*.py"))
    mine = (path for path in found if not {"policies", "templates"} & set(path.parts))
    return sorted(mine, key=lambda path: (path.parent.parts, path.name))


def first_line(module: Path) -> str:
    """Return the first line of a module's docstring."""
    doc = ast.get_docstring(ast.parse((ROOT / "budgetfrontier" / module).read_text(encoding="utf-8")))
    return (doc or "").partition("\n")[0]


def as_markdown() -> str:
    """Return the list: a heading for each folder, below it what it holds, and a line for each of its modules."""
    folders: dict[Path, list[Path]] = defaultdict(list)
    for module in modules():
        folders[module.parent].append(module)
    parts = []
    for folder, inside in folders.items():
        name = "budgetfrontier" if folder == Path() else f"{folder.as_posix()}/"
        lines = [f"- `{module.stem}`: {first_line(module)}" for module in inside if module.stem != "__init__"]
        parts.append(f"### `{name}`\n\n{first_line(folder / '__init__.py')}\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def filled(page: str) -> str:
    """Return the page with the list as the modules are now."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{as_markdown()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
