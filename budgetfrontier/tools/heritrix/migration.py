"""The migration of a job of Heritrix 3: its `crawler-beans.cxml` as a YAML file, and remarks on what is left out.

A property is read by the table of counterparts, by a function below, or not at all: then there is a remark with its
line, so that nothing is dropped without a word.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from budgetfrontier import __version__
from budgetfrontier.errors import FrontierError
from budgetfrontier.settings.names import per_uri
from budgetfrontier.settings.values import brief
from budgetfrontier.tools.heritrix import decide_rules
from budgetfrontier.tools.heritrix.counterparts import (
    ASSIGNMENT,
    ASSIGNMENT_OPTIONS,
    BUILT_IN,
    CANONICALIZATION,
    COST,
    DUPLICATES,
    INSTEAD,
    PLAIN,
    QUOTAS,
    SAME_CLASS,
    WITHOUT,
    Counterpart,
    flag,
)
from budgetfrontier.tools.heritrix.reading import Reading, label, with_class
from budgetfrontier.tools.heritrix.seeds import seeds
from budgetfrontier.tools.heritrix.spring import Bean, BeanList, BeanMap, Beans, Remark, Text, Value, inner

CONFIGURATION = "crawler-beans.cxml"
_AGENT = "Mozilla/5.0 (compatible; heritrix/@VERSION@ +@OPERATOR_CONTACT_URL@)"
_UNREAD = "no counterpart; left out"
_SHEETS = ("Sheet", "SurtPrefixesSheetAssociation", "DecideRuledSheetAssociation")


class Migration(NamedTuple):
    """A configuration: its text, texts of further files by name, and the remarks on it."""

    text: str
    files: dict[str, str]
    remarks: list[Remark]


def configuration(source: Path) -> Path:
    """Return the configuration of a job folder, or the file itself. Raises FrontierError if there is none."""
    path = source / CONFIGURATION if source.is_dir() else source
    if path.suffix == ".groovy" or (not path.exists() and (source / "crawler-beans.groovy").exists()):
        raise FrontierError(f"{source}: a configuration in Groovy is a program, which is not run; only cxml is read")
    if not path.exists():
        raise FrontierError(f"{path}: there is no such file; give the folder of a job of Heritrix 3")
    return path


def migrate(source: Path, stem: str) -> Migration:
    """Return the configuration of a job as YAML. `stem` begins the names of further files. Raises FrontierError."""
    path = configuration(source)
    reading = Reading(Beans(path), stem)
    if reading.of_class("BdbFrontier", "WorkQueueFrontier") is None:
        raise FrontierError(f"{path}: there is no bean of the class BdbFrontier; is it a job of Heritrix 3?")
    for name in ("fetch", "scope", "frontier"):
        reading.put(name, {})
    reading.put("crawl", "crawl")
    seed_rules = seeds(reading, path.parent)
    decide_rules.scope(reading, path.parent, seed_rules)
    for bean in reading.beans.every():
        _plain(reading, bean)
    _agent(reading)
    _frontier(reading)
    _fetch(reading)
    _output(reading)
    _canonicalization(reading)
    _quotas(reading)
    _sheets(reading)
    for value in reading.beans.top:
        _list_unread(reading, value)
    remarks = sorted([*reading.beans.remarks, *reading.remarks], key=lambda remark: remark.line)
    return Migration(_yaml(path, reading.settings, remarks), reading.files, remarks)


def _plain(reading: Reading, bean: Bean) -> None:
    """Set the settings of the properties that have one."""
    for name, plain in PLAIN.get(SAME_CLASS.get(bean.name, bean.name), {}).items():
        value = reading.convert(bean, name, plain.convert, None)
        if value is None and plain.default is not None:
            value = plain.convert(plain.default)
        if value not in (None, ""):
            reading.put(plain.setting, value)


def _agent(reading: Reading) -> None:
    """Set the user agent: Heritrix's name in its template becomes that of this crawler."""
    bean = reading.of_class("CrawlMetadata")
    url = reading.text(bean, "operatorContactUrl") if bean else ""
    template = (reading.text(bean, "userAgentTemplate") if bean else "") or _AGENT
    if not url.startswith(("http://", "https://")):
        line = bean.lines.get("operatorContactUrl", bean.line) if bean else 1
        reading.remark(line, "metadata.operatorContactUrl", "it is no URL; write a page of yours into fetch.user_agent")
        template = template.replace(" +@OPERATOR_CONTACT_URL@", "").replace("@OPERATOR_CONTACT_URL@", "")
    agent = template.replace("heritrix/@VERSION@", f"budgetfrontier/{__version__}").replace("@VERSION@", __version__)
    reading.put("fetch.user_agent", agent.replace("@OPERATOR_CONTACT_URL@", url))


def _frontier(reading: Reading) -> None:
    """Set the policies."""
    reading.put("frontier.retire_when", "reached")
    preparer, frontier = reading.of_class("FrontierPreparer"), reading.of_class("BdbFrontier", "WorkQueueFrontier")
    cost = _policy(reading, preparer, "costAssignmentPolicy", "CostAssignmentPolicy")
    if cost is not None:
        _name_policy(reading, cost, "frontier.cost_policy", COST, "unit")
    assignment = _policy(reading, preparer, "queueAssignmentPolicy", "QueueAssignmentPolicy")
    if assignment is None:
        reading.put("frontier.queue_assignment_policy", "surt-authority")
    else:
        _name_policy(reading, assignment, "frontier.queue_assignment_policy", ASSIGNMENT, "surt-authority")
        _options(reading, assignment)
        if not reading.convert(assignment, "deferToPrevious", flag, True):
            reading.put("frontier.defer_to_previous", False)
        if text := reading.text(assignment, "forceQueueAssignment"):
            line = assignment.lines["forceQueueAssignment"]
            reading.remark(line, f"{label(assignment)}.forceQueueAssignment={brief(text)}", _UNREAD)
    if frontier is not None:
        reading.use(frontier, "uriUniqFilter")
        _precedence(reading, reading.use(frontier, "queuePrecedencePolicy"))
    for name, duplicates in DUPLICATES.items():
        if reading.of_class(name) is not None:
            reading.put("frontier.duplicates", duplicates)
    if preparer is not None:
        for name in ("uriPrecedencePolicy", "canonicalizationPolicy"):
            reading.use(preparer, name)


def _precedence(reading: Reading, bean: Value | None) -> None:
    """Set the precedence policy of queues; `base` has a setting of its own."""
    if not isinstance(bean, Bean) or bean.name == "BaseQueuePrecedencePolicy":
        return
    if bean.name != "SuccessCountsQueuePrecedencePolicy":
        reading.remark(bean.line, with_class(bean), "there is no such policy; `base` is set")
        return
    options = {"tiers": reading.text(bean, "incrementCounts", "100,1000")}
    base = reading.convert(bean, "basePrecedence", int, 3)
    reading.put("frontier.precedence_policy", {"success-counts": {**options, "base": base}})


def _options(reading: Reading, bean: Bean) -> None:
    """Set the options of the queue assignment policy, if it has any."""
    options: dict[str, Any] = {}
    for name, (option, read, default) in ASSIGNMENT_OPTIONS.items():
        if (value := reading.convert(bean, name, read, default)) != default:
            options[option] = value
    if options:
        name = ASSIGNMENT.get(bean.name, "surt-authority")
        reading.put("frontier.queue_assignment_policy", {name: options})


def _policy(reading: Reading, preparer: Bean | None, name: str, kind: str) -> Bean | None:
    """Return the bean of a policy: that of the preparer, or the one that Spring finds by its class."""
    value = reading.use(preparer, name) if preparer else None
    if isinstance(value, Bean):
        return value
    return next((bean for bean in reading.beans.top if kind in bean.name), None)


def _name_policy(reading: Reading, bean: Bean, setting: str, names: dict[str, str], default: str) -> None:
    if bean.name not in names:
        reading.remark(bean.line, with_class(bean), f"there is no such policy; `{default}` is set")
    reading.put(setting, names.get(bean.name, default))


def _fetch(reading: Reading) -> None:
    """Set what fetches have besides numbers."""
    bean = reading.of_class("FetchHTTP")
    if bean is None:
        return
    if reading.text(bean, "sslTrustLevel", "OPEN").upper() == "OPEN":
        reading.put("fetch.verify_tls", False)
    headers = [text.text.strip() for text in reading.texts(reading.use(bean, "acceptHeaders"))]
    if pairs := {name.strip(): value.strip() for name, _, value in (each.partition(":") for each in headers)}:
        reading.put("fetch.requests", [{"match": "*", "headers": pairs}])
    host, port = reading.text(bean, "httpProxyHost"), reading.text(bean, "httpProxyPort", "0")
    if host:
        reading.put("fetch.proxy", f"http://{host}" + (f":{port}" if port not in ("0", "") else ""))
    for name in ("httpProxyUser", "httpProxyPassword"):
        if reading.text(bean, name):
            reading.remark(
                bean.lines[name],
                f"{label(bean)}.{name}",
                "not copied; write it as http://${USER}:${PASSWORD}@HOST:PORT",
            )


def _output(reading: Reading) -> None:
    """Set whether pages are stored and sitemaps read."""
    controller = reading.of_class("CrawlController")
    if controller is not None and reading.convert(controller, "pauseAtStart", flag, False):
        reading.remark(controller.lines["pauseAtStart"], "crawlController.pauseAtStart", "write `crawl --paused`")
    writer = reading.of_class("WARCWriterChainProcessor", "WARCWriterProcessor", "ARCWriterProcessor")
    reading.put("output.warc", writer is not None)
    reading.put("links.sitemaps", reading.of_class("ExtractorSitemap") is not None)
    if reading.of_class("ExtractorHTTP") is not None:  # it adds /favicon.ico to the links of each host
        reading.put("links.favicon", True)


def _canonicalization(reading: Reading) -> None:
    """Set which differences between URLs count; all of Heritrix's default rules apply if there is no list."""
    bean = reading.of_class("RulesCanonicalizationPolicy")
    rules = reading.use(bean, "rules") if bean else None
    if bean is None or not isinstance(rules, BeanList):
        reading.put("frontier.canonicalization_policy", "rules")
        return
    found = [_rule(reading, rule) for rule in map(reading.beans.resolved, rules.items) if isinstance(rule, Bean)]
    reading.put("frontier.canonicalization_policy", {"rules": [rule for rule in found if rule is not None]})


def _rule(reading: Reading, bean: Bean) -> Any:
    """Return a rule of canonicalization; None if it is turned off, or with a remark if there is none."""
    if not reading.convert(bean, "enabled", flag, True):
        return None
    if bean.name in CANONICALIZATION:
        return CANONICALIZATION[bean.name]
    if bean.name != "RegexRule" or not reading.text(bean, "regex"):
        for each in bean.properties:
            reading.use(bean, each)
        reading.remark(bean.line, with_class(bean), "no rule of canonicalization does the same; left out")
        return None
    pattern = reading.text(bean, "regex").replace("(?<", "(?P<").replace("(?P<=", "(?<=").replace("(?P<!", "(?<!")
    form = reading.text(bean, "format")
    return {"regex": pattern, "format": form} if form else {"regex": pattern}


def _quotas(reading: Reading) -> None:
    """Set the quotas. Heritrix's groups are queues; its servers, which are hosts with a port, are not counted here."""
    bean = reading.of_class("QuotaEnforcer")
    if bean is None:
        return
    found: dict[str, dict[str, Any]] = {}
    for name, (setting, amount, read) in QUOTAS.items():
        if reading.text(bean, name, "-1") != "-1" and (limit := reading.convert(bean, name, read, None)) is not None:
            found.setdefault(setting, {})[amount] = limit
    for setting, limits in found.items():
        reading.put(f"frontier.{setting}", limits)
    if not reading.convert(bean, "forceRetire", flag, True):
        reading.put("frontier.quotas.force_retire", False)


def _sheets(reading: Reading) -> None:
    """Set the sheets, and what they are associated with. Those that nothing is associated with are kept for later."""
    found: dict[str, dict[str, Any]] = {}
    for bean in reading.beans.every():
        if bean.name == "Sheet":
            found[label(bean)] = _sheet(reading, bean)
    associations: list[dict[str, Any]] = []
    for bean in reading.beans.every():
        if bean.name in _SHEETS[1:] and (association := _association(reading, bean, found)):
            associations.append(association)
    if found:
        reading.put("sheets", found)
    if associations:
        reading.put("associations", associations)


def _association(reading: Reading, bean: Bean, sheets: Collection[str]) -> dict[str, Any] | None:
    """Return an association; None, with a remark, if it names no sheet of the file or no pattern."""
    names = [text.text.strip() for text in reading.texts(reading.use(bean, "targetSheetNames"))]
    for name in names:
        if name not in sheets:
            reading.remark(bean.line, f"the sheet {brief(name)}", "there is no such sheet in the file; left out")
    names = [name for name in names if name in sheets]
    if bean.name == "SurtPrefixesSheetAssociation":
        texts = [text.text.strip().partition("://") for text in reading.texts(reading.use(bean, "surtPrefixes"))]
        return {"sheets": names, "surt": [rest or whole for whole, _, rest in texts]} if names and texts else None
    order = reading.convert(bean, "order", int, 0)
    rules = reading.use(bean, "rules")
    match = decide_rules.pattern(reading, rules) if isinstance(rules, Bean) else None
    if match is None:
        reading.remark(bean.line, f"{label(bean)} (rules)", "only a MatchesRegexDecideRule is read; left out")
    return {"sheets": names, "match": match, "order": order} if names and match else None


def _sheet(reading: Reading, sheet: Bean) -> dict[str, Any]:
    """Return the settings of a sheet, with remarks on what is no setting for some URIs."""
    changes = reading.use(sheet, "map")
    found: dict[str, Any] = {}
    if not isinstance(changes, BeanMap):
        return found
    for path, value in changes.items.items():
        setting = _in_sheet(reading, path, reading.beans.resolved(value))
        if setting is None:
            reading.remark(changes.lines[path], f"{label(sheet)}: {path}", _UNREAD)
        for key, each in (setting or {}).items():
            found[key] = {**found.get(key, {}), **each} if isinstance(each, dict) else each
    return found


def _in_sheet(reading: Reading, path: str, value: Value | None) -> dict[str, Any] | None:
    """Return the setting of one entry of a sheet, None if there is none for some URIs only."""
    bean_name, _, name = path.partition(".")
    bean = reading.beans.by_id.get(bean_name)
    if bean is not None and isinstance(value, Bean) and value.name in COST:
        return {"cost_policy": COST[value.name]}
    if bean is not None and isinstance(value, Bean) and value.name == "BaseQueuePrecedencePolicy":
        return {"precedence": reading.convert(value, "basePrecedence", int, 3)}
    if bean is None or not isinstance(value, Text):
        return None
    kind = SAME_CLASS.get(bean.name, bean.name)
    if (kind, name) == ("DispositionProcessor", "forceRetire"):  # retired at its turn, before any URI
        return {"queue_total_budget": 0} if value.text.strip() == "true" else {}
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


def _list_unread(reading: Reading, value: Value) -> None:
    """Remark on the beans and properties that nothing has asked for."""
    if not isinstance(value, Bean):
        for each in inner(value):
            _list_unread(reading, each)
        return
    why = WITHOUT.get(value.name)
    known = SAME_CLASS.get(value.name, value.name)
    if why is None and not _is_known(reading, value):
        why = _UNREAD
    if why is not None:
        reading.remark(value.line, with_class(value), why)
        return
    for name, each in value.properties.items():
        if name == "processors" or reading.is_used(value, name):
            _list_unread(reading, each)
            continue
        shown = f"={brief(each.text.strip(), 40)}" if isinstance(each, Text) and each.text.strip() else ""
        why = INSTEAD.get(f"{known}.{name}", _UNREAD)
        reading.remark(value.lines[name], f"{label(value)}.{name}{shown}", why)


def _is_known(reading: Reading, bean: Bean) -> bool:
    """Return whether a class is one that this program knows, or is read where it stands."""
    if (
        SAME_CLASS.get(bean.name, bean.name) in PLAIN
        or bean.name in (*BUILT_IN, *DUPLICATES, "QuotaEnforcer")
        or bean.name in _SHEETS
    ):
        return True
    if any(kind in bean.name for kind in ("DecideRule", "AssignmentPolicy", "QueuePrecedencePolicy")):
        return True  # with remarks of their own
    return bean.name in CANONICALIZATION or bean.name.endswith(("CanonicalizationPolicy", "Rule"))


def _yaml(path: Path, settings: dict[str, Any], remarks: list[Remark]) -> str:
    """Return the configuration as text, with the remarks as comments."""
    head = [f"# From {path.name} of Heritrix 3. For what is not set: `budgetfrontier check-config FILE --print`."]
    if remarks:
        head += ["#", "# Left out, or not the same here, by line of that file:"]
        head += [f"#   {remark.line}: {_clean(remark.what)}: {_clean(remark.why)}" for remark in remarks]
    order = ("crawl", "seeds", "scope", "frontier", "sheets", "associations", "fetch", "links", "limits", "output")
    body = {name: settings[name] for name in order if name in settings}
    body |= {name: value for name, value in settings.items() if name not in body}
    dumped = yaml.dump(
        body, Dumper=_WholeDumper, sort_keys=False, allow_unicode=True, width=10**6, default_flow_style=False
    )
    return "\n".join(head) + "\n\n" + dumped


def _clean(text: str) -> str:
    return " ".join(text.split())


class _WholeDumper(yaml.SafeDumper):
    """A dumper that writes a value again in each of its places, without anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return True: nothing is an alias."""
        return True
