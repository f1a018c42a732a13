#include <berm/test.h>

static berm_outcome save(const char *name, const char *text)
{
    char memory[512];
    berm_out args;
    berm_out_fixed(&args, memory, sizeof memory);
    berm_printf(&args, "{\"name\": \"%s\", \"text\": \"%s\"}", name, text);
    return berm_test_call_bytes("save_note", berm_out_str(&args));
}

static void expect_note(const char *name, const char *text)
{
    char memory[512];
    berm_out args;
    berm_out_fixed(&args, memory, sizeof memory);
    berm_printf(&args, "{\"name\": \"%s\"}", name);
    EXPECT_DONE(berm_test_call_bytes("read_note", berm_out_str(&args)), text);
}

BERM_TEST(a_note_is_read_as_it_was_written)
{
    berm_test_storage();
    EXPECT_DONE(save("plan", "eins\\nzwei ü\\n"), "saved plan, 13 bytes\n");
    expect_note("plan", "eins\nzwei ü\n");
    EXPECT_DONE(save(" plan ", "drei"), "replaced plan, 4 bytes\n");
    expect_note("plan", "drei");
    EXPECT_DONE(save("empty", ""), "saved empty, 0 bytes\n");
    expect_note("empty", "[the note is empty]\n");
}

BERM_TEST(lines_are_appended)
{
    berm_test_storage();
    EXPECT_DONE(berm_test_call("append_note", "{\"name\": \"log\", \"text\": \"one\"}"), "log has 3 bytes now\n");
    EXPECT_DONE(berm_test_call("append_note", "{\"name\": \"log\", \"text\": \"two\\n\"}"), "log has 8 bytes now\n");
    berm_test_call("append_note", "{\"name\": \"log\", \"text\": \"three\"}");
    expect_note("log", "one\ntwo\nthree");
}

BERM_TEST(names_are_listed_in_order)
{
    berm_test_storage();
    EXPECT_DONE(berm_test_call("list_notes", ""), "no notes\n");
    save("work/b", "x");
    save("home", "x");
    save("work/a", "x");
    EXPECT_DONE(berm_test_call("list_notes", ""), "home\nwork/a\nwork/b\n");
    EXPECT_DONE(berm_test_call("list_notes", "{\"prefix\": \"work/\"}"), "work/a\nwork/b\n");
    EXPECT_DONE(berm_test_call("list_notes", "{\"prefix\": \"x\"}"), "no notes whose names begin so\n");
}

BERM_TEST(a_note_is_deleted_once)
{
    berm_test_storage();
    save("plan", "x");
    EXPECT_DONE(berm_test_call("delete_note", "{\"name\": \"plan\"}"), "deleted plan\n");
    EXPECT_FAILED(berm_test_call("delete_note", "{\"name\": \"plan\"}"), "no note `plan`; list_notes shows them");
    EXPECT_FAILED(berm_test_call("read_note", "{\"name\": \"plan\"}"), "no note `plan`; list_notes shows them");
}

BERM_TEST(a_text_is_found_whatever_its_case)
{
    berm_test_storage();
    save("a", "nothing\\nThe Budget is tight");
    save("b", "budget: 12");
    save("c", "bud\\nget");
    EXPECT_DONE(berm_test_call("find_notes", "{\"text\": \"BUDGET\"}"),
                "a:2: The Budget is tight\nb:1: budget: 12\n");
    EXPECT_DONE(berm_test_call("find_notes", "{\"text\": \"absent\"}"), "not found\n");
    EXPECT_FAILED(berm_test_call("find_notes", "{\"text\": \"\"}"), "`text` is empty; list_notes shows all notes");
}

BERM_TEST(a_long_line_is_shown_around_what_was_found)
{
    char text[1024];
    berm_out out;
    berm_test_storage();
    berm_out_fixed(&out, text, sizeof text);
    berm_puts(&out, "{\"name\": \"long\", \"text\": \"");
    for (int i = 0; i < 150; i++)
        berm_puts(&out, "ü");
    berm_puts(&out, " needle ");
    for (int i = 0; i < 150; i++)
        berm_puts(&out, "ä");
    berm_puts(&out, "\"}");
    berm_test_call_bytes("save_note", berm_out_str(&out));
    berm_outcome got = berm_test_call("find_notes", "{\"text\": \"Needle\"}");
    EXPECT_CONTAINS(got.text, "long:1: …ü");
    EXPECT_CONTAINS(got.text, "ü needle ä");
    EXPECT_CONTAINS(got.text, "ä…\n");
    EXPECT(got.text.len < 240);
}

BERM_TEST(many_lines_are_counted_and_not_shown)
{
    char text[4096];
    berm_out out;
    berm_test_storage();
    berm_out_fixed(&out, text, sizeof text);
    berm_puts(&out, "{\"name\": \"many\", \"text\": \"");
    for (int i = 0; i < 130; i++)
        berm_puts(&out, "x\\n");
    berm_puts(&out, "\"}");
    berm_test_call_bytes("save_note", berm_out_str(&out));
    EXPECT_CONTAINS(berm_test_call("find_notes", "{\"text\": \"x\"}").text, "many:100: x\n[30 more lines]\n");
}

BERM_TEST(names_and_sizes_have_bounds)
{
    static char args[80000];
    berm_out out;
    berm_test_storage();
    EXPECT_FAILED(save("  ", "x"), "`name` has 1 to 200 bytes, got 0");
    EXPECT_FAILED(save("a\\nb", "x"), "`name` has a control character, byte 0x0a");
    berm_out_fixed(&out, args, sizeof args);
    berm_puts(&out, "{\"name\": \"big\", \"text\": \"");
    for (int i = 0; i < 65537; i++)
        berm_putc(&out, 'x');
    berm_puts(&out, "\"}");
    EXPECT_FAILED(berm_test_call_bytes("save_note", berm_out_str(&out)),
                  "a note has at most 65536 bytes, this one would have 65537: begin another");
    EXPECT_DONE(berm_test_call("list_notes", ""), "no notes\n");
    out.len = 0;
    berm_puts(&out, "{\"text\": \"");
    for (int i = 0; i < 201; i++)
        berm_putc(&out, 'x');
    berm_puts(&out, "\"}");
    EXPECT_FAILED(berm_test_call_bytes("find_notes", berm_out_str(&out)), "`text` has at most 200 bytes, got 201");
}

static void refuse(berm_request *request, berm_answer *answer)
{
    (void)request;
    berm_answer_refused(answer, "quota of 1024 bytes is used up");
}

BERM_TEST(a_quota_that_is_used_up_is_said)
{
    berm_test_storage();
    berm_test_stand_in("berm.set", refuse);
    EXPECT_FAILED(save("plan", "x"), "quota of 1024 bytes is used up");
}
