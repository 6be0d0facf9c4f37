"""Which queue a URI belongs to. A queue's key is all there is to a queue: URIs with one key wait for one another.

`by_authority` says that a key depends on scheme, host and port alone, so that it need be computed once for each. A
policy of one's own that says nothing is asked for every URI.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from budgetfrontier import uris
from budgetfrontier.errors import PolicyError
from budgetfrontier.model import CrawlUri

if TYPE_CHECKING:
    from tldextract import TLDExtract


class Hostname:
    """One queue a host and port: "example.org", "example.org:8080" (Heritrix: HostnameQueueAssignmentPolicy).

    Other than in Heritrix, http and https share a queue: it is one host that must not be hurried.
    """

    by_authority: Final = True

    def __call__(self, uri: CrawlUri) -> str:
        return uris.authority(uri.url)


class SurtAuthority:
    """The same queues as `hostname`, in an order that keeps domains together: "org,example,www,".

    Heritrix: SurtAuthorityQueueAssignmentPolicy.
    """

    by_authority: Final = True

    def __call__(self, uri: CrawlUri) -> str:
        return uris.surt_authority(uris.authority(uri.url))


class RegisteredDomain:
    """One queue a domain that somebody could register: "example.co.uk" for "www.example.co.uk:8080".

    What is registered is read from a public suffix list, its private part included: "blog.github.io" is a domain of its
    own. Addresses, "localhost", and hosts that are a public suffix themselves are their own key.

    `suffix_list` is the text of a public suffix list; without it, the one that tldextract brings along. A frontier
    stores the text and passes it back, because another list would move queues in mid-crawl. The list is read at the
    first URI (about 0.2 s, once). Heritrix: TopmostAssignedSurtQueueAssignmentPolicy, AssignmentLevelSurt...
    """

    by_authority: Final = True
    needs_suffix_list: Final = True

    def __init__(self, *, suffix_list: str | None = None) -> None:
        if suffix_list is not None and "\n" not in suffix_list:
            raise PolicyError("registered-domain: suffix_list is the text of a public suffix list, not a file's name")
        self._suffix_list = suffix_list
        self._extract: TLDExtract | None = None
        self._domain = lru_cache(maxsize=65536)(self._look_up)

    def __call__(self, uri: CrawlUri) -> str:
        return self._domain(uris.host(uri.url))

    def _look_up(self, host: str) -> str:
        if self._extract is None:
            self._extract = _extractor(self._suffix_list)
        return self._extract(host).top_domain_under_public_suffix or host


def _extractor(suffix_list: str | None) -> TLDExtract:
    import tldextract  # 0.1 s: only for those who need it

    if suffix_list is None:
        return tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None, include_psl_private_domains=True)
    with TemporaryDirectory() as folder:  # it reads lists from URLs only
        path = Path(folder, "public_suffix_list.dat")
        path.write_text(suffix_list, encoding="utf-8")
        extract = tldextract.TLDExtract(
            suffix_list_urls=(path.as_uri(),),
            cache_dir=None,
            fallback_to_snapshot=False,
            include_psl_private_domains=True,
        )
        extract("example.org")  # reads the list while the file is there
    return extract


def bundled_suffix_list() -> str:
    """The text of the public suffix list that the installed tldextract brings along. Imports it: 0.1 s."""
    import pkgutil

    text = pkgutil.get_data("tldextract", ".tld_set_snapshot")
    if text is None:
        raise PolicyError("tldextract brings no public suffix list; name a file with frontier.suffix_list")
    return text.decode()


class Single:
    """One queue for everything, "all": a plain ordered queue, for a single site or for tests."""

    by_authority: Final = True

    def __call__(self, uri: CrawlUri) -> str:
        return "all"


BUILTIN: dict[str, type] = {
    "hostname": Hostname,
    "surt-authority": SurtAuthority,
    "registered-domain": RegisteredDomain,
    "single": Single,
}
HERITRIX = {
    "HostnameQueueAssignmentPolicy": "hostname",
    "SurtAuthorityQueueAssignmentPolicy": "surt-authority",
    "TopmostAssignedSurtQueueAssignmentPolicy": "registered-domain",
    "AssignmentLevelSurtQueueAssignmentPolicy": "registered-domain",
}
