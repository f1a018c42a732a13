/* read, write, edit and bash. */
#include <berm/test.h>
#include <stdlib.h>
#include <string.h>

BERM_TEST(read_numbers_the_lines)
{
    berm_test_file("a.txt", "one\n\n\ttwo\r\nthree");
    EXPECT_DONE(berm_test_call("read", "{\"path\": \"a.txt\"}"),
                "     1\tone\n     2\t\n     3\t\ttwo\n     4\tthree\n");
}

BERM_TEST(read_shows_a_part_and_says_how_to_go_on)
{
    berm_test_file("a.txt", "1\n2\n3\n4\n5\n");
    EXPECT_DONE(berm_test_call("read", "{\"path\": \"a.txt\", \"offset\": 2, \"limit\": 2}"),
                "     2\t2\n     3\t3\n[2 more lines; go on with offset 4]\n");
    EXPECT_DONE(berm_test_call("read", "{\"path\": \"a.txt\", \"offset\": 5, \"limit\": 1}"), "     5\t5\n");
    EXPECT_DONE(berm_test_call("read", "{\"path\": \"a.txt\", \"offset\": 4, \"limit\": 1}"),
                "     4\t4\n[1 more lines; go on with offset 5]\n");
}

BERM_TEST(read_past_the_end_fails_with_the_number_of_lines)
{
    berm_test_file("a.txt", "1\n2\n");
    EXPECT_FAILED(berm_test_call("read", "{\"path\": \"a.txt\", \"offset\": 3}"),
                  "`a.txt` has 2 lines, so none from 3 on");
    EXPECT_FAILED(berm_test_call("read", "{\"path\": \"a.txt\", \"offset\": 0}"),
                  "expected at least 1, got 0 - at `offset`");
}

BERM_TEST(read_of_an_empty_file_says_so)
{
    berm_test_file("empty", "");
    EXPECT_DONE(berm_test_call("read", "{\"path\": \"empty\"}"), "[the file is empty]\n");
}

BERM_TEST(read_cuts_a_long_line_between_characters)
{
    char text[4001];
    for (int i = 0; i < 2000; i++)
        memcpy(text + 1 + 2 * i, "\u00e9", 2);
    text[0] = 'x';
    berm_test_file_bytes("long", berm_str_make(text, sizeof text));
    berm_outcome got = berm_test_call("read", "{\"path\": \"long\"}");
    EXPECT(!got.failed);
    EXPECT_CONTAINS(got.text, "\u00e9 [2002 more bytes on this line]\n");
}

BERM_TEST(read_refuses_what_is_not_text)
{
    berm_test_file_bytes("bin", BERM_STR("ab\xff"));
    EXPECT_FAILED(berm_test_call("read", "{\"path\": \"bin\"}"), "`bin` is not UTF-8 text: byte 2 is 0xff");
}

BERM_TEST(read_passes_on_what_the_host_says)
{
    berm_test_file("a/b", "");
    EXPECT_FAILED(berm_test_call("read", "{\"path\": \"nope\"}"), "no such file: `nope`");
    EXPECT_FAILED(berm_test_call("read", "{\"path\": \"a\"}"), "is a directory: `a`");
    EXPECT_FAILED(berm_test_call("read", "{\"path\": \"../x\"}"), "path leaves the root: `../x`");
}

BERM_TEST(write_creates_and_replaces)
{
    berm_test_file("old", "old");
    EXPECT_DONE(berm_test_call("write", "{\"path\": \"old\", \"content\": \"new\\n\"}"), "wrote 4 bytes to old\n");
    EXPECT_DONE(berm_test_call("write", "{\"path\": \"d/new\", \"content\": \"\"}"), "wrote 0 bytes to d/new\n");
    EXPECT_TEXT(berm_test_file_content("old"), "new\n");
    EXPECT_TEXT(berm_test_file_content("d/new"), "");
}

BERM_TEST(edit_replaces_a_text_that_occurs_once)
{
    berm_test_file("a.c", "int a;\nint b;\n");
    EXPECT_DONE(berm_test_call("edit", "{\"path\": \"a.c\", \"old\": \"int b\", \"new\": \"long b\"}"),
                "replaced in a.c, line 2\n");
    EXPECT_TEXT(berm_test_file_content("a.c"), "int a;\nlong b;\n");
    EXPECT_DONE(berm_test_call("edit", "{\"path\": \"a.c\", \"old\": \"int a;\\n\", \"new\": \"\"}"),
                "replaced in a.c, line 1\n");
    EXPECT_TEXT(berm_test_file_content("a.c"), "long b;\n");
}

BERM_TEST(edit_refuses_what_is_not_unique_and_changes_nothing)
{
    berm_test_file("a", "aaa\nb\naa\n");
    EXPECT_FAILED(berm_test_call("edit", "{\"path\": \"a\", \"old\": \"aa\", \"new\": \"x\"}"),
                  "`old` occurs 3 times in `a` (lines 1, 1, 3): include more of its surroundings");
    EXPECT_FAILED(berm_test_call("edit", "{\"path\": \"a\", \"old\": \"c\", \"new\": \"x\"}"),
                  "`old` does not occur in `a`: it must match exactly, white space included");
    EXPECT_FAILED(berm_test_call("edit", "{\"path\": \"a\", \"old\": \"\", \"new\": \"x\"}"),
                  "`old` is empty; `write` replaces a whole file");
    EXPECT_FAILED(berm_test_call("edit", "{\"path\": \"a\", \"old\": \"b\", \"new\": \"b\"}"),
                  "`old` and `new` are the same");
    EXPECT_TEXT(berm_test_file_content("a"), "aaa\nb\naa\n");
}

BERM_TEST(edit_names_ten_lines_at_most)
{
    berm_test_file("a", "x\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\nx\n");
    EXPECT_FAILED(berm_test_call("edit", "{\"path\": \"a\", \"old\": \"x\", \"new\": \"y\"}"),
                  "`old` occurs 12 times in `a` (lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …): include more of its "
                  "surroundings");
}

BERM_TEST(edit_keeps_bytes_that_are_not_text)
{
    berm_test_file_bytes("a", BERM_STR("\xff\0one\r\n"));
    EXPECT(!berm_test_call("edit", "{\"path\": \"a\", \"old\": \"one\", \"new\": \"two\"}").failed);
    EXPECT(berm_equal(berm_test_file_content("a"), BERM_STR("\xff\0two\r\n")));
}

/* ---- bash ---- */

static const char *bash_reply;

static void exec_stand_in(berm_request *request, berm_answer *answer)
{
    EXPECT_TEXT(berm_request_field(request), "make");
    EXPECT_TEXT(berm_request_field(request), "sub");
    EXPECT(request->rest.len == 0);
    berm_answer_bytes(answer, berm_str_of(bash_reply));
}

static berm_outcome bash(const char *reply)
{
    berm_test_stand_in("berm.exec.run", exec_stand_in);
    bash_reply = reply;
    return berm_test_call("bash", "{\"command\": \"make\", \"cwd\": \"sub\"}");
}

BERM_TEST(bash_shows_both_streams_and_the_exit_code)
{
    EXPECT_DONE(bash("{\"stdout\": \"out\", \"stderr\": \"err\\n\", \"exit_code\": 2}"),
                "out\n[stderr]\nerr\n[exit code 2]\n");
    EXPECT_DONE(bash("{\"stdout\": \"\", \"stderr\": \"\", \"exit_code\": 0}"), "[no output]\n");
    EXPECT_DONE(bash("{\"stdout\": \"\", \"stderr\": \"\", \"exit_code\": -1}"), "[ended by a signal]\n");
}

BERM_TEST(bash_says_how_much_was_dropped)
{
    EXPECT_DONE(bash("{\"stdout\": \"ab\", \"stdout_dropped\": 7, \"stderr\": \"\", \"exit_code\": 0}"),
                "ab\n[7 bytes were dropped in the middle]\n");
}

static void exec_fails(berm_request *request, berm_answer *answer)
{
    (void)request;
    berm_answer_error(answer, "the command ran longer than 30 s");
}

BERM_TEST(bash_fails_with_the_host_s_reason)
{
    berm_test_stand_in("berm.exec.run", exec_fails);
    EXPECT_FAILED(berm_test_call("bash", "{\"command\": \"sleep 99\"}"), "the command ran longer than 30 s");
}
