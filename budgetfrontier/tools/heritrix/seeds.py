"""Seeds of a Heritrix job: those in its configuration, in `longerOverrides`, or in a file beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from budgetfrontier.core import uris
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.settings import url_lists
from budgetfrontier.settings.values import brief
from budgetfrontier.tools.heritrix.counterparts import flag
from budgetfrontier.tools.heritrix.reading import Reading, label
from budgetfrontier.tools.heritrix.spring import Bean, Text
from budgetfrontier.tools.heritrix.spring_xml import FileLine

MOST_IN_YAML = 50
"""Seeds that are written into the YAML; more go to a file."""
MOST_REMARKS = 20
_SCHEME = re.compile(r"[A-Za-z][\w+-]+:(?!\d)")


def source_lines(reading: Reading, bean: Bean, name: str, folder: Path) -> list[tuple[FileLine, str]]:
    """Return the lines of a ReadSource, each with its line in the configuration (of a file: that of its name)."""
    source = reading.use(bean, name)
    if isinstance(source, Text) and source.text.strip():
        return _file_lines(reading, folder, source)
    if not isinstance(source, Bean):
        return []
    if source.name == "ConfigString":
        value = reading.use(source, "value")
        if isinstance(value, Text):
            return [(value.line.after(at), line) for at, line in enumerate(value.text.split("\n"))]
        return []
    path = reading.use(source, "path")
    if isinstance(path, Text) and path.text.strip():
        return _file_lines(reading, folder, path)
    reading.remark(source.line, f"{label(bean)}.{name} ({source.name})", "only ConfigString and ConfigFile are read")
    return []


def _file_lines(reading: Reading, folder: Path, path: Text) -> list[tuple[FileLine, str]]:
    file = folder / path.text.strip()
    try:
        text = file.read_text(encoding="utf-8-sig", errors="replace")
    except (OSError, ValueError) as error:
        reading.remark(path.line, str(file), f"cannot be read: {getattr(error, 'strerror', None) or error}")
        return []
    return [(path.line, line) for line in text.splitlines()]


def seeds(reading: Reading, folder: Path) -> list[str]:
    """Set the seeds, and return the rules of a scope for what they imply, as Heritrix's SURT prefixes do."""
    bean = reading.of_class("TextSeedModule")
    if bean is None:
        reading.remark(FileLine(1), "seeds", "there is no TextSeedModule; write the seeds")
        reading.put("seeds", [])
        return ["seed-hosts"]
    urls, directives = _urls(reading, [*source_lines(reading, bean, "textSource", folder)])
    if reading.convert(bean, "sourceTagSeeds", flag, False):
        reading.put("seeds", [{"url": url, "source": url} for url in urls])
    elif len(urls) <= MOST_IN_YAML:
        reading.put("seeds", urls)
    else:
        reading.put("seeds", [{"file": reading.beside("seeds.txt", urls)}])
    hrefs = [uris.parse(url) for url in urls]
    whole_hosts = all(href.partition("?")[0].count("/") == 3 for href in hrefs)
    if not whole_hosts:
        reading.remark(
            bean.line, "seeds with a path", "their SURT prefixes are the scope, as in Heritrix; if such a seed "
            "redirects to another host or folder, only that page is in scope, unless you add a rule",
        )  # fmt: skip
        directives = [*hrefs, *directives]
    rules = ["seed-hosts"] if whole_hosts else []
    if directives:
        rules.append(f"surt-file:{reading.beside('seed-surts.txt', directives)}")
    return rules


def _urls(reading: Reading, lines: list[tuple[FileLine, str]]) -> tuple[list[str], list[str]]:
    """Return the URLs of a list of seeds, and its directives, which are prefixes of the scope only."""
    urls: dict[str, None] = {}
    directives: list[str] = []
    bad = others = 0
    for line, text in _entries(lines):
        if text.startswith("+"):
            directives.append(text[1:].strip())
            continue
        if not text[0].isalnum():  # TextSeedModule asks the same
            others += 1
            if others <= MOST_REMARKS:
                reading.remark(line, f"the line {brief(text)}", "no seed begins so; Heritrix ignores it too")
            continue
        url = text if _SCHEME.match(text) else f"http://{text}"
        try:
            url_lists.check_url(url)
        except InvalidUrl as error:
            bad += 1
            if bad <= MOST_REMARKS:
                reading.remark(line, f"the seed {brief(text)}", f"{error}; left out")
            continue
        urls[url] = None
    if others > MOST_REMARKS:
        reading.remark(lines[0][0], f"{others - MOST_REMARKS:,} more lines", "they begin as no seed does; left out")
    if bad > MOST_REMARKS:
        reading.remark(lines[0][0], f"{bad - MOST_REMARKS:,} more seeds", "they are no URLs; left out")
    return [*urls], directives


def _entries(lines: list[tuple[FileLine, str]]) -> Iterator[tuple[FileLine, str]]:
    """Yield the first word of each line that is not a comment."""
    for line, text in lines:
        words = text.split()
        if words and not words[0].startswith("#"):
            yield line, words[0]
