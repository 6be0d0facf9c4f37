"""DecideRules of Heritrix as rules of a scope, in the same order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from budgetfrontier.errors import SettingsError
from budgetfrontier.settings.scope_rules import check_rule
from budgetfrontier.settings.values import brief
from budgetfrontier.tools.heritrix import java_regex
from budgetfrontier.tools.heritrix.counterparts import flag, whole
from budgetfrontier.tools.heritrix.reading import Reading, label, with_class
from budgetfrontier.tools.heritrix.seeds import source_lines
from budgetfrontier.tools.heritrix.spring import Bean, BeanList

ALWAYS = frozenset(("PrerequisiteAcceptDecideRule", "SeedAcceptDecideRule"))
"""Rules for what is in every scope here."""


def scope(reading: Reading, folder: Path, seed_rules: list[str]) -> None:
    """Set the scope by the rules that Heritrix's scoper asks. `seed_rules` are those for what seeds imply."""
    rules: list[dict[str, str]] = []
    for each in _rules(reading, _scope_bean(reading)):
        rules += _DecideRule(reading, each, folder, seed_rules).written()
    while rules and rules[0] == {"reject": "all"}:  # what no rule matches is not accepted anyway
        rules.pop(0)
    for scoper in reading.beans.top:
        if scoper.name == "CandidateScoper" and not reading.is_on(scoper):
            reading.remark(scoper.line, f"{label(scoper)}.enabled=false", "so Heritrix accepts all URIs, as here")
            rules = [{"accept": "all"}]
    reading.put("scope.accept", [])
    reading.put("scope.rules", rules)
    reading.put("scope.max_hops", -1)


def _scope_bean(reading: Reading) -> Bean | None:
    """Return the rule that the scoper asks: its own, the bean `scope`, or the only sequence."""
    scoper = reading.of_class("CandidateScoper")
    own = reading.use(scoper, "scope") if scoper is not None else None
    bean = own if isinstance(own, Bean) else reading.beans.bean("scope") or reading.of_class("DecideRuleSequence")
    if bean is not None and not reading.is_on(bean):
        why = "so Heritrix accepts nothing; here, seeds are crawled, and nothing else"
        reading.remark(bean.lines["enabled"], f"{label(bean)}.enabled", why)
    return bean


def _rules(reading: Reading, bean: Bean | None, within: tuple[Bean, ...] = ()) -> Iterator[Bean]:
    """Yield the rules of a sequence, also of sequences in it. `within`: the sequences that contain this one."""
    if bean is None:
        return
    if bean.name != "DecideRuleSequence":
        yield bean
        return
    if not reading.is_on(bean):
        reading.skipped[id(bean)] = ""
        return
    if any(bean is each for each in within):
        reading.remark(bean.line, with_class(bean), "it contains itself; read once")
        return
    rules = reading.use(bean, "rules")
    for item in rules.items if isinstance(rules, BeanList) else ():
        each = reading.beans.resolved(item)
        if isinstance(each, Bean):
            yield from _rules(reading, each, (*within, bean))
        else:
            reading.remark(item.line, f"{label(bean)}.rules", "it names no bean of the file; left out")


class _DecideRule:
    """One DecideRule."""

    def __init__(self, reading: Reading, bean: Bean, folder: Path, seed_rules: list[str]) -> None:
        self._reading, self._bean, self._folder, self._seed_rules = reading, bean, folder, seed_rules

    def written(self) -> list[dict[str, str]]:
        """Return the rules of a scope that do the same; none, with a remark, if there are none."""
        name = self._bean.name
        if not self._reading.is_on(self._bean):
            if name in ALWAYS:
                line, what = self._bean.lines["enabled"], f"{with_class(self._bean)}: enabled=false"
                self._reading.remark(line, what, "such URIs are always in scope here")
            self._reading.skipped[id(self._bean)] = ""
            return []
        if name in ALWAYS:
            return []
        make = _KINDS.get(name)
        if make is None:
            return self._none("no rule of a scope does the same; left out")
        if self._reading.lost(self._bean):
            return self._none("the value of a property is not known; left out")
        default, rules = make
        decision = self._reading.text(self._bean, "decision", default).upper()
        if decision not in ("ACCEPT", "REJECT"):
            return self._none(f"its decision {brief(decision)} decides nothing; left out")
        return [{decision.lower(): rule} for rule in rules(self) if self._valid(rule)]

    def _none(self, why: str) -> list[dict[str, str]]:
        self._reading.remark(self._bean.line, with_class(self._bean), why)
        self._reading.use_all(self._bean)
        return []

    def _valid(self, rule: str) -> bool:
        try:
            check_rule(rule)
        except SettingsError as error:
            self._none(f"{error}; left out")
            return False
        return True

    # Kinds

    def all(self) -> list[str]:
        return ["all"]

    def surts(self) -> list[str]:
        """Return the prefixes that seeds imply, and those of a text or a file."""
        bean, reading = self._bean, self._reading
        found = list(self._seed_rules) if reading.convert(bean, "seedsAsSurtPrefixes", flag, True) else []
        reading.text(bean, "surtsDumpFile")  # a report
        if reading.convert(bean, "alsoCheckVia", flag, False):
            line = bean.lines["alsoCheckVia"]
            reading.remark(line, f"{label(bean)}.alsoCheckVia", "only the URI itself is tested, not the page before it")
        for name in ("surtsSource", "surtsSourceFile"):
            lines = source_lines(reading, bean, name, self._folder)
            kept = [text.split("#")[0].strip() for _, text in lines]
            if kept := [text for text in kept if text]:
                found.append(f"surt-file:{reading.beside(f'surts{len(reading.files) + 1}.txt', kept)}")
        return found

    def hops(self) -> list[str]:
        return [f"hops:>{self._reading.convert(self._bean, 'maxHops', whole, 20)}"]

    def depth(self) -> list[str]:
        return [f"depth:>{self._reading.convert(self._bean, 'maxPathDepth', whole, 20)}"]

    def repeats(self) -> list[str]:
        most = self._reading.convert(self._bean, "maxRepetitions", whole, 2)
        return [f"repeats:>{most}"] if most > 0 else []

    def embeds(self) -> list[str]:
        for name, here in (("maxTransHops", 2), ("maxSpeculativeHops", 1)):
            if self._reading.convert(self._bean, name, whole, here) != here:
                what = f"{label(self._bean)}.{name}"
                self._reading.remark(self._bean.lines[name], what, "`embeds` accepts up to three steps from a page")
        return ["embeds"]

    def regex(self) -> list[str]:
        text = self._reading.text(self._bean, "regex")
        return self._each([text]) if text else []

    def no_regex(self) -> list[str]:
        text = self._reading.text(self._bean, "regex")
        return self._none_matches([text]) if text else ["all"]

    def regexes(self) -> list[str]:
        texts = self._regex_list()
        if len(texts) < 2 or self._reading.convert(self._bean, "listLogicalOr", flag, True):
            return self._each(texts)
        inner = self._together(texts)
        return ["regex:" + "".join(rf"(?=\A(?:{text})\Z)" for text in inner)] if inner else []

    def no_regexes(self) -> list[str]:
        texts = self._regex_list()
        if len(texts) < 2 or self._reading.convert(self._bean, "listLogicalOr", flag, True):
            return self._none_matches(texts) if texts else ["all"]
        inner = self._together(texts)
        return [r"regex:\A(?!" + "".join(rf"(?=(?:{text})\Z)" for text in inner) + ")"] if inner else []

    def _regex_list(self) -> list[str]:
        return [text.text.strip() for text in self._reading.texts(self._reading.use(self._bean, "regexList"))]

    def _each(self, texts: list[str]) -> list[str]:
        """Return a rule for each expression that can be written, with remarks on the others."""
        rules: list[str] = []
        for text in texts:
            try:
                rules.append(f"regex:{java_regex.searched(text)}")
            except ValueError as error:
                self._none(f"`{brief(text)}`: {error}; left out")
        return rules

    def _none_matches(self, texts: list[str]) -> list[str]:
        inner = self._together(texts)
        return [r"regex:\A" + "".join(rf"(?!(?:{text})\Z)" for text in inner)] if inner else []

    def _together(self, texts: list[str]) -> list[str]:
        """Return expressions to be written into one; none, with a remark, if one cannot be."""
        try:
            inner = [java_regex.translate(text) for text in texts]
            if len(inner) > 1 and any(re.search(r"\\[1-9]|\(\?P", text) for text in inner):
                raise ValueError("groups that are referred to are not written into one expression with others")
        except ValueError as error:
            self._none(f"{error}; left out")
            return []
        return inner

    def schemes(self) -> list[str]:
        if "schemes" in self._bean.properties:
            self._reading.use(self._bean, "schemes")
            line = self._bean.lines["schemes"]
            self._reading.remark(line, f"{label(self._bean)}.schemes", "http and https are fetched, and no others")
        return []

    def hosts(self) -> list[str]:
        return ["seed-hosts"]

    def domains(self) -> list[str]:
        return ["seed-domains"]

    def longer(self) -> list[str]:
        limit = self._reading.convert(self._bean, "contentLengthThreshold", whole, 0)
        return [f"size:>{limit}B"] if limit > 0 else []


_KINDS: dict[str, tuple[str, Callable[[Any], list[str]]]] = {
    "AcceptDecideRule": ("ACCEPT", _DecideRule.all),
    "RejectDecideRule": ("REJECT", _DecideRule.all),
    "SurtPrefixedDecideRule": ("ACCEPT", _DecideRule.surts),
    "TooManyHopsDecideRule": ("REJECT", _DecideRule.hops),
    "TooManyPathSegmentsDecideRule": ("REJECT", _DecideRule.depth),
    "PathologicalPathDecideRule": ("REJECT", _DecideRule.repeats),
    "TransclusionDecideRule": ("ACCEPT", _DecideRule.embeds),
    "MatchesRegexDecideRule": ("ACCEPT", _DecideRule.regex),
    "NotMatchesRegexDecideRule": ("ACCEPT", _DecideRule.no_regex),
    "MatchesListRegexDecideRule": ("ACCEPT", _DecideRule.regexes),
    "NotMatchesListRegexDecideRule": ("ACCEPT", _DecideRule.no_regexes),
    "SchemeNotInSetDecideRule": ("REJECT", _DecideRule.schemes),
    "OnHostsDecideRule": ("ACCEPT", _DecideRule.hosts),
    "OnDomainsDecideRule": ("ACCEPT", _DecideRule.domains),
    "ResourceLongerThanDecideRule": ("ACCEPT", _DecideRule.longer),
}
"""By class: its decision unless it is set, and what makes its rules."""


def pattern(reading: Reading, bean: Bean) -> str | None:
    """Return the pattern of an override for a rule with which sheets are associated; None if there is none."""
    rules = [*_rules(reading, bean)]
    if len(rules) != 1 or rules[0].name not in ("MatchesRegexDecideRule", "AcceptDecideRule"):
        return None
    written = _DecideRule(reading, rules[0], Path(), []).written()
    if len(written) != 1 or "accept" not in written[0]:
        return None
    return "*" if written[0]["accept"] == "all" else written[0]["accept"]
