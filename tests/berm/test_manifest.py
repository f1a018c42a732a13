"""The manifest of an image: read without running, every wrong one refused with its reason and place."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import berm
from berm.manifest import Manifest, tool_entries
from elfs import build_elf

RETURN = bytes.fromhex("67800000")  # ret
TOOL = {"name": "echo", "description": "says it again", "parameters": {"type": "object"}}
GOOD = {"abi_version": 0, "tools": [TOOL]}
EXPORTS = {"_start": (0x10000, 4), "berm_tool_echo": (0x10004, 4)}


def image(manifest, exports=EXPORTS):
    text = manifest if isinstance(manifest, bytes) or manifest is None else json.dumps(manifest).encode()
    code = RETURN * (1 + max((address - 0x10000) // 4 for address, _size in exports.values()))
    return build_elf(code, symbols=exports, manifest=text)


def refused(manifest, exports=EXPORTS):
    with pytest.raises(berm.ManifestError) as caught:
        Manifest.from_elf(image(manifest, exports))
    return caught.value


def test_good_manifest_is_typed():
    manifest = Manifest.from_elf(
        image({**GOOD, "usage": "say it", "capabilities": ["berm.fs.read"], "unknown": [1, {"x": None}]})
    )
    assert manifest == Manifest(
        0, (berm.Tool("echo", "says it again", {"type": "object"}),), "say it", ("berm.fs.read",)
    )


def test_usage_and_capabilities_may_be_absent():
    manifest = Manifest.from_elf(image(GOOD))
    assert (manifest.usage, manifest.capabilities) == ("", ())


def test_requested_capabilities_grant_nothing(engine):
    harness = berm.Harness.load(engine, image({**GOOD, "capabilities": ["berm.fs.read", "no such thing"]}))
    assert harness.manifest.capabilities == ("berm.fs.read", "no such thing")


def test_image_without_manifest_is_refused():
    error = refused(None)
    assert error.reason == "no section `.berm.abi`: this image is no harness"
    assert (error.place, str(error)) == ("", "manifest: no section `.berm.abi`: this image is no harness")


def test_tool_that_is_not_exported_is_refused():
    error = refused({**GOOD, "tools": [TOOL, {**TOOL, "name": "other"}]})
    assert error.reason == "the image does not export `berm_tool_other`"
    assert error.place == "tools[1].name"
    assert str(error) == "manifest: the image does not export `berm_tool_other` - at `tools[1].name`"


def test_image_without_any_tool_is_refused():
    error = refused({**GOOD, "tools": []}, {"_start": (0x10000, 4)})
    assert error.reason == "the image exports no `berm_tool_*` function"


def test_tool_that_is_no_function_is_a_load_error():
    from elfs import STT_OBJECT, Symbol

    symbols = [Symbol("_start", 0x10000, 4), Symbol("berm_tool_echo", 0x10004, 4, type=STT_OBJECT)]
    elf = build_elf(RETURN * 2, symbols=symbols, manifest=json.dumps(GOOD).encode())
    with pytest.raises(berm.LoadError) as caught:
        Manifest.from_elf(elf)
    assert caught.value.symbol == "berm_tool_echo"


def test_exports_beyond_the_manifest_can_be_called_and_are_not_advertised(engine):
    exports = {
        **EXPORTS,
        "berm_tool_hidden": (0x10008, 4),
        "berm_tool_bad.name": (0x1000C, 4),
        "helper": (0x10010, 4),
    }
    harness = berm.Harness.load(engine, image(GOOD, exports))
    assert harness.tools == ("echo",)
    assert "hidden" in harness
    assert harness.call("hidden", "").data == b""
    assert "bad.name" not in harness
    assert tool_entries({name: address for name, (address, _size) in exports.items()}) == {
        "echo": 0x10004,
        "hidden": 0x10008,
    }


@pytest.mark.parametrize(
    ("change", "reason", "place"),
    [
        (
            {"abi_version": 1},
            "ABI version 1 is a later public version, not supported here, expected 0",
            "abi_version",
        ),
        ({"abi_version": 2}, "ABI version 2 is unknown, expected 0", "abi_version"),
        ({"abi_version": "0"}, "expected an integer, got a string", "abi_version"),
        ({"abi_version": False}, "expected an integer, got a boolean", "abi_version"),
        ({"abi_version": 0.0}, "expected an integer, got a number", "abi_version"),
        ({"abi_version": None}, "expected an integer, got null", "abi_version"),
        ({"tools": {}}, "expected a list, got an object", "tools"),
        ({"tools": ["echo"]}, "expected an object, got a string", "tools[0]"),
        ({"tools": [TOOL, TOOL]}, "tool `echo` stands twice", "tools[1].name"),
        ({"tools": [TOOL] * 257}, "257 tools, at most 256 are allowed", "tools"),
        (
            {"tools": [{**TOOL, "name": "a.b"}]},
            "tool name `a.b` does not match [A-Za-z0-9_-]{1,64}",
            "tools[0].name",
        ),
        (
            {"tools": [{**TOOL, "name": ""}]},
            "tool name `` does not match [A-Za-z0-9_-]{1,64}",
            "tools[0].name",
        ),
        (
            {"tools": [{**TOOL, "name": "echo\n"}]},
            "tool name `echo\\n` does not match [A-Za-z0-9_-]{1,64}",
            "tools[0].name",
        ),
        ({"tools": [{**TOOL, "name": 3}]}, "expected a string, got an integer", "tools[0].name"),
        ({"tools": [{**TOOL, "description": None}]}, "expected a string, got null", "tools[0].description"),
        (
            {"tools": [{**TOOL, "parameters": True}]},
            "expected an object, got a boolean",
            "tools[0].parameters",
        ),
        ({"tools": [{**TOOL, "parameters": []}]}, "expected an object, got a list", "tools[0].parameters"),
        ({"usage": ["x"]}, "expected a string, got a list", "usage"),
        ({"usage": None}, "expected a string, got null", "usage"),
        ({"capabilities": "all"}, "expected a list, got a string", "capabilities"),
        ({"capabilities": ["a", 1]}, "expected a string, got an integer", "capabilities[1]"),
    ],
)
def test_wrong_shape_is_refused_with_reason_and_place(change, reason, place):
    error = refused({**GOOD, **change})
    assert (error.reason, error.place) == (reason, place)


@pytest.mark.parametrize("key", ["abi_version", "tools"])
def test_missing_key_is_refused(key):
    error = refused({name: value for name, value in GOOD.items() if name != key})
    assert error.reason.startswith("missing, expected ")
    assert error.place == key


@pytest.mark.parametrize("key", ["name", "description", "parameters"])
def test_missing_key_of_a_tool_is_refused(key):
    error = refused({**GOOD, "tools": [{name: value for name, value in TOOL.items() if name != key}]})
    assert error.reason.startswith("missing, expected ")
    assert error.place == f"tools[0].{key}"


def test_parameters_have_to_be_a_schema():
    schema = {"type": "object", "properties": {"path": {"type": "strin"}}}
    error = refused({**GOOD, "tools": [{**TOOL, "parameters": schema}]})
    assert error.place == "tools[0].parameters.properties.path.type"
    assert error.reason.startswith("not a JSON Schema: expected one or several types of array, ")


@pytest.mark.parametrize("value", [[], "text", 3, None, True])
def test_manifest_is_an_object(value):
    assert refused(json.dumps(value).encode()).reason.startswith("expected an object, got ")


@pytest.mark.parametrize(
    ("text", "reason", "place"),
    [
        (b"", "not JSON: expecting value", "line 1 column 1"),
        (b"{", "not JSON: expecting property name enclosed in double quotes", "line 1 column 2"),
        (b"{}\0", "not JSON: extra data", "line 1 column 3"),
        (b"{} {}", "not JSON: extra data", "line 1 column 4"),
        (b"\xff", "not UTF-8 at byte 0", ""),
        (b"\xef\xbb\xbf{}", "not JSON: unexpected utf-8 bom (decode using utf-8-sig)", "line 1 column 1"),
        ("{}".encode("utf-16"), "not UTF-8 at byte 0", ""),
        (b'{"a": 1, "b": {"c": [{"d": 1, "d": 2}]}}', "key `d` stands twice", "b.c[0]"),
        (b'{"a": 1, "a": 1}', "key `a` stands twice", ""),
        (b'{"a": [NaN]}', "NaN is not JSON", "a[0]"),
        (b'{"a": -Infinity}', "-Infinity is not JSON", "a"),
        (b'{"a": 1e999}', "number 1e999 is beyond a double", "a"),
        (b'{"a": 18446744073709551616}', "number 18446744073709551616 is beyond 64 bits", "a"),
        (b'{"a": -9223372036854775809}', "number -9223372036854775809 is beyond 64 bits", "a"),
        (b'{"a": ' + b"9" * 100_000 + b"}", "number 999999999999999999999999 is beyond 64 bits", "a"),
        (b'{"a": {"b": "x\\ud800y"}}', "text has a lone surrogate", "a.b"),
        (b'{"a": {"\\udfff": 1}}', "a key has a lone surrogate", "a"),
        (b'{"a": "\x01"}', "not JSON: invalid control character at", "line 1 column 8"),
        (b"[" * 65 + b"]" * 65, "nested deeper than 64 levels", ""),
        (b'{"a":' * 200_000, "nested deeper than 64 levels", ""),
    ],
)
def test_text_that_is_not_strict_json_is_refused(text, reason, place):
    error = refused(text)
    assert (error.reason, error.place) == (reason, place)


def test_brackets_in_strings_are_no_nesting():
    tool = {**TOOL, "description": "[" * 1000 + '\\"' + "{" * 1000}
    assert Manifest.from_elf(image({**GOOD, "tools": [tool]})).tools[0].description == tool["description"]


def test_pairs_of_surrogates_are_text():
    text = b'{"abi_version": 0, "usage": "\\ud83d\\ude00", "tools": []}'
    assert Manifest.from_json(text).usage == "😀"


def test_deepest_nesting_is_accepted():
    schema = {"type": "object"}
    for _ in range(60):
        schema = {"not": schema}
    assert Manifest.from_json(json.dumps({**GOOD, "tools": [{**TOOL, "parameters": schema}]}).encode())


def test_manifest_is_bounded():
    error = refused(json.dumps({**GOOD, "usage": "x" * (1 << 20)}).encode())
    assert error.reason.endswith("bytes long, at most 1048576 are read")


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_json_is_a_manifest_or_one_error(value):
    for document in (value, {**GOOD, "tools": value}, {**GOOD, "tools": [{**TOOL, "parameters": value}]}):
        with contextlib.suppress(berm.ManifestError):
            Manifest.from_json(json.dumps(document).encode())


@given(st.binary(max_size=100))
def test_any_bytes_are_a_manifest_or_one_error(data):
    with contextlib.suppress(berm.ManifestError):
        Manifest.from_json(data)


def test_digest_is_checked_before_anything_is_read(engine, plain_image):
    good = berm.Harness.load(engine, plain_image).sha256
    assert berm.Harness.load(engine, plain_image, sha256=good.upper()).sha256 == good
    with pytest.raises(berm.DigestError) as caught:
        berm.Harness.load(engine, b"not an image", sha256=good)
    assert caught.value.expected == good
    assert caught.value.found != good
    assert str(caught.value) == f"image has sha256 {caught.value.found}, expected {good}"


@pytest.mark.parametrize("digest", ["", "00", "g" * 64, "0" * 63, "0x" + "0" * 62])
def test_digest_that_is_none_is_a_value_error(engine, plain_image, digest):
    with pytest.raises(ValueError, match="sha256: expected 64 hexadecimal digits"):
        berm.Harness.load(engine, plain_image, sha256=digest)


def test_loading_runs_nothing_and_says_what_it_found(engine, plain_image):
    before = engine.statistics().arenas_created
    harness = berm.Harness.load(engine, plain_image)
    assert engine.statistics().arenas_created == before
    assert harness.tools[:2] == ("echo", "args_len")
    assert repr(harness).startswith(f"<Harness {harness.sha256[:12]}: echo, ")
