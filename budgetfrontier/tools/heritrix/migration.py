"""The migration of a job of Heritrix 3: its `crawler-beans.cxml` as a YAML file, and remarks on what is left out.

A property is read by the table of counterparts, by a function below, or not at all: then there is a remark with its
line, so that nothing is dropped without a word.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from budgetfrontier import __version__
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.format import clean
from budgetfrontier.settings import Settings, plugins
from budgetfrontier.settings.document import Document
from budgetfrontier.settings.schema import UNIQ_FILTERS
from budgetfrontier.settings.validation import Validator
from budgetfrontier.settings.values import brief
from budgetfrontier.tools.heritrix import decide_rules, policy_beans, sheet_beans
from budgetfrontier.tools.heritrix.counterparts import (
    BUILT_IN,
    INSTEAD,
    OWNERS,
    PLAIN,
    QUOTAS,
    SAME_CLASS,
    SWITCHED,
    UNREAD,
    WITHOUT,
    Counterpart,
    flag,
)
from budgetfrontier.tools.heritrix.reading import Reading, label, with_class
from budgetfrontier.tools.heritrix.seeds import seeds
from budgetfrontier.tools.heritrix.sheet_beans import lower_least
from budgetfrontier.tools.heritrix.spring import Bean, Beans, Remark, Text, Value, inner
from budgetfrontier.tools.heritrix.spring_xml import FileLine

CONFIGURATION = "crawler-beans.cxml"
_AGENT = "Mozilla/5.0 (compatible; heritrix/@VERSION@ +@OPERATOR_CONTACT_URL@)"


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
    for name in PLAIN:
        if (bean := reading.of_class(name, *(other for other, same in SAME_CLASS.items() if same == name))) is not None:
            _plain(reading, bean, PLAIN[name])
    _delays(reading)
    _links(reading)
    _agent(reading)
    policy_beans.frontier(reading)
    _fetch(reading)
    _output(reading)
    policy_beans.canonicalization(reading)
    _quotas(reading)
    sheet_beans.sheets(reading)
    _drop_invalid(reading)
    for value in reading.beans.top:
        _list_unread(reading, value)
    remarks = sorted([*reading.beans.remarks, *reading.remarks], key=lambda remark: (remark.line.file, remark.line))
    return Migration(_yaml(path, reading.settings, remarks), reading.files, remarks)


def _plain(reading: Reading, bean: Bean, counterparts: Mapping[str, Counterpart]) -> None:
    """Set the settings of the properties that have one."""
    for name, plain in counterparts.items():
        value = reading.convert(bean, name, plain.convert, None)
        if value is None and plain.default is not None:
            value = plain.convert(plain.default)
        if value not in (None, ""):
            reading.put(plain.setting, value, bean.lines.get(name, bean.line))


def _delays(reading: Reading) -> None:
    """Let the longest delay win against the shortest, as in Heritrix."""
    bean = reading.of_class("DispositionProcessor")
    settings = reading.settings["frontier"].get("politeness", {})
    if bean is not None and lower_least(settings, "min_delay", "max_delay"):
        line = bean.lines.get("minDelayMs", bean.lines.get("maxDelayMs", bean.line))
        reading.remark(line, f"{label(bean)}.minDelayMs", "it is longer than maxDelayMs, which wins in Heritrix, too")


def _links(reading: Reading) -> None:
    """Follow no links where Heritrix takes none: a maximum of 0 is no limit here."""
    links, bean = reading.settings["links"], reading.of_class("BdbFrontier", "WorkQueueFrontier")
    if bean is not None and links["max_per_page"] <= 0:
        del links["max_per_page"]
        line, what = bean.lines["maxOutlinks"], f"{label(bean)}.maxOutlinks={reading.text(bean, 'maxOutlinks')}"
        reading.put("scope.max_hops", 0, line)
        reading.remark(line, what, "Heritrix takes no links then; here, links.max_per_page 0 is no limit, so that "
                       "scope.max_hops is 0 instead")  # fmt: skip


def _drop_invalid(reading: Reading) -> None:
    """Take values out that `check-config` would refuse: those that Heritrix takes, and this program does not."""
    while True:
        document = Document(_dumped(reading.settings).encode())
        validator = Validator()
        validator.settings(document.data, Settings())
        problems = {problem.path: problem.text for problem in (*document.problems, *validator.problems)}
        if not problems:
            return
        # Of a list, the last item first, so that the others keep their places.
        places = sorted(problems, key=lambda path: [part if isinstance(part, int) else -1 for part in path])
        for path in reversed(places):
            reading.drop(path, problems[path])


def _agent(reading: Reading) -> None:
    """Set the user agent: Heritrix's name in its template becomes that of this crawler."""
    bean = reading.of_class("CrawlMetadata")
    url = reading.text(bean, "operatorContactUrl") if bean else ""
    template = (reading.text(bean, "userAgentTemplate") if bean else "") or _AGENT
    line = bean.line if bean else FileLine(1)
    if not url.startswith(("http://", "https://")):
        at = bean.lines.get("operatorContactUrl", line) if bean else line
        reading.remark(at, "metadata.operatorContactUrl", "it is no URL; write a page of yours into fetch.user_agent")
        template = template.replace(" +@OPERATOR_CONTACT_URL@", "").replace("@OPERATOR_CONTACT_URL@", "")
    agent = template.replace("heritrix/@VERSION@", f"budgetfrontier/{__version__}").replace("@VERSION@", __version__)
    agent = " ".join(agent.replace("@OPERATOR_CONTACT_URL@", url).split())
    reading.put("fetch.user_agent", agent, bean.lines.get("userAgentTemplate", line) if bean else line)


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


def _quotas(reading: Reading) -> None:
    """Set the quotas. Heritrix's groups are queues; its servers, which are hosts with a port, are not counted here."""
    bean = reading.of_class("QuotaEnforcer")
    if bean is None:
        return
    found: dict[str, dict[str, Any]] = {}
    for name, (setting, amount, read) in QUOTAS.items():
        if reading.text(bean, name, "-1") != "-1" and (limit := reading.convert(bean, name, read, None)) is not None:
            found.setdefault(setting, {})[amount] = limit
            reading.origins["frontier", *setting.split("."), amount] = bean.lines[name]
    for setting, limits in found.items():
        reading.put(f"frontier.{setting}", limits, bean.line)
    if not reading.convert(bean, "forceRetire", flag, True):
        reading.put("frontier.quotas.force_retire", False)


def _list_unread(reading: Reading, value: Value) -> None:
    """Remark on the beans and properties that nothing has asked for."""
    if not isinstance(value, Bean):
        for each in inner(value):
            _list_unread(reading, each)
        return
    why = reading.skipped.get(id(value), WITHOUT.get(value.name))
    known = SAME_CLASS.get(value.name, value.name)
    if id(value) not in reading.skipped and not reading.is_on(value):
        why = ""
    if why == "" and (known in PLAIN or value.name in BUILT_IN) and known not in SWITCHED:
        reading.remark(value.lines["enabled"], f"{with_class(value)}: enabled", "its work is always done here")
    if why is None and not _is_known(reading, value):
        why = UNREAD
    if why is not None:
        if why:
            reading.remark(value.line, with_class(value), why)
        return
    for name, each in value.properties.items():
        if name == "processors" or reading.is_used(value, name):
            _list_unread(reading, each)
            continue
        shown = f"={brief(each.text.strip(), 40)}" if isinstance(each, Text) and each.text.strip() else ""
        why = INSTEAD.get(f"{known}.{name}") or _misplaced(known, name)
        reading.remark(value.lines[name], f"{label(value)}.{name}{shown}", why)


def _misplaced(kind: str, name: str) -> str:
    """Return why a property of a class is left out: it belongs to another class, or nothing asks for it."""
    owner = OWNERS.get(name, kind) if kind in PLAIN else kind
    return UNREAD if owner == kind else f"it is a property of the class {owner}; left out"


def _is_known(reading: Reading, bean: Bean) -> bool:
    """Return whether a class is one that this program knows, or is read where it stands."""
    if (
        SAME_CLASS.get(bean.name, bean.name) in PLAIN
        or bean.name in (*BUILT_IN, *UNIQ_FILTERS, "BloomFilter64bit", "QuotaEnforcer")
        or bean.name in ("Sheet", *sheet_beans.ASSOCIATIONS)
    ):
        return True
    if any(kind in bean.name for kind in ("DecideRule", "AssignmentPolicy", "PrecedencePolicy")):
        return True  # with remarks of their own
    return bean.name.endswith(("CanonicalizationPolicy", "Rule")) or bean.name in plugins.heritrix_names(
        "canonicalization", rules=True
    )


def _yaml(path: Path, settings: dict[str, Any], remarks: list[Remark]) -> str:
    """Return the configuration as text, with the remarks as comments."""
    head = [f"# From {clean(path.name)} of Heritrix 3. All settings: `budgetfrontier check-config FILE --print`."]
    if remarks:
        head += ["#", "# Left out, or not the same here, by line of that file:"]
        head += [f"#   {remark.text}" for remark in remarks]
    return "\n".join(head) + "\n\n" + _dumped(settings)


def _dumped(settings: dict[str, Any]) -> str:
    order = ("crawl", "seeds", "scope", "frontier", "sheets", "associations", "fetch", "links", "limits", "output")
    body = {name: settings[name] for name in order if name in settings}
    body |= {name: value for name, value in settings.items() if name not in body}
    return yaml.dump(
        body, Dumper=_WholeDumper, sort_keys=False, allow_unicode=True, width=10**6, default_flow_style=False
    )


class _WholeDumper(yaml.SafeDumper):
    """A dumper that writes a value again in each of its places, without anchors, and each text in one line."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return True: nothing is an alias."""
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """Return the node of a text, with escapes if it has several lines or is not printable."""
        node: yaml.ScalarNode = self.represent_scalar(
            "tag:yaml.org,2002:str", data, None if data.isprintable() else '"'
        )
        return node


_WholeDumper.add_representer(str, _WholeDumper.represent_str)
