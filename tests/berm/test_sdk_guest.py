"""The SDK inside the sandbox: parameters, failures, panics, memory, output, the C library (guests/sdk.c)."""

import json
import shutil

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import berm
from guest_images import image

TOOLCHAINS = ["zig", "riscv64-unknown-elf-gcc", "clang-16"]


@pytest.fixture(scope="module")
def sdk(engine):
    return berm.Harness.load(engine, image("sdk"))


@pytest.fixture(scope="module", params=TOOLCHAINS)
def sdk_of_each(request, engine):
    if request.param != "zig" and shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return berm.Harness.load(engine, image("sdk", cc=request.param))


def call(harness, tool, **args):
    return harness.call(tool, json.dumps(args))


def done(harness, tool, **args):
    outcome = call(harness, tool, **args)
    assert isinstance(outcome, berm.Done), outcome
    return outcome.text


def failed(harness, tool, args):
    outcome = harness.call(tool, args if isinstance(args, (str, bytes)) else json.dumps(args))
    assert isinstance(outcome, berm.Failed), outcome
    return outcome.message


# ---- parameters ----


@pytest.mark.core
def test_defaults_stand_where_nothing_was_given(sdk_of_each):
    assert done(sdk_of_each, "kinds", text="t", whole=1) == (
        'text=t whole=1 other=dé"f first=3 bounded=-1 colour=red ratio=2.5 flag=1 bare=0:0 words=0 '
        "list= thing= any=:nothing new="
    )


@pytest.mark.core
def test_every_type_is_read(sdk_of_each):
    text = done(
        sdk_of_each,
        "kinds",
        text="é\n",
        whole=-(2**63),
        other="",
        first=2**63 - 1,
        bounded=10,
        colour="light green",
        ratio=-1e-3,
        flag=False,
        bare=0,
        words=["a", "", "ü"],
        list=[1, {"a": []}],
        thing={"k": [None]},
        any="x",
        new="n",
    )
    assert text == (
        "text=é\n whole=-9223372036854775808 other= first=9223372036854775807 bounded=10 colour=light green "
        "ratio=-0.001 flag=0 bare=1:0 words=1,a,,ü "
        'list=[1, {"a": []}] thing={"k": [null]} any="x":string new=n'
    )


def test_null_counts_as_absent_for_an_optional_parameter(sdk):
    text = done(sdk, "kinds", text="t", whole=1, other=None, bare=None, any=None, words=None)
    assert "bare=0:0 words=0" in text
    assert 'other=dé"f' in text


@pytest.mark.parametrize("written", ["3", "3.0", "30e-1", "0.3e1", " 3 "])
def test_an_integer_may_be_written_in_any_way(sdk, written):
    outcome = sdk.call("kinds", f'{{"text":"","whole":{written}}}')
    assert "whole=3 " in outcome.text


def test_a_key_given_twice_counts_as_its_last(sdk):
    assert "whole=2 " in sdk.call("kinds", '{"text":"","whole":"no","whole":2}').text


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({}, "missing parameter `text`"),
        ({"text": None, "whole": 1}, "expected string, got null - at `text`"),
        ({"text": 1, "whole": 1}, "expected string, got 1 - at `text`"),
        ({"text": ""}, "missing parameter `whole`"),
        ({"text": "", "whole": "1"}, "expected integer, got string - at `whole`"),
        ({"text": "", "whole": 1.5}, "expected integer, got 1.5 - at `whole`"),
        ({"text": "", "whole": 2**63}, "expected integer, got 9223372036854775808 - at `whole`"),
        ({"text": "", "whole": True}, "expected integer, got boolean - at `whole`"),
        ({"text": "", "whole": 1, "bounded": -6}, "expected at least -5, got -6 - at `bounded`"),
        ({"text": "", "whole": 1, "bounded": 11}, "expected at most 10, got 11 - at `bounded`"),
        (
            {"text": "", "whole": 1, "colour": "blue"},
            "expected `red` or `light green`, got `blue` - at `colour`",
        ),
        ({"text": "", "whole": 1, "ratio": "1"}, "expected number, got string - at `ratio`"),
        ({"text": "", "whole": 1, "flag": 1}, "expected boolean, got 1 - at `flag`"),
        ({"text": "", "whole": 1, "words": "a"}, "expected array of strings, got string - at `words`"),
        ({"text": "", "whole": 1, "words": ["a", None]}, "expected array of strings, got null - at `words`"),
        ({"text": "", "whole": 1, "list": {}}, "expected array, got object - at `list`"),
        ({"text": "", "whole": 1, "thing": []}, "expected object, got array - at `thing`"),
        ({"text": "", "whole": 1, "new": 1}, "expected string, got 1 - at `new`"),
        ([], "expected the arguments as object, got array"),
        ('{"text":', "the arguments are not JSON: expected a value - at byte 8"),
        (b'{"text":"\xff"}', "the arguments are not JSON: the text is not UTF-8 - at byte 9"),
        ('{"text":"","whole":1e999}', "expected integer, got 1e999 - at `whole`"),
    ],
)
def test_what_is_wrong_with_the_arguments_is_named(sdk, args, message):
    assert failed(sdk, "kinds", args) == message


def test_an_unknown_parameter_is_named_beside_the_known(sdk):
    assert failed(sdk, "flood", {"txt": ""}) == "unknown parameter `txt` (known: `text`, `times`, `limit`)"
    assert failed(sdk, "nothing", {"a": 1}) == "unknown parameter `a` (there are none)"


def test_no_arguments_are_an_empty_object(sdk):
    assert sdk.call("nothing", "").text == ""
    assert sdk.call("nothing", " \n").text == ""


def test_a_raw_tool_gets_the_bytes_as_they_came(sdk):
    assert sdk.call("raw", b"not {json").text == "9:not {json"
    assert sdk.call("raw", b"").text == "0:"


@pytest.mark.core
def test_wakes_and_events_carry_their_payload(sdk):
    assert sdk.wake('{"":true}').text == "woke with "
    assert sdk.wake('{"payload_base64":"dGljaw=="}').text == "woke with tick"
    assert sdk.notify('{"payload":"done"}').text == ""


def is_object(argument):
    """Report whether something is a JSON object: then what a host leaves out has its default."""
    try:
        return isinstance(json.loads(argument.decode()), dict)
    except ValueError:
        return False


@pytest.mark.core
@given(st.binary(max_size=60))
@example(b'{"":tru}')
@example(b"[]")
@settings(max_examples=100, deadline=None)
def test_an_entry_s_argument_that_no_host_gives_is_a_failure(sdk, argument):
    assume(not is_object(argument))
    for outcome in (sdk.wake(argument), sdk.notify(argument)):
        assert isinstance(outcome, berm.Failed)
        assert outcome.message.startswith(("the argument of `on_", "expected the argument of `on_"))


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("", "the argument of `on_wake` is not JSON: expected a value - at byte 0"),
        ("[]", "expected the argument of `on_wake` as object, got array"),
        ('{"payload_base64":"dGljaw="}', "the argument of `on_wake` has a payload that is not base64"),
    ],
)
def test_an_entry_says_what_is_wrong_with_its_argument(sdk, argument, message):
    assert sdk.wake(argument).message == message


# ---- the manifest ----


def test_the_manifest_says_what_was_declared(sdk):
    tools = {tool.name: tool for tool in sdk.manifest.tools}
    assert list(tools)[:3] == ["kinds", "nothing", "raw"]
    assert sdk.manifest.usage == 'Checks "the SDK": ünïcode \\ and\nlines.'
    assert list(sdk.manifest.capabilities) == ["berm.fs.read", "berm.kv.keys"]
    schema = tools["kinds"].parameters
    assert schema["required"] == ["text", "whole"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["text"] == {"type": "string", "description": 'a "quoted" text'}
    assert schema["properties"]["other"]["default"] == 'dé"f'
    assert schema["properties"]["first"]["default"] == 3
    assert schema["properties"]["bounded"] == {
        "type": "integer",
        "minimum": -5,
        "maximum": 10,
        "description": "within bounds",
        "default": -1,
    }
    assert schema["properties"]["colour"]["enum"] == ["red", "light green"]
    assert schema["properties"]["flag"]["default"] is True
    assert schema["properties"]["words"]["items"] == {"type": "string"}
    assert "new" in schema["properties"]
    assert tools["nothing"].parameters["properties"] == {}
    assert tools["raw"].parameters == {"type": "object", "properties": {}}


def test_only_entries_are_exported(sdk):
    from rvcore._elf import read_elf

    names = set(read_elf(image("sdk")).exports)
    assert names == {f"berm_tool_{name}" for name in sdk.tools} | {"_start", "on_wake", "on_notify"}


# ---- failures ----


@pytest.mark.core
def test_a_failure_ends_the_call_from_any_depth(sdk_of_each):
    assert failed(sdk_of_each, "fails", {}) == "failed deep down"


def test_a_long_failure_is_cut_between_characters(sdk):
    message = failed(sdk, "fails_long", {})
    assert message == "x" + "é" * 4095


@pytest.mark.parametrize(
    ("how", "line"),
    [
        ("panic", "panicked at 7"),
        ("abort", "abort"),
        ("assert", 'assertion failed: !berm_is(args->how, "assert")'),
        ("exit", "exit(3): a tool returns, or calls berm_fail"),
        ("double free", "which is no memory in use"),
        ("wild free", "which is no memory in use"),
        ("overrun", "the heap is damaged"),
        ("writer", "json writer: a key outside an object"),
        ("format", "printf: unknown conversion %q"),
    ],
)
def test_a_broken_rule_is_a_trap_that_logs_why(sdk, how, line, caplog):
    caplog.set_level("INFO")
    with pytest.raises(berm.Trap) as caught:
        call(sdk, "panics", how=how)
    assert caught.value.code.name == "BREAKPOINT"
    assert caught.value.symbol == "berm_panic"
    assert line in caplog.text


# ---- memory and output ----


def test_output_past_the_limit_is_cut_between_characters_and_says_so(sdk):
    text = done(sdk, "flood", text="é", times=5000, limit=1000)
    kept, note = text.split("\n")
    assert set(kept) == {"é"}
    assert note == f"[output too long: {10_000 - 2 * len(kept)} bytes were dropped here]"
    assert len(text.encode()) <= 1000


def test_output_may_be_as_long_as_the_limit(sdk):
    assert done(sdk, "flood", text="x", times=1000, limit=1000) == "x" * 1000
    assert done(sdk, "flood", text="ab", times=2**19) == "ab" * 2**19
    assert done(sdk, "flood", text="ab", times=2**19 + 1).endswith("bytes were dropped here]")


@pytest.mark.core
def test_a_full_heap_gives_null_or_fails_the_call(sdk):
    assert done(sdk, "exhaust", fail=False) == "1 1 1 1"
    assert failed(sdk, "exhaust", {"fail": True}) == "out of memory: no room for 100000 bytes"


def test_sizes_that_wrap_are_refused(sdk):
    assert failed(sdk, "overflows", {}).startswith("out of memory: ")


@pytest.mark.core
def test_the_c_library_answers_as_c_says(sdk_of_each):
    assert done(sdk_of_each, "libc").splitlines() == [
        "-3 0 2 5 5 9 at 5",
        "jumped 42 2",
        "-31 511 35 z 1 1",
        "1500 -0.25 xyz 0 1",
        "9 abc-000 copied",
        "<a><b><c> Hello, world 2 world orld 0 101 Q",
        " 3.14|left    |+7|0xff|1.234568e+04|z|8|0x10|%|cut|  1234",
    ]
