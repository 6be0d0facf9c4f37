"""The mood of docstrings: imperative for functions, noun phrases for modules, classes and properties."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOTS = [
    Path(importlib.import_module(name).__path__[0]).resolve()
    for name in ("budgetfrontier", "budgetfrontier.settings.policies")
]
SOURCES = sorted({path.resolve() for root in ROOTS for path in root.rglob("*.py")})

FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef

NOT_IMPERATIVE = re.compile(
    "An?|And|As|At|By|For|From|How|If|In|Is|It|Its|No|Not|Of|On|One|Only|That|The|These|This|Those|To"
    "|What|When|Where|Whether|Which|Who|Whose|With|Without|[A-Za-z]+[^s]s"
)
"""Words with which no imperative begins, "Returns" and the like among them."""


def test_the_mood_of_docstrings() -> None:
    assert len(SOURCES) > 150
    assert list(_wrong()) == []


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ('def f():\n    """Return the size."""', 0),
        ('def f():\n    """Returns the size."""', 1),
        ('def f():\n    """The size."""', 1),
        ('def f():\n    """Whether it is large."""', 1),
        ('def f():\n    """Process a URI."""', 0),
        ('@property\ndef f(self):\n    """The size."""', 0),
        ('@property\ndef f(self):\n    """Return the size."""', 1),
        ('class C:\n    """What it has."""', 1),
        ('class C:\n    """The size."""\n    x = 1\n    """What it is."""', 1),
        ('"""How it works."""', 1),
    ],
)
def test_the_test(source: str, wrong: int) -> None:
    assert len(list(_problems(ast.parse(source)))) == wrong


def _wrong() -> Iterator[str]:
    for path in SOURCES:
        for line, text in _problems(ast.parse(path.read_text())):
            yield f"{path}:{line}: {text}"


def _problems(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        for line, text in _docstrings(node):
            first = text.split()[0].rstrip(",:.;")
            imperative = not NOT_IMPERATIVE.fullmatch(first)
            if isinstance(node, FUNCTIONS) and _is_property(node):
                wrong = first in ("Return", "Tell")
            else:
                wrong = isinstance(node, FUNCTIONS) and not imperative
            if wrong or first in ("How", "That", "What"):
                yield line, text.splitlines()[0]


def _docstrings(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the docstring of a node, and those of the attributes of a class or module."""
    if isinstance(node, ast.Module | ast.ClassDef | FUNCTIONS):
        own = node.body[:1] if isinstance(node, FUNCTIONS) else node.body
        for statement in own:
            match statement:
                case ast.Expr(ast.Constant(str(text))):
                    yield statement.lineno, text


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
