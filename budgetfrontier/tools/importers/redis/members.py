"""Decoders of the members of queues: each returns the URI of one request, or says why that is impossible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

import msgspec

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.tools.importers import kumo, lists, qcrawl, scrapy
from budgetfrontier.tools.importers.allowance import MAX_RECORD_SIZE, Allowance, RecordTooLarge
from budgetfrontier.tools.importers.import_items import BadRecord, Item, Record, text

_PICKLE, _PICKLE_OF_PYTHON_2, _MARSHAL = b"\x80", (b"(d", b"}q"), b"\xfb"
_FORM = "application/x-www-form-urlencoded"


class NoRequest(ValueError):
    """Why a member is no request."""


def listed(location: str, value: bytes, allowance: Allowance) -> Item:
    """Return the URI of a URL, or of a JSON line."""
    return _too_large(location, value, allowance) or lists.item(location, value.strip(), allowance)


def of_scrapy(location: str, value: bytes, allowance: Allowance) -> Item:
    """Return the URI of a request or start URL of scrapy-redis.

    Its serializer may be pickle, marshal, JSON or msgpack. A start URL is a URL, or a JSON object with `url`, `method`,
    `meta`, and any other field as one of a form.
    """
    if bad := _too_large(location, value, allowance):
        return bad
    try:
        if value.startswith(b"{") and value[1:].lstrip()[:1] in (b'"', b"}"):
            fields = _json(value, allowance)
            if "headers" in fields and "dont_filter" in fields:
                return scrapy.record(location, _as_bytes(fields), allowance)
            return Record(location, _start_url(fields))
        if value.startswith((_PICKLE, _MARSHAL, b"{", *_PICKLE_OF_PYTHON_2)):
            return scrapy.parse(location, value, allowance)
        if value[:1] > _PICKLE:
            if len(value) > qcrawl.MAX_REQUEST_SIZE:
                return BadRecord(location, "too-large", f"a request of more than {qcrawl.MAX_REQUEST_SIZE >> 20} MiB")
            fields = msgspec.msgpack.decode(value, type=dict[str, Any])
            return scrapy.record(location, _as_bytes(fields), allowance)
        return Record(location, CrawlUri(value.decode().strip()))
    except RecordTooLarge as error:
        return BadRecord(location, "too-large", str(error))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, msgspec.MsgspecError) as error:
        return BadRecord(location, "request", f"no request of scrapy-redis ({error})")


def _as_bytes(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a request with the body as bytes, which JSON cannot express."""
    body = fields.get("body")
    return fields | {"body": body.encode(fields.get("encoding") or "utf-8")} if isinstance(body, str) else fields


def _start_url(fields: dict[str, Any]) -> CrawlUri:
    """Return the URI of a start URL in JSON, as scrapy-redis makes a FormRequest of it."""
    url, method, meta = text(fields.pop("url", None)), fields.pop("method", "GET"), fields.pop("meta", None)
    verb = text(method).upper()
    if not isinstance(meta, dict | None):
        raise NoRequest("its meta is no object")
    form, body, headers = urlencode(fields, doseq=True), b"", None
    if fields and verb == "POST":
        body, headers = form.encode(), {"Content-Type": _FORM}
    elif fields:
        url = urlunsplit(urlsplit(url)._replace(query=form))
    return CrawlUri(url, method=verb, meta=meta or None, body=body, headers=headers)


def of_kumo(location: str, value: bytes, allowance: Allowance) -> Item:
    """Return the URI of a ready or delayed request, lease, dead letter, or entry of the list of older versions."""
    return _of_kumo(location, value, allowance, kumo.request)


def letter_of_kumo(location: str, value: bytes, allowance: Allowance) -> Item:
    """Return the URI of a dead letter as one."""
    return _of_kumo(location, value, allowance, kumo.letter)


def _of_kumo(location: str, value: bytes, allowance: Allowance, read: Callable[[str, Any, Allowance], Item]) -> Item:
    if bad := _too_large(location, value, allowance):
        return bad
    try:
        found = _json(value, allowance)
        if isinstance(found, dict) and isinstance(inside := found.get("request"), str):
            stored = _json(inside.encode(), allowance)
            found = stored | {"reason": found.get("reason")} if isinstance(stored, dict) else stored
        return read(location, found, allowance)
    except RecordTooLarge as error:
        return BadRecord(location, "too-large", str(error))
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        return BadRecord(location, "json", str(error))


def of_qcrawl(location: str, value: bytes | None, score: float, allowance: Allowance) -> Item:
    """Return the URI of a request of qcrawl. Its score has the priority, negated, also after `update_priority`."""
    if value is None:
        return BadRecord(location, "orphan", "the queue has its place, but not the request")
    if bad := _too_large(location, value, allowance):
        return bad
    priority = -int(score) if abs(score) < 1 << 53 else 0
    return qcrawl.request(location, value, allowance, priority=priority)


def _too_large(location: str, value: bytes, allowance: Allowance) -> BadRecord | None:
    allowance.grant(len(value))
    allowance.begin()
    if len(value) <= MAX_RECORD_SIZE:
        return None
    return BadRecord(location, "too-large", f"a member of more than {MAX_RECORD_SIZE >> 20} MiB")


def _json(value: bytes, allowance: Allowance) -> Any:
    allowance.spend_json(value)
    return msgspec.json.decode(value)
