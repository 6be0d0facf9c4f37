"""Fuzzed: URLs, each alone and in batches.

A batch is the harder test: `engine/admission/candidates.py` skips the URL parser and the canonical form where it can.
What it admits is compared with what those two say of each URL by itself, and with a frontier that takes one CrawlUri at
a time. What the compiled kernel reads is compared with them, too.
"""

from __future__ import annotations

import math
import re
import string
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from hypothesis import strategies as st

from budgetfrontier import Admission, CrawlUri, Frontier, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.core import uris
from budgetfrontier.core.model import Tally
from budgetfrontier.engine import native
from budgetfrontier.engine.admission import candidates
from budgetfrontier.engine.admission import seen as seen_table
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.rules import queue_keys
from budgetfrontier.rules.charges import MAX_COST
from budgetfrontier.rules.uri_order import PRIORITY_ZERO
from budgetfrontier.settings import plugins, policy_factory
from budgetfrontier.settings.matching import parse_match
from budgetfrontier.settings.policies import assignment
from budgetfrontier.storage import keys
from budgetfrontier.storage.queue_listing import queues
from budgetfrontier.storage.report import row
from budgetfrontier.storage.uri_values import PLAIN_STARTS, encode_url, plain_start, shorten
from tests.fuzz.target import Target, text
from tests.support import START, kernel, make_settings

REASONS = {"empty", "too-long", "scheme", "host", "port", "syntax", "encoding"}

# -- URLs near the plain form, with a twist here and there

AUTHORITIES = (
    "https://a.test", "http://a.test", "https://www.a.test", "https://a.test:8080", "https://b.test", "http://b.test:81",
    "https://u:p@a.test", "http://127.0.0.1", "https://[::1]:81", "https://xn--bcher-kva.test", "https://a.test.",
    "https://a.b.co.uk", "http://a",
)  # fmt: skip
TWISTED = (
    "HTTPS://a.test", "https://A.test", "https://a.test:443", "http://a.test:80", "https://a.test:080", "https:/a.test",
    "https:a.test", "https:\\\\a.test", "https:///a.test", " https://a.test", "ht\ntps://a.test", "https://a.test\t",
    "https://a%2etest", "https://bücher.test", "https://a\u3002test", "//a.test", "ftp://a.test", "", "https://",
    "http:///", "https://127.1", "https://0x7f.1", "https://@a.test", "https://:@a.test", "https://a.test:", "a.test",
    "https://a.tes", "https://a.test@b.test", "https://u@a.test", "https://a.test\\", "https://a.test:0",
    "https://a.test:99999", "https://a b.test", "https://[::1", "https://a.test\0", "https://\ud800.test",
    f"https://{'h' * 250}.test:8080", f"https://{'u' * 600}@a.test",
)  # fmt: skip
SEGMENTS = (
    "", "a", "b", "A", "x.y", "a-_~b", "..", ".", "%2e", ".%2E", ".x", "x.", "...", "%7e", "%41", "%2f", "%zz", "%",
    "é", " ", "\t", "\n", "\\", "^", "|", "[", "]", "'", '"', "<", "`", "{", "@", ":", "a:b", "+", ",", "!", "*", "$",
    "=", "&", ";", "(", ")", "\0", "\x1f", "\x7f", "\xa0", "\u2028", "\ud800", "😀", "%F0%9f", "a;jsessionid=0",
    "www.a.test", "(S(abcdefghijklmnopqrstuvwx))", "(abcdefghijklmnopqrstuvwx)", "//", "a" * 600, "a" * 8175,
)  # fmt: skip
ARGUMENTS = (
    "", "a=1", "b=2", "A=1", "a", "=", "=1", "a=", "a=b=c", "utm_source=x", "UTM_Source=x", "gclid=1", "sid=1",
    "cfid=2", f"sid={'a1' * 16}", f"SID={'0' * 32}", "PHPSESSID=3", "a=%41", "%61=1", "a=%2e", "a=/.", "a=/../b",
    "a=?b", "a='", "a=é", "a=%c3", "a= ", "a=\t", "a=:+,!*$@", "a=;()[]|^",
    'a="', "a=<>", "a=`{}", "a=\\", "a=\ud800", "a=\0",
    "a=#", "?", "aspsessionidabc=1", "%75tm_x=1", "a=" + "1" * 600,
)  # fmt: skip


def mostly(common: tuple[str, ...], rare: tuple[str, ...]) -> st.SearchStrategy[str]:
    """One of the common most times, one of the rare sometimes."""
    return st.integers(0, 5).flatmap(lambda n: st.sampled_from(rare if n == 5 else common))


near_plain = st.builds(
    "{}{}{}{}".format,
    mostly(AUTHORITIES[:3], AUTHORITIES + TWISTED),
    st.lists(mostly(("a", "b"), SEGMENTS), max_size=3).map(lambda parts: "".join(f"/{part}" for part in parts)),
    st.one_of(
        st.just(""),
        st.lists(mostly(("a=1", "b=2", "utm_source=x"), ARGUMENTS), max_size=3).map("&".join).map("?{}".format),
    ),
    mostly(("",), ("#", "#top", "#/.?", " ", "\n", "\0")),
)
any_text = st.text(st.characters(exclude_categories=()), max_size=40)
odd_text = st.text(st.sampled_from("aZ09.-_~%/\\?#@:[]&=;+ \t\n\x00\x7fé\u200d\u3002\ud800☃"), max_size=20)
any_url = st.one_of(
    near_plain, st.builds("{}{}".format, near_plain, odd_text), any_text, odd_text.map("http://{}".format)
)

# -- each alone

CANONICALIZATIONS: list[Any] = [
    plugins.resolve("canonicalization", {"standard": options})
    for options in (
        {},
        {"strip_userinfo": False, "strip_www": False, "strip_session_ids": False, "strip_tracking": False},
        {"sort_query": False, "ignore_params": ["a"]},
        {"keep_params": ["a", "sid"]},
    )
]
ASSIGNMENTS = [plugins.resolve("assignment", name) for name in plugins.known("assignment")]
RULES: list[dict[str, Any]] = [
    {"when": "depth", "add-each": 1},
    {"when": "query-args", "over": 1, "add": 1},
    {"when": "repeated-segments", "over": 1, "add-each": 2},
    {"when": "hops", "over": 1, "add": 1},
    {"when": "regex", "pattern": "(?i)a[.]test.*[?]", "add": 3},
    {"when": "extension", "in": ["y", "pdf"], "add": 2},
]
COSTS = [plugins.resolve("cost", {"additive": {"rules": RULES}})]
COSTS += [plugins.resolve("cost", name) for name in plugins.known("cost")]
MATCHES = [
    parse_match(match)
    for match in ("*", "domain:a.test", "host:*.a.test", "host:a.test", "queue:*.test", "surt:(test,", "regex:[?&]a=")
]


def check_url(url: str) -> None:
    """A URL is refused with a reason, or has one form that every function on a href takes."""
    for canonical in CANONICALIZATIONS if native.kernel is not None else ():
        check_kernel(url, canonical)
    try:
        href = uris.parse(url)
    except InvalidUrl as error:
        assert error.reason in REASONS, error.reason
        return
    assert uris.parse(href) == href
    assert href.isascii() and href.isprintable()
    assert href.startswith(("http://", "https://")) and len(href) <= uris.MAX_LENGTH
    prefix, path, query = uris.split(href)
    assert prefix + path + ("" if query is None else f"?{query}") == href and path.startswith("/")
    assert not set(' "<>#?`{}') & set(path) and not set(" \"<>#'") & set(query or "")
    authority, host = uris.authority(href), uris.host(href)
    written = prefix.partition("//")[2].rpartition("@")[2]
    assert authority.startswith(host) and authority == re.sub(r"([^.])\.(:[0-9]+)?$", r"\1\2", written)
    assert uris.parse(f"https://{host}/") == f"https://{host}/"
    assert uris.surt(href).startswith(f"{prefix.partition(':')[0]}://({uris.surt_authority(authority)})/")
    for canonical in CANONICALIZATIONS:
        form = canonical(href)
        assert form == canonical.authority(prefix) + canonical.path(path) + canonical.query(query)
        assert form.startswith(href[: href.index("/") + 2]) and form.isascii() and "/" in form[8:]
        assert uris.fingerprint(form)[:4] == uris.authority_hash(canonical.authority(prefix))
    uri = CrawlUri(href, via=href.partition("?")[0], hops="LL")
    for assign in ASSIGNMENTS:
        key = assign(uri)
        assert key and key.isascii() and "\0" not in key
    for cost in COSTS:
        price = cost(uri)
        assert type(price) is int and 0 <= price <= MAX_COST
    for match in MATCHES:
        match.matches(href, authority)


def check_kernel(url: str, canonical: Any) -> None:
    """The compiled kernel reads a URL, twice and alone, as the parser, the policies and the stored form have it.

    Path and query of the form of a plain URL are their own form.
    """
    assign: Any = plugins.resolve("assignment", "hostname")

    def authority(given: str) -> tuple[str, bytes, str, int | None, str] | None:
        if plain_href(given) != given:
            return None
        prefix, key = uris.split(given)[0], assign(CrawlUri(given))
        form, (mark, short) = canonical.authority(prefix), plain_start(prefix, key)
        return form, uris.authority_hash(form), key, None if mark is None else mark[0], short

    def whole(given: str) -> tuple[bytes, str, bytes, str, int] | None:
        href = plain_href(given)
        if href is None:
            return None
        key = assign(CrawlUri(href))
        return uris.fingerprint(canonical(href)), key, encode_url(href, key), shorten(href, key), PRIORITY_ZERO

    assert native.kernel is not None
    plain = "".join(candidates._UNTOUCHED & set(canonical.PLAIN)).encode()
    limits = {"longest": uris.MAX_LENGTH, "authorities": 1, "recent": 1}
    hosts = canonical.strips_www, PLAIN_STARTS
    reader = native.kernel.BatchReader(plain, canonical.query_rules, hosts=hosts, **limits)
    found, expected = reader.read([url, url], authority, whole), whole(url)
    names, rows = [row[0] for row in found.queues()], found.candidates(None)
    assert [(key, names[place], *others) for key, place, *others in rows] == [expected] * 2 * bool(expected)
    seen: set[bytes] = set()

    def put(key: bytes, value: bytes, dupdata: bool, overwrite: bool) -> bool:
        assert (value, dupdata, overwrite) == (b"", True, False)
        is_new = key not in seen
        seen.add(key)
        return is_new

    calls = (time.time, time.monotonic, 0.0, 0.0, math.inf), (math.inf, math.inf, 9, 9)
    reader.begin_to_gather(2, calls, authority, put, True, False)
    gathered = [reader.gather(url, 0.0) for _ in range(3)]
    assert gathered == [None] * 3 or (gathered == [True, False, None] and expected is not None)
    found.record(put)
    assert len(found) == (1 if expected is not None and gathered[0] is None else 0)
    assert seen == ({expected[0]} if expected is not None else set())
    if gathered[0] is not None:
        form = canonical(url)
        assert uris.split(canonical(form))[1:] == uris.split(form)[1:]


def plain_href(url: str) -> str | None:
    """Return a URL as the parser writes it; None if it has none."""
    try:
        return uris.parse(url)
    except InvalidUrl:
        return None


urls = Target(check_url, any_url, text)

# -- in batches


AT_ONCE, FOUND, ONE_BY_ONE, MIXED = range(4)


class Step(NamedTuple):
    """URLs, and how a frontier gets them: all at once, found on a page, one by one, or every other as a CrawlUri."""

    kind: int
    urls: list[str]

    def force(self, index: int) -> bool:
        """Whether a URL of the step is forced."""
        return self.kind == MIXED and index % 4 == 3

    def payload(self, index: int) -> bytes | None:
        """The payload of a URL of the step."""
        return b"%d" % index if self.kind == MIXED and index % 4 == 1 else None


class Batches(NamedTuple):
    """The settings of a frontier, and what happens to it."""

    settings: int
    steps: list[Step]


class Verbatim:
    """A canonicalization of one's own: every URL is its own form, whatever it is made of."""

    PLAIN = string.printable

    def __call__(self, href: str) -> str:
        return href

    def authority(self, prefix: str) -> str:
        return prefix

    def path(self, path: str) -> str:
        return path

    def query(self, query: str | None) -> str:
        return "" if query is None else f"?{query}"


OPTIONS: list[dict[str, Any]] = [
    {},
    {"queue_assignment_policy": "surt-authority", "cost_policy": "zero"},
    {"queue_assignment_policy": "registered-domain", "canonicalization": {"strip_www": False, "strip_userinfo": False}},
    {"queue_assignment_policy": "single", "canonicalization": {"sort_query": False, "strip_tracking": False}},
    {"cost_policy": "wag", "canonicalization": {"keep_params": ["a"]}},
    {"order": "lifo", "canonicalization": {"strip_session_ids": False, "ignore_params": ["b"]}},
    {"max_queued": 4},
    {"max_queue_size": 2},
    {"overrides": [{"match": "domain:a.test", "set": {"order": "lifo", "max_queue_size": 3}}]},
    {"overrides": [{"match": "regex:[?]a", "set": {"cost_policy": "zero"}}]},
    {"canonicalization_policy": f"{__name__}:Verbatim"},
    {"keep_urls": True},
    {"keep_urls": True, "update_priority": True},
    {"keep_urls": True, "cost_policy": "wag", "canonicalization": {"sort_query": False}},
]
SETTINGS = [make_settings(**options) for options in OPTIONS]
SHARED_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


class Expected:
    """What a frontier must hold, from what the parser and the policies say of each URL alone."""

    def __init__(self, settings: Settings) -> None:
        self._canonical = policy_factory.canonicalization(settings.frontier)
        self._assign = policy_factory.assignment(settings.frontier, policy_factory.suffix_list(settings.frontier))
        self.seen: set[bytes] = set()
        self.forms: set[bytes] = set()
        self.urls: dict[str, set[str]] = defaultdict(set)

    def add(self, url: str, *, force: bool) -> bool:
        """Whether the URL is valid, and the first of its form (or it is forced, and leaves no trace of that)."""
        try:
            href = uris.parse(url)
        except InvalidUrl:
            return False
        key = self._assign(CrawlUri(href))
        fingerprint = uris.fingerprint(self._canonical(href))
        if len(key.encode()) > queue_keys.MAX_QUEUE_KEY:
            return False
        self.urls[key].add(href)
        self.forms.add(fingerprint)
        if force:
            return True
        new = fingerprint not in self.seen
        self.seen.add(fingerprint)
        return new


def contents(frontier: Frontier) -> tuple[dict[str, Any], dict[str, list[Any]], set[bytes]]:
    """The records of the queues, their URIs in order, and the fingerprints."""
    frontier.commit()
    env = kernel(frontier).tables.env
    records = {queue.queue: queue for queue in queues(env.view())}
    held = {key: [(p.uri, p.cost) for p in env.view().pending(queue)] for key, queue in records.items()}
    seen = {key for key, _ in env.view().items(keys.SEEN)}
    return {key: row(queue) for key, queue in records.items()}, held, seen


def kept(frontier: Frontier) -> dict[bytes, bytes]:
    """The rows of the URLs that are kept."""
    return dict(kernel(frontier).tables.env.view().items(keys.URLS))


def count(tally: Tally, admission: Admission) -> None:
    """Count what became of one URI."""
    name = str(admission).lower()
    setattr(tally, name, getattr(tally, name) + 1)


def check_batches(batches: Batches) -> None:
    """A batch ends as its URLs would one by one, and as the parser and the policies say."""
    settings = SETTINGS[batches.settings % len(SETTINGS)]
    with _small(), _open(settings) as fast, _open(settings) as slow:
        expected = Expected(settings)
        for step in batches.steps:
            added, new = (
                _take(step, fast, slow),
                [expected.add(u, force=step.force(i)) for i, u in enumerate(step.urls)],
            )
            records, held, seen = contents(fast)
            assert (records, held, seen) == contents(slow)
            assert fast.summary() == slow.summary()
            assert all({uri.url for uri, _ in held_there} <= expected.urls[key] for key, held_there in held.items())
            if "max" not in str(OPTIONS[batches.settings % len(SETTINGS)]):
                assert (seen, added) == (expected.seen, sum(new))
            assert kept(fast) == kept(slow)
            if settings.frontier.keep_urls:
                assert kept(fast).keys() - {keys.SENTINEL} == expected.forms
        fast.check()


@contextmanager
def _small() -> Iterator[None]:
    """Caches that overflow soon, a short suffix list, no disk."""
    with (
        mock.patch.object(candidates, "AUTHORITIES", 3),
        mock.patch.object(seen_table, "RECENT", 3),
        mock.patch.object(assignment, "bundled_suffix_list", lambda: "test\nco.uk\nuk\n"),
        mock.patch.object(tempfile, "tempdir", SHARED_MEMORY),
    ):
        yield


def _open(settings: Settings) -> Frontier:
    return Frontier.open(":memory:", settings, clock=ManualClock(START))


def _take(step: Step, fast: Frontier, slow: Frontier) -> int:
    """Give the URLs of a step to both; how many the slow one added."""
    via: dict[str, Any] = {}
    page = None
    if step.kind == FOUND and (leases := fast.lease(1)):
        (page,), (again,) = leases, slow.lease(1)
        assert page.uri == again.uri
        via = {"via": page.uri.url, "hops": page.uri.hops + "L"}
    single, many = Tally(), Tally()
    for index, url in enumerate(step.urls):
        uri = CrawlUri(url, force=step.force(index), payload=step.payload(index), **via)
        with mock.patch.object(candidates, "_is_url_and_payload", lambda uri: False):
            count(single, slow.schedule(uri))
    if page is not None:
        fast.finish(page, discovered=step.urls)
        slow.finish(again)
        return single.added
    if step.kind == ONE_BY_ONE:
        for url in step.urls:
            count(many, fast.schedule(url))
    elif step.kind == MIXED:
        mixed = [
            CrawlUri(u, force=step.force(i), payload=step.payload(i)) if i % 2 else u for i, u in enumerate(step.urls)
        ]
        many = fast.schedule_many(mixed)
    else:
        many = fast.schedule_many(step.urls)
    for name in "added", "duplicate", "invalid", "full":
        assert getattr(many, name) == getattr(single, name), (name, many, single)
    return single.added


def read_batches(raw: bytes) -> Batches:
    """One byte for the settings; then 0xFE before each step and a byte for its kind, 0xFF between URLs."""
    first, *steps = raw.split(b"\xfe")
    return Batches(
        first[0] if first else 0,
        [Step(step[0] % 4 if step else 0, [text(url) for url in step[1:].split(b"\xff")]) for step in steps],
    )


batches = Target(
    check_batches,
    st.builds(
        Batches,
        st.integers(0, len(SETTINGS) - 1),
        st.lists(st.builds(Step, st.integers(0, 3), st.lists(near_plain, max_size=8)), min_size=1, max_size=5),
    ),
    read_batches,
)
