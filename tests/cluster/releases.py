"""A next release: this one with some changes, in a virtual environment of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support import PATIENCE

ROOT = Path(__file__).parents[2]
CHANGES = {
    "__init__.py": ('__version__ = "', '__version__ = "9.'),
    "settings/schema.py": (
        "    hold_queues: Annotated[",
        '    of_tomorrow: Annotated[bool, Field("a new setting", FLAG)] = True\n    hold_queues: Annotated[',
    ),
}
"""A new version, and a setting more: by file, a text and what is in its place."""


class NextRelease:
    """The package with changes, and the environment that runs it with the dependencies of this one."""

    def __init__(self, folder: Path, changes: Mapping[str, tuple[str, str]]) -> None:
        """Make it in a folder; of each file, the first occurrence of a text is replaced."""
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=PATIENCE)
        (packages,) = folder.glob("lib/python*/site-packages")
        self.package = packages / "budgetfrontier"
        shutil.copytree(ROOT / "budgetfrontier", self.package, ignore=shutil.ignore_patterns("__pycache__"))
        for name, (old, new) in changes.items():
            text = (self.package / name).read_text()
            assert old in text, name
            (self.package / name).write_text(text.replace(old, new, 1))
        others = [path for path in sys.path if path.endswith("site-packages")]
        (packages / "others.pth").write_text("\n".join([*others, str(ROOT)]))
        self.command = [str(folder / "bin" / "python"), "-I"]
        """The beginning of each command that it runs."""

    def run(self, program: str, *arguments: object) -> Any:
        """Run a program that prints the file of its package and a result, and return that."""
        done = subprocess.run(
            [*self.command, "-c", program, *map(str, arguments)],
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        where, result = json.loads(done.stdout)
        assert Path(where).parent == self.package
        return result
