"""WARC files: which record goes where, when a file ends, and what is left of one after a crash."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
import re
import socket
import time
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from budgetfrontier import __version__
from budgetfrontier.crawl.cache import Original
from budgetfrontier.crawl.fetch.response import Response
from budgetfrontier.crawl.outputs import records
from budgetfrontier.crawl.outputs.files import GrowingFile, cut, full_disk, sync_folder
from budgetfrontier.model import CrawlUri, Lease
from budgetfrontier.settings import Settings
from budgetfrontier.store.modes import make_folder

OPEN = ".open"
_SPECIFICATION = "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"
_PROFILES = "http://netpreserve.org/warc/1.1/revisit/"
_UNSAFE = re.compile(r"[^\w.-]+", re.ASCII)
_PASSWORD = re.compile(r"(?<=://)[^/?#@\s\"]*@")
_EMPTY = hashlib.sha1(b"", usedforsecurity=False).digest()
_PIECE, _INFLATED = 1 << 16, 1 << 20

log = logging.getLogger(__name__)


class Originals(Protocol):
    """What knows the content that was written before: `budgetfrontier.crawl.cache.CrawlCache`, or a test's."""

    def original(self, digest: bytes) -> Original | None: ...

    def put_original(self, digest: bytes, original: Original) -> None: ...


class WarcFiles:
    """The WARC files of one job, in `folder`: one is written at a time, its name ending in `.open` until it is whole.

    Each page becomes a response, a request and a metadata record, all in one file; a page whose content was written
    before a revisit record instead of the response. Records are on disk after `sync` or `close`. Raises StorageFull.
    """

    def __init__(self, folder: Path, settings: Settings, *, cache: Originals) -> None:
        make_folder(folder, like=folder.parent)
        recover(folder)
        self._folder, self._settings, self._cache = folder, settings, cache
        prefix = settings.output.warc_prefix or settings.crawl
        self._prefix = _UNSAFE.sub("_", prefix)[:100]
        self._host = _UNSAFE.sub("_", socket.gethostname())[:100]
        self._recorder = records.Recorder()
        self._serial = 0
        self._file: GrowingFile | None = None
        self._path = folder
        self._info = ""
        self._names_changed = False

    def write(self, lease: Lease, answer: Response, digest: bytes) -> None:
        """Write the records of an HTTP answer; `digest` is the SHA-1 of its body as sent, b"" when it has none.

        Takes a few hundred microseconds for a page of 10 KB, most of them for compression.
        """
        file = self._room()
        uri = lease.uri
        own, when = records.record_id(), records.date(answer.started)
        common = [("WARC-Target-URI", uri.url), ("WARC-Date", when), ("WARC-Warcinfo-ID", self._info)]
        head = [("WARC-Record-ID", own), *common]
        if answer.address:
            head.append(("WARC-IP-Address", answer.address))
        header, cut_by = records.response_header(answer), records.truncated(answer)
        if revisit := self._revisit(uri, answer, digest, whole=cut_by is None):
            block = header
            head = [("WARC-Type", "revisit"), *head, *revisit]
        else:
            block = header + answer.raw
            head = [("WARC-Type", "response"), *head]
            if cut_by:
                head.append(("WARC-Truncated", cut_by))
            head.append(("WARC-Payload-Digest", records.digest(digest or _EMPTY)))
        file.write(self._recorder.record(head, block, kind=records.RESPONSE))
        for type, kind, block in (
            ("request", records.REQUEST, records.request_block(uri, answer)),
            ("metadata", records.FIELDS, records.metadata(uri, answer)),
        ):
            head = [("WARC-Type", type), ("WARC-Record-ID", records.record_id()), *common, ("WARC-Concurrent-To", own)]
            file.write(self._recorder.record(head, block, kind=kind))
        if digest and not revisit and cut_by is None:
            self._cache.put_original(digest, Original(url=uri.url, date=when, record_id=own))

    def sync(self) -> None:
        """Bring everything to the disk: records, and the names of files."""
        if self._file:
            self._file.sync()
        if self._names_changed:
            with full_disk(self._folder):
                sync_folder(self._folder)
            self._names_changed = False

    def close(self) -> None:
        """End the file that is written, if any, and bring everything to the disk."""
        self._end()
        self.sync()

    def _room(self) -> GrowingFile:
        """Return the file to write to: a new one when there is none, or the last has grown to `warc_size`."""
        if self._file and self._file.size >= self._settings.output.warc_size:
            self._end()
        if self._file is None:
            now = datetime.now(UTC)
            stamp = f"{now.strftime('%Y%m%d%H%M%S')}{now.microsecond // 1000:03d}"
            name = f"{self._prefix}-{stamp}-{self._serial:05d}-{os.getpid()}~{self._host}.warc.gz"
            self._serial += 1
            self._path = self._folder / (name + OPEN)
            self._file = GrowingFile(self._path)
            self._names_changed = True
            self._info = records.record_id()
            head = [
                ("WARC-Type", "warcinfo"),
                ("WARC-Record-ID", self._info),
                ("WARC-Date", records.date(time.time())),
                ("WARC-Filename", name),
            ]
            self._file.write(self._recorder.record(head, warcinfo(self._settings), kind=records.FIELDS))
        return self._file

    def _end(self) -> None:
        """Bring the open file to the disk and give it its own name; where the disk is full, the next start does."""
        if self._file:
            self._file.close()
            self._file = None
            self._path.rename(self._path.with_name(self._path.name.removesuffix(OPEN)))
            self._names_changed = True

    def _revisit(self, uri: CrawlUri, answer: Response, digest: bytes, *, whole: bool) -> list[tuple[str, str]]:
        """Return the fields that make a revisit record of an answer; none if it is to be written as it is.

        Source: ISO 28500:2017, 6.7.
        """
        if answer.status == 304:
            digest = _digest_known(uri)
            profile = "server-not-modified"
        elif digest and whole and self._settings.output.warc_revisits:
            profile = "identical-payload-digest"
        else:
            return []
        original = self._cache.original(digest) if digest else None
        if original:
            return [
                ("WARC-Profile", _PROFILES + profile),
                ("WARC-Payload-Digest", records.digest(digest)),
                ("WARC-Refers-To", original.record_id),
                ("WARC-Refers-To-Target-URI", original.url),
                ("WARC-Refers-To-Date", original.date),
            ]
        return [("WARC-Profile", _PROFILES + profile)] if answer.status == 304 else []


def warcinfo(settings: Settings) -> bytes:
    """Return the block of a warcinfo record: who wrote the file, and all settings as JSON, without passwords."""
    fetch = settings.fetch
    return records.fields(
        (
            ("software", f"budgetfrontier/{__version__}"),
            ("format", "WARC File Format 1.1"),
            ("conformsTo", _SPECIFICATION),
            ("hostname", socket.gethostname()),
            ("isPartOf", settings.crawl),
            ("robots", "obey" if fetch.robots is True else "ignore"),
            ("http-header-user-agent", fetch.user_agent),
            ("configuration", _configuration(settings)),
        )
    )


def recover(folder: Path) -> None:
    """Give the files that a crash left open their own names, cut at the end of their last whole record.

    Reads them whole, and checks every record; a file without any is deleted.
    """
    left = sorted(folder.glob(f"*{OPEN}"))
    for path in left:
        end, size = whole_records(path), path.stat().st_size
        if end == 0:
            path.unlink()
            continue
        if end < size:
            cut(path, end)
            log.warning("%s: cut off %d bytes of a record that was left half written", path, size - end)
        path.rename(path.with_name(path.name.removesuffix(OPEN)))
    if left:
        sync_folder(folder)


def whole_records(path: Path) -> int:
    """Return where the last whole record of a file ends, in bytes; 0 if there is none. A record is a gzip member."""
    end = 0
    with path.open("rb") as file:
        inflate = _inflater()
        data = file.read(_PIECE)
        while data:
            try:
                inflate.decompress(data, _INFLATED)
            except zlib.error:
                break
            data = inflate.unconsumed_tail
            if inflate.eof:
                data = inflate.unused_data
                end = file.tell() - len(data)
                inflate = _inflater()
            data = data or file.read(_PIECE)
    return end


def _inflater() -> zlib._Decompress:
    return zlib.decompressobj(zlib.MAX_WBITS | 16)


def _configuration(settings: Settings) -> str:
    """Return the settings as JSON, without what is sent to log in: headers, cookies, passwords, those in URLs too."""
    plain = settings.to_dict()
    for request in plain["fetch"]["requests"]:
        for section in ("headers", "cookies"):
            request[section] = dict.fromkeys(request[section], "-")
        request["auth"] = request["auth"] and "-"
    return _PASSWORD.sub("-@", json.dumps(plain, ensure_ascii=False))


def _digest_known(uri: CrawlUri) -> bytes:
    """Return the SHA-1 that a revisit's URI carries, of the content that was written last; b"" if it carries none."""
    text = uri.meta.get("digest") if isinstance(uri.meta, dict) else None
    if not isinstance(text, str):
        return b""
    try:
        return base64.b32decode(text.removeprefix("sha1:"))
    except ValueError:
        return b""
