"""Real programs as guests, by every toolchain here: a formatter, a compressor, a hash, a language, C++."""

import hashlib
import json
import random
import shutil

import pytest

import berm
from guest_images import image

TOOLCHAINS = ["zig", "riscv64-unknown-elf-gcc", "clang-16"]


@pytest.fixture(scope="module", params=TOOLCHAINS)
def load(request, engine):
    if request.param != "zig" and shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return lambda name: berm.Harness.load(engine, image(name, cc=request.param))


def call(harness, tool, **args):
    outcome = harness.call(tool, json.dumps(args))
    assert isinstance(outcome, berm.Done), outcome
    return outcome.text


DOCUMENT = {"b": [1, 2.5, {}, [], {"z": None, "a": True}], "a": 'é "q" \\ \n', "big": 2**70, "": -0.0}


def test_the_formatter_agrees_with_python(load):
    harness = load("json_format")
    shown = {"document": DOCUMENT}
    assert call(harness, "format", **shown, indent=0) == json.dumps(
        DOCUMENT, ensure_ascii=False, separators=(",", ":")
    )
    for indent in (1, 2, 8):
        for sort in (False, True):
            wanted = json.dumps(DOCUMENT, ensure_ascii=False, indent=indent, sort_keys=sort)
            assert call(harness, "format", **shown, indent=indent, sort=sort) == wanted


def test_the_compressor_gives_back_what_it_took(load):
    harness = load("lz")
    generator = random.Random(7)
    words = [generator.randbytes(4).hex() for _ in range(50)]
    texts = ["", "a", "abcd", "a" * 1000, " ".join(generator.choices(words, k=3000)), "é" * 200]
    for text in texts:
        before, after = call(harness, "round_trip", text=text).split(" -> ")
        assert int(before) == len(text.encode())
        assert int(after) <= len(text.encode()) * 129 // 128 + 1
    assert int(after) < 30
    packed = bytes.fromhex(call(harness, "pack", text=texts[4]))
    assert len(packed) < len(texts[4]) // 2
    assert harness.call("unpack", packed).text == texts[4]


def test_broken_packed_text_is_refused(load):
    harness = load("lz")
    for broken in (b"\x05ab", b"\x80", b"\x80\x01\x00", b"\x00a\x80\x00\x00", b"\x00a\xff\x02\x00"):
        assert isinstance(harness.call("unpack", broken), berm.Failed)


@pytest.mark.parametrize("size", [0, 1, 55, 56, 63, 64, 65, 119, 120, 1000, 100_000])
def test_the_hash_agrees_with_hashlib(load, size):
    data = random.Random(size).randbytes(size)
    assert load("sha256").call("sha256", data).text == hashlib.sha256(data).hexdigest()


PRIMES = """
fn is_prime(n) {
    let d = 2;
    while d * d <= n { if n % d == 0 { return 0; } d = d + 1; }
    return n > 1;
}
let found = []; let n = 0;
while len(found) < 20 { if is_prime(n) { push(found, n); } n = n + 1; }
print found;
"""


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        ("print 1 + 2 * 3 - -4; print (1 + 2) * 3 % 5; print 7 / -2;", "11\n4\n-3\n"),
        ('print "a" + 1 + [2, "b"]; print len("four") == 4 & !0;', "a1[2, b]\n1\n"),
        ("fn f(n) { if n < 2 { return n; } return f(n-1) + f(n-2); } print f(15);", "610\n"),
        (PRIMES, f"{[2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71]}\n"),
        ("let a = [1, [2]]; a[1][0] = 9; print a; let x = 0 - 9223372036854775807 - 1; print x / -1;",
         "[1, [9]]\n-9223372036854775808\n"),
        ('if "" { print 1; } else if 0 | 3 { print 2; } else { print 3; }', "2\n"),
    ],
)  # fmt: skip
def test_the_language_runs_programs(load, program, printed):
    assert call(load("imp"), "imp", program=program) == printed


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("let x = 1;\nprint y;", "line 2: no such variable: `y`"),
        ("print 1 / 0;", "line 1: division by zero"),
        ("print [1][1];", "line 1: index 1 of 1 elements"),
        ("print (1;", "line 1: expected `)`, got `;`"),
        ("fn f(n) { return f(n); } print f(1);", "line 1: too many calls at once: `f`"),
        ("print " + "(" * 300, "line 1: nested too deeply"),
        ('print "abc', "line 1: a text does not end"),
        ("fn f(a) { return a; } print f(1, 2);", "line 1: `f` takes 1 arguments, got 2"),
    ],
)
def test_the_language_names_the_line_of_an_error(load, program, message):
    outcome = load("imp").call("imp", json.dumps({"program": program}))
    assert isinstance(outcome, berm.Failed)
    assert outcome.message == message


def test_an_endless_program_runs_out_of_fuel(load):
    with pytest.raises(berm.Trap) as caught:
        load("imp").call("imp", '{"program":"while 1 { }"}', limits=berm.Limits(fuel=1_000_000))
    assert caught.value.code.name == "OUT_OF_FUEL"


@pytest.mark.core
def test_cpp_runs_with_constructors_virtual_functions_and_new(load):
    text = call(load("shapes"), "areas", kind="both", size=2, **{"class": ["x", "y"]})
    assert text == "square 4.000\ncircle 12.566\nstatics 80 82, aligned 0 7\nword x\nword y\n"
    assert call(load("shapes"), "areas", kind="circle").startswith("circle 7.069\n")
