"""Questions about a large crawl.log: `python -m benchmarks.logs`, which writes a log of 2 GiB (`--scale`) first.

It measures what `explain` does for a URL that is not pending (the first question, which builds the index, the second,
and one after the log has grown) and the reports that read the log, each in a process of its own. The figures for 10 GiB
are extrapolated: the work of the first question and of the reports is proportional to the lines.
"""

from __future__ import annotations

import base64
import hashlib
import random
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import script
from benchmarks.command import Measured, measure
from budgetfrontier import Frontier

SIZE = 2 << 30  # bytes
EXTRAPOLATED = 10 << 30
GROWTH = 20_000  # lines
HOSTS = 20_000
BODIES = 5000
STATUSES = (200, 200, 200, 200, 301, 404, 503, -2, -9998)
KINDS = ("hosts", "mimetypes", "responsecodes", "crawl-summary")


class Log:
    """A log of pages of some thousand hosts, the larger the earlier they come."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._random = random.Random(1)
        self._time = time.time() - 30 * 86_400
        self._digests = ["sha1:" + base64.b32encode(hashlib.sha1(b"%d" % n).digest()).decode() for n in range(BODIES)]
        self.lines = 0
        self.last = ""
        """The URL of the last line."""

    def grow(self, *, lines: int = 0, size: int = 0) -> None:
        """Append a number of lines, or as many as reach a size."""
        until = self.lines + lines
        with self._path.open("a") as file:
            while self.lines < until or self._path.stat().st_size < size:
                for _ in range(1000):
                    file.write(self._line())
                file.flush()

    def _line(self) -> str:
        choose = self._random.random
        self._time += 0.01
        self.lines += 1
        host = f"www.site{int(choose() ** 2 * HOSTS)}.example"
        self.last = f"https://{host}/section{self.lines % 97}/page-{self.lines}.html"
        status = STATUSES[int(choose() * len(STATUSES))]
        stamp = datetime.fromtimestamp(self._time, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
        fetched = status > 0
        return (
            f"{stamp} {status:5d} {int(choose() * 100_000) if fetched else '-':>10} {self.last} L https://{host}/ "
            f"{'text/html' if fetched else '-'} #{self.lines % 50:03d} 20261121223000250+42 "
            f"{self._digests[int(choose() * BODIES)] if status == 200 else '-'} - -\n"
        )


def run(job: Path, size: int) -> tuple[dict[str, Measured], dict[str, int]]:
    """Write a log, and ask all questions about it; return their costs, and the sizes of log and index."""
    (job / "logs").mkdir(parents=True)
    log = Log(job / "logs" / "crawl.log")
    log.grow(size=size)
    url, lines = log.last, log.lines
    with Frontier.open(job / "frontier") as frontier:
        frontier.mark_seen([url])
    found = {f"explain, question {number}": measure("explain", job, url) for number in (1, 2)}
    index = sum(path.stat().st_size for path in (job / "logs" / "crawl.log.index").iterdir())
    log.grow(lines=GROWTH)
    found[f"explain, after {GROWTH:,} lines more"] = measure("explain", job, url)
    for kind in KINDS:
        found[f"report --kind {kind}"] = measure("report", job, "--kind", kind)
    found["report --kind hosts --since, the last 10 minutes"] = measure(
        "report", job, "--kind", "hosts", "--since", f"{time.time() - log._time + 600:.0f}s"
    )
    return found, {"lines": lines, "log": size, "index": index}


def table(found: dict[str, Measured], sizes: dict[str, int]) -> str:
    """Return the costs as a table in Markdown."""
    rows = [
        "| question | seconds | of processor time | MiB | seconds for 10 GiB, extrapolated |",
        "| --- |" + " --- |" * 4,
    ]
    factor = EXTRAPOLATED / sizes["log"]
    for name, (passed, processor, memory, _) in found.items():
        proportional = name.endswith("question 1") or (name.startswith("report") and "--since" not in name)
        larger = f"{processor * factor:.0f} of processor time" if proportional else ""
        rows.append(f"| {name} | {passed:.2f} | {processor:.2f} | {memory:.0f} | {larger} |")
    return "\n".join(rows)


def main() -> None:
    """Measure, and write the results."""
    options = script.parse(script.parser("benchmarks.logs", __doc__, scaled="2 GiB"))
    about = script.describe(options)
    with script.temporary("logs", options.folder) as folder:
        found, sizes = run(folder / "job", int(SIZE * options.scale))
    text = (
        f"{sizes['log'] / 2**30:.2f} GiB of log, {sizes['lines']:,} lines; the index: {sizes['index'] / 2**20:.1f} MiB"
    )
    measured: dict[str, Any] = {name: cost._asdict() for name, cost in found.items()}
    record = script.record(about, sizes=sizes, measured=measured)
    script.write(
        "logs", "Questions about a log", (text, table(found, sizes), script.facts(about)), record,
        options.results or script.RESULTS,
    )  # fmt: skip


if __name__ == "__main__":
    main()
