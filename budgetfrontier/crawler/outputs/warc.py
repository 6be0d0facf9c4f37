"""WARC files: the records of each page, the rotation of files, and recovery after a crash."""

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
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from budgetfrontier import __version__
from budgetfrontier.core.model import CrawlUri, Lease
from budgetfrontier.crawler.cache import Original
from budgetfrontier.crawler.fetch.response import FetchResult
from budgetfrontier.crawler.outputs import warc_records
from budgetfrontier.crawler.outputs.append_only_files import GrowingFile, cut, full_disk, held, sync_folder
from budgetfrontier.errors import FrontierLocked
from budgetfrontier.settings import Settings
from budgetfrontier.storage.modes import make_folder

OPEN = ".open"
_SPECIFICATION = "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"
_PROFILES = "http://netpreserve.org/warc/1.1/revisit/"
_UNSAFE = re.compile(r"[^\w.-]+", re.ASCII)
_PASSWORD = re.compile(r"(?<=://)[^/?#@\s\"]*@")
_EMPTY = hashlib.sha1(b"", usedforsecurity=False).digest()
_READ_SIZE, _INFLATE_SIZE = 1 << 16, 1 << 20

log = logging.getLogger("budgetfrontier.crawl")


class Originals(Protocol):
    """The store of content written before, by SHA-1: `budgetfrontier.crawler.cache.CrawlCache`, or a fake in tests."""

    def original(self, digest: bytes) -> Original | None: ...

    def put_original(self, digest: bytes, original: Original) -> None: ...


class WarcFiles:
    """The WARC files of one job, in `folder`. One is open at a time, with a name that ends in `.open`.

    Each page becomes a response, a request and a metadata record, all in the same file; if its content was written
    before, a revisit record replaces the response. Records are durable after `sync` or `close`. Raises StorageFull.
    """

    def __init__(self, folder: Path, settings: Settings, *, cache: Originals) -> None:
        make_folder(folder, like=folder.parent)
        recover(folder)
        self._folder, self._settings, self._cache = folder, settings, cache
        prefix = settings.output.warc_prefix or settings.crawl
        self._prefix = _UNSAFE.sub("_", prefix)[:100]
        self._host = _UNSAFE.sub("_", socket.gethostname())[:100]
        self._serial = 0
        self._file: GrowingFile | None = None
        self._path = folder
        self._warcinfo_line = ""
        self._names_changed = False

    def write(self, lease: Lease, response: FetchResult, digest: bytes) -> bool | None:
        """Write the records of an HTTP response; `digest` is the SHA-1 of its body as sent, b"" without a body.

        Return whether the body is new; None if that is not known, as of one cut off.

        Takes a hundred microseconds for a page of 10 KB, half of it for compression, if ISA-L is installed.
        """
        file = self._current_file()
        uri = lease.uri
        response_id, when = warc_records.record_id(), warc_records.date(response.started)
        common = f"WARC-Target-URI: {uri.url}\r\nWARC-Date: {when}\r\n{self._warcinfo_line}"
        header, cut_by = warc_records.response_header(response), warc_records.truncated(response)
        address = f"WARC-IP-Address: {response.address}\r\n" if response.address else ""
        head = f"WARC-Record-ID: {response_id}\r\n{common}{address}"
        if revisit := self._revisit(uri, response, digest, whole=cut_by is None):
            more = "".join(f"{name}: {value}\r\n" for name, value in revisit)
            file.write(warc_records.record(f"WARC-Type: revisit\r\n{head}{more}", header, kind=warc_records.RESPONSE))
        else:
            more = f"WARC-Truncated: {cut_by}\r\n" if cut_by else ""
            more += f"WARC-Payload-Digest: {warc_records.digest(digest or _EMPTY)}\r\n"
            head = f"WARC-Type: response\r\n{head}{more}"
            file.write(warc_records.record(head, header, response.raw, kind=warc_records.RESPONSE))
        for type, kind, block in (
            ("request", warc_records.REQUEST, warc_records.request_block(uri, response)),
            ("metadata", warc_records.FIELDS, warc_records.metadata(uri, response)),
        ):
            own = f"WARC-Type: {type}\r\nWARC-Record-ID: {warc_records.record_id()}\r\n"
            head = f"{own}{common}WARC-Concurrent-To: {response_id}\r\n"
            file.write(warc_records.record(head, block, kind=kind))
        if revisit:
            return False
        if not digest or cut_by is not None:
            return None
        self._cache.put_original(digest, Original(url=uri.url, date=when, record_id=response_id))
        return True if self._settings.output.warc_revisits else None  # else nobody has looked for the digest

    @property
    def files(self) -> list[GrowingFile]:
        """The open file, if any."""
        return [self._file] if self._file else []

    def sync(self) -> None:
        """Make records and the names of files durable (fsync)."""
        if self._file:
            self._file.sync()
        if self._names_changed:
            with full_disk(self._folder):
                sync_folder(self._folder)
            self._names_changed = False

    def close(self) -> None:
        """Finish the open file, if any, and make everything durable."""
        self._finish_file()
        self.sync()

    def _current_file(self) -> GrowingFile:
        """Return the file to write to: a new one if none is open, or if the open one has reached `warc_size`."""
        if self._file and 0 < self._settings.output.warc_size <= self._file.size:
            self._finish_file()
        while self._file is None:
            now = datetime.now(UTC)
            stamp = f"{now.strftime('%Y%m%d%H%M%S')}{now.microsecond // 1000:03d}"
            name = f"{self._prefix}-{stamp}-{self._serial:05d}-{os.getpid()}~{self._host}.warc.gz"
            self._serial += 1
            self._path = self._folder / (name + OPEN)
            try:
                self._file = GrowingFile(self._path)
            except FrontierLocked:  # by the recovery of another crawl, or by one with files of the same names
                continue
            self._names_changed = True
            own_id = warc_records.record_id()
            self._warcinfo_line = f"WARC-Warcinfo-ID: {own_id}\r\n"
            head = (
                f"WARC-Type: warcinfo\r\nWARC-Record-ID: {own_id}\r\nWARC-Date: {warc_records.date(time.time())}\r\n"
                f"WARC-Filename: {name}\r\n"
            )
            self._file.write(warc_records.record(head, warcinfo(self._settings), kind=warc_records.FIELDS))
        return self._file

    def _finish_file(self) -> None:
        """Sync and close the open file and remove the suffix of its name; on a full disk, the next start does so."""
        if self._file:
            self._file.close(name=self._path.name.removesuffix(OPEN))
            self._file = None
            self._names_changed = True

    def _revisit(self, uri: CrawlUri, response: FetchResult, digest: bytes, *, whole: bool) -> list[tuple[str, str]]:
        """Return the additional fields of a revisit record; none if a response record is to be written.

        `whole` means that the response was not truncated.

        Source: ISO 28500:2017, 6.7.
        """
        if response.status == 304:
            digest = _last_digest(uri)
            profile = "server-not-modified"
        elif digest and whole and self._settings.output.warc_revisits:
            profile = "identical-payload-digest"
        else:
            return []
        original = self._cache.original(digest) if digest else None
        if original:
            return [
                ("WARC-Profile", _PROFILES + profile),
                ("WARC-Payload-Digest", warc_records.digest(digest)),
                ("WARC-Refers-To", original.record_id),
                ("WARC-Refers-To-Target-URI", original.url),
                ("WARC-Refers-To-Date", original.date),
            ]
        return [("WARC-Profile", _PROFILES + profile)] if response.status == 304 else []


def warcinfo(settings: Settings) -> bytes:
    """Return the block of a warcinfo record: the software, the crawl, and all settings as JSON without passwords."""
    fetch, output = settings.fetch, settings.output
    return warc_records.fields(
        (
            ("software", f"budgetfrontier/{__version__}"),
            ("format", "WARC File Format 1.1"),
            ("conformsTo", _SPECIFICATION),
            ("hostname", socket.gethostname()),
            ("isPartOf", settings.crawl),
            ("operator", output.warc_operator),
            ("description", output.warc_description),
            ("robots", "obey" if fetch.robots is True else "ignore"),
            ("http-header-user-agent", fetch.user_agent),
            ("configuration", _configuration(settings)),
        )
    )


def recover(folder: Path) -> None:
    """Finish the files that a crash left open: truncate each after its last whole record and rename it.

    Reads these files and checks all their records; a file without whole records is deleted. Skips files that another
    crawl is writing, or has just finished.
    """
    unfinished = sorted(folder.glob(f"*{OPEN}"))
    for path in unfinished:
        with suppress(FrontierLocked, FileNotFoundError), held(path):
            _finish(path)
    if unfinished:
        sync_folder(folder)


def _finish(path: Path) -> None:
    """Truncate a file after its last whole record, and rename it, or delete it if it has none."""
    end, size = whole_records(path), path.stat().st_size
    if end == 0:
        path.unlink()
        return
    if end < size:
        cut(path, end)
        log.warning("%s: cut off %d bytes of a record that was left half written", path, size - end)
    path.rename(path.with_name(path.name.removesuffix(OPEN)))


def whole_records(path: Path) -> int:
    """Return the offset of the end of the last whole record (gzip member) in a file; 0 if there is none."""
    end = 0
    with path.open("rb") as file:
        inflate = _inflater()
        data = file.read(_READ_SIZE)
        while data:
            try:
                inflate.decompress(data, _INFLATE_SIZE)
            except zlib.error:
                break
            data = inflate.unconsumed_tail
            if inflate.eof:
                data = inflate.unused_data
                end = file.tell() - len(data)
                inflate = _inflater()
            data = data or file.read(_READ_SIZE)
    return end


def _inflater() -> zlib._Decompress:
    return zlib.decompressobj(zlib.MAX_WBITS | 16)


def _configuration(settings: Settings) -> str:
    """Return the settings as JSON without credentials: values of headers and cookies, passwords, userinfo in URLs."""
    plain = settings.to_dict()
    for request in plain["fetch"]["requests"]:
        for section in ("headers", "cookies"):
            request[section] = dict.fromkeys(request[section], "-")
        request["auth"] = request["auth"] and "-"
    return _PASSWORD.sub("-@", json.dumps(plain, ensure_ascii=False))


def is_unchanged(uri: CrawlUri, response: FetchResult, digest: bytes) -> bool:
    """Return whether a response has the body of the last visit: by its status, or by its digest."""
    return response.status == 304 or (bool(digest) and digest == _last_digest(uri))


def _last_digest(uri: CrawlUri) -> bytes:
    """Return the SHA-1 of the content at the last visit, from the URI's meta; b"" if it has none."""
    text = uri.meta.get("digest") if isinstance(uri.meta, dict) else None
    if not isinstance(text, str):
        return b""
    try:
        return base64.b32decode(text.removeprefix("sha1:"))
    except ValueError:
        return b""
