"""All settings by section: name, type, default and meaning. default.yaml and the documentation follow it."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from budgetfrontier.settings.field import Field
from budgetfrontier.settings.values import (
    AT_LEAST_1,
    BROKERS,
    DURATION,
    FLAG,
    NUMBER,
    PERIOD,
    POSITIVE_DURATION,
    POSITIVE_SIZE,
    PROBABILITY,
    SCORE,
    SIZE,
    SNAPSHOT_URL,
    TEXT,
    TEXTS,
    choice,
    either,
    integer,
    listed,
    matching,
    named,
    optional,
)

COUNT = integer(0)
STATUSES = listed(integer(400, 599), many="a list of HTTP statuses from 400 to 599")
PRECEDENCE = integer(0, 65535)
SHEETS = "the name of a sheet, or a list of names"
NAME = matching(TEXT, r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", "a name of at most 100 ASCII letters, digits, _, . and -")
"""Of groups and of files: both have longer names made of it, for which LMDB and file systems have limits."""
CONDITIONS = (
    "finished",
    "paused",
    "no_process",
    "no_commit",
    "starved",
    "hung_leases",
    "disk_below",
    "disk_full_within",
    "dead_letters",
    "queue_share",
    "trap",
)
"""The conditions of which alerts tell, each with its setting in `alerts`."""
CONDITION_NAMES = listed(choice(*CONDITIONS), many=f"a list of conditions: {', '.join(CONDITIONS)}")
GROUP_BY = optional(choice("registered-domain", "host", "ip", "surt", "label"))


class Seed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A seed: one `url`, or a `file` with one URL per line, which may have settings of its own behind the URL."""

    url: Annotated[str | None, Field("the URL to start from", optional(TEXT))] = None
    file: Annotated[
        str | None,
        Field("a file with a URL per line, relative to the YAML; # starts a comment, a tab metadata", "file"),
    ] = None
    priority: Annotated[int, Field("URIs with a higher number come first in their queue", integer())] = 0
    source: Annotated[
        str | None, Field("a label stored with every URI found from this seed", optional(TEXT), False, ("label",))
    ] = None
    queue: Annotated[str | None, Field("the queue key, instead of that of the assignment policy", optional(TEXT))] = (
        None
    )
    budget: Annotated[int | None, Field("what the queue of this seed may spend in total", optional(integer(-1)))] = None
    sheet: Annotated[
        tuple[str, ...], Field("a sheet for the queue of this seed, or several", listed(TEXT, many=SHEETS))
    ] = ()


class Override(msgspec.Struct, frozen=True, eq=False, omit_defaults=True):
    """Settings for all URIs that fit `match`. `set` maps dotted names, such as "politeness.min_delay", to values.

    `id` is that of the audit entry of an adjustment (0: unknown), `at` the place of an override in a YAML file, as
    FILE:LINE, and `sheet` the sheet that the values are those of. None counts when overrides are compared.
    """

    match: str
    set: dict[str, Any]
    id: int = 0
    at: str = ""
    sheet: str = ""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Override):
            return NotImplemented
        return (self.match, self.set) == (other.match, other.set)

    __hash__ = None  # type: ignore[assignment]


class GroupSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A group of queues that share a politeness clock, a number of fetches in flight, a budget, bandwidth or quotas.

    It has either a `match`, which all of its queues fit, or a `by`: then there is a group for each value, NAME/VALUE.
    """

    name: Annotated[str, Field("the name of the group, or of all groups of a `by`", NAME)] = ""
    match: Annotated[
        str | None, Field("one group of all queues whose head fits this pattern, as in overrides", "group_match")
    ] = None
    by: Annotated[
        str | None,
        Field("or a group for each: registered-domain, host, ip, surt, or label (the source of a URI)", GROUP_BY),
    ] = None
    segments: Annotated[int, Field("with by: surt, how many segments of the SURT of the host count", integer(1))] = 2
    politeness: Annotated[
        bool, Field("one clock: the rest after each fetch of a queue holds for all queues of the group", FLAG)
    ] = False
    max_in_flight: Annotated[
        int | None,
        Field("the most fetches of the group at a time; null: 1 with politeness, else no limit", optional(integer(1))),
    ] = None
    total_budget: Annotated[
        int | str,
        Field(
            "what its queues may spend together; -1: no limit; star: by links, with by: registered-domain",
            either("star", integer(-1)),
        ),
    ] = -1
    max_bandwidth: Annotated[
        int, Field("the most bytes a second of its queues together, on average; 0: no limit", SIZE)
    ] = 0
    quotas: Annotated[
        dict[str, int], Field("how many URIs and bytes may be fetched of its queues, as in frontier.quotas", "quota")
    ] = {}


class Association(msgspec.Struct, frozen=True, kw_only=True):
    """Sheets that apply to the URIs that one of the patterns matches."""

    sheets: tuple[str, ...]
    match: tuple[str, ...]
    order: int = 0


class ScopeRule(msgspec.Struct, frozen=True):
    """One rule of an ordered scope: URIs that match `rule` are accepted or rejected."""

    accept: bool
    rule: str


class ScopeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The scope: which of the URIs found belong to the crawl."""

    accept: Annotated[
        tuple[str, ...],
        Field("rules that accept URIs, such as seed-hosts, seed-domains, domain:example.org, embeds", "rules"),
    ] = ("seed-hosts",)
    reject: Annotated[
        tuple[str, ...], Field("rules that reject URIs, such as ext:zip,exe; they take precedence over accept", "rules")
    ] = ()
    rules: Annotated[
        tuple[ScopeRule, ...],
        Field(
            "further rules, {accept: ...} or {reject: ...}, applied after those; the last that matches decides",
            "ordered",
        ),
    ] = ()
    max_hops: Annotated[int, Field("the most links between a seed and a URI; -1: no limit", integer(-1))] = 20


class PolitenessSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Politeness: how long a queue waits after a fetch."""

    delay_factor: Annotated[float, Field("wait this many times the duration of the fetch", NUMBER, True)] = 5.0
    min_delay: Annotated[float, Field("wait at least this long", DURATION, True)] = 3.0
    max_delay: Annotated[float, Field("wait at most this long", DURATION, True)] = 30.0
    respect_crawl_delay_up_to: Annotated[
        float, Field("obey a crawl-delay in robots.txt up to this long, even beyond max_delay", DURATION, True)
    ] = 300.0
    jitter: Annotated[float, Field("add a random time up to this to each wait", DURATION, True)] = 0.0
    per_queue_concurrency: Annotated[
        int, Field("URIs of one queue that may be leased at a time", integer(1, 65535), True)
    ] = 1
    min_interval: Annotated[float, Field("wait at least this long between two leases from a queue", DURATION, True)] = (
        0.0
    )
    max_bandwidth: Annotated[
        int, Field("wait until so many bytes a second, on average, are not exceeded; 0: no limit", SIZE, True)
    ] = 0


class RetrySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Retries of URIs after temporary failures of their fetches."""

    max_retries: Annotated[
        int,
        Field(
            "retries after which a URI goes to the dead letters; a connection lost before the answer counts",
            integer(0, 65535),
            True,
        ),
    ] = 30
    delay: Annotated[float, Field("wait this long before a retry of what was not answered", DURATION, True)] = 900.0
    scope: Annotated[
        str,
        Field("what waits: queue (the host may be down) or uri (its queue continues)", choice("queue", "uri"), True),
    ] = "queue"
    statuses: Annotated[
        tuple[int, ...],
        Field("statuses after which a page is tried again; but for 429 and 503 its queue continues", STATUSES, True),
    ] = (408, 429, 500, 502, 503, 504, 522, 524)
    status_retries: Annotated[
        int,
        Field(
            "retries after such a status but 429 and 503, at most max_retries; then the page has failed",
            COUNT,
            True,
        ),
    ] = 2
    status_delay: Annotated[
        float, Field("wait this long before such a retry: three tries in an hour by default", DURATION, True)
    ] = 1800.0


class QuotaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Quotas: how many URIs and bytes may be fetched in all; each is replaced as a whole by overrides.

    They limit successes, errors, urls, novel, success_bytes, error_bytes, bytes and novel_bytes.
    """

    host: Annotated[dict[str, int], Field("of a host, such as {successes: 1000, bytes: 1GB}", "quota", True)] = {}
    queue: Annotated[dict[str, int], Field("of a queue, which counts for itself", "quota", True)] = {}
    label: Annotated[dict[str, int], Field("of all URIs with the same label (source) of a seed", "quota", True)] = {}
    force_retire: Annotated[
        bool, Field("over a quota: retire the queue; false: its URIs are disregarded on their turn", FLAG, True)
    ] = True


class BackoffSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Back-off: how long a host rests that answers 429 or 503 without a Retry-After above 0."""

    delay: Annotated[
        float, Field("rest this long the first time; 0: no back-off, then retry.delay applies", DURATION, True)
    ] = 60.0
    factor: Annotated[float, Field("rest this many times as long at each further incident", AT_LEAST_1, True)] = 2.0
    max_delay: Annotated[
        float, Field("rest at most this long, also if a Retry-After asks for more", DURATION, True)
    ] = 86400.0
    forgive_after: Annotated[
        float, Field("begin anew after an incident once the last rest is over for this long", DURATION, True)
    ] = 1800.0


class GuardSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Guards: when a crawl leases nothing, although there is something to crawl."""

    min_free: Annotated[
        int, Field("pause the crawl when a disk that it writes to has less than this free; 0: never", SIZE)
    ] = 0
    resume_at: Annotated[
        int | None,
        Field("and resume it once so much is free again; null: min_free and a quarter of it", optional(SIZE)),
    ] = None
    windows: Annotated[
        tuple[str, ...],
        Field(
            "when URIs are leased, {days, from, to, zone}, such as mon-fri 22:00-06:00; none: always", "windows", True
        ),
    ] = ()

    @property
    def resumes_at(self) -> int:
        """The free bytes at which a pause for the disk ends."""
        return self.min_free + self.min_free // 4 if self.resume_at is None else self.resume_at


class RevisitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Revisits: when a fetched page is fetched again."""

    after: Annotated[float, Field("fetch a page again this long after it was fetched; 0: never", PERIOD, True)] = 0.0


class OfGroupSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of all groups of queues, in place of those of their definitions; overrides set those of `group:NAME`."""

    total_budget: Annotated[
        int | None,
        Field("what its queues may spend together; -1: no limit; null: as defined", optional(integer(-1)), True),
    ] = None
    max_in_flight: Annotated[
        int | None, Field("the most fetches of the group at a time; null: as defined", optional(integer(1)), True)
    ] = None
    max_bandwidth: Annotated[
        int | None,
        Field("the most bytes a second of the group, on average; 0: no limit; null: as defined", optional(SIZE), True),
    ] = None
    quotas: Annotated[
        dict[str, int] | None,
        Field(
            "how many URIs and bytes may be fetched of the group, as in quotas; null: as defined",
            "optional_quota",
            True,
        ),
    ] = None


class CanonicalizationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The differences between URLs that deduplication ignores. They are fixed when a frontier is created."""

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


UNIQ_FILTERS = {"BdbUriUniqFilter": "exact", "BloomUriUniqFilter": "bloom", "NoopUriUniqFilter": "noop"}
"""The values of `duplicates` by the names of Heritrix's classes."""


class BloomSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The Bloom filter of `duplicates: bloom`. Both settings are fixed when a frontier is created."""

    expected: Annotated[
        int, Field("the most URIs that are recorded as seen; further ones are refused as FULL", integer(1, 10**10))
    ] = 125_000_000
    error: Annotated[
        float, Field("the share of new URIs that are taken for seen once there are that many", PROBABILITY)
    ] = 2.4e-7


class StarSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The budgets of groups with `total_budget: star`, by the number of registered domains that link to theirs."""

    default_budget: Annotated[int, Field("the total budget of a domain that is not among the top", COUNT)] = 10
    max_budget: Annotated[int, Field("that of the domain to which most others link", COUNT)] = 10_000
    top: Annotated[int, Field("how many domains get more than the default, by in-degree", integer(1))] = 10_000
    epoch: Annotated[float, Field("rank the domains again this often", POSITIVE_DURATION)] = 3600.0


class FrontierSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Budgets, order and durability."""

    hold_queues: Annotated[bool, Field("new queues start inactive; false: all take turns at once", FLAG)] = True
    target_active: Annotated[
        int | str,
        Field("queues to keep active, if as many wait; auto: one more when none is READY", either("auto", integer(1))),
    ] = "auto"
    balance_replenish_amount: Annotated[
        int, Field("what a queue may spend each time it is activated; 0 or less retires it", integer(), True)
    ] = 3000
    queue_total_budget: Annotated[int, Field("what a queue may spend in total; -1: no limit", integer(-1), True)] = -1
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
            "what a queue is: hostname, registered-domain, another of the policies, or module:name", "policy:assignment"
        ),
    ] = "hostname"
    defer_to_previous: Annotated[
        bool, Field("a URI stays on its queue; false: it moves if its key is another when its turn comes", FLAG)
    ] = True
    precedence: Annotated[
        int,
        Field(
            "queues with a lower number are crawled first", PRECEDENCE, True, ("queue_precedence", "base_precedence")
        ),
    ] = 3
    precedence_policy: Annotated[
        Any,
        Field(
            "how the precedence of queues is determined: base, success-counts, highest-uri, or module:name",
            "policy:precedence",
        ),
    ] = "base"
    uri_precedence_policy: Annotated[
        Any,
        Field(
            "the order of the URIs of a queue: cost, base, hops, preloaded, or module:name",
            "policy:uri_precedence",
            True,
        ),
    ] = "cost"
    precedence_floor: Annotated[
        int | None,
        Field(
            "the precedence from which on queues are INELIGIBLE, not crawled; null: none",
            optional(PRECEDENCE),
        ),
    ] = None
    politeness_policy: Annotated[
        Any, Field("how long a queue waits: standard, or module:name", "policy:politeness")
    ] = "standard"
    canonicalization_policy: Annotated[
        Any,
        Field("which URLs deduplication treats as equal: standard, rules, or module:name", "policy:canonicalization"),
    ] = "standard"
    duplicates: Annotated[
        str,
        Field(
            "how seen URIs are recognized: exact, bloom (in less space) or noop (not); fixed at creation",
            named(choice("exact", "bloom", "noop"), UNIQ_FILTERS),
        ),
    ] = "exact"
    order: Annotated[
        str,
        Field(
            "order of URIs of the same priority and precedence: fifo (oldest first) or lifo (newest first)",
            choice("fifo", "lifo"),
            True,
        ),
    ] = "fifo"
    pause_at_finish: Annotated[
        bool,
        Field(
            "pause instead of finishing, so that budgets of retired queues can be raised",
            FLAG,
            False,
            ("pause_on_finish",),
        ),
    ] = False
    max_bandwidth: Annotated[
        int, Field("the most bytes a second of the whole crawl, on average; 0: no limit", SIZE)
    ] = 0
    max_deliveries: Annotated[
        int, Field("deliveries without a result after which a URI becomes a dead letter", integer(1, 65535))
    ] = 20
    max_queued: Annotated[int, Field("the most URIs queued in the frontier; 0: no limit", COUNT)] = 0
    max_queue_size: Annotated[int, Field("the most URIs in one queue; 0: no limit", COUNT, True)] = 0
    keep_urls: Annotated[
        bool, Field("keep every URL with its state, as `budgetfrontier serve` does; fixed at creation", FLAG)
    ] = False
    update_priority: Annotated[
        bool, Field("a URI that waits takes the priority of a more urgent duplicate; needs keep_urls", FLAG)
    ] = False
    lease_ttl: Annotated[
        float, Field("a leased URI returns to its queue after this long without a result", POSITIVE_DURATION)
    ] = 300.0
    commit_interval: Annotated[
        float, Field("sync to disk this often; `crawl` waits longer for a slow disk", DURATION)
    ] = 0.5
    commit_operations: Annotated[int, Field("sync to disk after this many operations", integer(1))] = 500_000
    suffix_list: Annotated[
        str | None, Field("a public suffix list file instead of the bundled one, for registered domains", "file")
    ] = None
    politeness: PolitenessSettings = PolitenessSettings()
    retry: RetrySettings = RetrySettings()
    backoff: BackoffSettings = BackoffSettings()
    quotas: QuotaSettings = QuotaSettings()
    guards: GuardSettings = GuardSettings()
    revisit: RevisitSettings = RevisitSettings()
    group: OfGroupSettings = OfGroupSettings()
    star: StarSettings = StarSettings()
    canonicalization: CanonicalizationSettings = CanonicalizationSettings()
    bloom: BloomSettings = BloomSettings()


class RequestSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Additions to the requests for URIs that fit `match`. `${NAME}` stands for an environment variable."""

    match: Annotated[str, Field('which URIs: "*", or a pattern such as host:www.example.org', "match")] = "*"
    headers: Annotated[dict[str, str], Field("headers by name", "texts", secret="text")] = {}
    cookies: Annotated[dict[str, str], Field("cookies by name", "texts", secret="text")] = {}
    auth: Annotated[
        str | None,
        Field(
            'user:password of HTTP basic authentication, such as "${USER}:${PASSWORD}"', optional(TEXT), secret="text"
        ),
    ] = None


class FetchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The fetching of pages."""

    user_agent: Annotated[
        str,
        Field(
            "the name of the crawler, with an address for complaints", matching(TEXT, r"[ -~]+", "printable ASCII text")
        ),
    ] = "budgetfrontier"
    robots_name: Annotated[
        str | None,
        Field(
            "the name to look for in robots.txt and robots tags; null: that of user_agent, not a browser's",
            optional(matching(TEXT, r"[A-Za-z0-9_.-]+", "ASCII letters, digits, _, . and -")),
        ),
    ] = None
    concurrency: Annotated[int, Field("the most concurrent fetches", integer(1, 10_000))] = 32
    timeout: Annotated[float, Field("end a fetch after this long; the part received is kept", POSITIVE_DURATION)] = 60.0
    connect_timeout: Annotated[float, Field("give up on connecting after this long", POSITIVE_DURATION)] = 10.0
    first_byte_timeout: Annotated[
        float, Field("give up on a fetch if the response has not begun after this long", POSITIVE_DURATION)
    ] = 30.0
    min_speed: Annotated[int, Field("end a fetch that is slower than this, in bytes per second; 0: never", SIZE)] = 50
    max_body: Annotated[int, Field("the most bytes read of a page, compressed or not; 0: no limit", SIZE)] = (
        10 * 1024**2
    )
    max_header: Annotated[int, Field("give up on a response whose header is larger than this", POSITIVE_SIZE)] = (
        64 * 1024
    )
    max_expansion: Annotated[
        int, Field("truncate a compressed page that expands to more than this many times its size", integer(1))
    ] = 200
    robots: Annotated[
        bool | str,
        Field(
            "true: obey robots.txt; ignore: fetch disallowed pages too, if you have the right to",
            choice(True, "ignore"),
        ),
    ] = True
    allow_private: Annotated[
        bool, Field("fetch from loopback and private addresses, not only from seeds that name one", FLAG)
    ] = False
    dns_ttl: Annotated[float, Field("cache the addresses of a host this long", DURATION)] = 600.0
    verify_tls: Annotated[bool, Field("false: accept any certificate", FLAG)] = True
    proxy: Annotated[
        str | None,
        Field(
            "an HTTP proxy for all fetches, http://proxy:3128; ${NAME} is an environment variable",
            optional(TEXT),
            secret="url",
        ),
    ] = None
    requests: Annotated[
        tuple[RequestSettings, ...],
        Field("headers, cookies and passwords for some hosts: {match, headers, cookies, auth}", "requests"),
    ] = ()
    resolve: Annotated[
        dict[str, str], Field('addresses instead of DNS, by host glob: {"*.test": "127.0.0.1:8080"}', "addresses")
    ] = {}


class LinkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The links that are extracted."""

    sitemaps: Annotated[bool, Field("read sitemaps, and look for them in robots.txt", FLAG)] = True
    feeds: Annotated[bool, Field("read RSS and Atom feeds", FLAG)] = True
    nofollow: Annotated[
        str,
        Field("links of pages that say nofollow (robots meta, X-Robots-Tag): skip or follow", choice("skip", "follow")),
    ] = "skip"
    rel_nofollow: Annotated[
        str, Field("links marked rel=nofollow, ugc or sponsored: follow or skip", choice("follow", "skip"))
    ] = "follow"
    favicon: Annotated[bool, Field("fetch /favicon.ico of each host with pages, as browsers do", FLAG)] = False
    prefer_embeds: Annotated[bool, Field("fetch embedded resources before links", FLAG)] = False
    max_per_page: Annotated[int, Field("the most links taken from one page; 0: no limit", COUNT)] = 0


class OutputSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The outputs of a crawl besides crawl.log."""

    warc: Annotated[bool, Field("store the pages as WARC files in warcs/", FLAG)] = False
    warc_size: Annotated[int, Field("start a new WARC file at this size; 0: one for each run", SIZE)] = 1024**3
    warc_prefix: Annotated[
        str | None,
        Field(
            "the prefix of the names of WARC files; null: the name of the crawl",
            optional(NAME),
        ),
    ] = None
    warc_operator: Annotated[
        str | None,
        Field("who answers for the crawl and how to reach them, for the first record of WARC files", optional(TEXT)),
    ] = None
    warc_description: Annotated[
        str | None, Field("what the crawl collects, for the first record of WARC files", optional(TEXT))
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
    noindex: Annotated[
        str,
        Field(
            "pages that say noindex (robots meta, X-Robots-Tag): store, or skip (in crawl.log only)",
            choice("store", "skip"),
        ),
    ] = "store"
    statistics: Annotated[float, Field("write a line of progress-statistics.log this often; 0: none", DURATION)] = 20.0
    sinks: Annotated[
        tuple[str, ...], Field("functions that are called with every page fetched, as module:name", "hooks")
    ] = ()


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits at which a crawl stops, whatever is left. All its runs count together; raise a limit to continue."""

    max_uris: Annotated[int, Field("stop after this many URIs, robots.txt files included; 0: no limit", COUNT)] = 0
    max_time: Annotated[float, Field("stop after running this long, without pauses; 0: no limit", PERIOD)] = 0.0
    max_bytes: Annotated[int, Field("stop after downloading this much; 0: no limit", SIZE)] = 0


class ReportSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The reports that a crawl writes into its job folder."""

    every: Annotated[float, Field("write the reports this often; 0: only at each stop", DURATION)] = 300.0


class AlertSink(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A receiver of alerts: a webhook, a command or mail. `${NAME}` stands for an environment variable."""

    name: Annotated[str | None, Field("its name in lists, and for --test; null: its kind", optional(NAME))] = None
    webhook: Annotated[
        str | None, Field("a URL to which each alert is posted as JSON", optional(TEXT), secret="url")
    ] = None
    secret: Annotated[
        str | None, Field("the key of the signature of what is posted, HMAC-SHA256", optional(TEXT), secret="text")
    ] = None
    command: Annotated[
        tuple[str, ...],
        Field("a program with its arguments, run without a shell; JSON on its stdin", TEXTS, secret="text"),
    ] = ()
    mail: Annotated[tuple[str, ...], Field("addresses of mail", TEXTS)] = ()
    sender: Annotated[str | None, Field("the sender of mail", optional(TEXT))] = None
    server: Annotated[str, Field("the server that takes the mail, HOST:PORT", TEXT)] = "localhost:25"
    tls: Annotated[str, Field("TLS to that server: none, starttls or always", choice("none", "starttls", "always"))] = (
        "none"
    )
    login: Annotated[
        str | None, Field('user:password at that server, such as "${USER}:${PASSWORD}"', optional(TEXT), secret="text")
    ] = None
    only: Annotated[tuple[str, ...], Field("the conditions that are told here; none: all", CONDITION_NAMES)] = ()
    timeout: Annotated[float, Field("an attempt has failed after this long", POSITIVE_DURATION)] = 10.0


class AlertSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Alerts: conditions of the crawl that are told, once when they begin, and once when they end."""

    sinks: Annotated[
        tuple[AlertSink, ...], Field("who is told: {webhook, secret}, {command}, {mail, sender, server}", "alert_sinks")
    ] = ()
    log: Annotated[bool, Field("write them to logs/alerts.log, also without sinks", FLAG)] = False
    every: Annotated[float, Field("look at the crawl this often", POSITIVE_DURATION)] = 30.0
    finished: Annotated[bool, Field("when the crawl is over", FLAG)] = True
    paused: Annotated[bool, Field("when it is paused", FLAG)] = True
    no_process: Annotated[
        float | None,
        Field(
            "when no process has run it for this long, with work left; at once if it was killed; null: never",
            optional(DURATION),
        ),
    ] = 600.0
    no_commit: Annotated[
        float | None,
        Field("when its process has not used the frontier for this long; null: never", optional(POSITIVE_DURATION)),
    ] = 300.0
    starved: Annotated[
        float | None,
        Field("when nothing was fetched for this long, with URIs queued; null: never", optional(POSITIVE_DURATION)),
    ] = 1800.0
    hung_leases: Annotated[
        float | None, Field("when a URI is leased for this long; null: never", optional(POSITIVE_DURATION))
    ] = 1800.0
    disk_below: Annotated[int, Field("when a disk that it writes to has less than this free; 0: never", SIZE)] = (
        5 * 1024**3
    )
    disk_full_within: Annotated[
        float | None,
        Field(
            "when such a disk will be full within this at the rate of late; null: never", optional(POSITIVE_DURATION)
        ),
    ] = None
    dead_letters: Annotated[
        int | None,
        Field("when so many URIs have become dead letters within an hour; null: never", optional(integer(1))),
    ] = None
    queue_share: Annotated[
        float | None,
        Field(
            "when one queue has spent this share of what the busiest ones spent in an hour; null: never",
            optional(PROBABILITY),
        ),
    ] = None
    trap: Annotated[
        float | None,
        Field(
            "when a queue looks like a crawler trap with this score, of 0.5 to 1, every 15 minutes; null: never",
            optional(SCORE),
        ),
    ] = None


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A crawl in partitions, which several workers share (`budgetfrontier worker`)."""

    kafka: Annotated[
        str | None,
        Field(
            "the brokers of the partitions' logs, HOST:PORT,...?property=value of librdkafka",
            optional(BROKERS),
            secret="query",
        ),
    ] = None
    partitions: Annotated[int, Field("partitions of the crawl; fixed when it begins", integer(1, 4096))] = 16
    snapshots: Annotated[
        str | None,
        Field(
            "the store of snapshots: file:///FOLDER (of all workers), s3://..., gs://... or az://...; null: none",
            optional(SNAPSHOT_URL),
        ),
    ] = None
    snapshot_every: Annotated[float, Field("take a snapshot of each partition this often", POSITIVE_DURATION)] = 600.0
    snapshots_kept: Annotated[int, Field("keep this many snapshots of each partition", integer(1))] = 3
    snapshot_timeout: Annotated[
        float, Field("give up a call to their store after this time; there is one for each 8 MiB", POSITIVE_DURATION)
    ] = 60.0
    max_uris: Annotated[int, Field("lease no more than this many URIs, in all partitions; 0: no limit", COUNT)] = 0
    max_spend: Annotated[int, Field("lease nothing once this much is spent, in all partitions; 0: no limit", COUNT)] = 0
