"""The generated messages: as the definition is, and apart from other definitions in the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from budgetfrontier.server.urlfrontier import urlfrontier_pb2
from budgetfrontier.server.urlfrontier.urlfrontier_pb2 import (
    AckMessage,
    BatchAck,
    DiscoveredBatch,
    GetParams,
    URLInfo,
    URLItem,
)
from tests.server.urlfrontier.generate import PACKAGE, generated
from tests.support import PATIENCE

OURS = """
from budgetfrontier.server.urlfrontier.urlfrontier_pb2 import URLItem
assert URLItem.FromString(URLItem(ID="a", creation_date=7).SerializeToString()).creation_date == 7
"""
THEIRS = """
from google.protobuf.descriptor_pool import Default
from google.protobuf.message_factory import GetMessageClass
from tests.server.urlfrontier.test_generated import earlier
file = Default().AddSerializedFile(earlier().SerializeToString())
Item = GetMessageClass(file.message_types_by_name["URLItem"])
assert Item.FromString(Item(ID=5).SerializeToString()).ID == 5
"""


def earlier() -> FileDescriptorProto:
    """Return another definition of the same file, package and message, in which a field has another type."""
    file = FileDescriptorProto(name="urlfrontier.proto", package="urlfrontier", syntax="proto3")
    field = file.message_type.add(name="URLItem").field.add(name="ID", number=3)
    field.type, field.label = field.TYPE_INT64, field.LABEL_OPTIONAL
    return file


def run(script: str) -> subprocess.CompletedProcess[str]:
    command, root = [sys.executable, "-W", "error", "-c", script], PACKAGE.parents[2]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=PATIENCE)


@pytest.mark.parametrize("name", ["urlfrontier_pb2.py", "urlfrontier_pb2.pyi"])
def test_the_generated_files_are_what_the_definition_gives(name: str) -> None:
    pytest.importorskip("grpc_tools")
    assert Path(PACKAGE, name).read_text(encoding="utf-8") == generated()[name], "run `make proto`"


def test_each_message_has_a_class() -> None:
    names = [message.name for message in urlfrontier_pb2.DESCRIPTOR.message_types_by_name.values()]
    assert len(names) == 28
    assert all(getattr(urlfrontier_pb2, name).DESCRIPTOR.file is urlfrontier_pb2.DESCRIPTOR for name in names)


@pytest.mark.parametrize("script", [OURS + THEIRS, THEIRS + OURS], ids=["before", "after"])
@pytest.mark.parametrize("implementation", ["upb", "python"])
def test_another_definition_of_the_same_names_may_be_loaded(script: str, implementation: str) -> None:
    choice = f"import os\nos.environ['PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION'] = '{implementation}'\n"
    done = run(f"{choice}import warnings\nwarnings.simplefilter('ignore')\n{script}")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("missing", ["grpc", "google.protobuf"])
def test_without_the_extra_the_message_tells_how_to_install_it(missing: str) -> None:
    done = run(f"import sys\nsys.modules['{missing}'] = None\nimport budgetfrontier.server.urlfrontier.methods")
    assert 'this needs the extra "grpc"' in done.stderr.splitlines()[-1]


def test_messages_are_the_bytes_that_the_interface_defines() -> None:
    info = URLInfo(url="http://a/", key="a", crawlID="c")
    info.metadata["m"].values.append("v")
    item = URLItem(ID="1", creation_date=300)
    item.known.info.CopyFrom(info)
    item.known.refetchable_from_date = 1
    known = b"\x0a\x09http://a/\x12\x01a\x1a\x08\x0a\x01m\x12\x03\x0a\x01v\x22\x01c"
    assert info.SerializeToString() == known
    assert item.SerializeToString() == b"\x12\x1f\x0a\x1b" + known + b"\x10\x01\x1a\x011\x20\xac\x02"
    assert GetParams(max_queues=2, crawlID="").SerializeToString() == b"\x10\x02\x32\x00"
    batch = DiscoveredBatch(ID="b", items=[URLInfo(url="u"), URLInfo(url="v")])
    assert batch.SerializeToString() == b"\x0a\x01b\x12\x03\x0a\x01u\x12\x03\x0a\x01v"
    statuses = [AckMessage.OK, AckMessage.SKIPPED, AckMessage.FAIL]
    assert BatchAck(ID="b", statuses=statuses).SerializeToString() == b"\x0a\x01b\x12\x03\x00\x01\x02"
    assert AckMessage(ID="1", status=AckMessage.FAIL).SerializeToString() == b"\x0a\x011\x10\x02"
