"""Sites made for tests of traps: ones that public reports and operators describe, and archives that resemble them.

Each is a function of a path, and of the number of requests so far, to the links of the page.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

Links = Callable[[str, int], list[str]]


def calendar(path: str, request: int) -> list[str]:
    """A calendar of events without end: each month leads to the months beside it."""
    parts = path.split("/")
    year, month = (int(parts[2]), int(parts[3])) if len(parts) > 3 else (2026, 11)
    count = year * 12 + month - 1
    near = [f"/events/{m // 12}/{m % 12 + 1:02d}" for m in (count - 1, count + 1, count + 12)]
    return [*near, f"/events/{year}/{month:02d}/list", f"/events/{year}/{month:02d}/{1 + count % 28:02d}", "/about"]


FACETS = {
    "brand": [f"brand{n}" for n in range(8)],
    "color": ["black", "blue", "green", "red", "white"],
    "size": ["s", "m", "l", "xl"],
    "material": ["cotton", "linen", "silk", "wool"],
    "sort": ["price", "name", "new"],
}


def shop(path: str, request: int) -> list[str]:
    """A faceted shop: each list leads to those with one facet more, or another value of one."""
    listing, _, query = path.partition("?")
    if not listing.startswith("/shirts"):
        return ["/shirts", *(f"/product/{n}" for n in range(10))]
    chosen = dict(pair.split("=") for pair in query.split("&")) if query else {}
    links = []
    for name, values in FACETS.items():
        for value in values:
            more = chosen | {name: value}
            links.append(f"{listing}?" + "&".join(f"{key}={more[key]}" for key in sorted(more)))
    return links


def paths_of_facets(path: str, request: int) -> list[str]:
    """A faceted shop with its facets in the path, in the order in which they were chosen."""
    chosen = path.split("/")[2:]
    values = [value for name in ("color", "size", "material") for value in FACETS[name]]
    return ["/shirts/" + "/".join([*chosen, value]) for value in values if value not in chosen and len(chosen) < 5]


def sessions(path: str, request: int) -> list[str]:
    """A site that puts a new id into the path of all links of each page that is asked for without a cookie."""
    token = hashlib.md5(str(request).encode(), usedforsecurity=False).hexdigest()[:24]
    page = path.rpartition("/")[2]
    number = int(page.removeprefix("page")) if page.startswith("page") else 0
    return [f"/s/{token}/page{(number * 3 + step) % 40}" for step in range(1, 5)]


def unnamed_sessions(path: str, request: int) -> list[str]:
    """The same with the id behind the path, without a name, as a large bookshop once had it."""
    page = path.split("/")[-2] if path.count("/") > 2 else "0"
    number = int(page.removeprefix("isbn0596") or 0)
    token = f"{102 + request % 5}-{1000000 + 7919 * request % 9000000}-{1000000 + 104729 * request % 9000000}"
    return [f"/exec/ASIN/isbn0596{(number * 3 + step) % 40:02d}/{token}" for step in range(1, 5)]


def relative(path: str, request: int) -> list[str]:
    """A site whose links lack the leading slash: each page leads to one deeper."""
    folder = path.rpartition("/")[0]
    return [f"{folder}/news/", f"{folder}/about/team/", f"{folder}/contact"]


def gone(path: str, request: int) -> list[str]:
    """A catalogue without end whose products are gone: each answers with the same page, as if it were found."""
    if path.startswith("/product"):
        return ["/"]
    number = int(path.removeprefix("/list/") or 0) if path.startswith("/list/") else 0
    return [f"/list/{number + 1}", *(f"/product/{number * 20 + n}" for n in range(20))]


def content(site: str, path: str) -> str:
    """What the content of a page depends on."""
    if site in ("sessions", "unnamed-sessions"):
        return path.split("/")[-1 if site == "sessions" else -2]
    return "gone" if path.startswith("/product") and site == "gone" else path


def newspaper(path: str, request: int) -> list[str]:
    """The archive of a newspaper: an index for each day since 1950, articles with dates in their paths."""
    parts = path.strip("/").split("/")
    if parts == [""]:
        return ["/about", *(f"/{year}/" for year in range(1950, 2027))]
    if len(parts) == 1 and parts[0].isdigit():
        return [f"/{parts[0]}/{month:02d}/" for month in range(1, 13)]
    if len(parts) == 2:
        return [f"/{parts[0]}/{parts[1]}/{day:02d}/" for day in range(1, 29)]
    if len(parts) == 3:
        year, month, day = parts
        names = ("council-votes-on-budget", "storm-hits-coast", "team-wins-final", "letters-to-the-editor")
        articles = [f"/{year}/{month}/{day}/{name}-{int(year + month + day) % 99991}.html" for name in names]
        return [*articles, f"/{year}/{month}/{day}/?page=2", f"/search?day={day}&month={month}&year={year}"]
    return ["/", f"{path}?print=1", f"/topic/{parts[-1].partition('-')[0]}?page=2"]


def museum(path: str, request: int) -> list[str]:
    """The catalogue of a museum: objects by number, with pictures of several sizes under ids, and a list in pages."""
    parts = path.strip("/").partition("?")[0].split("/")
    if parts[0] == "object" and len(parts) == 2:
        number = int(parts[1])
        picture = hashlib.md5(parts[1].encode(), usedforsecurity=False).hexdigest()[:12]
        return [
            f"/object/{number}/images", f"/object/{number}/provenance", f"/artist/{number % 97}",
            *(f"/iiif/{picture}/full/{size}/0/default.jpg" for size in ("200,", "800,", "max")),
            f"/object/{number + 1}",
        ]  # fmt: skip
    if parts[0] == "list":
        page = int(path.partition("page=")[2].partition("&")[0] or 1)
        found = [f"/object/{page * 50 + n}" for n in range(50)]
        return [*found, f"/list?page={page + 1}&sort=year", f"/list?page={page + 1}&sort=title"]
    return ["/list?page=1", "/visit/hours", "/visit/map"]


def wiki(path: str, request: int) -> list[str]:
    """A wiki with the views of each of its pages as arguments, and its history."""
    title = path.partition("title=")[2].partition("&")[0] or "Main_Page"
    seed = int(hashlib.md5(title.encode(), usedforsecurity=False).hexdigest()[:6], 16)
    others = [f"/index.php?title=Article_{(seed + step * 7919) % 5000}" for step in range(12)]
    old = [f"/index.php?title={title}&diff={seed + n}&oldid={seed + n - 1}" for n in range(4)]
    views = [f"/index.php?title={title}&action={action}" for action in ("history", "edit", "info")]
    return [*others, *old, *views, f"/index.php?title={title}&action=history&limit=50&offset={seed}"]


def next_month(path: str, request: int) -> list[str]:
    """A calendar that leads from each month to the next alone, and to three days: it is crawled as fast as it grows."""
    year, month = _month(path)
    days = [f"/ev/{year}/{month:02d}/{day:02d}" for day in range(1, 4)]
    return [] if path.startswith("/ev/") else [f"/cal?y={year + month // 12}&m={month % 12 + 1}", *days]


def one_link(path: str, request: int) -> list[str]:
    """A calendar whose pages have one link each: its queue never holds more than one."""
    year, month = _month(path)
    return [f"/cal?y={year + month // 12}&m={month % 12 + 1}"]


def _month(path: str) -> tuple[int, int]:
    arguments = path.partition("?y=")[2].partition("&m=")
    return (int(arguments[0]), int(arguments[2])) if arguments[0] else (2026, 11)


def letter_sessions(path: str, request: int) -> list[str]:
    """A site with a new id of a session in the paths of all links, behind a letter: thirty pages are all it has."""
    token = hashlib.md5(str(request).encode(), usedforsecurity=False).hexdigest()[:16]
    number = int(path.rpartition("/item/")[2] or 0) if "/item/" in path else 0
    return [f"/s{token}/item/{(number + step) % 30}" for step in range(1, 5)]


def forecasts(path: str, request: int) -> list[str]:
    """An archive of climate data with its forecasts, to the year 2100: all of it is linked from one page."""
    if path.startswith("/data/"):
        return ["/", path.replace("tmin", "tmax")]
    months = [(year, month) for year in range(1900, 2101) for month in range(1, 13)]
    return [f"/data/{year}/{month:02d}/{kind}" for year, month in months for kind in ("tmin", "tmax")]


def indexed_forecasts(path: str, request: int) -> list[str]:
    """The same with an index of each year, and links from each month to the next."""
    parts = path.strip("/").split("/")
    if parts == [""]:
        return [f"/data/{year}/" for year in range(1900, 2101)]
    if len(parts) == 2:
        return [f"{path}{month:02d}/{kind}" for month in range(1, 13) for kind in ("tmin", "tmax")]
    year, month = int(parts[1]), int(parts[2])
    year, month = year + month // 12, month % 12 + 1
    return ["/", f"/data/{year}/{month:02d}/{parts[3]}"] if year <= 2100 else ["/"]


def library(path: str, request: int) -> list[str]:
    """A digital library: 2,000 books under random ids, with the same numbers of pages in each."""
    parts = path.strip("/").split("/")
    if parts[0] == "book":
        return [f"/book/{parts[1]}/page/{number}" for number in range(1, 30)]
    page = int(parts[1]) if len(parts) > 1 else 0
    ids = (hashlib.md5(f"{page},{n}".encode(), usedforsecurity=False).hexdigest()[:16] for n in range(50))
    return [*(f"/book/{one}/" for one in ids), *([f"/list/{page + 1}"] if page < 39 else [])]


def buses(path: str, request: int) -> list[str]:
    """The stops 1 to 12 of bus lines 2001 to 2099: each leads to the next one, and to that of the next line."""
    if path == "/":
        return [f"/line/{number}/01" for number in range(2001, 2100, 9)]
    number, stop = map(int, path.split("/")[2:])
    following = [f"/line/{number}/{stop + 1:02d}"] * (stop < 12)
    return [*following, *[f"/line/{number + 1}/{stop:02d}"] * (number < 2099)]


TRAPS: dict[str, Links] = {
    "calendar": calendar,
    "shop": shop,
    "facets-in-paths": paths_of_facets,
    "sessions": sessions,
    "unnamed-sessions": unnamed_sessions,
    "relative": relative,
    "gone": gone,
    "next-month": next_month,
    "one-link": one_link,
    "letter-sessions": letter_sessions,
}
HONEST: dict[str, Links] = {
    "newspaper": newspaper,
    "museum": museum,
    "wiki": wiki,
    "forecasts": forecasts,
    "indexed-forecasts": indexed_forecasts,
    "library": library,
    "buses": buses,
}
