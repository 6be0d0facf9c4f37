"""kumo's queue in memory, which keeps nothing: the program in `kumo/`, compiled by cargo when the benchmarks begin."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

SOURCES = Path(__file__).parent / "kumo"
TARGET = SOURCES.parent.parent / "build" / "kumo"
PROGRAM = TARGET / "release" / "kumo-push"


def missing() -> str:
    """Return which requirement is missing; "" if none is."""
    return "" if shutil.which("cargo") else "cargo"


def build() -> dict[str, float]:
    """Compile the program, which takes some minutes the first time; return its size."""
    command = ["cargo", "build", "--quiet", "--release", "--target-dir", str(TARGET)]
    subprocess.run(command, check=True, cwd=SOURCES)
    return {"bytes": PROGRAM.stat().st_size}


def push(stream: Path, count: int) -> dict[str, float]:
    """Measure pushes per second of the first `count` URLs of a stream."""
    done = subprocess.run([str(PROGRAM), str(stream), str(count)], check=True, stdout=subprocess.PIPE)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures
