/* A small grammar of times: words in, a rule or an instant out.
 *
 *     when      = repeated [zone] | once [zone] | five fields of cron [zone] | "@" … [zone]
 *     repeated  = "every" (number unit | unit | days time | "month" day-number time)
 *     once      = "in" number unit | [date] time
 *     days      = "day" | "weekday" | "weekend" | names of weekdays
 *     date      = "today" | "tomorrow" | a weekday | YYYY-MM-DD
 *     time      = HH:MM
 *
 * A zone is an IANA name with a slash, or UTC. The words "at", "on", "and" and "the" may stand anywhere.
 */
#include "when.h"

#define WORDS_MOST 40
#define DAY_MS INT64_C(86400000)

typedef struct words {
    berm_str all; /* what was said, for messages */
    berm_str items[WORDS_MOST];
    size_t len;
    size_t at;
    berm_now now;
    berm_str zone;
} words;

BERM_NORETURN static void not_understood(const words *w, const char *why)
{
    berm_fail("cannot read `%.*s` as a time: %s; write for example " WHEN_EXAMPLES,
              BERM_ARG(berm_slice(w->all, 0, 200)), why);
}

/* ---- words ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_filler(berm_str word)
{
    return berm_is(word, "at") || berm_is(word, "on") || berm_is(word, "and") || berm_is(word, "the");
}

static berm_str lower(berm_str text)
{
    char *copy = berm_str_dup(text);
    for (size_t i = 0; i < text.len; i++)
        if (copy[i] >= 'A' && copy[i] <= 'Z')
            copy[i] = (char)(copy[i] + ('a' - 'A'));
    return berm_str_make(copy, text.len);
}

static void add_word(words *w, berm_str word)
{
    if (word.len == 0)
        return;
    if (w->len == WORDS_MOST)
        not_understood(w, "it is too long");
    w->items[w->len++] = word;
}

/* Split at blanks, and at commas too, which cron's lists have within a word. */
static void split(words *w, berm_str text, bool commas)
{
    size_t start = 0;
    w->len = 0;
    for (size_t i = 0; i <= text.len; i++)
        if (i == text.len || is_blank(text.ptr[i]) || (commas && text.ptr[i] == ',')) {
            add_word(w, berm_slice(text, start, i));
            start = i + 1;
        }
}

/* The last word, where it names a zone: a letter in front and a slash, as no date and no number of cron has. */
static void take_zone(words *w)
{
    berm_str last = w->len ? w->items[w->len - 1] : BERM_STR("");
    char first = last.len ? lower(last).ptr[0] : 0;
    bool is_utc = berm_is(lower(last), "utc");
    w->zone = w->now.zone;
    if (!is_utc && (first < 'a' || first > 'z' || berm_find(last, BERM_STR("/"), 0) == BERM_NOT_FOUND))
        return;
    w->zone = is_utc ? BERM_STR("UTC") : last;
    w->len--;
}

/* The next word that says something, in small letters; empty at the end. */
static berm_str next_word(words *w)
{
    while (w->at < w->len) {
        berm_str word = lower(w->items[w->at++]);
        if (!is_filler(word))
            return word;
    }
    return BERM_STR("");
}

static void expect_end(words *w)
{
    berm_str word = next_word(w);
    if (word.len == 0)
        return;
    if (berm_is(word, "am") || berm_is(word, "pm"))
        not_understood(w, "a time is HH:MM of 24 hours");
    not_understood(w, "there is more than a time");
}

/* ---- parts ---- */

static bool read_int(berm_str text, int low, int high, int *value)
{
    int64_t number;
    bool is_digit = text.len && text.ptr[0] >= '0' && text.ptr[0] <= '9';
    if (!is_digit || !berm_parse_int(text, &number) || number < low || number > high)
        return false;
    *value = (int)number;
    return true;
}

static bool read_time(berm_str word, int *hour, int *minute)
{
    berm_str hours, minutes;
    return berm_cut(word, BERM_STR(":"), &hours, &minutes) && hours.len <= 2 && minutes.len == 2 &&
           read_int(hours, 0, 23, hour) && read_int(minutes, 0, 59, minute);
}

static void take_time(words *w, int *hour, int *minute)
{
    berm_str word = next_word(w);
    if (word.len == 0)
        not_understood(w, "at what time of the day? HH:MM is missing");
    if (!read_time(word, hour, minute))
        not_understood(w, "expected a time HH:MM of 24 hours");
}

/* mon, monday, mondays: at least three letters of it. */
static bool read_weekday(berm_str word, int *weekday)
{
    static const char *const NAMES[] = {"sundays",   "mondays", "tuesdays", "wednesdays",
                                        "thursdays", "fridays", "saturdays"};
    for (int i = 0; i < 7; i++)
        if (word.len >= 3 && berm_starts_with(berm_str_of(NAMES[i]), word)) {
            *weekday = i;
            return true;
        }
    return false;
}

/* The seconds of a unit, and its letter in a rule; 0 for a word that is none. */
static int64_t unit_seconds(berm_str word)
{
    static const struct {
        const char *name;
        int64_t seconds;
    } UNITS[] = {{"second", 1}, {"sec", 1},    {"s", 1},     {"minute", 60}, {"min", 60}, {"m", 60},
                 {"hour", 3600}, {"h", 3600}, {"day", 86400}, {"d", 86400},   {"week", 604800}, {"w", 604800}};
    if (word.len > 2 && berm_ends_with(word, BERM_STR("s")))
        word.len--;
    for (size_t i = 0; i < sizeof UNITS / sizeof *UNITS; i++)
        if (berm_is(word, UNITS[i].name))
            return UNITS[i].seconds;
    return 0;
}

/* "20 minutes", "20m", "a minute". */
static bool take_distance(words *w, int64_t *seconds)
{
    size_t start = w->at;
    berm_str word = next_word(w);
    size_t digits = 0;
    int count = 1;
    while (digits < word.len && word.ptr[digits] >= '0' && word.ptr[digits] <= '9')
        digits++;
    bool counted = digits && read_int(berm_slice(word, 0, digits), 1, 1000000, &count);
    bool article = berm_is(word, "a") || berm_is(word, "an") || berm_is(word, "one");
    berm_str unit = digits && digits < word.len ? berm_slice(word, digits, word.len) : next_word(w);
    *seconds = count * unit_seconds(unit);
    if ((!counted && !article) || *seconds == 0) {
        w->at = start;
        return false;
    }
    return true;
}

static berm_str text_of(berm_out *out)
{
    return berm_str_make(berm_str_dup(berm_out_str(out)), out->len);
}

/* ---- repeated ---- */

static berm_str daily_rule(words *w, berm_str days, berm_str weekdays)
{
    char memory[96];
    int hour, minute;
    berm_out out;
    take_time(w, &hour, &minute);
    berm_out_fixed(&out, memory, sizeof memory);
    berm_printf(&out, "%d %d %.*s * %.*s", minute, hour, BERM_ARG(days), BERM_ARG(weekdays));
    return text_of(&out);
}

static berm_str weekdays_rule(words *w, int weekday)
{
    char memory[96];
    berm_out names;
    unsigned seen = 0;
    size_t before;
    berm_out_fixed(&names, memory, sizeof memory);
    do {
        if (!(seen >> weekday & 1))
            berm_printf(&names, "%s%d", seen ? "," : "", weekday);
        seen |= 1u << weekday;
        before = w->at;
    } while (read_weekday(next_word(w), &weekday));
    w->at = before;
    return daily_rule(w, BERM_STR("*"), berm_out_str(&names));
}

/* "1st", "31" */
static berm_str monthly_rule(words *w)
{
    int day;
    berm_str word = next_word(w);
    size_t digits = word.len > 2 ? word.len - 2 : word.len;
    berm_str ending = berm_slice(word, digits, word.len);
    bool ordinal = berm_is(ending, "st") || berm_is(ending, "nd") || berm_is(ending, "rd") || berm_is(ending, "th");
    if (!read_int(ordinal ? berm_slice(word, 0, digits) : word, 1, 31, &day))
        not_understood(w, "expected a day of the month, 1 to 31");
    char memory[8];
    berm_out text;
    berm_out_fixed(&text, memory, sizeof memory);
    berm_printf(&text, "%d", day);
    return daily_rule(w, berm_out_str(&text), BERM_STR("*"));
}

static berm_str distance_rule(int64_t seconds)
{
    char memory[40];
    berm_out out;
    berm_out_fixed(&out, memory, sizeof memory);
    if (seconds % 86400 == 0)
        berm_printf(&out, "@every %lldd", (long long)seconds / 86400);
    else if (seconds % 3600 == 0)
        berm_printf(&out, "@every %lldh", (long long)seconds / 3600);
    else if (seconds % 60 == 0)
        berm_printf(&out, "@every %lldm", (long long)seconds / 60);
    else
        berm_printf(&out, "@every %llds", (long long)seconds);
    return text_of(&out);
}

static berm_str repeated(words *w)
{
    int weekday;
    int64_t seconds;
    if (take_distance(w, &seconds))
        return distance_rule(seconds);
    berm_str word = next_word(w);
    if (berm_is(word, "minute"))
        return BERM_STR("* * * * *");
    if (berm_is(word, "hour"))
        return BERM_STR("0 * * * *");
    if (berm_is(word, "day"))
        return daily_rule(w, BERM_STR("*"), BERM_STR("*"));
    if (berm_is(word, "weekday") || berm_is(word, "weekdays"))
        return daily_rule(w, BERM_STR("*"), BERM_STR("1-5"));
    if (berm_is(word, "weekend") || berm_is(word, "weekends"))
        return daily_rule(w, BERM_STR("*"), BERM_STR("6,0"));
    if (berm_is(word, "month"))
        return monthly_rule(w);
    if (read_weekday(word, &weekday))
        return weekdays_rule(w, weekday);
    not_understood(w, "expected day, weekday, weekend, a weekday, month or a distance after `every`");
}

/* ---- once ---- */

static berm_calendar calendar_of(const words *w)
{
    berm_calendar calendar = {w->zone, BERM_GAP_SHIFT, BERM_OVERLAP_FIRST, 0};
    return calendar;
}

static berm_date today(const words *w)
{
    bool utc = berm_is(w->zone, "UTC");
    return berm_date_of(w->now.unix_ms, utc ? 0 : berm_clock_offset(w->zone, w->now.unix_ms).offset_s);
}

static int64_t instant_of(const words *w, berm_date date, int days_on, int hour, int minute)
{
    int64_t at_ms;
    berm_calendar calendar = calendar_of(w);
    date.hour = date.minute = date.second = date.millisecond = 0;
    date = berm_date_of(berm_date_to_ms(&date, 0) + days_on * DAY_MS, 0);
    date.hour = hour;
    date.minute = minute;
    if (!berm_calendar_instant(&calendar, &date, &at_ms))
        not_understood(w, "there is no such time in this zone");
    return at_ms;
}

static bool read_date(berm_str word, berm_date *date)
{
    berm_str year, rest, month, day;
    int y;
    if (word.len != 10 || !berm_cut(word, BERM_STR("-"), &year, &rest) ||
        !berm_cut(rest, BERM_STR("-"), &month, &day) || !read_int(year, 1970, 9000, &y) ||
        !read_int(month, 1, 12, &date->month) || !read_int(day, 1, 31, &date->day))
        return false;
    date->year = y;
    date->hour = date->minute = date->second = date->millisecond = date->weekday = 0;
    berm_date back = berm_date_of(berm_date_to_ms(date, 0), 0);
    return back.day == date->day;
}

/* [date] time. Without a date, and for a weekday, the next such time. */
static int64_t once(words *w)
{
    int hour, minute, weekday, days_on = 0, cycle = 0;
    berm_date date = today(w);
    size_t start = w->at;
    berm_str word = next_word(w);
    bool dated = read_date(word, &date);
    if (berm_is(word, "tomorrow")) {
        days_on = 1;
    } else if (read_weekday(word, &weekday)) {
        days_on = (weekday - date.weekday + 7) % 7;
        cycle = 7;
    } else if (!dated && !berm_is(word, "today")) {
        w->at = start;
        cycle = 1;
        if (!read_time(word, &hour, &minute))
            not_understood(w, "expected a date or a time");
    }
    take_time(w, &hour, &minute);
    int64_t at_ms = instant_of(w, date, days_on, hour, minute);
    if (cycle && at_ms <= w->now.unix_ms)
        at_ms = instant_of(w, date, days_on + cycle, hour, minute);
    return at_ms;
}

/* ---- all of it ---- */

/* What was said, without the zone behind it. */
static berm_str written(const words *w)
{
    berm_out out;
    berm_out_init(&out, 4096);
    for (size_t i = 0; i < w->len; i++)
        berm_printf(&out, "%s%.*s", i ? " " : "", BERM_ARG(w->items[i]));
    return berm_out_str(&out);
}

static bool looks_like_cron(const words *w)
{
    char first = w->len ? w->items[0].ptr[0] : 0;
    return first == '@' || first == '*' || (w->len >= 5 && first >= '0' && first <= '9');
}

when when_read(berm_str text, const berm_now *now)
{
    words w = {.all = text, .now = *now};
    when found = {BERM_STR(""), 0, BERM_STR("")};
    int64_t seconds;
    split(&w, text, false);
    take_zone(&w);
    found.zone = w.zone;
    if (looks_like_cron(&w)) {
        found.rule = written(&w);
        berm_rule_of(found.rule);
        return found;
    }
    split(&w, written(&w), true);
    berm_str first = next_word(&w);
    if (first.len == 0)
        not_understood(&w, "it says nothing");
    if (berm_is(first, "every")) {
        found.rule = repeated(&w);
        berm_rule_of(found.rule);
    } else if (berm_is(first, "in")) {
        if (!take_distance(&w, &seconds))
            not_understood(&w, "expected a distance after `in`");
        found.at_ms = now->unix_ms + seconds * 1000;
    } else {
        w.at = 0;
        found.at_ms = once(&w);
    }
    expect_end(&w);
    if (found.rule.len == 0 && found.at_ms <= now->unix_ms)
        berm_fail("`%.*s` has passed", BERM_ARG(text));
    return found;
}
