/* glob and grep, from outside: on files in memory. */
#include <berm/test.h>
#include <stdlib.h>
#include <string.h>

static void make_tree(void)
{
    berm_test_file("README.md", "top\n");
    berm_test_file("src/a.c", "int main(void)\n{\n    return 1;\n}\n");
    berm_test_file("src/a.h", "int x;\n");
    berm_test_file("src/deep/er/b.c", "int y; // return\n");
    berm_test_file("src/.hidden/c.c", "int hidden;\n");
    berm_test_file(".git/config", "return\n");
}

static berm_outcome glob(const char *pattern, const char *path)
{
    char args[512];
    berm_out out;
    berm_out_fixed(&out, args, sizeof args);
    berm_puts(&out, "{\"pattern\":");
    berm_put_json_string(&out, berm_str_of(pattern));
    berm_puts(&out, ",\"path\":");
    berm_put_json_string(&out, berm_str_of(path));
    berm_puts(&out, "}");
    return berm_test_call_bytes("glob", berm_out_str(&out));
}

BERM_TEST(glob_matches_within_one_directory)
{
    make_tree();
    EXPECT_DONE(glob("*", "."), "README.md\nsrc/\n");
    EXPECT_DONE(glob("src/*.c", "."), "src/a.c\n");
    EXPECT_DONE(glob("src/a.?", "."), "src/a.c\nsrc/a.h\n");
    EXPECT_DONE(glob("src/[!b].[ch]", "."), "src/a.c\nsrc/a.h\n");
    EXPECT_DONE(glob("*.txt", "."), "[nothing matches]\n");
}

BERM_TEST(glob_matches_any_depth)
{
    make_tree();
    EXPECT_DONE(glob("**/*.c", "."), "src/a.c\nsrc/deep/er/b.c\n");
    EXPECT_DONE(glob("src/**/b.c", "."), "src/deep/er/b.c\n");
    EXPECT_DONE(glob("**/*.{c,h}", "src"), "src/a.c\nsrc/a.h\nsrc/deep/er/b.c\n");
    EXPECT_DONE(glob("**", "src/deep"), "src/deep/er/\nsrc/deep/er/b.c\n");
    EXPECT_DONE(glob("./src/*.h", "./"), "src/a.h\n");
}

BERM_TEST(glob_sees_hidden_names_only_when_asked)
{
    make_tree();
    EXPECT_DONE(glob("**/.hidden/*", "."), "src/.hidden/c.c\n");
    EXPECT_DONE(glob(".*/config", "."), ".git/config\n");
    EXPECT_DONE(glob("*/config", "."), "[nothing matches]\n");
}

BERM_TEST(glob_refuses_what_makes_no_sense)
{
    make_tree();
    EXPECT_FAILED(glob("{a", "."), "pattern: `{` without `}` in `{a`");
    EXPECT_FAILED(glob("", "."), "pattern: expected 1 to 1024 bytes, got 0");
    EXPECT_FAILED(glob("*", "nowhere"), "not a directory: `nowhere`");
    EXPECT_FAILED(glob("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", "."),
                  "pattern: more than 64 alternatives in braces");
}

BERM_TEST(glob_is_quick_on_patterns_that_back_track)
{
    char name[201];
    memset(name, 'a', 200);
    name[200] = 0;
    berm_test_file(name, "");
    EXPECT_DONE(glob("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", "."), "[nothing matches]\n");
    EXPECT_DONE(glob("**/**/**/**/**/**/**/**/**/**/b", "."), "[nothing matches]\n");
}

BERM_TEST(glob_stops_at_a_thousand)
{
    char name[16];
    for (int i = 0; i < 1001; i++) {
        berm_out out;
        berm_out_fixed(&out, name, sizeof name);
        berm_printf(&out, "f%04d%c", i, 0);
        berm_test_file(name, "");
    }
    berm_outcome got = glob("f*", ".");
    EXPECT(!got.failed);
    EXPECT_CONTAINS(got.text, "f0999\n[more than 1000: use a narrower pattern]\n");
}

static berm_outcome grep(const char *args)
{
    return berm_test_call("grep", args);
}

BERM_TEST(grep_shows_path_line_and_text)
{
    make_tree();
    EXPECT_DONE(grep("{\"pattern\": \"return\"}"), "src/a.c:3:     return 1;\nsrc/deep/er/b.c:1: int y; // return\n");
    EXPECT_DONE(grep("{\"pattern\": \"^int \\\\w+;$\", \"path\": \"src\"}"), "src/a.h:1: int x;\n");
    EXPECT_DONE(grep("{\"pattern\": \"nothing\"}"), "[no line matches]\n");
}

BERM_TEST(grep_takes_a_file_or_a_filter)
{
    make_tree();
    EXPECT_DONE(grep("{\"pattern\": \"int\", \"path\": \"src/a.h\"}"), "src/a.h:1: int x;\n");
    EXPECT_DONE(grep("{\"pattern\": \"int\", \"glob\": \"*.h\"}"), "src/a.h:1: int x;\n");
    EXPECT_DONE(grep("{\"pattern\": \"int\", \"glob\": \"src/*/**/*.c\"}"), "src/deep/er/b.c:1: int y; // return\n");
    EXPECT_FAILED(grep("{\"pattern\": \"int\", \"path\": \"nope\"}"), "no such file: `nope`");
}

BERM_TEST(grep_skips_binary_files_and_says_so)
{
    berm_test_file_bytes("a", BERM_STR("int\0"));
    berm_test_file_bytes("b", BERM_STR("int\xff"));
    berm_test_file("c", "int\n");
    EXPECT_DONE(grep("{\"pattern\": \"int\"}"), "c:1: int\n[2 files skipped: binary, too large or unreadable]\n");
}

BERM_TEST(grep_cuts_long_lines)
{
    char text[1001];
    memset(text, 'x', 1000);
    text[1000] = 0;
    berm_test_file("a", text);
    berm_outcome got = grep("{\"pattern\": \"x\"}");
    EXPECT(!got.failed);
    EXPECT(got.text.len == strlen("a:1: ") + 400 + strlen(" …\n"));
}

BERM_TEST(grep_stops_at_five_hundred)
{
    char text[1200];
    memset(text, '\n', sizeof text);
    berm_test_file_bytes("a", berm_str_make(text, sizeof text));
    berm_outcome got = grep("{\"pattern\": \"^$\"}");
    EXPECT(!got.failed);
    EXPECT_CONTAINS(got.text, "a:500: \n[more than 500 matches: use a narrower pattern or path]\n");
}
