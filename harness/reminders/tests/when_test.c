/* What people say about times, as rules and instants. */
#include "../when.h"

#include <berm/test.h>

#define NOW INT64_C(1796000000000) /* Monday 2026-11-30 00:53:20 UTC, 01:53:20 in Berlin */

/* A tool of the test's own: the rule or the instant in UTC, and the zone unless it is Berlin. */
BERM_RAW_TOOL(read_when, "Read a time.", "{}")
{
    berm_now now = {NOW, 3600, BERM_STR("Europe/Berlin")};
    when found = when_read(args, &now);
    berm_put(out, found.rule);
    if (found.rule.len == 0)
        berm_put_minute(out, found.at_ms, 0);
    if (!berm_is(found.zone, "Europe/Berlin"))
        berm_printf(out, " %.*s", BERM_ARG(found.zone));
}

static berm_outcome read_when(const char *text)
{
    static bool ready;
    if (!ready) {
        berm_test_zone("Europe/Berlin", "CET-1CEST,M3.5.0,M10.5.0/3");
        berm_test_zone("America/New_York", "EST5EDT,M3.2.0,M11.1.0");
    }
    ready = true;
    return berm_test_call("read_when", text);
}

static void check(int line, const char *text, const char *wanted)
{
    berm_outcome got = read_when(text);
    if (got.failed || !berm_is(got.text, wanted))
        berm_test_failed(__FILE__, line, "`%s`: expected `%s`, got `%.*s`", text, wanted, BERM_ARG(got.text));
}

#define READS(text, wanted) check(__LINE__, (text), (wanted))

static void check_failure(int line, const char *text, const char *part)
{
    berm_outcome got = read_when(text);
    if (!got.failed || berm_find(got.text, berm_str_of(part), 0) == BERM_NOT_FOUND)
        berm_test_failed(__FILE__, line, "`%s`: expected a failure with `%s`, got `%.*s`", text, part,
                         BERM_ARG(got.text));
}

#define REFUSES(text, part) check_failure(__LINE__, (text), (part))

BERM_TEST(days_and_times_are_rules)
{
    READS("every weekday 08:00 Europe/Berlin", "0 8 * * 1-5");
    READS("every weekday 08:00", "0 8 * * 1-5");
    READS("Every day at 7:05", "5 7 * * *");
    READS("every day 23:59 UTC", "59 23 * * * UTC");
    READS("every day 23:59 utc", "59 23 * * * UTC");
    READS("every weekend at 10:00 America/New_York", "0 10 * * 6,0 America/New_York");
    READS("every monday 09:00", "0 9 * * 1");
    READS("every Mondays, Thursday and sat at 18:30", "30 18 * * 1,4,6");
    READS("every mon,thu 18:30", "30 18 * * 1,4");
    READS("every sun sun 00:00", "0 0 * * 0");
    READS("every month on the 1st at 09:00", "0 9 1 * *");
    READS("every month 31 09:00", "0 9 31 * *");
    READS("every minute", "* * * * *");
    READS("every hour", "0 * * * *");
}

BERM_TEST(distances_are_rules)
{
    READS("every 15 minutes", "@every 15m");
    READS("every 15m", "@every 15m");
    READS("every 90 min", "@every 90m");
    READS("every 2 hours", "@every 2h");
    READS("every 120 minutes", "@every 2h");
    READS("every 3 days", "@every 3d");
    READS("every 2 weeks", "@every 14d");
    READS("every 45 seconds UTC", "@every 45s UTC");
}

BERM_TEST(rules_of_cron_are_taken_as_they_are)
{
    READS("0 8 * * mon-fri", "0 8 * * mon-fri");
    READS("0  8 * *\t1,3 America/New_York", "0 8 * * 1,3 America/New_York");
    READS("*/5 * * * *", "*/5 * * * *");
    READS("@daily", "@daily");
    READS("@every 1h30m", "@every 1h30m");
    REFUSES("0 8 * * monday", "the rule `0 8 * * monday` is wrong: expected a comma, a blank or the end - at byte 11");
    REFUSES("@sometimes", "is wrong: expected @hourly");
}

BERM_TEST(single_times_are_instants)
{
    READS("in 20 minutes", "2026-11-30 01:13");
    READS("in an hour", "2026-11-30 01:53");
    READS("in 1 day", "2026-12-01 00:53");
    READS("in 2w", "2026-12-14 00:53");
    READS("today 08:00", "2026-11-30 07:00");
    READS("tomorrow at 08:00", "2026-12-01 07:00");
    READS("08:00", "2026-11-30 07:00");
    READS("at 01:00", "2026-12-01 00:00");
    READS("monday 08:00", "2026-11-30 07:00");
    READS("monday 01:00", "2026-12-07 00:00");
    READS("friday 12:00", "2026-12-04 11:00");
    READS("2026-12-24 18:00", "2026-12-24 17:00");
    READS("2027-06-24 at 18:00", "2027-06-24 16:00");
    READS("2026-12-24 18:00 America/New_York", "2026-12-24 23:00 America/New_York");
    READS("today 20:00 America/New_York", "2026-11-30 01:00 America/New_York");
    READS("2028-02-29 00:00 UTC", "2028-02-29 00:00 UTC");
}

BERM_TEST(a_time_that_the_clocks_skip_is_shifted)
{
    READS("2027-03-28 02:30", "2027-03-28 01:30");
    READS("2027-10-31 02:30", "2027-10-31 00:30");
}

BERM_TEST(what_is_not_understood_says_why_and_how)
{
    REFUSES("", "it says nothing");
    REFUSES("whenever", "cannot read `whenever` as a time: expected a date or a time; write for example `every");
    REFUSES("every weekday", "at what time of the day?");
    REFUSES("every weekday 8", "expected a time HH:MM");
    REFUSES("every weekday 8am", "expected a time HH:MM");
    REFUSES("every weekday 24:00", "expected a time HH:MM");
    REFUSES("every weekday 08:60", "expected a time HH:MM");
    REFUSES("every day 08:00 am", "a time is HH:MM of 24 hours");
    REFUSES("every day 08:00 and 20:00", "there is more than a time");
    REFUSES("every", "expected day, weekday");
    REFUSES("every blue moon", "expected day, weekday");
    REFUSES("every 0 minutes", "expected day, weekday");
    REFUSES("every month 32 08:00", "expected a day of the month");
    REFUSES("every 500 days", "is wrong: expected a distance of 1 second to 366 days");
    REFUSES("in a while", "expected a distance after `in`");
    REFUSES("in 99999999999999999999 days", "expected a distance after `in`");
    REFUSES("tomorrow", "at what time of the day?");
    REFUSES("2026-02-30 08:00", "expected a date or a time");
    REFUSES("2026-13-01 08:00", "expected a date or a time");
    REFUSES("x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x x", "it is too long");
}

BERM_TEST(what_has_passed_is_said)
{
    REFUSES("today 01:00", "`today 01:00` has passed");
    REFUSES("2020-01-01 08:00", "has passed");
}

BERM_TEST(a_zone_that_is_not_bound_is_the_host_s_error)
{
    REFUSES("tomorrow 08:00 Mars/Olympus", "zone is not bound: `Mars/Olympus`");
}
