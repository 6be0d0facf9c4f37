"""A description of the machine and the software that were measured."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path

from budgetfrontier.engine import native

FORMAT = 2
"""Of the results in JSON: those of another are not put into the documentation."""


def describe(folder: Path, core: int) -> dict[str, str]:
    """Return processor, memory, disk, kernel and versions, for the head of a result."""
    return {
        "processor": processor(),
        "cores": f"{os.cpu_count()}, measured on number {core}",
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / (1 << 30):.1f} GiB",
        "file system": file_system(folder),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "engine": native.described(),
        "lmdb": f"{version('lmdb')} with LMDB {lmdb_version()}",
        "msgspec, xxhash, can_ada": ", ".join(map(version, ("msgspec", "xxhash", "can_ada"))),
        "scrapy, queuelib, redis": ", ".join(map(version, ("scrapy", "queuelib", "redis"))),
        "redis-server": redis_server(),
        "commit": commit(),
        "load before": load(),
    }


def processor() -> str:
    """Return the name of the processor."""
    found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.machine()


def slug() -> str:
    """Return the name of the processor in a form for file names."""
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"\((R|TM)\)", "", processor()).lower()).strip("-")


def file_system(folder: Path) -> str:
    """Return the type of the file system that holds `folder`."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    above = [(len(point), kind) for point, kind in mounts if folder.resolve().is_relative_to(point)]
    return max(above)[1]


def load() -> str:
    """Return the load average of the last minute; above 1, other processes were running, too."""
    return f"{os.getloadavg()[0]:.2f}"


def stolen() -> tuple[int, int]:
    """Return the clock ticks since boot that the hypervisor gave to others, and all ticks; zeros if not counted.

    Source: proc(5), the line "cpu" of /proc/stat.
    """
    try:
        ticks = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except OSError:
        return 0, 0
    return ticks[-1], sum(ticks)


def version(package: str) -> str:
    """Return the installed version of a package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def redis_server() -> str:
    """Return the version of the Redis server."""
    try:
        done = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "not installed"
    found = re.search(r"v=(\S+)", done.stdout)
    return found[1] if found else "unknown"


def lmdb_version() -> str:
    """Return the version of the C library with which py-lmdb was built."""
    import lmdb

    return ".".join(map(str, lmdb.version()))


def commit() -> str:
    """Return the commit that was measured, with "+" if files were changed since."""
    command = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
