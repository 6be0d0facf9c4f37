"""What the package and each extra cost on disk, at the start and in memory: `python -m benchmarks.packages`.

Builds the wheel, installs it with each extra in an environment of its own, and runs statements there. Needs an index.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import script

ROOT = Path(__file__).parents[1]
MB = 1_000_000
RUNS = 9
DEVELOPMENT = {"bench", "dev", "docs"}
"""Extras that are for work on the package itself."""
OPENING = "from budgetfrontier import Frontier; Frontier.open(':memory:')"
BY_DOMAIN = (
    "from budgetfrontier import Frontier, Settings; settings = Settings.from_dict({'frontier': "
    "{'queue_assignment_policy': 'registered-domain'}}); "
    "Frontier.open(':memory:', settings).schedule('https://www.example.co.uk/')"
)
CORE = {
    "Python alone": "pass",
    "`budgetfrontier --version`": (
        "import sys; sys.argv[1:] = ['--version']; from budgetfrontier.__main__ import main; main()"
    ),
    "`import budgetfrontier`": "import budgetfrontier",
    "open a frontier with a queue for each host": OPENING,
    "schedule a URL into the queue of its registered domain": BY_DOMAIN,
}
"""What is measured of the package without extras: names, and statements."""
EXTRAS = {
    "crawl": "import budgetfrontier.crawler.job",
    "console": "import budgetfrontier.tools.console.console_server",
    "grpc": "import budgetfrontier.server.server",
    "redis": "import budgetfrontier.bus.redis_streams",
    "zmq": "import budgetfrontier.bus.zeromq",
    "kafka": "import budgetfrontier.bus.kafka",
    "scrapy": "import budgetfrontier.scrapy",
    "completion": "import argcomplete",
    "bloom": "import budgetfrontier.storage.bloom_file, rbloom",
    "star": "import hyperloglog",
    "crawl,console": "import budgetfrontier.crawler.job, budgetfrontier.tools.console.console_server",
}
"""What is measured of each extra, or of several together: the import of what needs it."""
NETWORK = {"certifi", "charset_normalizer", "requests", "urllib3"}
"""The HTTP client that tldextract imports."""


def declared() -> set[str]:
    """Return the extras that users may install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return set(project["optional-dependencies"]) - DEVELOPMENT


def build(folder: Path) -> Path:
    """Build the wheel, and return its file."""
    _run([sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)])
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, extras: str, folder: Path) -> Path:
    """Install the wheel with some extras in a new environment without pip, and return its interpreter."""
    _run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--python", str(python)]
    _run([*pip, "install", f"{wheel}[{extras}]" if extras else str(wheel)])
    return python


def sizes(environment: Path) -> dict[str, int]:
    """Return the bytes of each entry of `site-packages`: of all files, metadata and bytecode included."""
    (packages,) = environment.glob("lib/python*/site-packages")
    found = {}
    for entry in packages.iterdir():
        files = [path for path in (entry.rglob("*") if entry.is_dir() else [entry]) if path.is_file()]
        found[entry.name] = sum(path.lstat().st_size for path in files)
    return found


def start(python: Path, statement: str) -> dict[str, Any]:
    """Run a statement in fresh processes; return the medians of its costs, and what it imports of the network."""
    runs = [_started(python, statement) for _ in range(RUNS)]
    names = f"{statement}\nimport sys; print(*sys.modules)"
    loaded = subprocess.run([python, "-c", names], check=True, capture_output=True, text=True).stdout
    return {
        "seconds": median(seconds for seconds, _ in runs),
        "bytes": median(memory for _, memory in runs),
        "network": sorted(NETWORK & set(loaded.split())),
    }


def _started(python: Path, statement: str) -> tuple[float, int]:
    """Return the processor time and the peak of memory of one process."""
    with subprocess.Popen([python, "-c", statement], stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, statement)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def measure(folder: Path) -> dict[str, Any]:
    """Install the package without extras and with each, and return sizes and starts."""
    wheel = build(folder / "dist")
    core = install(wheel, "", folder / "core")
    alone = sizes(folder / "core")
    found = {"core": {"sizes": alone, "starts": {name: start(core, text) for name, text in CORE.items()}}}
    for number, (extras, statement) in enumerate(EXTRAS.items()):
        environment = folder / str(number)
        python = install(wheel, extras, environment)
        found[extras] = {"sizes": sizes(environment), "starts": {statement: start(python, statement)}}
    return found


def sizes_table(found: dict[str, Any]) -> str:
    """Return what is on disk with each extra, in Markdown."""
    rows = [
        "| installed | MB | more than without extras | the largest of what it adds |",
        "| --- | --- | --- | --- |",
    ]
    core = found["core"]["sizes"]
    for extras, measured in found.items():
        here = measured["sizes"]
        whole, more = sum(here.values()), sum(here.values()) - sum(core.values())
        added = {name: size for name, size in here.items() if extras == "core" or name not in core}
        largest = sorted(added, key=added.__getitem__, reverse=True)[:4]
        names = ", ".join(f"{name} {added[name] / MB:.1f}" for name in largest if added[name] >= MB / 20)
        name = "`budgetfrontier`" if extras == "core" else f"`budgetfrontier[{extras}]`"
        rows.append(f"| {name} | {whole / MB:.1f} | {'' if extras == 'core' else f'{more / MB:.1f}'} | {names} |")
    return "\n".join(rows)


def starts_table(found: dict[str, Any]) -> str:
    """Return what starting costs, in Markdown."""
    rows = ["| installed | started | processor time, ms | memory, MB | HTTP client of tldextract |"]
    rows.append("| --- | --- | --- | --- | --- |")
    for extras, measured in found.items():
        for name, cost in measured["starts"].items():
            what = f"`{name}`" if name.startswith("import ") else name
            network = "imported" if cost["network"] else "no"
            milliseconds, memory = cost["seconds"] * 1000, cost["bytes"] / MB
            rows.append(f"| {extras} | {what} | {milliseconds:.0f} | {memory:.0f} | {network} |")
    return "\n".join(rows)


def main() -> None:
    """Measure, and write the results."""
    options = script.parse(script.parser("benchmarks.packages", __doc__, scaled="nothing"))
    about = script.describe(options)
    os.sched_setaffinity(0, {options.core})
    with script.temporary("packages", options.folder) as folder:
        found = measure(folder)
    record = script.record(about, measured=found)
    parts = (sizes_table(found), starts_table(found), script.facts(about))
    script.write("packages", "Packages", parts, record, options.results or script.RESULTS)


if __name__ == "__main__":
    main()
