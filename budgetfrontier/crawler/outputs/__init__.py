"""Outputs of a crawl: logs, pages, links, statistics, WARC files, and user-defined sinks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from budgetfrontier.core.model import Lease, Outcome, Summary
from budgetfrontier.core.vocabulary import NOFOLLOW, NOINDEX, NOT_STORED
from budgetfrontier.crawler import installed as _installed  # noqa: F401
from budgetfrontier.crawler.fetch.response import FetchResult
from budgetfrontier.crawler.outputs.append_only_files import GrowingFile, sync_folder
from budgetfrontier.crawler.outputs.logs import Logs
from budgetfrontier.crawler.outputs.sinks import Sinks, page
from budgetfrontier.crawler.outputs.statistics import Statistics
from budgetfrontier.crawler.outputs.warc import Originals, WarcFiles, is_unchanged
from budgetfrontier.crawler.outputs.warc_records import digest
from budgetfrontier.settings import Settings


class Outputs:
    """All outputs of one job, in its `folder`. Use with `with`, in the process that holds the frontier's lock.

    The order of calls that is safe against crashes: `write` an attempt, finish its lease, and before each commit of the
    frontier `sync`, then `cache.commit()`. Everything that the frontier has as finished is then on disk; attempts that
    were written but not committed are repeated, and are in the outputs twice. Records that a crash left incomplete are
    cut off when the job is opened again.

    Raises SettingsError for a sink that cannot be loaded. All methods raise StorageFull when the disk is full: nothing
    may be committed then. Data that the disk did not accept is kept in memory, in order, and is written later.
    """

    def __init__(self, folder: Path, settings: Settings, *, cache: Originals) -> None:
        output, logs = settings.output, folder / "logs"
        self._leaves_out_noindex, self._skips_nofollow = output.noindex == "skip", settings.links.nofollow == "skip"
        self.left_out = self.not_followed = 0
        """The pages written that are in crawl.log only, since they say noindex, and those whose links are not followed.
        """
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

    def write(self, lease: Lease, response: FetchResult, outcome: Outcome, *, slot: int) -> bool | None:
        """Write one attempt by the worker `slot` (from 1); `response` is the response to the lease's own URI.

        Return whether its payload is new: not after a 304, nor with the digest of the last visit, nor with that of
        another page in the WARC files; None if that is not known.

        All attempts go to crawl.log. pages.jsonl, the WARC files and the sinks get HTTP responses only: neither those
        ended after the header, nor pages with `noindex` if the settings leave them out.
        """
        sha1 = response.digest()
        text = digest(sha1) if sha1 else ""
        left_out = self._leaves_out_noindex and NOINDEX in response.notes
        self.left_out += left_out
        self.not_followed += self._skips_nofollow and NOFOLLOW in response.notes
        novel = False if is_unchanged(lease.uri, response, sha1) else None
        stored = response.status > 0 and not left_out and "midFetchAbort" not in response.notes
        if stored and self._warc:  # first: if its file cannot be opened, crawl.log has no line without a record
            found = self._warc.write(lease, response, sha1)
            novel = found if novel is None else novel
        self._logs.write(lease, response, digest=text, slot=slot, note=NOT_STORED if left_out else "")
        if not stored:
            return novel
        self._logs.write_page(lease, response, outcome, digest=text)
        if self._sinks:
            self._sinks.give(page(lease, response, outcome, digest=text))
        return novel

    def said_of_robots_tags(self) -> Iterator[str]:
        """Yield lines on exclusions by robots tags, from the outputs or from being crawled."""
        if self.left_out:
            pages = "1 page that says" if self.left_out == 1 else f"{self.left_out:,} pages that say"
            yield f"{pages} noindex: in crawl.log only (`output.noindex: store` stores such pages)"
        if self.not_followed:
            pages = "1 page that says" if self.not_followed == 1 else f"{self.not_followed:,} pages that say"
            yield f"{pages} nofollow: links not followed (`links.nofollow: follow` follows them)"

    def write_links(self, url: str, links: Iterable[tuple[str, str]]) -> None:
        """Write the links (URL, hop) of a page, in scope or not; `links` is not consumed if this output is off."""
        self._logs.write_links(url, links)

    def statistics(
        self, summary: Summary, *, elapsed: float, fetched: int, bytes: int, in_flight: int, failures: int
    ) -> None:
        """Write a line of progress-statistics.log; `elapsed` (seconds), `fetched` and `bytes` count this run only."""
        if self._statistics:
            self._statistics.write(
                summary, elapsed=elapsed, fetched=fetched, bytes=bytes, in_flight=in_flight, failures=failures
            )

    def begin_sync(self) -> list[Callable[[], None]]:
        """Write out everything, and return the calls that make it durable, which may run in another thread.

        The files may be written to meanwhile; a `sync` is then left with the bytes written after this call.
        """
        return [rest for file in self._files() if (rest := file.begin_sync())]

    def sync(self) -> None:
        """Make everything written durable (fsync). Costs nothing if nothing was written."""
        for file in self._files():
            file.sync()
        if self._warc:
            self._warc.sync()
        self._sinks.sync()

    def _files(self) -> list[GrowingFile]:
        statistics = [self._statistics.file] if self._statistics else []
        return [*self._logs.files, *statistics, *(self._warc.files if self._warc else ())]

    def close(self) -> None:
        """Sync and close all outputs, even if some raise an error."""
        with ExitStack() as stack:  # runs all callbacks, even if one raises
            stack.callback(self._sinks.close)
            for file in self._logs.files:
                stack.callback(file.close)
            if self._statistics:
                stack.callback(self._statistics.file.close)
            if self._warc:
                stack.callback(self._warc.close)
