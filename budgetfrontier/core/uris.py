"""URLs: the one parser, their parts, their SURT form, and the fingerprints that deduplication stores.

This module alone knows how a host is written: `host` and `authority` return it in one form, however a URL spells it,
and `host_form`, `authority_form`, `key_form`, `glob_form` and `surt_form` return the same form for typed text.

All functions but these and `parse` take a *href*, the result of `parse`: WHATWG-normalized, pure ASCII, with an
authority and a path that starts with "/". They do not validate it again: given anything else, such as text from a
damaged record, they raise nothing and return an arbitrary value.
"""

from __future__ import annotations

import re

import can_ada
from xxhash import xxh3_64_digest, xxh3_128_digest

from budgetfrontier.errors import InvalidUrl

MAX_LENGTH = 8192
"""The longest URL that is accepted, in characters."""

MAX_HOST = 253
"""The longest host name that the DNS allows, in characters, without a trailing dot."""

_SCHEME = re.compile(r"[\x00-\x20]*([A-Za-z][A-Za-z0-9+.-]*):")
_AUTHORITY = re.compile(r"[\x00-\x20]*https?:[/\\]*([^/\\?#]*)", re.IGNORECASE)
_PORT = re.compile(r":([^:\]]*)\Z")
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_ROOT_DOT = re.compile(r"(?<=[^./@])\.(?=(?::[0-9]+)?\Z)")
_PLAIN_HOST = re.compile(r"([a-z0-9_-]+\.)*[a-z][a-z0-9_-]*")  # hosts that parsing leaves as they are
_NO_HOST = re.compile(r"[/?#@\\\s]|:(?![^\[]*\])")
_TYPED_PORT = re.compile(r":([0-9]*)\Z")
_SURT_AUTHORITY = re.compile(r"(\([^):\[]*)(:[0-9]*)?(.*)", re.DOTALL)


def parse(url: str) -> str:
    """Return the normalized href of an absolute http or https URL, without its fragment.

    Normalization is that of the WHATWG URL standard, as in browsers: lower-case scheme and host, IDNA, no default
    port, dot segments resolved, non-ASCII characters percent-encoded. An empty path becomes "/".

    Raises InvalidUrl and nothing else, whatever the argument; its `reason` is one of "type", "empty", "too-long" (over
    8192 bytes), "encoding" (a lone surrogate), "scheme" (none, or not http/https), "host" (none, not valid, or longer
    than the DNS allows), "port" (no number from 1 to 65535), "syntax". Costs about 0.7 us.
    """
    try:
        parsed = can_ada.parse(url if len(url) <= MAX_LENGTH else "")
    except (ValueError, TypeError):
        raise _error_for(url) from None
    href = parsed.href
    if not href.startswith(("http://", "https://")):
        raise InvalidUrl("scheme", parsed.protocol)
    if "#" in href:
        href = href[: href.index("#")]
    if "^" in href:  # in the path's percent-encode set since 2025; can_ada encodes it only along with other characters
        path, mark, query = href.partition("?")
        href = path.replace("^", "%5E") + mark + query
    if len(href) > MAX_HOST:  # otherwise neither the URL nor its host can be too long
        if len(href) > MAX_LENGTH:
            raise InvalidUrl("too-long")
        if len(parsed.hostname.removesuffix(".")) > MAX_HOST:
            raise InvalidUrl("host", "longer than the DNS allows")
    if ":0/" in href and parsed.port == "0":
        raise InvalidUrl("port", "0")
    return href


def _error_for(url: object) -> InvalidUrl:
    """Return the error for a URL that the parser refused: the parser itself gives no reason."""
    if not isinstance(url, str):
        return InvalidUrl("type", f"a URL is a str, not {type(url).__name__}")
    if len(url) > MAX_LENGTH:
        return InvalidUrl("too-long")
    if not url.strip():
        return InvalidUrl("empty")
    try:
        url.encode()
    except UnicodeEncodeError:
        return InvalidUrl("encoding", "a lone surrogate")
    scheme = _SCHEME.match(url)
    if scheme is None or scheme[1].lower() not in _DEFAULT_PORTS:
        return InvalidUrl("scheme", scheme[1] if scheme else "none")
    found = _AUTHORITY.match(url)
    authority = found[1].rpartition("@")[2] if found else ""
    port = _PORT.search(authority)
    # If the URL is valid without its port, the port is the bad part, and not the host.
    if port and authority != port[0] and can_ada.can_parse(f"http://{authority[: port.start()]}/"):
        return InvalidUrl("port", port[1])
    if not can_ada.can_parse(f"http://{authority}/"):
        return InvalidUrl("host", authority or "none")
    return InvalidUrl("syntax")


def split(href: str) -> tuple[str, str, str | None]:
    """Split a href into prefix ("https://user@host:8080"), path ("/a/b") and query (without "?"; None if absent)."""
    slash = href.find("/", 8)  # the shortest prefix is "http://h"
    path, mark, query = href[slash:].partition("?")
    return href[:slash], path, query if mark else None


def authority(href: str) -> str:
    """Return the host, and ":port" unless it is the default, without userinfo. IPv6 addresses keep their brackets.

    One dot at the end of the host is left out: it only keeps resolvers from trying other domains.
    """
    return without_root_dot(href[href.find("/") + 2 : href.find("/", 8)].rpartition("@")[2])


def site_of(href: str) -> str:
    """Return scheme and authority of a href, to which one robots.txt applies: "https://example.org:8443"."""
    return f"{href.partition(':')[0]}://{authority(href)}"


def robots_url(href: str) -> str:
    """Return the URL of the robots.txt that applies to a href."""
    return site_of(href) + "/robots.txt"


def without_root_dot(text: str) -> str:
    """Return a text that ends with a host, or with host and port, without the dot at the end of the host.

    >>> without_root_dot("https://example.org.:8443")
    'https://example.org:8443'
    """
    return _ROOT_DOT.sub("", text) if text[-1:] == "." or ".:" in text else text


def host(href: str) -> str:
    """Return the host without port, in its one form; IPv6 addresses keep their brackets."""
    host_port = authority(href)
    name, colon, port = host_port.rpartition(":")
    return name if colon and port.isdigit() else host_port


def is_address(host: str) -> bool:
    """Return whether a host is an IP address, and no name."""
    return host.startswith("[") or host.rpartition(".")[2].isdigit()  # one that ends in a number is an IPv4 address


def own_address(host: str) -> str | None:
    """Return the address that a host itself is, without the brackets of IPv6; None for a name."""
    return host.strip("[]") if is_address(host) else None


def surt(href: str) -> str:
    """Return the sort-friendly form (SURT) that Heritrix uses: "http://(com,example,www,)/path?q".

    A port stays inside the parentheses ("(com,example,www,:8080)"), IP addresses are not reversed ("(127.0.0.1)").
    Unlike in Heritrix, userinfo is left out, so that adding some to a URL does not evade a rule.
    """
    slash = href.find("/", 8)
    return f"{href[: href.find('/')]}//({surt_authority(authority(href[: slash + 1]))}){href[slash:]}"


def surt_authority(host_port: str) -> str:
    """Return an authority as it stands in a SURT: "com,example,www,:81" for "www.example.com:81"."""
    name, colon, port = host_port.rpartition(":")
    if not (colon and port.isdigit()):
        name, colon, port = host_port, "", ""
    if is_address(name):
        return name + colon + port
    return ",".join(reversed(name.split("."))) + "," + colon + port


def host_form(text: str) -> str:
    """Return a host that somebody typed as `host` returns it: in lower case, IDNA, without a dot at its end.

    Raises InvalidUrl for anything but a host alone.
    """
    lower = text.lower()
    if _PLAIN_HOST.fullmatch(lower):
        return lower
    if _NO_HOST.search(text):
        raise InvalidUrl("host", "write the host alone, without scheme, port or path")
    return host(parse(f"http://{text}/"))


def authority_form(text: str, *, any_scheme: bool = False) -> str:
    """Return a host, or host and port, that somebody typed as `authority` returns it. Raises InvalidUrl.

    With `any_scheme`, the ports 80 and 443 are left out: which one is the default is not known without a scheme.

    >>> authority_form("EXAMPLE.org.:80"), authority_form("EXAMPLE.org.:80", any_scheme=True)
    ('example.org:80', 'example.org')
    """
    port = _TYPED_PORT.search(text)
    if port is None:
        return host_form(text)
    name = host_form(text[: port.start()])
    if not port[1] or (any_scheme and port[1] in _DEFAULT_PORTS.values()):
        return name
    return authority(parse(f"{'https' if int(port[1]) == 80 else 'http'}://{name}{port[0]}/"))


def key_form(text: str, *, any_scheme: bool = False) -> str | None:
    """Return the key of a host's queue that somebody typed in another way; None if it is in its one form, or none.

    Keys of `hostname` and of `surt-authority` are understood. Other texts may be keys as well: look for the text first.

    >>> key_form("EXAMPLE.org.:80", any_scheme=True), key_form("ORG,example,")
    ('example.org', 'org,example,')
    """
    try:
        if "," not in text:
            form = authority_form(text, any_scheme=any_scheme)
        else:
            form = surt_form(f"({text})", "http" if any_scheme else "")[1:-1]
    except InvalidUrl:
        return None
    return None if form == text else form


def glob_form(pattern: str) -> str:
    """Return a typed glob on hosts in the form that matches results of `host`.

    A label without wildcards may be international. Raises InvalidUrl for a label that has both, and so matches nothing.
    """
    labels = without_root_dot(pattern).lower().split(".")
    return ".".join(label if label.isascii() else _label_form(label) for label in labels)


def _label_form(label: str) -> str:
    if "*" in label or "?" in label:
        raise InvalidUrl("host", f"{label} mixes wildcards with letters that are not ASCII; hosts are matched in IDNA")
    return host_form(label)


def surt_form(prefix: str, scheme: str) -> str:
    """Return a SURT prefix that somebody typed, from its "(" on, as `surt` writes it for a scheme.

    Raises InvalidUrl for a last label that is international and not complete: no comma follows it.

    >>> surt_form("(ORG,Example,:80)/Docs/", "http")
    '(org,example,)/Docs/'
    """
    found = _SURT_AUTHORITY.fullmatch(prefix)
    if found is None:  # an IPv6 address
        return prefix
    typed, port, rest = found[1], found[2] or "", found[3]
    labels = typed[1:].lower().removeprefix(",").split(",")
    if not labels[-1].isascii() and not (rest or port):
        raise InvalidUrl("host", f"{labels[-1]} is not ASCII, so that a comma has to follow it")
    if rest and port[1:] == _DEFAULT_PORTS.get(scheme):
        port = ""
    return f"({','.join(label if label.isascii() else host_form(label) for label in labels)}{port}{rest}"


def authority_hash(prefix: str) -> bytes:
    """Return the first 4 bytes of all fingerprints with this canonical prefix: one site's are adjacent on disk."""
    return xxh3_64_digest(prefix.encode())[:4]


def fingerprint(canonical: str, method: str = "GET", body: bytes = b"") -> bytes:
    """Return the 16 bytes that identify a canonical URL: 4 from its prefix, 12 from all of it; about 0.5 us.

    Method and body are included only if they are not GET and empty. The hash is not cryptographic: the worst that a
    deliberate collision achieves is that a URL is not crawled.

    Raises InvalidUrl("type") if method or body is of another type.
    """
    whole = canonical.encode()
    if body or method != "GET":
        # A href holds no NUL. A method may be any text, lone surrogates included.
        try:
            whole += b"\0" + method.encode("utf-8", "surrogatepass") + b"\0" + body
        except (AttributeError, TypeError):
            raise InvalidUrl("type", "a method is a str, a body is bytes") from None
    return xxh3_64_digest(whole[: canonical.find("/", 8)])[:4] + xxh3_128_digest(whole)[:12]
