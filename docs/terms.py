"""Links the first use of each term of the glossary in the guides, whose Markdown stays plain for all other readers."""

from __future__ import annotations

import re
from pathlib import Path

GLOSSARY = Path(__file__).parent / "reference" / "glossary.md"
GUIDES = re.compile(r"howto/|quickstart$|faq$|operators$")
EVERYDAY = {"active", "commit", "cost", "job", "override", "partition", "priority"}
"""Words that the guides use in other senses, too: they are in the glossary, and not linked."""
CODE_AND_LINKS = re.compile(
    r"^(`{3,}|:{3,}).*?^\1$"  # blocks
    r"|^#.*?$|^ {4,}\S.*?$|^\|[ -]+\|.*?$"  # headings, indented code, rules of tables
    r"|`[^`]*`|!?\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])|<[^>]*>",
    re.MULTILINE | re.DOTALL,
)


def entries() -> list[list[str]]:
    """Return the terms of each entry of the glossary: the first is the one that links lead to."""
    block = GLOSSARY.read_text(encoding="utf-8").partition("```{glossary}\n")[2].partition("\n```")[0]
    return [re.findall(r"^\S.*$", entry, re.MULTILINE) for entry in block.split("\n\n")]


def linked(page: str, text: str) -> str:
    """Return the text of a page, with a link at the first use of each term if the page is a guide."""
    if not GUIDES.match(page):
        return text
    targets = {term.lower(): terms[0] for terms in entries() for term in terms if term not in EVERYDAY}
    words = "|".join(re.escape(term).replace(r"\ ", r"\s+") for term in sorted(targets, key=len, reverse=True))
    use = re.compile(
        rf"{CODE_AND_LINKS.pattern}|(?<![\w/.-])(?<!takes\s)(?P<term>{words})s?(?![\w/-])", re.I | re.M | re.S
    )
    seen: set[str] = set()

    def link(found: re.Match[str]) -> str:
        term = " ".join((found["term"] or "").lower().split())
        if not term or targets[term] in seen:
            return found[0]
        seen.add(targets[term])
        return f"{{term}}`{found[0]} <{targets[term]}>`"

    return use.sub(link, text)
