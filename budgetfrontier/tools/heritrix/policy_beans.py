"""Heritrix's policies of the frontier, and its rules of canonicalization, as those here."""

from __future__ import annotations

from typing import Any

from budgetfrontier.errors import PolicyError
from budgetfrontier.settings import plugins
from budgetfrontier.settings.schema import UNIQ_FILTERS
from budgetfrontier.settings.values import brief
from budgetfrontier.tools.heritrix import java_regex
from budgetfrontier.tools.heritrix.counterparts import (
    ASSIGNMENT_OPTIONS,
    UNREAD,
    flag,
    whole,
)
from budgetfrontier.tools.heritrix.reading import Reading, label, with_class
from budgetfrontier.tools.heritrix.spring import Bean, BeanList, Value, argument


def frontier(reading: Reading) -> None:
    """Set the policies."""
    reading.put("frontier.retire_when", "reached")
    preparer, bean = reading.of_class("FrontierPreparer"), reading.of_class("BdbFrontier", "WorkQueueFrontier")
    cost = _policy(reading, preparer, "costAssignmentPolicy", "CostAssignmentPolicy")
    if cost is not None:
        _name_policy(reading, cost, "cost", "frontier.cost_policy", "unit")
    assignment = _policy(reading, preparer, "queueAssignmentPolicy", "QueueAssignmentPolicy")
    if assignment is None:
        reading.put("frontier.queue_assignment_policy", "surt-authority")
    else:
        name = _name_policy(reading, assignment, "assignment", "frontier.queue_assignment_policy", "surt-authority")
        _options(reading, assignment, name)
        if not reading.convert(assignment, "deferToPrevious", flag, True):
            reading.put("frontier.defer_to_previous", False)
        if text := reading.text(assignment, "forceQueueAssignment"):
            line = assignment.lines["forceQueueAssignment"]
            reading.remark(line, f"{label(assignment)}.forceQueueAssignment={brief(text)}", UNREAD)
    if bean is not None:
        _precedence(reading, reading.use(bean, "queuePrecedencePolicy"))
        _duplicates(reading, reading.use(bean, "uriUniqFilter"))
    uris = reading.use(preparer, "uriPrecedencePolicy") if preparer else None
    if isinstance(uris, Bean) and (policy := uri_precedence(reading, uris)) not in (None, "cost"):
        reading.put("frontier.uri_precedence_policy", policy, uris.line)


def _duplicates(reading: Reading, bean: Value | None) -> None:
    """Set how seen URIs are recognized, by the filter of the frontier or the one that Spring finds."""
    if not isinstance(bean, Bean):
        bean = next((each for each in reading.beans.top if each.name.endswith("UriUniqFilter")), None)
    if bean is None:
        return
    if bean.name not in UNIQ_FILTERS:
        reading.remark(bean.line, with_class(bean), "there is no such filter; all URIs seen are on disk, exactly")
        reading.skipped[id(bean)] = ""
    elif UNIQ_FILTERS[bean.name] != "exact":
        reading.put("frontier.duplicates", UNIQ_FILTERS[bean.name], bean.line)
        _size(reading, reading.use(bean, "bloomFilter") if UNIQ_FILTERS[bean.name] == "bloom" else None)


def _size(reading: Reading, bean: Value | None) -> None:
    """Set the size of a Bloom filter, BloomFilter64bit(n, d) of Heritrix: for n URIs, with an error of 2^-d."""
    if not isinstance(bean, Bean):
        return
    for place, name, setting, read in (("0", "n", "expected", whole), ("1", "d", "error", _error)):
        key = next((key for key in map(argument, (place, name)) if key in bean.properties), argument(place))
        if (value := reading.convert(bean, key, read, None)) is not None:
            reading.put(f"frontier.bloom.{setting}", value, bean.lines[key])


def _error(text: str) -> float:
    """Return the error of a Bloom filter with so many hash functions. Raises ValueError."""
    if (hashes := whole(text)) < 1:
        raise ValueError(text)
    return float(f"{2.0**-hashes:.2g}")


def _precedence(reading: Reading, bean: Value | None) -> None:
    """Set the precedence policy of queues; `base` has a setting of its own."""
    if not isinstance(bean, Bean):
        return
    known = plugins.heritrix_names("precedence").get(bean.name)
    base = reading.convert(bean, "basePrecedence", whole, None)
    if known == "success-counts":
        tiers = reading.text(bean, "incrementCounts", "100,1000")
        policy = {"success-counts": {"tiers": tiers, "base": 3 if base is None else base}}
        if _objection(reading, bean, "precedence", policy) is None:
            reading.put("frontier.precedence_policy", policy, bean.line)
        return
    if known == "highest-uri":
        reading.put("frontier.precedence_policy", known, bean.line)
    elif known != "base":
        reading.remark(bean.line, with_class(bean), "there is no such policy; `base` is set")
    if base is not None:
        reading.put("frontier.precedence", base, bean.lines["basePrecedence"])


def uri_precedence(reading: Reading, bean: Bean) -> Any:
    """Return the precedence policy of URIs for a bean, with its options; None, with a remark, if there is none."""
    name = plugins.heritrix_names("uri_precedence").get(bean.name)
    if name is None:
        reading.remark(bean.line, with_class(bean), "there is no such policy; `cost` is set")
        reading.use_all(bean)
    if name in (None, "cost"):
        return name
    if name == "preloaded":
        return _instead_of_preloaded(reading, bean)
    options: dict[str, Any] = {"base": reading.convert(bean, "basePrecedence", whole, 1)}
    if name == "hops":
        options["navlinks_only"] = reading.convert(bean, "navlinksOnly", flag, True)
    policy = {name: options}
    return policy if _objection(reading, bean, "uri_precedence", policy) is None else None


def _instead_of_preloaded(reading: Reading, bean: Bean) -> Any:
    """Return the policy for URIs without a value, with a remark: the configuration does not name the file of values."""
    base = reading.convert(bean, "basePrecedence", whole, 1)
    other = reading.use(bean, "defaultUriPrecedencePolicy")
    default = (uri_precedence(reading, other) or "cost") if isinstance(other, Bean) else {"base": {"base": 1}}
    reading.remark(
        bean.line, with_class(bean),
        "its values are in the database of Heritrix: set `frontier.uri_precedence_policy: "
        f"{{preloaded: {{file: FILE, base: {base}, default: {_flow(default)}}}}}`, with the file that was given to "
        "PrecedenceLoader; the default is set alone",
    )  # fmt: skip
    return default


def _flow(policy: Any) -> str:
    """Return a policy in the flow style of YAML."""
    if isinstance(policy, dict):
        return f"{{{', '.join(f'{name}: {_flow(value)}' for name, value in policy.items())}}}"
    return str(policy).lower() if isinstance(policy, bool) else str(policy)


def _objection(reading: Reading, bean: Bean, kind: str, policy: object) -> str | None:
    """Return what is wrong with the options of a policy, with a remark; None if nothing is."""
    try:
        plugins.resolve(kind, policy)  # type: ignore[arg-type]
    except PolicyError as error:
        reading.remark(bean.line, with_class(bean), f"{error}; left out")
        return str(error)
    return None


def _options(reading: Reading, bean: Bean, name: str) -> None:
    """Set the options of the queue assignment policy, if it has any."""
    for key, (option, read, default) in ASSIGNMENT_OPTIONS.items():
        if (value := reading.convert(bean, key, read, default)) == default:
            continue
        before = reading.settings["frontier"]["queue_assignment_policy"]
        options = before[name] if isinstance(before, dict) else {}
        policy = {name: {**options, option: value}}
        if _objection(reading, bean, "assignment", policy) is None:
            reading.put("frontier.queue_assignment_policy", policy, bean.lines[key])


def _policy(reading: Reading, preparer: Bean | None, name: str, kind: str) -> Bean | None:
    """Return the bean of a policy: that of the preparer, or the one that Spring finds by its class."""
    value = reading.use(preparer, name) if preparer else None
    if isinstance(value, Bean):
        return value
    return next((bean for bean in reading.beans.top if kind in bean.name), None)


def _name_policy(reading: Reading, bean: Bean, kind: str, setting: str, default: str) -> str:
    """Set the policy of a bean, and return its name."""
    name = plugins.heritrix_names(kind).get(bean.name)
    if name is None:
        reading.remark(bean.line, with_class(bean), f"there is no such policy; `{default}` is set")
    reading.put(setting, name or default, bean.line)
    return name or default


def canonicalization(reading: Reading) -> None:
    """Set which differences between URLs count; all of Heritrix's default rules apply if there is no list."""
    preparer = reading.of_class("FrontierPreparer")
    bean = reading.use(preparer, "canonicalizationPolicy") if preparer else None
    bean = bean if isinstance(bean, Bean) else reading.of_class("RulesCanonicalizationPolicy")
    rules = reading.use(bean, "rules") if bean and bean.name == "RulesCanonicalizationPolicy" else None
    if bean is None or not isinstance(rules, BeanList):
        if bean is not None and bean.name != "RulesCanonicalizationPolicy":
            reading.remark(bean.line, with_class(bean), "there is no such policy; Heritrix's default rules are set")
            reading.use_all(bean)
        reading.put("frontier.canonicalization_policy", "rules")
        return
    found: list[Any] = []
    beans = [each for each in map(reading.beans.resolved, rules.items) if isinstance(each, Bean)]
    for each in beans:
        rule = _rule(reading, each)
        if rule is not None and _objection(reading, each, "canonicalization", {"rules": [rule]}) is None:
            found.append(rule)
    reading.put("frontier.canonicalization_policy", {"rules": found}, bean.line)


def _rule(reading: Reading, bean: Bean) -> Any:
    """Return a rule of canonicalization; None if it is turned off, or with a remark if there is none."""
    if not reading.is_on(bean):
        reading.skipped[id(bean)] = ""
        return None
    known = plugins.heritrix_names("canonicalization", rules=True).get(bean.name)
    if known is not None and known != "regex":
        return known
    why = "no rule of canonicalization does the same"
    if known == "regex" and reading.lost(bean):
        why = "the value of a property is not known"
    elif known == "regex":
        form = reading.text(bean, "format")
        try:
            pattern = java_regex.translate(reading.text(bean, "regex", "(.*)"))
        except ValueError as error:
            why = str(error)
        else:
            return {"regex": pattern, "format": form} if form else {"regex": pattern}
    reading.use_all(bean)
    reading.remark(bean.line, with_class(bean), f"{why}; left out")
    return None
