"""Reader of Heritrix's recovery journal, `frontier.recover.gz`, with one line for each event of a URI.

Of a job folder of Heritrix 3, the journals of the newest launch are read: checkpoints begin a new one, and leave the
one before as `frontier.recover.gz.CHECKPOINT`.

`F+ URI HOPS VIA` was scheduled; `Fs` succeeded and `Ff` failed have the same form; `Fe` (emitted), `Fr` (tried again),
`Fd` (disregarded) and `Fi` (included, by another journal) have the URI alone; `T` is the time, every 10,000 lines. As
in Heritrix, URIs that succeeded or were included are first marked as seen, with their cost; then scheduled URIs that
are not seen are queued: failed and disregarded ones are tried again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.format import counted
from budgetfrontier.rules.requests import are_hops
from budgetfrontier.tools.importers.allowance import MAX_RECORD_SIZE, Allowance
from budgetfrontier.tools.importers.import_items import (
    GZIP_ERRORS,
    MAX_HOPS,
    BadRecord,
    Item,
    Record,
    SourceNote,
    lines,
    open_source,
    truncated_file,
)

JOURNAL = "frontier.recover.gz"
_LAUNCH = re.compile(r"\d{14}")
_GAP = re.compile(r"[\s\x00-\x1f\x7f]+")
_DONE = frozenset((b"Fs", b"Fi"))
_KNOWN = _DONE | {b"F+", b"Fe", b"Ff", b"Fd", b"Fr", b"T"}


def recognize(start: bytes) -> bool:
    """Return whether a file is a journal, from its first bytes (decompressed)."""
    first = start.lstrip().split(b" ", 1)[0]
    return first in _KNOWN and len(start.split()) > 1


def is_job(folder: Path) -> bool:
    """Return whether a folder is that of a job of Heritrix 3, or of one of its launches."""
    return (folder / "crawler-beans.cxml").is_file() or bool(_journals(folder / "logs"))


def read(path: Path, allowance: Allowance) -> Iterator[Item]:
    """Yield the URIs of a journal or job, in two passes and O(1) memory. A truncated gzip is read as far as it goes."""
    journals = [path]
    if path.is_dir():
        journals, others = _of_job(path)
        if not journals:
            raise FrontierError(f"{path}: there is no {JOURNAL}; set recoveryLogEnabled, or import a list of its URLs")
        yield SourceNote(f"{path}: reading {', '.join(map(str, journals))}")
        for journal in journals:
            if not journal.stat().st_size:
                yield SourceNote(
                    f"{journal} is empty: Heritrix writes 32 KiB at a time, and was stopped before the first; the "
                    "crawl begins anew at its seeds"
                )
        if others:
            yield SourceNote(
                f"{path}: not read, because they are of earlier launches: {', '.join(map(str, others))}; if the last "
                "launch continued from a checkpoint of one of these, import that folder, too"
            )
    for done in (True, False):
        for journal in journals:
            yield from _pass(journal, allowance, done=done)


def _of_job(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the journals of a job's newest launch that has any, and the folders of earlier launches that have some."""
    if own := _journals(folder / "logs"):
        return own, []
    names = sorted((each for each in folder.iterdir() if _LAUNCH.fullmatch(each.name)), reverse=True)
    launches = [each for each in names if _journals(each / "logs")]
    return (_journals(launches[0] / "logs"), launches[:0:-1]) if launches else ([], [])


def _journals(logs: Path) -> list[Path]:
    """Return the journals in a folder, in the order in which they were written."""
    found = [each for each in (logs / JOURNAL, logs / JOURNAL.removesuffix(".gz")) if each.is_file()]
    return [*sorted(logs.glob(f"{JOURNAL}.cp*")), *found]


def _pass(path: Path, allowance: Allowance, *, done: bool) -> Iterator[Item]:
    """Yield the URIs that are done, with all bad lines; or the URIs that were scheduled."""
    skipped = 0
    number = 0
    try:
        with open_source(path, allowance) as file:
            for number, line in lines(file, allowance):
                if not line:
                    if line is None and done:
                        yield BadRecord(
                            f"{path}:{number}", "too-large", f"a line of more than {MAX_RECORD_SIZE >> 20} MiB"
                        )
                    continue
                kind, _, rest = line.partition(b" ")
                if kind not in _KNOWN:
                    if done:
                        yield BadRecord(f"{path}:{number}", "record", f"no record of a journal: {line[:80]!r}")
                elif kind in _DONE if done else kind == b"F+":
                    uri = _uri(rest.decode("utf-8", "replace"))
                    if uri is None:
                        skipped += 1
                    else:
                        yield Record(f"{path}:{number}", uri, seen=done, charged=done)
    except GZIP_ERRORS as error:
        if done:
            yield truncated_file(str(path), number, error)
    if skipped and not done:
        yield SourceNote(
            f"{path}: {counted(skipped, 'URI')} of DNS look-ups and prerequisites left out: a crawl makes its own"
        )


def _uri(rest: str) -> CrawlUri | None:
    """Return the URI of a line; None for DNS look-ups and prerequisites, which are not imported.

    Whether its hops are a path is left to the caller.
    """
    url, hops, via, *_ = [*rest.split(" ", 3), "", ""]
    if url.startswith(("dns:", "whois:")) or (hops.endswith("P") and are_hops(hops)):
        return None
    return CrawlUri(url, hops=hops[-MAX_HOPS:], via=via or None)


def line(uri: CrawlUri) -> str:
    """Return the line of a pending URI without the fields in `left_out`. White space in via is percent-encoded."""
    if not uri.hops or not are_hops(uri.hops):
        return f"F+ {uri.url}"
    via = _GAP.sub(lambda gap: quote(gap[0], errors="replace"), uri.via or "")
    return f"F+ {uri.url} {uri.hops} {via}".rstrip(" ")


def left_out(uri: CrawlUri) -> set[str]:
    """Return the fields for which the line of a URI has no place: Heritrix would read a via without hops as hops."""
    if uri.hops and are_hops(uri.hops):
        return set()
    return {name for name, value in (("hops", uri.hops), ("via", uri.via)) if value}
