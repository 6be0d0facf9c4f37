"""The published Java API: its definition is ours, and each of its RPCs carries every field both ways."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from budgetfrontier.server.rpc_calls import Handed
from budgetfrontier.server.urlfrontier.methods import METHODS
from budgetfrontier.server.urlfrontier.urlfrontier_pb2 import DESCRIPTOR
from tests.server.urlfrontier.conftest import Connect
from tests.server.urlfrontier.serving import served

NOWHERE = "127.0.0.1:1"
SINCE_2_5 = {
    ("rpc", "PurgeURLs", ".urlfrontier.PurgeUrlParams", ".urlfrontier.Long", False, False),
    ("rpc", "PutDiscovered", ".urlfrontier.DiscoveredBatch", ".urlfrontier.BatchAck", True, True),
    ("BatchAck",),
    ("BatchAck", 1, "ID", "string", "optional", "", "", False),
    ("BatchAck", 2, "statuses", "enum", "repeated", ".urlfrontier.AckMessage.Status", "", False),
    ("CrawlLimitParams", 4, "local", "bool", "optional", "", "", False),
    ("DiscoveredBatch",),
    ("DiscoveredBatch", 1, "ID", "string", "optional", "", "", False),
    ("DiscoveredBatch", 2, "items", "message", "repeated", ".urlfrontier.URLInfo", "", False),
    ("PurgeUrlParams",),
    ("PurgeUrlParams", 1, "key", "string", "optional", "", "", False),
    ("PurgeUrlParams", 2, "crawlID", "string", "optional", "", "", False),
    ("PurgeUrlParams", 3, "days", "uint32", "optional", "", "", False),
    ("URLItem", 4, "creation_date", "uint64", "optional", "", "", False),
}


def test_all_that_the_jars_define_is_defined_here(java: Connect) -> None:
    with java(NOWHERE) as client:
        theirs = client.definition()
    ours = FileDescriptorProto.FromString(DESCRIPTOR.serialized_pb)
    assert (theirs.package, theirs.syntax) == (ours.package, ours.syntax)
    assert contents(theirs) - contents(ours) == set()
    assert contents(ours) - contents(theirs) >= SINCE_2_5
    if ("SetCrawlLimit",) in {entry[1:2] for entry in contents(theirs)}:
        assert contents(ours) - contents(theirs) == SINCE_2_5


def test_each_rpc_carries_every_field_both_ways(java: Connect) -> None:
    replies: list[Message] = []
    requests: list[Message] = []

    def hand_over(turn: list[Handed]) -> None:
        for call, message in turn:
            assert message is not None
            requests.append(METHODS[call.method.name].request.FromString(message))
            reply = replies[len(requests) - 1].SerializeToString()
            call.reply([reply], last=not call.method.streams_requests)

    with served(hand_over) as address, java(address) as client:
        theirs = DescriptorPool().AddSerializedFile(client.definition().SerializeToString())
        called = [METHODS[method.name] for method in theirs.services_by_name["URLFrontier"].methods]
        assert len(called) in (13, 17)
        for method in called:
            number = 3 if method.streams_requests else 1
            sent = [_as(method.request, theirs, variant) for variant in range(number)]
            requests.clear()
            replies[:] = [_as(method.reply, theirs, variant) for variant in range(number)]
            assert client.call(method.name, *sent) == (replies, "OK", ""), method.name
            assert requests == sent, method.name


def contents(file: FileDescriptorProto) -> set[tuple[Any, ...]]:
    """Return the RPCs, messages, fields and values of a definition."""
    entries: set[tuple[Any, ...]] = {
        ("rpc", method.name, method.input_type, method.output_type, method.client_streaming, method.server_streaming)
        for service in file.service
        for method in service.method
    }
    for message in file.message_type:
        entries |= _message(message.name, message)
    return entries


def _message(name: str, message: DescriptorProto) -> set[tuple[Any, ...]]:
    entries: set[tuple[Any, ...]] = {(name,)}
    for field in message.field:
        kind = field.Type.Name(field.type).removeprefix("TYPE_").lower()
        label = field.Label.Name(field.label).removeprefix("LABEL_").lower()
        item = message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else ""
        entries.add((name, field.number, field.name, kind, label, field.type_name, item, field.proto3_optional))
    for enum in message.enum_type:
        entries |= {(f"{name}.{enum.name}", value.number, value.name) for value in enum.value}
    return entries.union(*(_message(f"{name}.{nested.name}", nested) for nested in message.nested_type))


def _as(ours: type[Message], theirs: Any, variant: int) -> Message:
    """Return a message of ours with all fields that theirs has; which one of several, `variant` chooses."""
    message = GetMessageClass(theirs.message_types_by_name[ours.DESCRIPTOR.name])()
    _fill(message, variant)
    return ours.FromString(message.SerializeToString())


def _fill(message: Message, variant: int) -> None:
    oneofs: Any = message.DESCRIPTOR.oneofs
    chosen = {oneof.fields[variant % len(oneof.fields)].name for oneof in oneofs}
    field: Any
    for field in message.DESCRIPTOR.fields:
        if field.containing_oneof is None or field.name in chosen:
            _set(message, field, variant)


def _set(message: Message, field: Any, variant: int) -> None:
    held = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        if field.message_type.fields_by_name["value"].message_type is not None:
            _fill(held["schlüssel"], variant)
        else:
            held["schlüssel"] = 1 << 63
    elif field.message_type is not None:
        held = held.add() if hasattr(held, "add") else held
        held.SetInParent()
        _fill(held, variant)
    elif hasattr(held, "extend"):
        held.extend([_value(field, variant), _value(field, variant + 1)])
    else:
        setattr(message, field.name, _value(field, variant))


def _value(field: FieldDescriptor, variant: int) -> object:
    values = {
        FieldDescriptor.TYPE_STRING: f"{field.name} ü {variant}",
        FieldDescriptor.TYPE_BOOL: True,
        FieldDescriptor.TYPE_UINT32: (1 << 32) - 1 - variant,
        FieldDescriptor.TYPE_UINT64: (1 << 64) - 1 - variant,
        FieldDescriptor.TYPE_ENUM: variant,
    }
    return values[field.type]
