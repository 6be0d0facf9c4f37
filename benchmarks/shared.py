"""A frontier that processes share: `python -m benchmarks.shared` measures our server beside the engine alone.

Figures are URIs per second of processor time: of the server's process, or of this one for the engine; the best of the
rounds, for a busy machine only makes them worse. The server commits before each reply, the engine every half second.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import script
from budgetfrontier import Frontier, Settings
from budgetfrontier.remote import RemoteFrontier

URIS = 100_000
HOSTS = 1000
BATCH = 256
ROUNDS = 5
CLIENTS = 4
LEGS = (f"schedule_many of {BATCH}", f"lease + finish_many of {BATCH}")
CONFIG = """
crawl: shared
frontier:
  keep_urls: {keep_urls}
  politeness: {{min_delay: 0, delay_factor: 0, per_queue_concurrency: 3}}
"""


def urls(count: int) -> list[str]:
    """Return URLs of many hosts."""
    return [f"https://www.host{n % HOSTS}.example.org/section/{n}/a-page-of-some-length.html" for n in range(count)]


def schedule(frontier: Any, given: list[str]) -> None:
    """Schedule URLs batch by batch."""
    for first in range(0, len(given), BATCH):
        frontier.schedule_many(given[first : first + BATCH])
    frontier.commit()


def drain(frontier: Any) -> None:
    """Lease and finish all URIs, one call after the other."""
    while leases := frontier.lease(BATCH):
        frontier.finish_many(leases)
    frontier.commit()


def exchange(frontier: Any) -> None:
    """Lease and finish all URIs, both in one call."""
    _, leases = frontier.finish_and_lease([], BATCH)
    while leases:
        _, leases = frontier.finish_and_lease(leases, BATCH)


def together(frontier: Any) -> None:
    """Lease and finish all URIs in several threads."""
    threads = [threading.Thread(target=exchange, args=(frontier,)) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    exchange(frontier)  # what was out when a thread looked


WAYS: dict[str, Callable[[Any], None]] = {
    "server": drain,
    "server, finish_and_lease": exchange,
    f"server, finish_and_lease by {CLIENTS} threads": together,
}


def timed(work: Callable[[], None], clock: Callable[[], float], count: int) -> float:
    """Return how many of `count` were done per second of a clock."""
    before = clock()
    work()
    return count / max(clock() - before, 1e-9)


def engine(folder: Path, config: Path, given: list[str]) -> tuple[float, float]:
    """Measure the engine alone."""
    with Frontier.open(folder / "frontier", Settings.from_yaml(config)) as frontier:
        return (
            timed(lambda: schedule(frontier, given), time.process_time, len(given)),
            timed(lambda: drain(frontier), time.process_time, len(given)),
        )


def server(folder: Path, config: Path, given: list[str], way: Callable[[Any], None]) -> tuple[float, float]:
    """Measure a server."""
    address = f"unix:{folder / 's'}"
    command = [sys.executable, "-m", "budgetfrontier", "serve", str(folder), "--listen", address]
    command += ["--config", str(config)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, cwd=script.HERE.parent)
    assert process.stderr is not None
    process.stderr.readline()

    def used() -> float:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    try:
        with RemoteFrontier(address) as frontier:
            scheduled = timed(lambda: schedule(frontier, given), used, len(given))
            ended = timed(lambda: way(frontier), used, len(given))
            if frontier.summary().succeeded != len(given):
                raise ValueError("not all URIs have ended")
            return scheduled, ended
    finally:
        process.terminate()
        process.communicate()


def measure(count: int, rounds: int, where: Path) -> dict[str, dict[str, float]]:
    """Return URIs per second of processor time, by form and leg."""
    best: dict[str, dict[str, float]] = {}
    given = urls(count)
    for _ in range(rounds):
        for keep_urls in ("false", "true"):
            kept = ", URLs kept" if keep_urls == "true" else ""
            for form, way in {"engine": None, **WAYS}.items():
                with tempfile.TemporaryDirectory(dir=where) as name:
                    config = Path(name) / "config.yaml"
                    config.write_text(CONFIG.format(keep_urls=keep_urls), encoding="utf-8")
                    if way is None:
                        figures = engine(Path(name), config, given)
                    else:
                        figures = server(Path(name), config, given, way)
                row = best.setdefault(form + kept, dict.fromkeys(LEGS, 0.0))
                for leg, figure in zip(LEGS, figures, strict=True):
                    row[leg] = max(row[leg], figure)
    return best


def table(best: dict[str, dict[str, float]]) -> str:
    """Return the figures as a table in Markdown, with the part of the engine's."""
    rows = [f"| | {' | '.join(LEGS)} |", "| --- |" + " --- |" * len(LEGS)]
    for form, figures in best.items():
        alone = best["engine, URLs kept" if form.endswith("kept") else "engine"]
        cells = [f"{figures[leg]:,.0f} ({figures[leg] / alone[leg]:.2f})" for leg in LEGS]
        rows.append(f"| {form} | {' | '.join(cells)} |")
    return "\n".join(rows)


def main() -> None:
    """Measure, and write the results."""
    parser = script.parser("benchmarks.shared", __doc__, scaled="the URIs")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = script.parse(parser)
    about = script.describe(options)
    best = measure(int(URIS * options.scale), options.rounds, options.folder)
    record = script.record(about, measured=best)
    script.write("shared", "A shared frontier", [table(best), script.facts(about)], record, options.results)


if __name__ == "__main__":
    main()
