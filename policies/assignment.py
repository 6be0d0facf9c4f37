"""Queue assignment policies: which queue a URI belongs to.

A queue is identified by its key alone: URIs with the same key wait for one another. `by_authority` declares that the
key depends on scheme, host and port only, so that the engine computes it once for each of these. A custom policy
without this attribute is called for every URI. `one_host` declares that all URIs of a queue have the same host, so that
a pattern of hosts matches all of them or none. `by_address` declares that the key depends on the IP address of the
host: the policy is called with `address`, which is None as long as none is known.

The policies that go by host or domain also take Heritrix's options for parallel queues: `divided_by` names the class
that takes these, and divides their queues.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, Final

from budgetfrontier.core import uris
from budgetfrontier.core.heritrix_hashes import address_hash, bucket_of, text_hash
from budgetfrontier.core.model import CrawlUri
from budgetfrontier.errors import PolicyError

if TYPE_CHECKING:
    from tldextract import TLDExtract

_DEFAULT = "*"  # https://github.com/publicsuffix/list/wiki/Format#formal-algorithm


class ParallelQueues:
    """The division of the queues of a policy into `parallel_queues` each; the key of the n-th of them ends in "+n".

    As in Heritrix, consistent hashing determines n for the first segment of the path, so that the pages of a directory
    stay together, and for the whole URI with `parallel_queues_random_assignment`. The first queue keeps the key as it
    is; URIs whose path has no second slash are in it. Each of the queues has its own budget, its own delays and its own
    connection.
    """

    def __init__(
        self,
        policy: Callable[[CrawlUri], str],
        *,
        parallel_queues: int = 1,
        parallel_queues_random_assignment: bool = False,
    ) -> None:
        self._policy = policy
        self._queues = _whole(parallel_queues, "parallel_queues", lowest=1, highest=MAX_PARALLEL_QUEUES)
        self._random = _flag(parallel_queues_random_assignment, "parallel_queues_random_assignment")
        self.by_authority = self._queues == 1
        self.in_parallel = self._queues > 1
        self.one_host = getattr(policy, "one_host", False)
        self.needs_suffix_list = getattr(policy, "needs_suffix_list", False)

    def __call__(self, uri: CrawlUri) -> str:
        core, url = self._policy(uri), uri.url
        if self._queues == 1:
            return core
        basis = url
        if not self._random:
            segment, slash, _ = uris.split(url)[1][1:].partition("/")
            if not slash or not segment:
                return core
            basis = segment
        number = bucket_of(basis, self._queues)
        return f"{core}+{number}" if number else core


MAX_PARALLEL_QUEUES: Final = 1024


def _whole(given: object, name: str, *, lowest: int, highest: int) -> int:
    if type(given) is not int or not lowest <= given <= highest:
        raise PolicyError(f"{name} is a whole number from {lowest} to {highest}, not {given!r:.40}")
    return given


def _flag(given: object, name: str) -> bool:
    if not isinstance(given, bool):
        raise PolicyError(f"{name} is true or false, not {given!r:.40}")
    return given


def _limit(given: object) -> int:
    return _whole(given, "limit", lowest=-1, highest=MAX_LABELS)


MAX_LABELS: Final = 127
"""Labels of a host name at the most."""


class Hostname:
    """One queue per host and port: "example.org", "example.org:8080" (Heritrix: HostnameQueueAssignmentPolicy).

    Unlike in Heritrix, http and https share a queue: politeness is owed to the host, not to the scheme.

    With `limit`, of a host's labels only the last ones count, that many: "example.org" for "a.www.example.org" if 2; 0
    and less: all of them. Addresses are not cut (Heritrix: HostnameQueueAssignmentPolicyWithLimits).
    """

    by_authority: Final = True
    divided_by: Final = ParallelQueues

    def __init__(self, *, limit: int = -1) -> None:
        self._limit = _limit(limit)
        self.one_host = self._limit <= 0

    @property
    def keeps_hosts(self) -> bool:
        """Whether each key is the whole host and port. The kernel asks this class alone, no subclass."""
        return self._limit <= 0

    def __call__(self, uri: CrawlUri) -> str:
        key = uris.authority(uri.url)
        if self._limit > 0 and not uris.is_address(uris.host(uri.url)):
            key = ".".join(key.split(".")[-self._limit :])
        return key


class SurtAuthority:
    """The same queues as `hostname`, with keys that sort by domain: "org,example,www,".

    With `limit`, of a host's labels only the last ones count: "org,example," if 2. Heritrix:
    SurtAuthorityQueueAssignmentPolicy, SurtAuthorityQueueAssignmentPolicyWithLimits.
    """

    by_authority: Final = True
    divided_by: Final = ParallelQueues

    def __init__(self, *, limit: int = -1) -> None:
        self._limit = _limit(limit)
        self.one_host = self._limit <= 0

    def __call__(self, uri: CrawlUri) -> str:
        key = uris.surt_authority(uris.authority(uri.url))
        if self._limit > 0 and key.count(",") > self._limit:
            *labels, port = key.split(",")
            key = ",".join([*labels[: self._limit], port])
        return key


class RegisteredDomain:
    """One queue per registered domain: "example.co.uk" for "www.example.co.uk:8080".

    Registered domains follow a public suffix list, its private section included: "blog.github.io" is a domain. Where no
    rule of the list matches, its default rule does: "intra.corp" for "www.intra.corp". IP addresses, "localhost", and
    hosts that are public suffixes themselves are their own key.

    `suffix_list` is the text of a public suffix list (default: the one bundled with tldextract). A frontier stores the
    text and passes it back, because a different list would move queues in mid-crawl. For the same reason, the default
    rule applies only if the text has it, as a line "*" that `with_default_rule` adds: frontiers created before that
    line existed keep the whole host as the key there. tldextract applies the list. It is imported at the first URI,
    which takes 0.2 s, and asks no network.
    """

    needs_suffix_list: Final = True
    by_authority: Final = True
    divided_by: Final = ParallelQueues

    def __init__(self, *, suffix_list: str | None = None) -> None:
        if suffix_list is not None and "\n" not in suffix_list:
            raise PolicyError("registered-domain: suffix_list is the text of a public suffix list, not a file's name")
        self._suffix_list = suffix_list
        self._extract: TLDExtract | None = None
        self._domain = lru_cache(maxsize=65536)(self._look_up)

    def __call__(self, uri: CrawlUri) -> str:
        return self.domain(uri.url)

    def domain(self, url: str) -> str:
        """Return the registered domain of a normalized URL's host, or the host if it has none."""
        return self._domain(uris.host(url))

    def _look_up(self, host: str) -> str:
        if self._extract is None:
            self._extract = _extractor(self._suffix_list)
        if uris.is_address(host):  # the default rule would take the last number
            return host
        return self._extract(host).top_domain_under_public_suffix or host


class TopmostAssignedSurt:
    """The same domains as `registered-domain`, with keys that sort: "uk,co,example," for "www.example.co.uk:8080".

    IP addresses and hosts without a dot keep their port, as in Heritrix: TopmostAssignedSurtQueueAssignmentPolicy (1),
    AssignmentLevelSurtQueueAssignmentPolicy (3).
    """

    needs_suffix_list: Final = True
    by_authority: Final = True
    divided_by: Final = ParallelQueues

    def __init__(self, *, suffix_list: str | None = None) -> None:
        self._registered = RegisteredDomain(suffix_list=suffix_list)

    def __call__(self, uri: CrawlUri) -> str:
        domain = self._registered.domain(uri.url)
        if "." not in domain or uris.is_address(domain):
            domain = uris.authority(uri.url)
        return uris.surt_authority(domain)


@lru_cache(maxsize=4)  # to read a list takes 0.1 s
def _extractor(suffix_list: str | None) -> TLDExtract:
    """Return tldextract with a public suffix list, None for its own one with the default rule; it asks no network.

    Raises PolicyError if tldextract is not installed.
    """
    extract = _tldextract()
    if suffix_list is None:
        return extract(cache_dir=None, suffix_list_urls=(), include_psl_private_domains=True, extra_suffixes=[_DEFAULT])
    with NamedTemporaryFile("w", encoding="utf-8", suffix=".dat") as file:
        file.write(suffix_list)
        file.flush()
        found = extract(
            cache_dir=None,
            suffix_list_urls=[Path(file.name).as_uri()],
            fallback_to_snapshot=False,
            include_psl_private_domains=True,
            extra_suffixes=[_DEFAULT] if _DEFAULT in suffix_list.splitlines() else (),
        )
        with _session() as session:
            found("example.org", session=session)  # it reads the list now
    return found


def _session() -> Any:
    """Return a session of requests, which tldextract reads lists with, that closes the files that it has read."""
    import requests
    from requests_file import FileAdapter

    def close(response: Any, **_: Any) -> None:
        assert response.content is not None  # all of it is read
        response.raw.close()

    session = requests.Session()
    session.mount("file://", FileAdapter())
    session.hooks["response"] = [close]
    return session


def _tldextract() -> type[TLDExtract]:
    try:
        from tldextract import TLDExtract  # imported here: with an HTTP client, it takes longer than most commands
    except ImportError as error:
        raise PolicyError(
            f"registered-domain needs tldextract, which cannot be imported ({error}): pip install tldextract"
        ) from None
    return TLDExtract


def with_default_rule(suffix_list: str) -> str:
    """Return a public suffix list with the default rule added: where none matches, the last label is the suffix."""
    return f"{suffix_list}\n{_DEFAULT}\n"


@lru_cache(maxsize=1)
def bundled_suffix_list() -> str:
    """Return the rules of the public suffix list bundled with the installed tldextract, its private ones included.

    They are sorted, so that each process stores the same list. Raises PolicyError if tldextract is not installed.
    """
    bundled = _tldextract()(cache_dir=None, suffix_list_urls=(), include_psl_private_domains=True)
    return "\n".join(sorted(bundled.tlds))


class Ip:
    """One queue per IP address, "192.0.2.1" or "2001:db8::1": hosts on one server share its budget and its delays.

    As long as the address of a host is not known, it has the queue of `hostname`. Heritrix: IPQueueAssignmentPolicy.
    """

    by_address: Final = True

    def __call__(self, uri: CrawlUri, *, address: str | None = None) -> str:
        return uris.authority(uri.url) if address is None else address


class Bucket:
    """A fixed number of queues: 1,021 for hosts whose IP address is known, and 1,024 for the others.

    The key is a number by the hash of the address, or "NO-IP-" and one by that of the host. Heritrix:
    BucketQueueAssignmentPolicy.
    """

    by_address: Final = True

    def __call__(self, uri: CrawlUri, *, address: str | None = None) -> str:
        if address is None:
            return f"NO-IP-{abs(text_hash(uris.host(uri.url))) & 1023}"
        return str(abs(address_hash(address)) % 1021)


class Single:
    """One queue for all URIs, with the key "all": a plain ordered queue, for a single site or for tests."""

    by_authority: Final = True

    def __call__(self, uri: CrawlUri) -> str:
        return "all"


BUILTIN: dict[str, type] = {
    "hostname": Hostname,
    "surt-authority": SurtAuthority,
    "registered-domain": RegisteredDomain,
    "topmost-assigned-surt": TopmostAssignedSurt,
    "ip": Ip,
    "bucket": Bucket,
    "single": Single,
}
HERITRIX = {
    "HostnameQueueAssignmentPolicy": "hostname",
    "HostnameQueueAssignmentPolicyWithLimits": "hostname",
    "SurtAuthorityQueueAssignmentPolicy": "surt-authority",
    "SurtAuthorityQueueAssignmentPolicyWithLimits": "surt-authority",
    "TopmostAssignedSurtQueueAssignmentPolicy": "topmost-assigned-surt",
    "AssignmentLevelSurtQueueAssignmentPolicy": "topmost-assigned-surt",
    "IPQueueAssignmentPolicy": "ip",
    "BucketQueueAssignmentPolicy": "bucket",
}
