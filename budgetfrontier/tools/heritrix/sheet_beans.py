"""Sheets of Heritrix, and what they are associated with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from budgetfrontier.core import units
from budgetfrontier.errors import SettingsError
from budgetfrontier.settings import plugins
from budgetfrontier.settings.matching import parse_match, sheet_name_objection
from budgetfrontier.settings.names import per_uri
from budgetfrontier.settings.values import brief, read_duration
from budgetfrontier.tools.heritrix import decide_rules, policy_beans
from budgetfrontier.tools.heritrix.counterparts import (
    PLAIN,
    QUOTAS,
    SAME_CLASS,
    UNREAD,
    Counterpart,
)
from budgetfrontier.tools.heritrix.reading import Reading, label
from budgetfrontier.tools.heritrix.spring import Bean, BeanMap, Text, Value

ASSOCIATIONS = ("SurtPrefixesSheetAssociation", "DecideRuledSheetAssociation")


def sheets(reading: Reading) -> None:
    """Set the sheets, and what they are associated with. Those that nothing is associated with are kept for later."""
    found: dict[str, dict[str, Any]] = {}
    for bean in reading.beans.top:
        if bean.name == "Sheet" and (objection := sheet_name_objection(label(bean))):
            reading.remark(bean.line, f"the sheet {brief(label(bean))}", f"{objection}; left out")
            reading.skipped[id(bean)] = ""
        elif bean.name == "Sheet":
            found[label(bean)] = _sheet(reading, bean)
            reading.origins["sheets", label(bean)] = bean.line
    associations: list[dict[str, Any]] = []
    seen: set[tuple[str, str]] = set()
    for bean in reading.beans.top:
        if bean.name in ASSOCIATIONS and (association := _association(reading, bean, found)):
            for each in _without_repeats(association, seen):
                reading.origins["associations", str(len(associations))] = bean.line
                associations.append(each)
    if found:
        reading.put("sheets", found)
    if associations:
        reading.put("associations", associations)


def _association(reading: Reading, bean: Bean, sheets: Collection[str]) -> dict[str, Any] | None:
    """Return an association; None, with a remark, if it names no sheet of the file or no pattern."""
    names = [text.text.strip() for text in reading.texts(reading.use(bean, "targetSheetNames"))]
    for name in names:
        if name not in sheets:
            reading.remark(bean.line, f"the sheet {brief(name)}", "there is no such sheet, or it is left out")
    names = [name for name in dict.fromkeys(names) if name in sheets]
    if bean.name == "SurtPrefixesSheetAssociation":
        prefixes = _prefixes(reading, bean)
        return {"sheets": names, "surt": prefixes} if names and prefixes else None
    order = reading.convert(bean, "order", int, 0)
    rules = reading.use(bean, "rules")
    if isinstance(rules, Bean) and not reading.is_on(rules):
        reading.skipped[id(rules)] = ""
        return None
    match = decide_rules.pattern(reading, rules) if isinstance(rules, Bean) else None
    if match is None:
        reading.remark(bean.line, f"{label(bean)} (rules)", "only a MatchesRegexDecideRule is read; left out")
    return {"sheets": names, "match": match, "order": order} if names and match else None


def _prefixes(reading: Reading, bean: Bean) -> list[str]:
    """Return the SURT prefixes of an association, with remarks on what is none."""
    found: list[str] = []
    for text in reading.texts(reading.use(bean, "surtPrefixes")):
        whole, _, rest = text.text.strip().partition("://")
        try:
            parse_match(f"surt:{rest or whole}")
        except SettingsError:
            why = "it is no SURT prefix, such as http://(org,example,; left out"
            reading.remark(text.line, brief(text.text.strip()), why)
        else:
            found.append(rest or whole)
    return [*dict.fromkeys(found)]


def _without_repeats(association: dict[str, Any], seen: set[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return an association without the pairs of sheet and pattern that were seen: then it is one for each sheet."""
    kind = "surt" if "surt" in association else "match"
    patterns = association[kind] if kind == "surt" else [association[kind]]
    fresh = {name: [each for each in patterns if (name, each) not in seen] for name in association["sheets"]}
    seen |= {(name, each) for name, new in fresh.items() for each in new}
    if all(new == patterns for new in fresh.values()):
        return [association]
    return [{**association, "sheets": [name], kind: new} for name, new in fresh.items() if new]


def _sheet(reading: Reading, sheet: Bean) -> dict[str, Any]:
    """Return the settings of a sheet, with remarks on what is no setting for some URIs."""
    changes = reading.use(sheet, "map")
    found: dict[str, Any] = {}
    if not isinstance(changes, BeanMap):
        return found
    for path, value in changes.items.items():
        setting = _in_sheet(reading, path, reading.beans.resolved(value))
        if setting is None:
            reading.remark(changes.lines[path], f"{label(sheet)}: {path}", UNREAD)
        for key, each in (setting or {}).items():
            found[key] = {**found.get(key, {}), **each} if isinstance(each, dict) else each
            reading.origins["sheets", label(sheet), key] = changes.lines[path]
    in_force = reading.settings["frontier"].get("politeness", {})
    names = "politeness.min_delay", "politeness.max_delay"
    if not found.keys().isdisjoint(names) and lower_least(found, *names, in_force):
        reading.remark(sheet.line, label(sheet), "minDelayMs is longer than maxDelayMs, which wins in Heritrix, too")
    return found


def _in_sheet(reading: Reading, path: str, value: Value | None) -> dict[str, Any] | None:
    """Return the setting of one entry of a sheet, None if there is none for some URIs only."""
    bean_name, _, name = path.partition(".")
    bean = reading.beans.bean(bean_name)
    costs = plugins.heritrix_names("cost")
    if bean is not None and isinstance(value, Bean) and value.name in costs:
        return {"cost_policy": costs[value.name]}
    if bean is not None and isinstance(value, Bean) and value.name == "BaseQueuePrecedencePolicy":
        return {"precedence": reading.convert(value, "basePrecedence", int, 3)}
    if bean is not None and isinstance(value, Bean) and value.name.endswith("UriPrecedencePolicy"):
        return {"uri_precedence_policy": policy_beans.uri_precedence(reading, value) or "cost"}
    if bean is None or not isinstance(value, Text):
        return None
    kind = SAME_CLASS.get(bean.name, bean.name)
    if (kind, name) == ("DispositionProcessor", "forceRetire"):  # retired at its turn, before any URI
        return {"balance_replenish_amount": 0} if value.text.strip() == "true" else {}
    if kind == "QuotaEnforcer" and name in QUOTAS and value.text.strip() != "-1":
        setting, amount, read = QUOTAS[name]
        try:
            return {setting: {amount: read(value.text)}}
        except ValueError:
            return None
    plain: Counterpart | None = PLAIN.get(kind, {}).get(name)
    setting = plain.setting.removeprefix("frontier.") if plain else ""
    if plain is None or setting not in per_uri():
        return None
    try:
        return {setting: plain.convert(value.text)}
    except ValueError:
        return None


def lower_least(
    settings: dict[str, Any], least: str, most: str, in_force: Mapping[str, Any] = MappingProxyType({})
) -> bool:
    """Lower the least delay to the greatest; return whether that changed it.

    What is not among the settings is as in the section `politeness` that is `in_force`, or by default.
    """
    defaults = (least, in_force.get("min_delay", 3.0)), (most, in_force.get("max_delay", 30.0))
    try:
        shortest, longest = (read_duration(settings.get(name, default)) for name, default in defaults)
    except ValueError:  # it is left out with a remark
        return False
    if shortest > longest:
        settings[least] = settings[most] = units.write_duration(longest)
    return shortest > longest
