"""kumo's queue in memory, which keeps nothing: the program in `kumo/`, compiled by cargo when the benchmarks begin."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

SOURCES = Path(__file__).parent / "kumo"


def missing() -> str:
    """Return which requirement is missing; "" if none is."""
    return "" if shutil.which("cargo") else "cargo"


def build(folder: Path) -> Path:
    """Compile the program in `folder`, unless it is there, and return it. The first time takes some minutes."""
    program = folder / "release" / "kumo-push"
    if not program.exists():
        command = ["cargo", "build", "--quiet", "--release", "--target-dir", str(folder)]
        subprocess.run(command, check=True, cwd=SOURCES)
    return program


def push(program: Path, stream: Path, count: int) -> dict[str, float]:
    """Measure pushes per second of the first `count` URLs of a stream."""
    done = subprocess.run([str(program), str(stream), str(count)], check=True, stdout=subprocess.PIPE)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures
