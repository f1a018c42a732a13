"""The schema is the published one, and everything that is made of it is up to date."""

import importlib.util
import re
from pathlib import Path

import pytest
from google.protobuf.descriptor import FieldDescriptor

from crabtalk.dispatch import CANCELLABLE, CONNECTION_FIELDS, REQUEST_FIELDS, TURNS
from crabtalk.wire.pb import crabtalk_pb2 as pb

ROOT = Path(__file__).parents[3]
NUMBERS = Path(__file__).with_name("public_numbers.txt").read_text(encoding="utf-8")
TYPES = {
    value: name.removeprefix("TYPE_").lower()
    for name, value in vars(FieldDescriptor).items()
    if name.startswith("TYPE_")
}


def load_generator():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "proto" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["generate"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


generate = load_generator()
SCHEMA = generate.schema(generate.SCHEMA.read_text(encoding="utf-8"))


def kind(field):
    if field.message_type is not None:
        return field.message_type.name
    return field.enum_type.name if field.enum_type is not None else TYPES[field.type]


def label(field):
    if field.is_repeated:
        return "repeated "
    # An optional field stands in a oneof of its own.
    oneof = field.containing_oneof
    return "optional " if oneof is not None and oneof.name == f"_{field.name}" else ""


def shown(descriptor):
    """Write a message or an enumeration as the published list does."""
    if hasattr(descriptor, "values"):
        fields = [f"{value.name} = {value.number}" for value in descriptor.values]
    else:
        fields = [f"{label(field)}{kind(field)} {field.name} = {field.number}" for field in descriptor.fields]
    return ", ".join(sorted(fields, key=lambda text: int(text.rpartition(" ")[2])))


def published(pattern):
    return [match.groups() for match in re.finditer(pattern, NUMBERS, re.MULTILINE)]


REQUESTS = published(r"^(\d+) (\w+) -> (\w+)(\.\.\.)?(?:: (.*))?$")
REPLIES = published(r"^(\d+) (\w+): (\w+)$")
BODIES = published(r"^([A-Z]\w+):(?: (.*))?$")


@pytest.mark.parametrize(("number", "name", "reply", "many", "fields"), REQUESTS)
def test_a_request_is_the_published_one(number, name, reply, many, fields):
    field = pb.ClientMessage.DESCRIPTOR.fields_by_name[name]
    assert field.number == int(number)
    body = shown(field.message_type) if field.message_type is not None else ""
    assert body == (fields or "")
    method = next((one for one in generate.methods(SCHEMA) if one.name == name), None)
    if method is not None:
        assert (method.reply, method.many) == (reply, bool(many))


@pytest.mark.parametrize(("number", "name", "of"), REPLIES)
def test_a_reply_is_the_published_one(number, name, of):
    field = pb.ServerMessage.DESCRIPTOR.fields_by_name[name]
    assert (field.number, kind(field)) == (int(number), of)


@pytest.mark.parametrize(("name", "fields"), BODIES)
def test_what_replies_are_made_of_is_as_published(name, fields):
    file = pb.DESCRIPTOR
    descriptor = file.message_types_by_name.get(name) or file.enum_types_by_name[name]
    assert shown(descriptor) == (fields or "")


def test_nothing_was_added_without_being_published():
    requests = {name for _, name, *_ in REQUESTS} | {"request_id"}
    assert set(pb.ClientMessage.DESCRIPTOR.fields_by_name) == requests
    replies = {name for _, name, _ in REPLIES} | {"request_id"}
    assert set(pb.ServerMessage.DESCRIPTOR.fields_by_name) == replies


@pytest.mark.parametrize("message", [pb.ClientMessage, pb.ServerMessage])
def test_the_request_id_is_outside_of_the_oneof(message):
    field = message.DESCRIPTOR.fields_by_name["request_id"]
    assert (field.number, kind(field), label(field)) == (101, "uint64", "optional ")
    assert not message(request_id=0).WhichOneof("msg")
    assert message(request_id=0).HasField("request_id")


def numbers(text):
    """Return the numbers of a `reserved` statement."""
    found = set()
    for part in text.split(","):
        first, _, last = part.strip().partition(" to ")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def test_numbers_that_were_in_use_once_are_reserved():
    client = {3, *range(8, 11), 12, 14, *range(20, 23), *range(24, 30), 32, 35, 37, 44, *range(47, 51), 53}
    assert numbers(SCHEMA["ClientMessage"].reserved) == client
    assert numbers(SCHEMA["ServerMessage"].reserved) == {8, 9, 13, 14, 16, 17, 18, 23, 27, 28}
    for message in (pb.ClientMessage, pb.ServerMessage):
        reserved = numbers(SCHEMA[message.DESCRIPTOR.name].reserved)
        assert not reserved & set(message.DESCRIPTOR.fields_by_number)


def test_the_generated_messages_are_those_of_the_schema():
    file = pb.DESCRIPTOR
    made = {**file.message_types_by_name, **file.enum_types_by_name}
    assert set(made) == set(SCHEMA)
    for name, message in SCHEMA.items():
        fields = sorted(message.fields, key=lambda one: one.number)
        texts = [
            f"{one.label} {one.kind} {one.name} = {one.number}".strip().replace("  ", " ") for one in fields
        ]
        expected = ", ".join(texts).replace("map<string, string>", "repeated EnvEntry")
        assert shown(made[name]) == expected


def test_everything_else_that_is_made_of_the_schema_is_up_to_date():
    for path, text in generate.generated().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is old: run `make proto`"


def test_the_table_knows_its_exceptions_by_names_that_exist():
    assert set(REQUEST_FIELDS) >= CONNECTION_FIELDS | TURNS | CANCELLABLE
