"""berm new, berm build and berm test as commands: what a person sees, and with which exit code."""

import json
import shutil
import subprocess
import sys

import pytest

import berm
from berm.build.native import find_host_compiler
from berm.build.new import new_project

if shutil.which("cc") is None:
    pytest.skip("no C compiler for this machine", allow_module_level=True)


def command(*args, cwd=None, env=None):
    return subprocess.run(
        [sys.executable, "-m", "berm", *map(str, args)],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A project as `berm new` writes it."""
    parent = tmp_path_factory.mktemp("projects")
    done = command("new", "my-tool", cwd=parent)
    assert (done.returncode, done.stderr) == (0, "")
    return parent / "my-tool", done.stdout


def write_test(project, body, name="more_test.c"):
    path = project / "tests" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("#include <berm/test.h>\n#include <stdlib.h>\n#include <string.h>\n" + body)
    return path


@pytest.fixture
def project(tmp_path):
    """A fresh project with one tool per way to behave; its own test is removed."""
    project = new_project("probe", tmp_path)
    (project / "tests" / "probe_test.c").unlink()
    (project / "probe.c").write_text(
        """
#include <berm/berm.h>
#include <stdlib.h>
#include <string.h>
static int calls;
static char *kept;
BERM_TOOL(count, "x") { berm_printf(out, "%d", ++calls); }
BERM_TOOL(fetch, "x") { berm_put(out, berm_http_get(BERM_STR("https://x.org/")).body); }
BERM_TOOL(overrun, "x", required(integer, n, "n"))
{
    char *memory = (char *)berm_alloc(8);
    memory[args->n] = 1;
    berm_printf(out, "%d", memory[args->n]);
}
BERM_TOOL(stale, "x")
{
    if (kept)
        berm_puts(out, kept);
    kept = berm_str_dup(BERM_STR("kept"));
}
BERM_TOOL(spin, "x") { for (volatile unsigned i = 0;; i++) { } }
BERM_TOOL(note, "x") { berm_log("noted %d", 5); berm_panic("broken"); }
BERM_TOOL(bytes, "x") { berm_putc(out, (char)0xff); }
BERM_ON_WAKE { berm_put(out, wake->payload); }
"""
    )
    return project


# ---- berm new ----


def test_new_writes_a_project_that_builds_passes_its_test_and_runs(made):
    project, said = made
    listed = [line for line in said.splitlines() if line.startswith("my-tool/")]
    assert listed == [
        "my-tool/.gitignore",
        "my-tool/README.md",
        "my-tool/my-tool.c",
        "my-tool/tests/my-tool_test.c",
    ]
    tested = command("test", project)
    assert tested.returncode == 0, tested.stderr
    assert tested.stdout.splitlines()[-1] == "3 passed, 0 failed"
    built = command("build", project)
    assert (built.returncode, built.stderr) == (0, "")
    ran = command("run", project / "my-tool.elf", "my_tool", '{"who":"you"}')
    assert (ran.returncode, ran.stdout) == (0, "Hello, you!\n")


def test_new_does_not_overwrite(made):
    project, _ = made
    before = (project / "my-tool.c").read_bytes()
    done = command("new", "my-tool", cwd=project.parent)
    assert (done.returncode, done.stderr) == (1, "berm: `my-tool` is there already\n")
    assert (project / "my-tool.c").read_bytes() == before


@pytest.mark.parametrize("name", ["", "../up", "a b", "Ünï", "-x", "/abs", "a" * 64])
def test_new_refuses_names_that_are_no_name(tmp_path, name):
    with pytest.raises(ValueError, match="a name has lower-case letters"):
        new_project(name, tmp_path)
    if not name.startswith("-"):
        assert command("new", name, cwd=tmp_path).returncode == 64
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["2fa", "int", "a_b-c", "main"])
def test_new_projects_build_whatever_they_are_called(tmp_path, engine, name):
    project = new_project(name, tmp_path)
    assert command("build", project).returncode == 0
    harness = berm.Harness.load(engine, (project / f"{name}.elf").read_bytes())
    assert harness.call(harness.tools[0], '{"who":"x"}').text == "Hello, x!\n"


# ---- berm build ----


def test_build_prints_what_it_made_and_puts_it_where_asked(made, tmp_path):
    project, _ = made
    done = command("build", project / "my-tool.c", "-o", tmp_path / "x.elf")
    assert done.returncode == 0
    facts = json.loads(command("inspect", tmp_path / "x.elf", "--json").stdout)
    assert done.stdout == f"{tmp_path / 'x.elf'}  {facts['file_bytes']:,} bytes  sha256 {facts['sha256']}\n"
    assert command("build", project / "my-tool.c", cwd=tmp_path).returncode == 0
    assert (tmp_path / "my-tool.elf").read_bytes() == (tmp_path / "x.elf").read_bytes()


def test_build_shows_the_compiler_s_words_and_exits_with_1(tmp_path):
    (tmp_path / "bad.c").write_text("#include <berm/berm.h>\nnonsense\n")
    done = command("build", "bad.c", cwd=tmp_path)
    assert done.returncode == 1
    assert "bad.c:2:1: error:" in done.stderr
    assert done.stderr.endswith("berm: compiling bad.c failed\n")
    assert not (tmp_path / "bad.elf").exists()


def test_build_without_sources_is_a_usage_error(tmp_path):
    assert command("build").returncode == 64
    assert command("build", tmp_path).stderr == f"berm: no sources in {tmp_path}\n"


# ---- berm test ----


def run_tests(project, body, *args):
    write_test(project, body)
    done = command("test", project, *args)
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_a_capability_without_a_stand_in_fails_by_name(project):
    code, said, error = run_tests(project, 'BERM_TEST(fetches) { berm_test_call("fetch", ""); }')
    assert code == 1
    assert said == ["FAILED  fetches: failed", "0 passed, 1 failed"]
    assert "the harness called `berm.http.fetch`, and the test has no stand-in for it" in error


def test_a_stand_in_serves_the_capability(project):
    code, said, error = run_tests(
        project,
        """
static void fetch(berm_request *request, berm_answer *answer)
{
    EXPECT_TEXT(berm_request_field(request), "GET");
    EXPECT_TEXT(berm_request_field(request), "https://x.org/");
    berm_answer_field(answer, BERM_STR("200"));
    berm_answer_field(answer, BERM_STR(""));
    berm_answer_field(answer, BERM_STR("body"));
}
static void fails(berm_request *request, berm_answer *answer)
{
    (void)request;
    berm_answer_error(answer, "no %s", "route");
}
BERM_TEST(fetches)
{
    berm_test_stand_in("berm.http.fetch", fetch);
    EXPECT_DONE(berm_test_call("fetch", ""), "body");
    berm_test_stand_in("berm.http.fetch", fails);
    EXPECT_FAILED(berm_test_call("fetch", ""), "no route");
    EXPECT_DONE(berm_test_call("on_wake", "{\\"payload_base64\\": \\"dGljaw==\\"}"), "tick");
}
""",
    )
    assert (code, said) == (0, ["ok      fetches", "1 passed, 0 failed"]), error


def test_each_test_begins_fresh_and_may_crash_or_hang(project):
    code, said, error = run_tests(
        project,
        """
BERM_TEST(first)
{
    EXPECT_DONE(berm_test_call("count", ""), "1");
    EXPECT_DONE(berm_test_call("count", ""), "2");
}
BERM_TEST(crashes) { berm_test_call("note", ""); }
BERM_TEST(again) { EXPECT_DONE(berm_test_call("count", ""), "1"); }
BERM_TEST(not_text) { berm_test_call("bytes", ""); }
BERM_TEST(no_tool) { berm_test_call("nope", ""); }
BERM_TEST(hangs) { alarm(1); berm_test_call("spin", ""); }
BERM_TEST(wrong) { EXPECT_DONE(berm_test_call("count", ""), "7"); }
BERM_TEST(wrong_way) { EXPECT_FAILED(berm_test_call("count", ""), "1"); }
""".replace("BERM_TEST(first)", "#include <unistd.h>\nBERM_TEST(first)"),
    )
    assert code == 1
    assert [line.split(":")[0] for line in said] == [
        "ok      first",
        "FAILED  crashes",
        "ok      again",
        "FAILED  not_text",
        "FAILED  no_tool",
        "FAILED  hangs",
        "FAILED  wrong",
        "FAILED  wrong_way",
        "2 passed, 6 failed",
    ]
    assert "log: noted 5" in error
    assert "log: broken" in error
    assert "signal 6" in said[1]
    assert "the result of `bytes` is not UTF-8: a trap in the sandbox" in error
    assert "the harness has no tool `nope`" in error
    assert "did not end within" in said[5]
    assert "more_test.c:" in error
    assert "expected `7`\n    got `1`" in error
    assert "expected it to fail, but it was done: `1`" in error


def test_a_sanitizer_watches_where_there_is_one(project):
    if not find_host_compiler().sanitize:
        pytest.skip("the compiler has no sanitizer that links")
    code, said, error = run_tests(
        project,
        """
BERM_TEST(fits) { EXPECT_DONE(berm_test_call("overrun", "{\\"n\\": 7}"), "1"); }
BERM_TEST(overruns) { berm_test_call("overrun", "{\\"n\\": 8}"); }
BERM_TEST(keeps_memory_across_calls) { berm_test_call("stale", ""); berm_test_call("stale", ""); }
""",
    )
    assert code == 1
    assert said[-1] == "1 passed, 2 failed"
    assert "heap-buffer-overflow" in error
    assert "heap-use-after-free" in error


def test_tests_are_chosen_by_name(project):
    body = "BERM_TEST(apple) { }\nBERM_TEST(pear) { }\nBERM_TEST(pineapple) { }\n"
    code, said, _ = run_tests(project, body, "-k", "apple")
    assert (code, said) == (0, ["ok      apple", "ok      pineapple", "2 passed, 0 failed"])
    code, said, error = run_tests(project, body, "-k", "plum")
    assert (code, said) == (1, [])
    assert error == "none of the 3 tests has `plum` in its name\n"


def test_files_storage_and_clock_are_at_hand(tmp_path):
    project = new_project("stand", tmp_path)
    shutil.copy(berm.__path__[0] + "/../../tests/guests/wrappers.c", project / "stand.c")
    (project / "tests" / "stand_test.c").unlink()
    code, said, error = run_tests(
        project,
        r"""
BERM_TEST(files)
{
    berm_test_file("d/b", "x");
    EXPECT_DONE(berm_test_call("fs", "{\"path\": \"./a\", \"content\": \"text\"}"),
                "text 4; file 4 0;a file 4 0;d directory 0 0;1 no such file: `a`");
    EXPECT_FAILED(berm_test_call("fs", "{\"path\": \"d\"}"), "is a directory: `d`");
    EXPECT_FAILED(berm_test_call("fs", "{\"path\": \"d/../../x\"}"), "path leaves the root: `d/../../x`");
    EXPECT(berm_test_has_file("d/b") && !berm_test_has_file("a"));
    EXPECT_TEXT(berm_test_file_content("d/b"), "x");
}
BERM_TEST(storage)
{
    berm_test_storage();
    EXPECT_DONE(berm_test_call("kv", "{\"count\": 1200}"), "1200 1 1 0 10 0");
}
static void offset(berm_request *request, berm_answer *answer)
{
    EXPECT_TEXT(berm_request_field(request), "Europe/Berlin");
    EXPECT_TEXT(berm_request_field(request), "951782400000");
    berm_answer_field(answer, BERM_STR("3600"));
    berm_answer_field(answer, BERM_STR("954032400000"));
}
BERM_TEST(clock_stands_still)
{
    berm_test_clock(951782400000, 3600, "Europe/Berlin");
    berm_test_stand_in("berm.clock.offset", offset);
    EXPECT_DONE(berm_test_call("clock", "{\"zone\": \"Europe/Berlin\"}"),
                "2000-02-29 01:00 Europe/Berlin;3600 1 954032400000");
}
static void refuses(berm_request *request, berm_answer *answer)
{
    (void)request;
    berm_answer_refused(answer, "not you");
}
BERM_TEST(refusals)
{
    berm_test_stand_in("berm.call", refuses);
    EXPECT_FAILED(berm_test_call("call", "{\"tool\": \"t\"}"), "not you");
}
""",
    )
    assert (code, said[-1:]) == (0, ["4 passed, 0 failed"]), error


def test_cpp_harnesses_are_tested_too(tmp_path):
    project = new_project("shapes", tmp_path)
    (project / "shapes.c").unlink()
    (project / "tests" / "shapes_test.c").unlink()
    shutil.copy(berm.__path__[0] + "/../../tests/guests/shapes.cpp", project / "shapes.cpp")
    code, said, error = run_tests(
        project,
        r"""
BERM_TEST(areas)
{
    EXPECT_CONTAINS(berm_test_call("areas", "{\"kind\": \"square\", \"size\": 3}").text, "square 9.000\n");
}
""",
    )
    assert (code, said[-1]) == (0, "1 passed, 0 failed"), error


def test_what_is_missing_is_said(tmp_path, project):
    shutil.rmtree(project / "tests")
    assert command("test", project).stderr == (
        f"berm: no tests: write {project / 'tests'}/*.c with BERM_TEST from berm/test.h\n"
    )
    assert command("test", tmp_path / "none").stderr == f"berm: no such directory: {tmp_path / 'none'}\n"
    write_test(project, "BERM_TEST(a) { nonsense; }")
    done = command("test", project)
    assert done.returncode == 1
    assert "more_test.c:4:" in done.stderr
    write_test(project, "BERM_TEST(a) { }")
    assert "found no C compiler `no-cc`" in command("test", project, "--cc", "no-cc").stderr


def test_a_native_test_is_not_built_for_the_guest(project, tmp_path):
    path = write_test(project, "BERM_TEST(a) { }")
    done = command("build", project / "probe.c", path, "-o", tmp_path / "x.elf")
    assert done.returncode == 1
    assert "berm/test.h is for native tests" in done.stderr
