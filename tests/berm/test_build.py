"""berm build: images from sources, what they hold, what is refused; equal sources give equal bytes."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import berm
from berm.build import BuildError, build_harness, build_image
from berm.build import toolchain as toolchain_module
from berm.build.cache import cached, key_of
from berm.build.toolchain import find_toolchain
from guest_images import image
from rvcore._elf import read_elf

HELLO = """\
#include <berm/berm.h>
BERM_TOOL(hello, "Says hello.")
{
    berm_puts(out, "hello");
}
"""
TOOLCHAINS = ["zig", "riscv64-unknown-elf-gcc", "clang-16"]


@pytest.fixture
def project(tmp_path):
    """Return a function that writes a source and gives its path."""

    def write(text, name="hello.c"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture(params=TOOLCHAINS)
def cc(request):
    if request.param != "zig" and shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return request.param


def run(engine, path, tool, args=""):
    return berm.Harness.load(engine, Path(path).read_bytes()).call(tool, args)


def refused(sources, tmp_path, **options):
    with pytest.raises(BuildError) as caught:
        build_image(sources if isinstance(sources, list) else [sources], tmp_path / "out.elf", **options)
    assert not (tmp_path / "out.elf").exists()
    return caught.value


# ---- what comes out ----


def test_an_image_is_built_and_runs(project, tmp_path, engine, cc):
    built = build_image([project(HELLO)], tmp_path / "hello.elf", cc=cc)
    assert built.sha256 == hashlib.sha256(built.path.read_bytes()).hexdigest()
    assert built.size == built.path.stat().st_size
    assert built.manifest["tools"][0]["name"] == "hello"
    assert built.warnings == ""
    assert run(engine, built.path, "hello").text == "hello"


def test_several_sources_make_one_image(project, tmp_path, engine):
    main = project(HELLO + '#include "words.h"\nBERM_TOOL(word, "A word.") { berm_puts(out, word()); }\n')
    project("const char *word(void);\n", "words.h")
    other = project(
        '#include <berm/berm.h>\n#include "words.h"\nconst char *word(void) { return "word"; }\n', "words.c"
    )
    more = project(
        '#include <berm/berm.h>\nBERM_TOOL(cpp, "In C++.") { berm_puts(out, "cpp"); }\n', "more.cpp"
    )
    built = build_image([main, other, more], tmp_path / "all.elf")
    assert [tool["name"] for tool in built.manifest["tools"]] == ["hello", "word", "cpp"]
    assert [run(engine, built.path, tool).text for tool in ("hello", "word", "cpp")] == [
        "hello",
        "word",
        "cpp",
    ]


def test_assembly_and_objects_are_linked_in(project, tmp_path, engine):
    main = project(HELLO + 'int three(void);\nBERM_TOOL(three, "3") { berm_printf(out, "%d", three()); }\n')
    assembly = project(
        "    .text\n    .globl three\n    .type three, @function\nthree:\n    li a0, 3\n    ret\n", "three.S"
    )
    zig = find_toolchain("zig")
    subprocess.run(zig.compile_command(assembly, tmp_path / "three.o", []), env=zig.environment(), check=True)
    for part in (assembly, tmp_path / "three.o"):
        built = build_image([main, part], tmp_path / "three.elf")
        assert run(engine, built.path, "three").text == "3"


def test_flags_reach_the_compiler(project, tmp_path, engine):
    source = project('#include <berm/berm.h>\nBERM_TOOL(hello, "x") { berm_puts(out, WORD); }\n')
    built = build_image([source], tmp_path / "x.elf", cflags=['-DWORD="flag"'])
    assert run(engine, built.path, "hello").text == "flag"


def test_the_image_has_what_a_host_needs_and_no_more(cc):
    found = read_elf(image("sdk", cc=cc))
    assert found.has_relocations
    assert found.section(".berm.abi") is not None
    assert found.section(".berm.decl") is None
    assert found.section(".debug_line") is None
    assert found.section(".comment") is None
    assert found.symbols.lookup(found.exports["berm_tool_kinds"]) == ("berm_tool_kinds", 0)


def test_a_trap_names_the_author_s_line_in_a_debug_build(project, tmp_path, engine, cc):
    text = (
        HELLO
        + 'BERM_TOOL(dies, "x")\n{\n    volatile int *nowhere = (volatile int *)8;\n    *nowhere = 1;\n}\n'
    )
    source = project(text)
    plain = build_image([source], tmp_path / "plain.elf", cc=cc)
    debug = build_image([source], tmp_path / "debug.elf", cc=cc, debug=True)
    assert plain.size < debug.size
    for built, location in ((plain, None), (debug, "hello.c:9")):
        with pytest.raises(berm.Trap) as caught:
            run(engine, built.path, "dies")
        assert caught.value.code.name == "STORE_FAULT"
        assert (caught.value.location or "").endswith(location or "")
        assert bool(caught.value.location) == bool(location)


def test_code_that_is_only_reached_by_pointer_passes_the_control_flow_checks(project, tmp_path, engine, cc):
    text = """
#include <berm/berm.h>
static int one(int n) { return n + 1; }
static int two(int n) { return n * 2; }
static int (*volatile table[])(int) = {one, two};
__attribute__((noinline)) static int pick(int n)
{
    switch (n) {
    case 0: return 11; case 1: return 5; case 2: return 17; case 3: return 3; case 4: return 29;
    case 5: return 31; case 6: return 2; case 7: return 90; default: return -1;
    }
}
BERM_TOOL(jump, "x", required(integer, n, "n"))
{
    int (*volatile local)(int) = args->n ? one : two;
    berm_printf(out, "%d %d %d", table[args->n](20), local(5), pick((int)args->n + 3));
}
"""
    built = build_image([project(text)], tmp_path / "jump.elf", cc=cc)
    assert run(engine, built.path, "jump", '{"n":0}').text == "21 10 3"
    assert run(engine, built.path, "jump", '{"n":1}').text == "40 6 29"


# ---- the same sources, the same bytes ----


@pytest.mark.parametrize("debug", [False, True])
def test_the_digest_does_not_depend_on_where_the_sources_stand(tmp_path, monkeypatch, cc, debug):
    text = (
        HELLO
        + '#include "part.h"\nBERM_TOOL(place, "x") { berm_puts(out, __FILE__); berm_puts(out, part()); }\n'
    )
    digests = set()
    for place in ("a", "b/deeper"):
        directory = tmp_path / place
        directory.mkdir(parents=True)
        (directory / "hello.c").write_text(text)
        (directory / "part.h").write_text("static inline const char *part(void) { return __FILE__; }\n")
        for working, source in (
            (directory, "hello.c"),
            (tmp_path, f"{place}/hello.c"),
            (tmp_path, directory / "hello.c"),
        ):
            monkeypatch.chdir(working)
            built = build_image([source], tmp_path / "out.elf", cc=cc, debug=debug)
            digests.add(built.sha256)
            assert str(tmp_path).encode() not in built.path.read_bytes()
    assert len(digests) == 1


def test_another_source_gives_another_digest(project, tmp_path):
    first = build_image([project(HELLO)], tmp_path / "out.elf").sha256
    assert build_image([project(HELLO.replace("hello", "hallo"))], tmp_path / "out.elf").sha256 != first


# ---- what is refused, and how it is said ----


def test_a_compiler_s_error_points_at_the_author_s_line(project, tmp_path, cc):
    source = project(HELLO.replace('"hello")', '"hello"'))
    error = refused(source, tmp_path, cc=cc)
    assert error.message == f"compiling {source} failed"
    assert f"{source}:4:" in error.output


def test_a_misspelt_parameter_is_an_error_at_its_line(project, tmp_path, cc):
    source = project('#include <berm/berm.h>\nBERM_TOOL(t, "x",\n    required(strin, name, "x"))\n{\n}\n')
    error = refused(source, tmp_path, cc=cc)
    assert f"{source}:2:" in error.output or f"{source}:3:" in error.output
    assert "strin" in error.output


def test_an_undefined_function_is_named(project, tmp_path, cc):
    source = project(HELLO + 'void nowhere(void);\nBERM_TOOL(t, "x") { nowhere(); }\n')
    error = refused(source, tmp_path, cc=cc)
    assert error.message == "linking failed"
    assert "nowhere" in error.output
    assert "hello.c" in error.output


@pytest.mark.parametrize(
    ("declaration", "line", "message"),
    [
        ('BERM_USAGE("a"); BERM_USAGE("b");', 6, "BERM_USAGE stands twice"),
        (
            'BERM_TOOL(t, "x", required(string, a, "x"), optional(string, a_, "x")) { }',
            6,
            "`a` is declared twice",
        ),
        (
            'BERM_TOOL(t, "x", optional(integer, a, "x", 1 + 1)) { }',
            6,
            "must be a plain literal, got `1 + 1`",
        ),
        ('BERM_TOOL(t, "x", optional(number, a, "x", 1.0f)) { }', 6, "must be a plain number, got `1.0f`"),
        ('BERM_TOOL(t, "x", optional(boolean, a, "x", 2)) { }', 6, "must be true or false, got `2`"),
        ('BERM_TOOL(t, "x", optional(choice("a|b"), a, "x", "c")) { }', 6, "none of its choices: `c`"),
        ('BERM_TOOL(t, "x", required(choice("a||b"), a, "x")) { }', 6, "need to be different and not empty"),
        ('BERM_TOOL(t, "x", required(range(3, 2), a, "x")) { }', 6, "is empty: 3 to 2"),
        ('BERM_TOOL(t, "x", optional(range(1, 2), a, "x", 3)) { }', 6, "is out of its range: 3"),
        ('BERM_RAW_TOOL(t, "x", "[]") { }', 6, "the schema is not a JSON object"),
        ('BERM_RAW_TOOL(t, "x", "{") { }', 6, "the schema is not JSON"),
        ('BERM_USAGE("\\xff");', 6, "not UTF-8"),
        (f'BERM_TOOL({"t" * 65}, "x") {{ }}', 6, "at most 64 letters"),
    ],
)
def test_a_declaration_that_makes_no_manifest_is_refused_at_its_line(
    project, tmp_path, declaration, line, message
):
    error = refused(project(HELLO + declaration + "\n"), tmp_path)
    assert error.message.startswith(f"hello.c:{line}: ")
    assert message in error.message


def test_two_files_may_not_declare_the_same_tool(project, tmp_path):
    other = project("\n" + HELLO, "other.c")
    error = refused([project(HELLO), other], tmp_path)
    assert error.message == "other.c:3: tool `hello` is declared twice"
    # Within one file the compiler sees it.
    assert "hello.c:6:" in refused(project(HELLO + 'BERM_TOOL(hello, "x") { }\n'), tmp_path).output


def test_a_default_for_an_array_is_a_compile_error_that_says_what_to_do(project, tmp_path):
    source = project(HELLO + 'BERM_TOOL(t, "x", optional(array, a, "x", "[]")) { }\n')
    assert "takes no default; test args->has_NAME instead" in refused(source, tmp_path).output


def test_sources_without_a_tool_are_refused(project, tmp_path):
    assert (
        refused(project("int x;\n"), tmp_path).message
        == "the sources declare no tool: write one with BERM_TOOL"
    )
    assert refused([], tmp_path).message == "no sources"
    assert refused(tmp_path / "none.c", tmp_path).message == f"no such file: {tmp_path / 'none.c'}"
    assert "expected one of" in refused(project("", "x.py"), tmp_path).message


def test_compilers_that_are_not_there_or_not_compilers_are_named(project, tmp_path):
    source = project(HELLO)
    assert "found no compiler `no-such-cc`" in refused(source, tmp_path, cc="no-such-cc").message
    fake = project("#!/bin/sh\necho fake 1.0\n", "fakecc")
    fake.chmod(0o755)
    assert refused(source, tmp_path, cc=str(fake)).message == f"`{fake}` is neither clang nor gcc: fake 1.0"


def test_without_ziglang_the_message_says_what_to_install(project, tmp_path, monkeypatch):
    monkeypatch.setattr(toolchain_module.importlib.util, "find_spec", lambda _name: None)
    toolchain_module.find_zig.cache_clear()
    find_toolchain.cache_clear()
    try:
        assert "pip install 'crabtalk[build]'" in refused(project(HELLO), tmp_path).message
    finally:
        toolchain_module.find_zig.cache_clear()
        find_toolchain.cache_clear()


def test_warnings_are_shown_and_do_not_stop_the_build(project, tmp_path):
    built = build_image([project(HELLO + "static int unused;\n")], tmp_path / "out.elf")
    assert "unused" in built.warnings


# ---- the cache ----


def test_two_first_builds_at_once_both_succeed(project, tmp_path):
    """Separate processes, an empty cache, the same target."""
    source = project(HELLO)
    code = (
        "import sys; from berm.build import build_image\n"
        "print(build_image([sys.argv[1]], sys.argv[2]).sha256)"
    )
    environment = {**os.environ, "BERM_CACHE_DIR": str(tmp_path / "cache")}
    runtime = find_toolchain("zig").runtime().parent
    shutil.copytree(runtime, tmp_path / "cache" / runtime.name)  # the slow part, which no race is about
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(source), str(tmp_path / "out.elf")],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    digests = {process.communicate(timeout=300)[0].strip() for process in running}
    assert [process.returncode for process in running] == [0, 0]
    assert digests == {hashlib.sha256((tmp_path / "out.elf").read_bytes()).hexdigest()}
    assert not [path.name for path in (tmp_path / "cache").iterdir() if path.name.startswith(".")]


def test_a_cache_entry_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    monkeypatch.setenv("BERM_CACHE_DIR", str(tmp_path))

    def fails(directory):
        (directory / "half").write_text("")
        raise BuildError("no")

    with pytest.raises(BuildError):
        cached("thing", "key", fails)
    assert list(tmp_path.iterdir()) == []
    barrier = threading.Barrier(4, timeout=30)
    made = []

    def make(directory):
        barrier.wait()
        (directory / "file").write_text("whole")
        made.append(directory)

    threads = [threading.Thread(target=cached, args=("thing", "key", make)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 4
    assert [path.name for path in tmp_path.iterdir()] == ["thing-key"]
    assert (cached("thing", "key", fails) / "file").read_text() == "whole"


def test_cache_keys_keep_their_parts_apart():
    assert len({key_of(["ab", "c"]), key_of(["a", "bc"]), key_of(["abc"]), key_of(["ab", b"c", ""])}) == 4


def test_a_cache_or_target_that_cannot_be_written_is_named(project, tmp_path, monkeypatch):
    source = project(HELLO)
    (tmp_path / "file").write_text("")
    with pytest.raises(BuildError, match=r"cannot write .*file/out.elf: no such directory"):
        build_image([source], tmp_path / "file" / "out.elf")
    (tmp_path / "directory").mkdir()
    with pytest.raises(BuildError, match=r"cannot write .*directory: is a directory"):
        build_image([source], tmp_path / "directory")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    monkeypatch.setenv("BERM_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(BuildError, match=r"cannot write the cache .*name another with \$BERM_CACHE_DIR"):
        build_image([source], tmp_path / "out.elf")


def test_a_file_may_be_named_like_an_option(project, tmp_path, monkeypatch, engine):
    project(HELLO, "-o.c")
    monkeypatch.chdir(tmp_path)
    assert run(engine, build_image(["-o.c"], tmp_path / "out.elf").path, "hello").text == "hello"


# ---- harness directories ----


def test_a_directory_is_built_without_its_tests(tmp_path, project):
    project(HELLO, "tool/hello.c")
    project("#error not for the guest\n", "tool/tests/hello_test.c")
    built = build_harness(tmp_path / "tool")
    assert built.path == tmp_path / "tool" / "tool.elf"
    with pytest.raises(BuildError, match="no sources in"):
        build_harness(tmp_path, tmp_path / "x.elf")


def test_numbers_of_the_fixed_calls_are_the_hashes_of_their_names():
    import re

    from berm.build.image import SDK
    from berm.fnv import call_number

    text = (SDK / "include" / "berm" / "abi.h").read_text()
    found = re.findall(r"#define BERM_CALL_\w+\s+UINT64_C\((0x[0-9a-f]+)\) /\* ([a-z.]+) \*/", text)
    assert len(found) == 7
    assert [int(number, 16) for number, _ in found] == [call_number(name) for _, name in found]


def test_manifests_of_all_guests_are_read_by_berm():
    for name in ("sdk", "shapes", "wrappers", "os", "echo"):
        manifest = berm.Manifest.from_elf(image(name))
        assert manifest.tools
        assert json.loads(json.dumps(manifest.tools[0].parameters))["type"] == "object"


def test_an_image_does_not_replace_its_source(project):
    source = project(HELLO)
    with pytest.raises(BuildError, match="would replace its source"):
        build_image([source], source.parent / "." / source.name)
    assert source.read_text(encoding="utf-8") == HELLO


def test_a_directory_that_is_not_there_is_not_made(project, tmp_path):
    with pytest.raises(BuildError, match="no such directory"):
        build_image([project(HELLO)], tmp_path / "missing" / "out.elf")
    assert not (tmp_path / "missing").exists()
