"""Canonicalization policies: which URLs deduplication takes for the same page. The URL that is fetched never changes.

Parsing has already lower-cased scheme and host and dropped default port and fragment. http and https stay different.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from budgetfrontier.core import uris
from budgetfrontier.errors import PolicyError
from budgetfrontier.settings.policies import canonicalization_rules

_WWW = re.compile(r"(?<=[/@])www\d*\.(?=[^.:]+\.[^.:])(?!.*@)")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_~./-]*")
# After Heritrix's StripSessionIDs: Java's, and the two of ASP.NET, "/(S(24 characters))/" and "/(24 characters)/".
_PATH_SESSION = re.compile(
    r";(?:jsessionid|phpsessid)=[^/;]*|(?<=/)\((?:[A-Za-z]\([0-9a-z]{24}\))+\)/|(?<=/)\([0-9a-z]{24}\)/", re.IGNORECASE
)
# After Heritrix's StripSessionIDs and StripSessionCFIDs, but anywhere in the query.
_SESSION = frozenset(("jsessionid", "phpsessid", "cfid", "cftoken"))
_TRACKING = frozenset(("_ga", "_gl", "_hsenc", "_hsmi", "dclid", "fbclid", "gbraid", "gclid", "gclsrc", "igshid"))
_TRACKING |= {"li_fat_id", "mc_cid", "mc_eid", "mkt_tok", "msclkid", "oly_anon_id", "oly_enc_id", "rb_clickid"}
_TRACKING |= {"s_cid", "srsltid", "ttclid", "twclid", "vero_id", "wbraid", "wickedid", "yclid"}

_NAMES = 4096  # argument names with cached decisions, at most
_LONGEST_NAME = 64  # characters of a cached name


class QueryRules(NamedTuple):
    """Which arguments of a query count. `Canonicalization.query` applies them, and so does the compiled kernel."""

    dropped: list[str]
    """Names that are dropped, in lower case; they are compared without regard to case."""
    prefixes: list[str]
    """Beginnings of such names."""
    ignored: list[str]
    """Names that are dropped, as they are written."""
    kept: list[str]
    """The only names that are kept, as they are written; all if it is empty."""
    sorts: bool
    """Whether the arguments are put in alphabetical order."""
    strips_sessions: bool
    """Whether "sid=" and 32 letters and digits are dropped."""


class Canonicalization:
    """The standard rules, after Heritrix's (`canonicalization_rules` has Heritrix's own); each can be turned off.

    - `strip_userinfo`: "user:password@".
    - `strip_www`: "www.", "www2." and so on before a host of two labels or more.
    - `strip_session_ids`: jsessionid, phpsessid, ASP and ColdFusion session ids, "sid=" and 32 characters.
    - `strip_tracking`: utm_*, gclid, fbclid and their like.
    - `sort_query`: arguments in alphabetical order.
    - `ignore_params`: names of further arguments to drop; or `keep_params`: the only names to keep. Names are compared
      as written in the normalized URL. PolicyError if both are given.

    Always: a dot at the end of the host, empty arguments and an empty query are dropped, and percent escapes are
    normalized ("%7e" to "~", "%2f" to "%2F"). Names of session ids and tracking arguments are compared without regard
    to case, everything else with it.

    A call costs about 1 us, 3 us with a query. A frontier stores `id` and refuses to open with a different one.
    """

    takes_options: Final = True
    """Whether the setting `canonicalization` is passed as keyword arguments."""

    PLAIN: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_~./-?=&:+,!*$@"
    """A path of these characters alone is canonical already, and a query of these needs no decoding."""

    VERSION: Final = 1
    """Version of the rules, increased with every change: stored fingerprints do not match those of another version."""

    def __init__(
        self,
        *,
        strip_userinfo: bool = True,
        strip_www: bool = True,
        strip_session_ids: bool = True,
        strip_tracking: bool = True,
        sort_query: bool = True,
        ignore_params: Iterable[str] = (),
        keep_params: Iterable[str] = (),
    ) -> None:
        flags: dict[str, object] = {
            "strip_userinfo": strip_userinfo,
            "strip_www": strip_www,
            "strip_session_ids": strip_session_ids,
            "strip_tracking": strip_tracking,
            "sort_query": sort_query,
        }
        if wrong := [f"canonicalization: {name} is true or false" for name in flags if type(flags[name]) is not bool]:
            raise PolicyError(wrong)
        self._strip_userinfo = strip_userinfo
        self.strips_www = strip_www
        self._strip_session_ids = strip_session_ids
        self._sort_query = sort_query
        self._ignore = _names("ignore_params", ignore_params)
        self._keep = _names("keep_params", keep_params)
        if self._ignore and self._keep:
            raise PolicyError("canonicalization: give ignore_params or keep_params, not both")
        self._drop_names = (_SESSION if strip_session_ids else frozenset()) | (_TRACKING if strip_tracking else set())
        self._drop_prefixes = ("aspsessionid",) * strip_session_ids + ("utm_",) * strip_tracking
        self._decisions: dict[str, bool | str] = {}
        stamp = json.dumps([flags, sorted(self._ignore), sorted(self._keep)], sort_keys=True)
        self.id: Final = f"{self.VERSION}-{hashlib.sha256(stamp.encode()).hexdigest()[:16]}"

    @property
    def query_rules(self) -> QueryRules:
        """The rules by which `query` changes one of PLAIN characters. The kernel asks this class alone, no subclass."""
        dropped, ignored, kept = sorted(self._drop_names), sorted(self._ignore), sorted(self._keep)
        prefixes = list(self._drop_prefixes)
        return QueryRules(dropped, prefixes, ignored, kept, self._sort_query, self._strip_session_ids)

    def __call__(self, href: str) -> str:
        """Return the canonical form of a normalized URL."""
        prefix, path, query = uris.split(href)
        return self.authority(prefix) + self.path(path) + self.query(query)

    def authority(self, prefix: str) -> str:
        """Return the canonical form of "scheme://userinfo@host:port"."""
        if self._strip_userinfo and "@" in prefix:
            scheme, _, rest = prefix.partition("://")
            prefix = f"{scheme}://{rest.rpartition('@')[2]}"
        prefix = uris.without_root_dot(prefix)
        if self.strips_www and "www" in prefix:
            prefix = _WWW.sub("", prefix)
        return prefix

    def path(self, path: str) -> str:
        """Return the canonical form of a path. A path of letters, digits and "_~./-" alone is returned unchanged."""
        if _PLAIN_PATH.fullmatch(path):
            return path
        path = _ESCAPE.sub(_escape, path)
        return _PATH_SESSION.sub("", path) if self._strip_session_ids else path

    def query(self, query: str | None) -> str:
        """Return the canonical form of a query, with its "?"; "" if no argument is left."""
        if not query:
            return ""
        if "%" in query:
            query = _ESCAPE.sub(_escape, query)
        decisions, decide = self._decisions.get, self._decide
        arguments = []
        for argument in query.split("&"):
            name = argument.partition("=")[0]
            keep = decisions(name)
            if keep is None:
                keep = decide(name)
            if argument and (keep is True or (keep == "session" and not _is_session(argument))):
                arguments.append(argument)
        if self._sort_query and len(arguments) > 1:
            arguments.sort()
        return "?" + "&".join(arguments) if arguments else ""

    def _decide(self, name: str) -> bool | str:
        """Return whether to keep arguments of this name; "session": keep them unless the value is a session id."""
        lower = name.lower()
        keep: bool | str = "session" if lower == "sid" and self._strip_session_ids else True
        dropped = lower in self._drop_names or lower.startswith(self._drop_prefixes)
        if dropped or name in self._ignore or (self._keep and name not in self._keep):
            keep = False
        if len(name) <= _LONGEST_NAME:
            if len(self._decisions) >= _NAMES:
                self._decisions.clear()
            self._decisions[name] = keep
        return keep


def _is_session(argument: str) -> bool:
    value = argument.partition("=")[2]
    return len(value) == 32 and value.isalnum()


def _escape(found: re.Match[str]) -> str:
    """Normalize one percent escape (RFC 3986, 6.2.2): decode unreserved characters, write the others in upper case."""
    character = chr(int(found[1], 16))
    return character if character in _UNRESERVED else found[0].upper()


def _names(option: str, names: object) -> frozenset[str]:
    listed = [names] if isinstance(names, str) else list(names) if isinstance(names, Iterable) else [None]
    if not all(isinstance(name, str) and name for name in listed):
        raise PolicyError(f"canonicalization: {option} is a list of argument names, such as [ref, lang]")
    return frozenset(listed)


BUILTIN: dict[str, type] = {"standard": Canonicalization, "rules": canonicalization_rules.HeritrixRules}
HERITRIX = {"RulesCanonicalizationPolicy": "rules"}
HERITRIX_RULES = canonicalization_rules.HERITRIX
