# ruff: noqa: INP001, RUF001 - a program; a dash stands for nothing in a table
"""Makes of crabtalk.proto what protoc does not: the client's methods, and the tables of the documents.

Run by `make proto`; a test compares what it makes with what is checked in. Reads the schema as text, since
the comments of its fields are the words of both; a request's comment ends with its reply: ": `pong`."
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
SCHEMA = ROOT / "proto" / "crabtalk.proto"
CLIENT = ROOT / "src" / "crabtalk" / "client"
DOCUMENT = ROOT / "docs" / "protocol.md"

OPENING = re.compile(r"(message|enum|oneof) (\w+) \{(\})?")
FIELD = re.compile(r"(?:(optional|repeated) )?(map<[^>]+>|[\w.]+) (\w+) = (\d+);")
VALUE = re.compile(r"(\w+) = (\d+);")
REPLY = re.compile(r": `(\w+)`(, many times)?[.;]")
# What the connection of a client does by itself.
NO_METHOD = {"auth", "cancel"}
PYTHON = {
    "string": ("str", '""'),
    "bytes": ("bytes", 'b""'),
    "bool": ("bool", "False"),
    "int64": ("int", "0"),
    "uint32": ("int", "0"),
    "uint64": ("int", "0"),
}


@dataclass
class Field:
    """A field of a message, or a value of an enumeration."""

    name: str
    number: int
    kind: str
    label: str
    comment: str


@dataclass
class Message:
    """A message or an enumeration; fields of its oneof are among its own."""

    name: str
    fields: list[Field] = field(default_factory=list)
    reserved: str = ""


@dataclass(frozen=True)
class Method:
    """A request as a client sends it."""

    name: str
    summary: str
    body: Message | None  # None for bytes
    reply: str  # a field of ServerMessage
    kind: str  # its type
    many: bool


def schema(text: str) -> dict[str, Message]:
    """Read the schema; messages by name, in its order."""
    messages: dict[str, Message] = {}
    comment: list[str] = []
    current = Message("")
    for line in map(str.strip, text.splitlines()):
        if line.startswith("//"):
            comment.append(line[2:].strip())
            continue
        if opening := OPENING.fullmatch(line):
            if opening[1] != "oneof":
                current = messages[opening[2]] = Message(opening[2])
        elif line.startswith("reserved "):
            current.reserved = line.removeprefix("reserved ").rstrip(";")
        elif found := FIELD.fullmatch(line):
            current.fields.append(Field(found[3], int(found[4]), found[2], found[1] or "", " ".join(comment)))
        elif found := VALUE.fullmatch(line):
            current.fields.append(Field(found[1], int(found[2]), "", "", " ".join(comment)))
        comment = []
    return messages


def methods(messages: dict[str, Message]) -> Iterator[Method]:
    """Return what clients can ask for."""
    replies = {one.name: one.kind for one in messages["ServerMessage"].fields}
    for one in messages["ClientMessage"].fields:
        if one.name == "request_id" or one.name in NO_METHOD:
            continue
        match = REPLY.search(one.comment)
        if match is None:
            raise SystemExit(f"the comment of `{one.name}` does not name its reply")
        summary = one.comment[: match.start()]
        yield Method(one.name, summary, messages.get(one.kind), match[1], replies[match[1]], bool(match[2]))


def parameters(method: Method) -> tuple[str, str]:
    """Return a method's parameters, and what it sends."""
    if method.body is None:
        return ", data: bytes", f"{method.name}=data"
    given, sent = [], []
    for one in method.body.fields:
        kind, default = PYTHON[one.kind]
        given.append(f"{one.name}: {kind} | None = None" if one.label else f"{one.name}: {kind} = {default}")
        sent.append(f"{one.name}={one.name}")
    body = f"{method.name}=pb.{method.body.name}({', '.join(sent)})"
    return (", *, " + ", ".join(given) if given else ""), body


def method_text(method: Method, *, is_async: bool) -> str:
    """Return one method; streams are the same to write for both."""
    given, sent = parameters(method)
    kind = "bytes" if method.kind == "bytes" else f"pb.{method.kind}"
    flavour = "Async" if is_async else "Sync"
    call = f'(pb.ClientMessage({sent}), "{method.reply}", {kind})'
    if method.many:
        head = f"def {method.name}(self{given}) -> {flavour}Stream[{kind}]:"
        body = f"return self._stream{call}"
    else:
        result = "None" if method.reply == "pong" else kind
        keyword, waiting = ("async def", "await ") if is_async else ("def", "")
        head = f"{keyword} {method.name}(self{given}) -> {result}:"
        body = f"{'' if result == 'None' else 'return '}{waiting}self._request{call}"
    return f'    {head}\n        """{method.summary}."""\n        {body}\n'


def client_text(messages: dict[str, Message], *, is_async: bool) -> str:
    """Return the module with all methods."""
    flavour, module = ("Async", "asynchronous") if is_async else ("Sync", "sync")
    lines = [
        "# ruff: noqa: A002, E501 - what the schema says",
        '"""Generated from proto/crabtalk.proto by `make proto`: a method for each request."""',
        "",
        f"from crabtalk.client.{module}_base import {flavour}Base, {flavour}Stream",
        "from crabtalk.wire.pb import crabtalk_pb2 as pb",
        "",
        "",
        f"class {flavour}Methods({flavour}Base):",
        '    """What a client can ask of the daemon; fields that are left out are empty, 0 or false."""',
        "",
    ]
    found = (method_text(one, is_async=is_async) for one in methods(messages))
    return "\n".join(lines) + "\n" + "\n".join(found)


def escaped(text: str) -> str:
    """Keep a text within its cell."""
    return text.replace("|", "\\|")


def field_text(one: Field) -> str:
    """Return a field in a line: its name, number and type."""
    label = {"optional": "optional ", "repeated": "repeated "}.get(one.label, "")
    kind = f" {label}{one.kind}" if one.kind else ""
    note = f": {one.comment.rstrip('.')}" if one.comment else ""
    return f"`{one.name}`{kind} = {one.number}{note}"


def oneof_table(messages: dict[str, Message], name: str) -> str:
    """Return the table of one direction: each field of its oneof, with the fields of its body."""
    rows = ["| n | field | what it is | body |", "|---|---|---|---|"]
    for one in messages[name].fields:
        if one.name == "request_id":
            continue
        if name == "ServerMessage":
            cell = f"`{one.kind}`"
        elif one.kind in messages:
            cell = "<br>".join(field_text(each) for each in messages[one.kind].fields) or "–"
        else:
            cell = one.kind
        rows.append(f"| {one.number} | `{one.name}` | {escaped(one.comment)} | {escaped(cell)} |")
    rows.append(f"\nReserved, never to be used again: {messages[name].reserved}.")
    return "\n".join(rows)


def messages_table(messages: dict[str, Message]) -> str:
    """Return the table of what replies are made of."""
    bodies = {one.kind for one in messages["ClientMessage"].fields}
    rows = ["| message | fields |", "|---|---|"]
    for name, message in messages.items():
        if name in bodies or name in {"ClientMessage", "ServerMessage"}:
            continue
        cell = "<br>".join(field_text(one) for one in message.fields) or "–"
        rows.append(f"| `{name}` | {escaped(cell)} |")
    return "\n".join(rows)


def with_tables(document: str, messages: dict[str, Message]) -> str:
    """Return the document with its tables as the schema has them."""
    tables = {
        "ClientMessage": oneof_table(messages, "ClientMessage"),
        "ServerMessage": oneof_table(messages, "ServerMessage"),
        "messages": messages_table(messages),
    }
    for name, table in tables.items():
        begin, end = f"<!-- generated: {name} -->\n", "<!-- end -->"
        head, found, rest = document.partition(begin)
        if not found:
            raise SystemExit(f"{DOCUMENT} has no place for the table of {name}")
        document = head + begin + table + "\n" + end + rest.partition(end)[2]
    return document


def generated() -> dict[Path, str]:
    """Return every file that is made of the schema."""
    messages = schema(SCHEMA.read_text(encoding="utf-8"))
    return {
        CLIENT / "asynchronous_methods.py": client_text(messages, is_async=True),
        CLIENT / "sync_methods.py": client_text(messages, is_async=False),
        DOCUMENT: with_tables(DOCUMENT.read_text(encoding="utf-8"), messages),
    }


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
