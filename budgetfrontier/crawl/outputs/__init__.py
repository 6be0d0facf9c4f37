"""What a crawl writes: logs, pages, links, statistics, WARC files, and what sinks of one's own make of the pages."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from budgetfrontier.crawl.fetch.response import Response
from budgetfrontier.crawl.outputs.files import sync_folder
from budgetfrontier.crawl.outputs.logs import Logs
from budgetfrontier.crawl.outputs.records import digest
from budgetfrontier.crawl.outputs.sinks import Sinks, page
from budgetfrontier.crawl.outputs.statistics import Statistics
from budgetfrontier.crawl.outputs.warc import Originals, WarcFiles
from budgetfrontier.model import Lease, Outcome, Summary
from budgetfrontier.settings import Settings


class Outputs:
    """Everything that one job writes into its `folder`. Use with `with`, by the process that holds the frontier's lock.

    The order that makes it safe: `write` an attempt, finish its lease, then before each commit of the frontier `sync`,
    then `cache.commit()`. What the frontier calls done is then on disk; what was written but not committed is fetched
    again, and stands there twice. What a crash left half written is cut off when the job is opened again.

    Raises SettingsError for a sink that cannot be loaded; StorageFull from any method when the disk is full: then
    nothing may be committed. What the disk did not take is kept, in order, and tried again.
    """

    def __init__(self, folder: Path, settings: Settings, *, cache: Originals) -> None:
        output, logs = settings.output, folder / "logs"
        self._sinks = Sinks(output.sinks)
        self._logs = Logs(logs, output)
        self._statistics = Statistics(logs / "progress-statistics.log") if output.statistics else None
        self._warc = WarcFiles(folder / "warcs", settings, cache=cache) if output.warc else None
        for made in (logs, folder):
            sync_folder(made)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, lease: Lease, answer: Response, outcome: Outcome, *, slot: int, noindex: bool = False) -> None:
        """Write one attempt, made by the worker `slot`, from 1. The answer is that of the lease's own URI.

        crawl.log has all attempts; pages.jsonl, the WARC files and the sinks HTTP answers that were read and do not say
        noindex (`noindex`: they do, and that counts).
        """
        sha1 = answer.digest()
        text = digest(sha1) if sha1 else ""
        self._logs.write(lease, answer, digest=text, slot=slot, noindex=noindex)
        if answer.status <= 0 or noindex or "midFetchAbort" in answer.notes:
            return
        self._logs.write_page(lease, answer, outcome, digest=text)
        if self._warc:
            self._warc.write(lease, answer, sha1)
        if self._sinks:
            self._sinks.give(page(lease, answer, outcome, digest=text))

    def write_links(self, url: str, links: Iterable[tuple[str, str]]) -> None:
        """Write the (URL, hop) found on a page, those out of scope too; `links` is not touched if none are kept."""
        self._logs.write_links(url, links)

    def statistics(
        self, summary: Summary, *, elapsed: float, fetched: int, bytes: int, in_flight: int, failures: int
    ) -> None:
        """Write a line of progress-statistics.log; `elapsed` (seconds), `fetched` and `bytes` are those of this run."""
        if self._statistics:
            self._statistics.write(
                summary, elapsed=elapsed, fetched=fetched, bytes=bytes, in_flight=in_flight, failures=failures
            )

    def sync(self) -> None:
        """Bring everything that was written to the disk. Free if nothing was."""
        for file in self._logs.files:
            file.sync()
        if self._statistics:
            self._statistics.file.sync()
        if self._warc:
            self._warc.sync()
        self._sinks.sync()

    def close(self) -> None:
        """Sync and close everything; each file, though the disk be full."""
        with ExitStack() as stack:  # goes on with the others when one raises
            stack.callback(self._sinks.close)
            for file in self._logs.files:
                stack.callback(file.close)
            if self._statistics:
                stack.callback(self._statistics.file.close)
            if self._warc:
                stack.callback(self._warc.close)
