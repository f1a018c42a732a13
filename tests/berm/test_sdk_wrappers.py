"""The typed wrappers of capabilities, against host functions with the ABI's layouts (guests/wrappers.c)."""

import json

import pytest

import berm
from berm.wire import pack_fields, unpack_fields
from guest_images import image


class Host:
    """Capabilities that remember what they were asked."""

    def __init__(self, **replies):
        self.replies = {name.replace("__", "."): reply for name, reply in replies.items()}
        self.asked = []

    def capabilities(self):
        return [self.capability(name) for name in self.replies]

    def capability(self, name):
        def serve(_call, request):
            fields = unpack_fields(request)
            self.asked.append((name, fields))
            reply = self.replies[name]
            return reply(*fields) if callable(reply) else reply

        return berm.Capability(name, serve)


def run(engine, host, name, **args):
    harness = berm.Harness.load(engine, image("wrappers"), host.capabilities())
    return harness.call(name, json.dumps(args))


def test_files(engine):
    kept = {}

    def stat(path):
        return json.dumps({"kind": "file", "size": len(kept[path]), "mtime_ms": 5}).encode()

    def listing(_path):
        entries = [{"name": name.decode(), "kind": "file", "size": 1, "mtime_ms": -1} for name in kept]
        return json.dumps(
            [*entries, {"name": "ü", "kind": "directory", "size": 0, "mtime_ms": 2**53}]
        ).encode()

    def read(path):
        if path not in kept:
            raise FileNotFoundError("no such file")
        return kept[path]

    def write(path, content):
        kept[path] = content
        return b""

    host = Host(
        berm__fs__read=read,
        berm__fs__write=write,
        berm__fs__stat=stat,
        berm__fs__list=listing,
        berm__fs__remove=lambda path: kept.pop(path)[:0],
    )
    outcome = run(engine, host, "fs", path="a.txt", content="héllo")
    assert outcome.text == ("héllo 6; file 6 5;a.txt file 1 -1;ü directory 0 9007199254740992;1 no such file")
    assert host.asked[0] == ("berm.fs.write", [b"a.txt", "héllo".encode()])
    assert [name for name, _ in host.asked] == [
        "berm.fs.write",
        "berm.fs.read",
        "berm.fs.stat",
        "berm.fs.list",
        "berm.fs.remove",
        "berm.fs.read",
    ]


def test_a_capability_s_error_fails_the_call_with_its_text(engine):
    def read(_path):
        raise OSError("the disk is on fire")

    outcome = run(engine, Host(berm__fs__read=read), "fs", path="a")
    assert isinstance(outcome, berm.Failed)
    assert outcome.message == "the disk is on fire"


def test_a_capability_that_is_not_bound_is_a_trap_that_names_it(engine):
    with pytest.raises(berm.Trap) as caught:
        run(engine, Host(), "fs", path="a")
    assert caught.value.code.name == "UNKNOWN_HOST_CALL"
    assert "berm.fs.read" in str(caught.value)


def test_commands(engine):
    reply = {"stdout": "o\nut", "stderr": "", "exit_code": -1, "stdout_dropped": 12345678901}
    host = Host(berm__exec__run=json.dumps(reply).encode())
    assert run(engine, host, "exec", command="ls -l").text == "o\nut||-1|12345678901|0"
    assert host.asked == [("berm.exec.run", [b"ls -l", b"sub", b"NAME", b"value", b"EMPTY", b""])]


def test_the_web(engine):
    headers = b"Server: x\nContent-Type: text/plain; charset=utf-8\n"
    host = Host(
        berm__http__fetch=pack_fields([b"200", headers, b"hello"]),
        berm__http__start=b"id-1",
        berm__http__collect=lambda wanted: pack_fields([wanted, b"0", b"", b"refused"]),
    )
    assert run(engine, host, "http", url="https://x.org/").text == (
        "200 text/plain; charset=utf-8 hello;id-1: 0 none refused;"
    )
    assert host.asked[:2] == [
        ("berm.http.fetch", [b"GET", b"https://x.org/", b""]),
        ("berm.http.start", [b"POST", b"https://x.org/", b"body", b"Accept", b"text/plain"]),
    ]


def test_the_clock(engine):
    host = Host(
        berm__clock__now=pack_fields([b"1709164800123", b"-3600", b"Atlantic/Azores"]),
        berm__clock__offset=lambda _zone, _at: pack_fields([b"7200", b""]),
    )
    assert (
        run(engine, host, "clock", zone="Europe/Berlin").text == "2024-02-28 23:00 Atlantic/Azores;7200 0 0"
    )
    assert host.asked[1] == ("berm.clock.offset", [b"Europe/Berlin", b"1709164800123"])


def test_storage_walks_page_by_page(engine):
    kept = {}

    def keys(prefix, cursor):
        found = sorted(key for key in kept if key.startswith(prefix) and key > cursor)
        return json.dumps([key.decode() for key in found[:1000]]).encode()

    def write(key, value):
        kept[key] = value
        return b""

    host = Host(
        berm__get=lambda key: pack_fields([kept[key]] if key in kept else []),
        berm__set=write,
        berm__kv__keys=keys,
        berm__kv__delete=lambda key: b"1" if kept.pop(key, None) is not None else b"0",
    )
    for count, pages in ((3, 1), (1000, 2), (2500, 3)):
        kept.clear()
        host.asked.clear()
        assert run(engine, host, "kv", count=count).text == f"{count} 1 1 0 10 0"
        assert sum(name == "berm.kv.keys" for name, _ in host.asked) == pages


def test_calls_tell_failed_from_refused(engine):
    def failing(_harness, _tool, _args):
        raise ValueError("bad luck")

    def refusing(_harness, _tool, _args):
        raise berm.Refused("no such tool")

    assert run(engine, Host(berm__call=b"result"), "call", tool="t").text == "0 result;result"
    assert run(engine, Host(berm__call=failing), "call", tool="t").message == "bad luck"
    assert run(engine, Host(berm__call=refusing), "call", tool="t").message == "no such tool"
    host = Host(berm__call=lambda _h, _t, args: b"first" if args else b"")
    assert run(engine, host, "call", tool="t").text == "0 first;"
    assert host.asked == [("berm.call", [b"other", b"t", b'{"a":1}']), ("berm.call", [b"other", b"t", b""])]


def test_any_capability_can_be_called_by_name(engine):
    host = Host(test__reverse=lambda *fields: b"|".join(reversed(fields)))
    assert run(engine, host, "any", which="test.reverse", fields=["a", "", "ü"]).text == "ü||a"


def test_a_reply_that_breaks_its_layout_is_a_trap(engine, caplog):
    caplog.set_level("INFO")
    for reply in (b"\x05\x00\x00\x00ab", b"\x01", pack_fields([b"1"]), pack_fields([b"x", b"0", b"z"])):
        with pytest.raises(berm.Trap) as caught:
            run(engine, Host(berm__clock__now=reply), "clock", zone="UTC")
        assert caught.value.symbol == "berm_panic"
