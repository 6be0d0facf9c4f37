"""The state of a migration: settings, files beside the configuration, and remarks on what is left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from budgetfrontier.settings.values import brief
from budgetfrontier.tools.heritrix.counterparts import PROCESSORS, flag
from budgetfrontier.tools.heritrix.spring import Bean, BeanList, Beans, Remark, Text, Value
from budgetfrontier.tools.heritrix.spring_xml import FileLine


@dataclass
class Reading:
    """The state of a migration. A property that was asked for is not listed as left out."""

    beans: Beans
    stem: str
    """The name of the configuration to write, without its suffix."""
    settings: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """Texts of files to write beside the configuration, by name."""
    remarks: list[Remark] = field(default_factory=list)
    origins: dict[tuple[str, ...], FileLine] = field(default_factory=dict)
    """The line that each setting is from."""
    skipped: dict[int, str] = field(default_factory=dict)
    """Beans that are not read, by identity, with the reason; "" if no remark is needed."""
    _used: set[tuple[int, str]] = field(default_factory=set)

    def put(self, setting: str, value: Any, line: FileLine | None = None) -> None:
        """Set a setting, named with dots, that a line asks for."""
        section = self.settings
        *sections, name = setting.split(".")
        for each in sections:
            section = section.setdefault(each, {})
        section[name] = value
        if line is not None:
            self.origins[*sections, name] = line

    def drop(self, path: tuple[str | int, ...], why: str) -> None:
        """Take a value out of the settings, with a remark."""
        holder: Any = self.settings
        for part in path[:-1]:
            holder = holder[part]
        value = holder[path[-1]]
        shown = "" if isinstance(value, dict | list) else f": {brief(str(value))}"
        del holder[path[-1]]
        names = tuple(map(str, path))
        starts = [names[:length] for length in range(len(names), 0, -1)]
        line = next((self.origins[start] for start in starts if start in self.origins), FileLine(1))
        self.remark(line, f"{'.'.join(names)}{shown}", f"{why}; left out")

    def beside(self, ending: str, lines: Iterable[str]) -> str:
        """Add a file to write beside the configuration, and return its name."""
        name = f"{self.stem}.{ending}"
        self.files[name] = "".join(f"{line}\n" for line in lines)
        return name

    def remark(self, line: FileLine, what: str, why: str) -> None:
        """Remark on something that is left out or changed."""
        if (remark := Remark(line, what, why)) not in self.remarks:
            self.remarks.append(remark)

    # Properties

    def use(self, bean: Bean, name: str) -> Value | None:
        """Return a property, with references followed; None if there is none, or with a remark if it is lost."""
        self._used.add((id(bean), name))
        value = bean.properties.get(name)
        if isinstance(value, Text) and value.lost:
            self.remark(value.line, f"{label(bean)}.{name}={brief(value.text.strip())}", value.lost)
        return self.beans.resolved(value)

    def lost(self, bean: Bean) -> bool:
        """Return whether the value of a property is lost, so that the rest would mean something else."""
        return any(isinstance(value, Text) and value.lost for value in bean.properties.values())

    def use_all(self, bean: Bean) -> None:
        """Note that the properties of a bean need no remarks of their own."""
        self._used |= {(id(bean), name) for name in bean.properties}

    def is_used(self, bean: Bean, name: str) -> bool:
        """Return whether a property was asked for."""
        return (id(bean), name) in self._used

    def text(self, bean: Bean, name: str, default: str = "") -> str:
        """Return the text of a property, without the white space around it."""
        value = self.use(bean, name)
        return value.text.strip() if isinstance(value, Text) else default

    def convert(self, bean: Bean, name: str, reader: Any, default: Any) -> Any:
        """Return a property as `reader` reads it; the default, with a remark, if that raises ValueError."""
        text = self.text(bean, name)
        if not text:
            return default
        try:
            return reader(text)
        except (ValueError, OverflowError):
            self.remark(bean.lines[name], f"{label(bean)}.{name}={brief(text)}", "that is no value of this property")
            return default

    def texts(self, value: Value | None) -> Iterator[Text]:
        """Yield the texts of a list; a single text is a list of one."""
        if isinstance(value, Text):
            yield value
        for item in value.items if isinstance(value, BeanList) else ():
            if isinstance(item, Text) and item.lost:
                self.remark(item.line, brief(item.text.strip()), item.lost)
            if isinstance(item, Text) and item.kind == "value":
                yield item

    # Beans

    def is_on(self, bean: Bean) -> bool:
        """Return whether a bean is not turned off by its property `enabled`."""
        return bool(self.convert(bean, "enabled", flag, True))

    def of_class(self, *names: str) -> Bean | None:
        """Return the bean of one of these classes that Heritrix runs; None if there is none, or it is turned off.

        Of several, it is the first one, with remarks on the others.
        """
        found = [bean for bean in self._running if bean.name in names and self._is_taken(bean)]
        for other in found[1:]:
            self.skipped[id(other)] = f"there is a bean of this class before it, {label(found[0])}, which is read"
        return found[0] if found else None

    def _is_taken(self, bean: Bean) -> bool:
        if not self.is_on(bean):
            self.skipped[id(bean)] = ""
        return id(bean) not in self.skipped

    @cached_property
    def _running(self) -> list[Bean]:
        """The beans that Heritrix runs: of the processors, those of its chains, in their order."""
        chains = [bean for bean in self.beans.top if "processors" in bean.properties]
        lists = [self.use(chain, "processors") for chain in chains]
        items = [self.beans.resolved(item) for each in lists if isinstance(each, BeanList) for item in each.items]
        chained = [bean for bean in items if isinstance(bean, Bean)]
        if not chains:
            return self.beans.top
        for bean in self.beans.top:
            if bean.name in PROCESSORS and not any(bean is each for each in chained):
                self.skipped[id(bean)] = "no chain has it, so that Heritrix does not run it"
        return [*(bean for bean in self.beans.top if not any(bean is each for each in chained)), *chained]


def label(bean: Bean) -> str:
    """Return the name of a bean for messages."""
    return bean.id or bean.name or "a bean"


def with_class(bean: Bean) -> str:
    """Return the id of a bean, if it has one, and its class."""
    return f"{bean.id} ({bean.name})" if bean.id else bean.name or "a bean"
