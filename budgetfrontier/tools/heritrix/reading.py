"""The state of a migration: settings, files beside the configuration, and remarks on what is left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from budgetfrontier.settings.values import brief
from budgetfrontier.tools.heritrix.spring import Bean, BeanList, Beans, Remark, Text, Value


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
    _used: set[tuple[int, str]] = field(default_factory=set)

    def put(self, setting: str, value: Any) -> None:
        """Set a setting, named with dots."""
        section = self.settings
        *sections, name = setting.split(".")
        for each in sections:
            section = section.setdefault(each, {})
        section[name] = value

    def beside(self, ending: str, lines: Iterable[str]) -> str:
        """Add a file to write beside the configuration, and return its name."""
        name = f"{self.stem}.{ending}"
        self.files[name] = "".join(f"{line}\n" for line in lines)
        return name

    def remark(self, line: int, what: str, why: str) -> None:
        """Remark on something that is left out or changed."""
        self.remarks.append(Remark(line, what, why))

    def use(self, bean: Bean, name: str) -> Value | None:
        """Return a property, with references followed; None if there is none."""
        self._used.add((id(bean), name))
        return self.beans.resolved(bean.properties.get(name))

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
            if isinstance(item, Text) and item.kind == "value":
                yield item

    def of_class(self, *names: str) -> Bean | None:
        """Return the first bean of one of these classes, wherever it is."""
        return next((bean for bean in self.beans.every() if bean.name in names), None)


def label(bean: Bean) -> str:
    """Return the name of a bean for messages."""
    return bean.id or bean.name or "a bean"


def with_class(bean: Bean) -> str:
    """Return the id of a bean, if it has one, and its class."""
    return f"{bean.id} ({bean.name})" if bean.id else bean.name or "a bean"
