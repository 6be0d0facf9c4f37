"""Types are ready for use by several threads before the first of them decodes a value."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from budgetfrontier.core.converters import converter
from budgetfrontier.core.model import Tally

PACKAGE = Path(__file__).parents[2] / "budgetfrontier"

AT_ONCE = """
import os, threading
{prepare}

def first_use() -> None:
    together.wait()
    {use}

for _ in range(8):  # each child is a process in which no thread has used the type
    if not (pid := os.fork()):
        together = threading.Barrier(6)
        threads = [threading.Thread(target=first_use) for _ in range(6)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0, "a child has crashed"
"""

SETTINGS = """
import msgspec
from budgetfrontier.remote import {client}
from budgetfrontier.remote.link import protocol
encoded = msgspec.Raw(msgspec.msgpack.encode(__import__("budgetfrontier").Settings()))
client = {client}.__new__({client})
client._settings, client._closed, client._channel = encoded, False, 0
client._connected = protocol.Connected(0, "", encoded)
"""
CONVERTER = """
import msgspec
from budgetfrontier import Settings
plain = msgspec.to_builtins(Settings())
from budgetfrontier.core.converters import converter
"""


@pytest.mark.parametrize(
    ("prepare", "use"),
    [
        (SETTINGS.format(client="RemoteFrontier"), "client.settings"),
        (SETTINGS.format(client="AsyncRemoteFrontier"), "client.settings"),
        (CONVERTER, "converter(Settings)(plain)"),
    ],
    ids=["RemoteFrontier", "AsyncRemoteFrontier", "converter"],
)
def test_several_threads_may_use_a_type_for_the_first_time_at_once(prepare: str, use: str) -> None:
    code = AT_ONCE.format(prepare=prepare, use=use)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_a_converter_converts_and_refuses_as_msgspec_does() -> None:
    assert [tally.added for tally in converter(list[Tally])([{"added": 2}])] == [2]
    with pytest.raises(msgspec.ValidationError, match="Expected `int`"):
        converter(Tally)({"added": "two"})


def test_no_function_has_msgspec_collect_the_fields_of_a_type() -> None:
    found = {f"{path.relative_to(PACKAGE)}: {use}" for path in PACKAGE.rglob("*.py") for use in _uses(path)}
    assert found == {"storage/records.py: field.type"}, "make a decoder or a converter when the module is imported"


def _uses(path: Path) -> list[str]:
    """Return the types, other than built-in ones, to which functions of a module convert by msgspec."""
    kinds: list[ast.expr] = []
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            kinds += [kind for call in ast.walk(function) if isinstance(call, ast.Call) for kind in _kinds(call)]
    return [text for kind in kinds if not _is_builtin(text := ast.unparse(kind))]


def _kinds(call: ast.Call) -> list[ast.expr]:
    """Return the type in a call such as `msgspec.convert(value, kind)`."""
    name = ast.unparse(call.func)
    if name == "msgspec.convert":
        return call.args[1:2] + [word.value for word in call.keywords if word.arg == "type"]
    if name.startswith("msgspec.") and name.endswith(".decode"):
        return [word.value for word in call.keywords if word.arg == "type"]
    return []


def _is_builtin(kind: str) -> bool:
    names = {each.id for each in ast.walk(ast.parse(kind)) if isinstance(each, ast.Name)}
    return names <= {"bytes", "str", "int", "float", "bool", "list", "dict", "tuple", "Any"}
