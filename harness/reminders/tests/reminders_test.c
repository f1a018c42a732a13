/* The tools and the wakes, on wakes, events, storage and a clock in memory. */
#include <berm/test.h>

#define NOW INT64_C(1796000000000) /* Monday 2026-11-30 00:53:20 UTC, 01:53:20 in Berlin */
#define HOUR INT64_C(3600000)
#define EIGHT (NOW + 6 * HOUR + 400000) /* 08:00 in Berlin */

static void begin(void)
{
    berm_test_clock(NOW, 3600, "Europe/Berlin");
    berm_test_zone("Europe/Berlin", "CET-1CEST,M3.5.0,M10.5.0/3");
    berm_test_storage();
    berm_test_wakes();
    berm_test_events();
}

static berm_outcome call(const char *tool, const char *format, berm_str text)
{
    char memory[1024];
    berm_out args;
    berm_out_fixed(&args, memory, sizeof memory);
    berm_printf(&args, format, BERM_ARG(text));
    return berm_test_call_bytes(tool, berm_out_str(&args));
}

/* Set a reminder and return its id. */
static berm_str set(const char *when)
{
    berm_str id, rest;
    berm_outcome got = call("remind", "{\"when\": \"%.*s\", \"text\": \"stand up\"}", berm_str_of(when));
    EXPECT(!got.failed);
    EXPECT(berm_cut(got.text, BERM_STR(": "), &id, &rest));
    EXPECT(id.len == 6);
    return id;
}

static size_t count_lines(berm_str text)
{
    berm_str line;
    size_t lines = 0;
    while (berm_next_line(&text, &line))
        lines++;
    return lines;
}

BERM_TEST(a_reminder_is_published_each_time_it_is_due)
{
    begin();
    set("every weekday 08:00 Europe/Berlin");
    for (int day = 0; day < 3; day++) {
        EXPECT_DONE(berm_test_wake(), "reminded: stand up\n");
        EXPECT(count_lines(berm_test_published()) == (size_t)day + 1);
        EXPECT(berm_test_pending() == 1);
    }
    EXPECT_CONTAINS(berm_test_published(), "reminders:due {\"id\":\"");
    EXPECT_CONTAINS(berm_test_published(),
                    ",\"text\":\"stand up\",\"when\":\"every weekday 08:00 Europe/Berlin\","
                    "\"due_ms\":1796022000000,\"late\":false}\n");
    EXPECT_CONTAINS(berm_test_published(), "\"due_ms\":1796194800000");
}

BERM_TEST(it_says_when_it_is_due_first)
{
    begin();
    berm_outcome got = berm_test_call("remind", "{\"when\": \"every day 08:00\", \"text\": \"x\"}");
    EXPECT_CONTAINS(got.text, ": first 2026-11-30 08:00 Europe/Berlin\n");
    got = berm_test_call("remind", "{\"when\": \"tomorrow 08:00 UTC\", \"text\": \"x\"}");
    EXPECT_CONTAINS(got.text, ": once 2026-12-01 08:00 UTC\n");
}

BERM_TEST(a_single_reminder_is_gone_when_it_was_published)
{
    begin();
    set("in 20 minutes");
    EXPECT_DONE(berm_test_wake(), "reminded: stand up\n");
    EXPECT(berm_test_pending() == 0);
    EXPECT(count_lines(berm_test_published()) == 1);
    EXPECT_DONE(berm_test_call("list_reminders", ""), "no reminders\n");
}

BERM_TEST(late_ones_say_so)
{
    begin();
    set("in 20 minutes");
    EXPECT_DONE(berm_test_wake_late(HOUR), "reminded: stand up\n");
    EXPECT_CONTAINS(berm_test_published(), "\"late\":true");
}

BERM_TEST(reminders_missed_for_days_come_once)
{
    begin();
    set("every day 08:00");
    EXPECT_DONE(berm_test_wake_late(100 * HOUR), "reminded: stand up\n");
    EXPECT(berm_test_pending() == 1);
    EXPECT(berm_test_wake().failed == false);
    EXPECT_CONTAINS(berm_test_published(), "\"due_ms\":1796454000000,\"late\":false");
}

BERM_TEST(all_are_listed_with_their_next_time)
{
    begin();
    set("every weekday 08:00 Europe/Berlin");
    berm_test_call("remind", "{\"when\": \"tomorrow 09:00\", \"text\": \"two\\nlines\"}");
    berm_str list = berm_test_call("list_reminders", "").text;
    EXPECT(count_lines(list) == 2);
    EXPECT_CONTAINS(list, "  2026-11-30 08:00 Europe/Berlin  [every weekday 08:00 Europe/Berlin]  \"stand up\"\n");
    EXPECT_CONTAINS(list, "  2026-12-01 09:00 Europe/Berlin  [tomorrow 09:00]  \"two\\nlines\"\n");
}

BERM_TEST(a_cancelled_reminder_does_not_come)
{
    begin();
    berm_str id = set("every day 08:00");
    EXPECT_DONE(call("cancel_reminder", "{\"id\": \"%.*s\"}", id), "cancelled: stand up\n");
    EXPECT(berm_test_pending() == 0);
    EXPECT_FAILED(berm_test_call("cancel_reminder", "{\"id\": \"nosuch\"}"),
                  "no reminder `nosuch`; list_reminders shows them");
    EXPECT_DONE(berm_test_call("list_reminders", ""), "no reminders\n");
}

static void cancel_fails(berm_request *request, berm_answer *answer)
{
    (void)request;
    berm_answer_error(answer, "the store is away");
}

BERM_TEST(a_wake_without_its_record_reminds_nobody_and_ends)
{
    begin();
    berm_str id = set("every day 08:00");
    berm_test_stand_in("crabtalk.wake.list", cancel_fails);
    EXPECT_FAILED(call("cancel_reminder", "{\"id\": \"%.*s\"}", id), "the store is away");
    berm_test_wakes();
    EXPECT_DONE(berm_test_wake(), "cancelled meanwhile\n");
    EXPECT(berm_test_pending() == 0);
    EXPECT_TEXT(berm_test_published(), "");
}

static void refuse(berm_request *request, berm_answer *answer)
{
    (void)request;
    berm_answer_error(answer, "the queue is full");
}

BERM_TEST(what_could_not_be_published_is_tried_again)
{
    begin();
    set("in 20 minutes");
    berm_test_stand_in("crabtalk.event.publish", refuse);
    int64_t first = NOW + 20 * HOUR / 60;
    EXPECT_FAILED(berm_test_wake(), "the queue is full");
    EXPECT_FAILED(berm_test_wake(), "the queue is full");
    EXPECT(berm_test_pending() == 1);
    berm_test_events();
    EXPECT_DONE(berm_test_wake(), "reminded: stand up\n");
    char memory[64];
    berm_out due;
    berm_out_fixed(&due, memory, sizeof memory);
    berm_printf(&due, "\"due_ms\":%lld%c", (long long)first, 0);
    EXPECT_CONTAINS(berm_test_published(), memory);
    EXPECT_CONTAINS(berm_test_published(), "\"late\":true");
    EXPECT(berm_test_pending() == 0);
}

BERM_TEST(a_recurring_one_that_could_not_be_published_is_tried_a_minute_later)
{
    begin();
    set("every day 08:00");
    berm_test_stand_in("crabtalk.event.publish", refuse);
    EXPECT_FAILED(berm_test_wake(), "the queue is full");
    berm_test_events();
    EXPECT_DONE(berm_test_wake(), "reminded: stand up\n");
    EXPECT_CONTAINS(berm_test_published(), "\"due_ms\":1796022000000,\"late\":false");
    EXPECT(berm_test_wake().failed == false);
    EXPECT_CONTAINS(berm_test_published(), "\"due_ms\":1796108400000");
}

BERM_TEST(without_a_wake_there_is_no_record)
{
    begin();
    berm_test_stand_in("crabtalk.wake.schedule", refuse);
    EXPECT_FAILED(berm_test_call("remind", "{\"when\": \"every day 08:00\", \"text\": \"x\"}"), "the queue is full");
    EXPECT_FAILED(berm_test_call("remind", "{\"when\": \"in 1 day\", \"text\": \"x\"}"), "the queue is full");
    EXPECT_DONE(berm_test_call("list_reminders", ""), "no reminders\n");
}

BERM_TEST(two_reminders_of_one_instant_have_two_ids)
{
    begin();
    berm_str one = set("every day 08:00");
    berm_str other = set("every day 08:00");
    EXPECT(!berm_equal(one, other));
    EXPECT(berm_test_pending() == 2);
}

BERM_TEST(an_empty_text_is_refused)
{
    begin();
    EXPECT_FAILED(berm_test_call("remind", "{\"when\": \"in 1 day\", \"text\": \"  \"}"),
                  "`text` has 1 to 4096 bytes, got 0");
    EXPECT(berm_test_pending() == 0);
}
