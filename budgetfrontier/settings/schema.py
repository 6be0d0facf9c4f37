"""Every setting by section: its name, type, default and meaning. default.yaml and the docs follow it."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from budgetfrontier.settings.field import Field
from budgetfrontier.settings.values import (
    DURATION,
    FLAG,
    NUMBER,
    PERIOD,
    POSITIVE_DURATION,
    SIZE,
    TEXT,
    TEXTS,
    choice,
    integer,
    matching,
    optional,
)

COUNT = integer(0)
PRECEDENCE = integer(0, 65535)


class Seed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A place to start: one `url`, or a `file` with one URL a line."""

    url: Annotated[str | None, Field("the URL to start from", optional(TEXT))] = None
    file: Annotated[
        str | None, Field("a file with one URL a line, relative to the YAML; # starts a comment", "file")
    ] = None
    priority: Annotated[int, Field("higher goes first within its queue", integer())] = 0
    source: Annotated[str | None, Field("a label kept with every URI found from here", optional(TEXT))] = None
    queue: Annotated[str | None, Field("force this queue key instead of the assignment policy's", optional(TEXT))] = (
        None
    )


class Override(msgspec.Struct, frozen=True):
    """Settings for what `match` picks. `set` maps dotted names, such as "politeness.min_delay", to values."""

    match: str
    set: dict[str, Any]


class ScopeRule(msgspec.Struct, frozen=True):
    """One rule of an ordered scope: what fits `rule` is let in, or kept out."""

    accept: bool
    rule: str


class ScopeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which of the URIs that are found belong to the crawl."""

    accept: Annotated[
        tuple[str, ...],
        Field("rules that let a URI in, such as seed-hosts, seed-domains, domain:example.org, embeds", "rules"),
    ] = ("seed-hosts",)
    reject: Annotated[
        tuple[str, ...], Field("rules that keep a URI out, such as ext:zip,exe; they win over accept", "rules")
    ] = ()
    rules: Annotated[
        tuple[ScopeRule, ...],
        Field("more rules, {accept: ...} or {reject: ...}, asked after those; the last that fits decides", "ordered"),
    ] = ()
    max_hops: Annotated[int, Field("most links between a seed and a URI; -1 for no limit", integer(-1))] = 20


class PolitenessSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How long a queue rests after a fetch."""

    delay_factor: Annotated[float, Field("the rest is this many times the duration of the fetch", NUMBER, True)] = 5.0
    min_delay: Annotated[float, Field("the rest is at least this long", DURATION, True)] = 3.0
    max_delay: Annotated[float, Field("the rest is at most this long", DURATION, True)] = 30.0
    respect_crawl_delay_up_to: Annotated[
        float, Field("a robots.txt crawl-delay counts up to this long, beyond max_delay too", DURATION, True)
    ] = 300.0
    jitter: Annotated[float, Field("a random time up to this is added to each rest", DURATION, True)] = 0.0
    per_queue_concurrency: Annotated[
        int, Field("URIs of one queue that may be out at a time", integer(1, 65535), True)
    ] = 1


class RetrySettings(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to a URI whose fetch failed for a while."""

    max_retries: Annotated[
        int, Field("retries after which a URI goes to the dead letters", integer(0, 65535), True)
    ] = 30
    delay: Annotated[float, Field("wait this long before a retry", DURATION, True)] = 900.0
    scope: Annotated[
        str, Field("who waits: queue (the host is ill) or uri (the queue goes on)", choice("queue", "uri"), True)
    ] = "queue"


class RevisitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """When a page that was fetched is fetched again."""

    after: Annotated[float, Field("fetch a page again this long after it was fetched; 0: never", PERIOD, True)] = 0.0


class CanonicalizationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which differences between URLs deduplication looks past. Fixed once a frontier has been created."""

    strip_userinfo: Annotated[bool, Field("user:password@ makes no difference", FLAG)] = True
    strip_www: Annotated[bool, Field("a leading www. makes no difference", FLAG)] = True
    strip_session_ids: Annotated[
        bool, Field("session ids such as jsessionid and PHPSESSID make no difference", FLAG)
    ] = True
    strip_tracking: Annotated[bool, Field("tracking parameters such as utm_source make no difference", FLAG)] = True
    sort_query: Annotated[bool, Field("the order of query parameters makes no difference", FLAG)] = True
    ignore_params: Annotated[tuple[str, ...], Field("query parameters that make no difference", TEXTS)] = ()
    keep_params: Annotated[
        tuple[str, ...], Field("the only query parameters that make a difference; not with ignore_params", TEXTS)
    ] = ()


class FrontierSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Budgets, order and durability."""

    hold_queues: Annotated[bool, Field("new queues start inactive; false: all take turns at once", FLAG)] = True
    balance_replenish_amount: Annotated[
        int, Field("what a queue may spend each time it is activated; 0 or less retires it", integer(), True)
    ] = 3000
    queue_total_budget: Annotated[
        int, Field("what a queue may spend in its life; -1 for no maximum", integer(-1), True)
    ] = -1
    retire_when: Annotated[
        str, Field("retire a queue once its total budget is exceeded, or reached", choice("exceeded", "reached"), True)
    ] = "exceeded"
    error_penalty_amount: Annotated[int, Field("charged on top of the cost of a URI that failed", COUNT, True)] = 0
    cost_policy: Annotated[
        Any, Field("what a URI costs: zero, unit, wag, anti-calendar, additive, or module:name", "policy:cost", True)
    ] = "unit"
    queue_assignment_policy: Annotated[
        Any,
        Field(
            "what a queue is: hostname, surt-authority, registered-domain, single, or module:name", "policy:assignment"
        ),
    ] = "hostname"
    precedence: Annotated[
        int, Field("queues with a lower number go first", PRECEDENCE, True, ("queue_precedence", "base_precedence"))
    ] = 3
    precedence_policy: Annotated[Any, Field("how precedence is found: base, or module:name", "policy:precedence")] = (
        "base"
    )
    politeness_policy: Annotated[
        Any, Field("how long a queue rests: standard, or module:name", "policy:politeness")
    ] = "standard"
    canonicalization_policy: Annotated[
        Any,
        Field("which URLs are one page to deduplication: standard, or module:name", "policy:canonicalization"),
    ] = "standard"
    order: Annotated[
        str,
        Field(
            "URIs of the same cost and priority leave by age: fifo oldest first, lifo newest first",
            choice("fifo", "lifo"),
            True,
        ),
    ] = "fifo"
    pause_at_finish: Annotated[
        bool, Field("pause instead of finishing, to look at the retired queues", FLAG, False, ("pause_on_finish",))
    ] = False
    max_deliveries: Annotated[
        int, Field("times a URI may be handed out and lost before it is a dead letter", integer(1, 65535))
    ] = 20
    max_queued: Annotated[int, Field("most URIs queued in the frontier; 0 for no limit", COUNT)] = 0
    max_queue_size: Annotated[int, Field("most URIs in one queue; 0 for no limit", COUNT, True)] = 0
    lease_ttl: Annotated[
        float, Field("a URI handed out comes back after this long without an answer", POSITIVE_DURATION)
    ] = 300.0
    commit_interval: Annotated[float, Field("sync to disk at least this often", DURATION)] = 0.5
    commit_operations: Annotated[int, Field("sync to disk after this many operations", integer(1))] = 500_000
    suffix_list: Annotated[
        str | None, Field("a public suffix list file instead of the bundled one, for registered-domain", "file")
    ] = None
    politeness: PolitenessSettings = PolitenessSettings()
    retry: RetrySettings = RetrySettings()
    revisit: RevisitSettings = RevisitSettings()
    canonicalization: CanonicalizationSettings = CanonicalizationSettings()


class RequestSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent with the requests that `match` picks. `${NAME}` stands for an environment variable."""

    match: Annotated[str, Field('which URIs: "*", or a pattern such as host:www.example.org', "match")] = "*"
    headers: Annotated[dict[str, str], Field("headers by name", "texts")] = {}
    cookies: Annotated[dict[str, str], Field("cookies by name", "texts")] = {}
    auth: Annotated[
        str | None, Field('user:password of HTTP basic authentication, such as "${USER}:${PASSWORD}"', optional(TEXT))
    ] = None


class FetchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How pages are fetched."""

    user_agent: Annotated[
        str, Field("who you are, with an address for complaints", matching(TEXT, r"[ -~]+", "printable ASCII text"))
    ] = "budgetfrontier"
    concurrency: Annotated[int, Field("fetches at a time, in all", integer(1, 10_000))] = 32
    timeout: Annotated[
        float, Field("end a fetch after this long; what came of the page is kept", POSITIVE_DURATION)
    ] = 60.0
    connect_timeout: Annotated[float, Field("give up on connecting after this long", POSITIVE_DURATION)] = 10.0
    first_byte_timeout: Annotated[
        float, Field("give up on a fetch whose answer has not begun after this long", POSITIVE_DURATION)
    ] = 30.0
    min_speed: Annotated[
        int, Field("end a fetch whose page trickles in slower than this, in bytes a second; 0: never", SIZE)
    ] = 50
    max_body: Annotated[int, Field("read no more of a page than this, compressed or not; 0 for no limit", SIZE)] = (
        10 * 1024**2
    )
    max_header: Annotated[int, Field("give up on an answer whose header is larger than this", SIZE)] = 64 * 1024
    max_expansion: Annotated[
        int, Field("cut a compressed page that grows to more than this many times its size", integer(1))
    ] = 200
    robots: Annotated[
        bool | str,
        Field(
            "true: obey robots.txt; ignore: fetch what it forbids, too, where you have the right to",
            choice(True, "ignore"),
        ),
    ] = True
    robots_tags: Annotated[
        str,
        Field(
            "obey: noindex and nofollow, in pages and in X-Robots-Tag, count; ignore: they do not",
            choice("obey", "ignore"),
        ),
    ] = "obey"
    allow_private: Annotated[
        bool, Field("fetch from loopback and private addresses, too, not only from seeds that name one", FLAG)
    ] = False
    dns_ttl: Annotated[float, Field("remember the addresses of a host this long", DURATION)] = 600.0
    verify_tls: Annotated[bool, Field("false: accept any certificate", FLAG)] = True
    proxy: Annotated[
        str | None,
        Field("an HTTP proxy for all fetches, http://proxy:3128; ${NAME} is an environment variable", optional(TEXT)),
    ] = None
    requests: Annotated[
        tuple[RequestSettings, ...],
        Field("headers, cookies and passwords for some hosts: {match, headers, cookies, auth}", "requests"),
    ] = ()
    resolve: Annotated[
        dict[str, str], Field('addresses instead of DNS, by host glob: {"*.test": "127.0.0.1:8080"}', "addresses")
    ] = {}


class LinkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which links are looked for."""

    sitemaps: Annotated[bool, Field("read sitemaps, and look for them in robots.txt", FLAG)] = True
    feeds: Annotated[bool, Field("read RSS and Atom feeds", FLAG)] = True
    rel_nofollow: Annotated[
        str, Field("links marked rel=nofollow, ugc or sponsored: follow or skip", choice("follow", "skip"))
    ] = "follow"
    prefer_embeds: Annotated[bool, Field("what a page embeds goes before links", FLAG)] = False
    max_per_page: Annotated[int, Field("take no more links of one page than this; 0 for no limit", COUNT)] = 0


class OutputSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a crawl writes besides crawl.log."""

    warc: Annotated[bool, Field("keep the pages themselves, as WARC files in warcs/", FLAG)] = False
    warc_size: Annotated[int, Field("begin a new WARC file when one has grown to this", SIZE)] = 1024**3
    warc_prefix: Annotated[
        str | None, Field("how the names of WARC files begin; null: as the crawl is named", optional(TEXT))
    ] = None
    warc_revisits: Annotated[
        bool, Field("write a short revisit record for a page whose content was written before", FLAG)
    ] = True
    links: Annotated[str, Field("write every link found as JSON lines: none or jsonl", choice("none", "jsonl"))] = (
        "none"
    )
    pages: Annotated[str, Field("write a line for every page fetched: none or jsonl", choice("none", "jsonl"))] = (
        "jsonl"
    )
    statistics: Annotated[float, Field("write a line of progress-statistics.log this often; 0: none", DURATION)] = 20.0
    sinks: Annotated[
        tuple[str, ...], Field("functions that are given every page fetched, as module:name", "hooks")
    ] = ()


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """When a crawl stops by itself, whatever is left. All its runs count together; raise a limit to go on."""

    max_uris: Annotated[
        int, Field("stop after this many URIs were finished, robots.txt among them; 0 for no limit", COUNT)
    ] = 0
    max_time: Annotated[float, Field("stop after running this long, pauses left out; 0 for no limit", PERIOD)] = 0.0
    max_bytes: Annotated[int, Field("stop after this much was downloaded; 0 for no limit", SIZE)] = 0


class ReportSettings(msgspec.Struct, frozen=True, kw_only=True):
    """When a crawl writes reports into its job folder."""

    every: Annotated[float, Field("write the reports this often; 0: only at each stop", DURATION)] = 300.0
