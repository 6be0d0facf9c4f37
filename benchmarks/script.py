"""What the scripts that measure have in common: options, a folder on a real disk, and how results are written."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import machine

HERE = Path(__file__).parent
RESULTS = HERE / "results"
ON_MEMORY = ("tmpfs", "ramfs")


def parser(program: str, description: str | None, *, scaled: str = "the workload") -> argparse.ArgumentParser:
    """Return a parser with the options that all scripts have; `scaled` is what --scale takes a part of."""
    made = argparse.ArgumentParser(prog=f"python -m {program}", description=description)
    made.add_argument("--scale", type=float, default=1.0, help=f"part of {scaled}; the targets are for 1.0")
    made.add_argument("--folder", type=Path, default=Path(), help="where temporary data goes: a real disk")
    made.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="the core to measure on")
    made.add_argument("--results", type=Path, help="where the tables are written (default: benchmarks/results)")
    return made


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the arguments. Ends the process if the folder is in memory."""
    options = parser.parse_args()
    if machine.file_system(options.folder) in ON_MEMORY:
        parser.error(f"{options.folder} is in memory, where a sync costs nothing: name another with --folder")
    return options


def other_core(core: int) -> int:
    """Return a core beside `core`; `core` itself if it is the only one."""
    return max(os.sched_getaffinity(0) - {core}, default=core)


def describe(options: argparse.Namespace) -> dict[str, str]:
    """Describe the machine before the measurements, and the scale if it is not that of the targets."""
    about = machine.describe(options.folder, options.core)
    if options.scale != 1:
        about["scale"] = f"{options.scale}: no measure of the targets"
    return about


@contextmanager
def temporary(name: str, folder: Path) -> Iterator[Path]:
    """Make a folder for temporary data below `folder`, and remove it at the end."""
    made = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder)).resolve()
    try:
        yield made
    finally:
        shutil.rmtree(made)


def record(about: dict[str, str], **measured: Any) -> dict[str, Any]:
    """Return all that was measured as it is stored: with the date, the machine, and the load at the end."""
    about["load after"] = machine.load()
    return {"format": machine.FORMAT, "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%MZ}", "machine": about} | measured


def facts(about: dict[str, str]) -> str:
    """Return the description of the machine as a list in Markdown."""
    return "\n".join(f"- {name}: {value}" for name, value in about.items())


def write(name: str, title: str, parts: Iterable[str], record: dict[str, Any], results: Path | None) -> None:
    """Print the parts below a heading, and write them and the record to `results` unless that is None.

    `name` is the beginning of the files' names; parts that are empty are left out.
    """
    day = record["date"][:10]
    heading = f"# {title}, {day}, " if title else f"# {day}, "
    text = "\n\n".join(filter(None, [heading + record["machine"]["processor"], *parts])) + "\n"
    print(text)
    if results is None:
        return
    results.mkdir(parents=True, exist_ok=True)
    target = results / "-".join(filter(None, (name, day, machine.slug())))
    target.with_suffix(".md").write_text(text)
    target.with_suffix(".json").write_text(_json(record))


def _json(record: dict[str, Any]) -> str:
    """Encode a record; of `points`, which may be thousands, each takes a line."""
    if not record.get("points"):
        return json.dumps(record, indent=1) + "\n"
    points = ",\n".join(json.dumps(point) for point in record["points"])
    whole = json.dumps(record | {"points": []}, indent=1)
    return whole.replace('"points": []', f'"points": [\n{points}\n]') + "\n"
