/* Reading rules: cron's fields into sets of bits, or a distance. */
#include <berm/rule.h>

#define MOST_TEXT 256
#define MOST_EVERY_S (INT64_C(366) * 86400)

typedef struct field {
    const char *range_reason; /* what to say of a value that is not in it */
    int low, high;
    const char *names; /* three letters each, from the value `first_name` on; NULL: none */
    int first_name;
} field;

static const field MINUTE = {"expected a minute from 0 to 59", 0, 59, NULL, 0};
static const field HOUR = {"expected an hour from 0 to 23", 0, 23, NULL, 0};
static const field DAY = {"expected a day from 1 to 31", 1, 31, NULL, 0};
static const field MONTH = {"expected a month from 1 to 12, or jan to dec", 1, 12,
                            "janfebmaraprmayjunjulaugsepoctnovdec", 1};
/* 7 is Sunday too, so that a range can end with it. */
static const field WEEKDAY = {"expected a weekday from 0 to 7, or sun to sat", 0, 7, "sunmontuewedthufrisat", 0};

/* What is read, and where reading stands; `reason` is set once something is wrong. */
typedef struct reader {
    berm_str text;
    size_t at;
    const char *reason;
    size_t wrong_at;
} reader;

static bool wrong(reader *r, const char *reason, size_t at)
{
    if (!r->reason) {
        r->reason = reason;
        r->wrong_at = at;
    }
    return false;
}

static char peek(const reader *r)
{
    return r->at < r->text.len ? r->text.ptr[r->at] : 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static void skip_blanks(reader *r)
{
    while (is_blank(peek(r)))
        r->at++;
}

static bool take(reader *r, char c)
{
    if (peek(r) != c || r->at == r->text.len)
        return false;
    r->at++;
    return true;
}

/* A number of at most four digits. */
static bool take_number(reader *r, int *value)
{
    size_t start = r->at;
    *value = 0;
    while (is_digit(peek(r)) && r->at - start < 4)
        *value = *value * 10 + (r->text.ptr[r->at++] - '0');
    return r->at > start && !is_digit(peek(r));
}

static bool take_name(reader *r, const field *f, int *value)
{
    if (!f->names || r->text.len - r->at < 3)
        return false;
    const char *p = r->text.ptr + r->at;
    for (int i = 0; f->names[i * 3]; i++) {
        const char *name = f->names + i * 3;
        if (lower(p[0]) != name[0] || lower(p[1]) != name[1] || lower(p[2]) != name[2])
            continue;
        r->at += 3;
        *value = f->first_name + i;
        return true;
    }
    return false;
}

static bool read_value(reader *r, const field *f, int *value)
{
    size_t start = r->at;
    if (take_name(r, f, value))
        return true;
    if (!take_number(r, value) || *value < f->low || *value > f->high)
        return wrong(r, f->range_reason, start);
    return true;
}

/* `*`, a or a-b. */
static bool read_range(reader *r, const field *f, int *low, int *high, bool *single)
{
    size_t start = r->at;
    *single = false;
    *low = f->low;
    *high = f == &WEEKDAY ? 6 : f->high;
    if (take(r, '*'))
        return true;
    if (!read_value(r, f, low))
        return false;
    *single = !take(r, '-');
    *high = *low;
    if (*single)
        return true;
    bool named = !is_digit(peek(r));
    if (!read_value(r, f, high))
        return false;
    /* sat-sun: a week that ends with Sunday. */
    if (f == &WEEKDAY && named && *high == 0 && *low > 0)
        *high = 7;
    return *low <= *high || wrong(r, "the range runs backwards", start);
}

static bool read_step(reader *r, const field *f, bool single, int *step)
{
    size_t start = r->at;
    *step = 1;
    if (!take(r, '/'))
        return true;
    if (single)
        return wrong(r, "a step needs a range or `*` before it", start);
    if (!take_number(r, step) || *step < 1)
        return wrong(r, "expected a step of at least 1", start + 1);
    return *step <= f->high || wrong(r, "the step is longer than the field: write @every", start + 1);
}

/* One of the five fields, into bits. */
static bool read_field(reader *r, const field *f, uint64_t *bits, bool *open)
{
    int low, high, step;
    bool single;
    *bits = 0;
    *open = peek(r) == '*';
    if (r->at == r->text.len)
        return wrong(r, "expected five fields, and there are fewer", r->at);
    do {
        if (!read_range(r, f, &low, &high, &single) || !read_step(r, f, single, &step))
            return false;
        for (int value = low; value <= high; value += step)
            *bits |= UINT64_C(1) << (f == &WEEKDAY && value == 7 ? 0 : value);
    } while (take(r, ','));
    if (r->at < r->text.len && !is_blank(peek(r)))
        return wrong(r, "expected a comma, a blank or the end", r->at);
    skip_blanks(r);
    return true;
}

/* 31 of a month that has 30, or 30 February, is a mistake and not a rule that never comes. */
static bool has_a_day(const berm_rule *rule)
{
    static const int LENGTHS[] = {0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    for (int month = 1; month <= 12; month++)
        if (rule->months >> month & 1 && rule->days & ((UINT64_C(2) << LENGTHS[month]) - 1))
            return true;
    return !rule->open_weekday && !rule->open_day;
}

static bool read_fields(reader *r, berm_rule *rule)
{
    uint64_t hours, days, months, weekdays;
    bool open;
    size_t days_at;
    if (!read_field(r, &MINUTE, &rule->minutes, &open) || !read_field(r, &HOUR, &hours, &open))
        return false;
    days_at = r->at;
    if (!read_field(r, &DAY, &days, &rule->open_day) || !read_field(r, &MONTH, &months, &open) ||
        !read_field(r, &WEEKDAY, &weekdays, &rule->open_weekday))
        return false;
    if (r->at < r->text.len)
        return wrong(r, "expected five fields, and there are more", r->at);
    rule->hours = (uint32_t)hours;
    rule->days = (uint32_t)days;
    rule->months = (uint32_t)months;
    rule->weekdays = (uint32_t)weekdays;
    return has_a_day(rule) || wrong(r, "no month of the rule has such a day", days_at);
}

static int64_t seconds_of_unit(char unit)
{
    return unit == 'd' ? 86400 : unit == 'h' ? 3600 : unit == 'm' ? 60 : unit == 's';
}

/* 1h30m, units from long to short. */
static bool read_every(reader *r, berm_rule *rule)
{
    int64_t last = INT64_MAX;
    skip_blanks(r);
    size_t start = r->at;
    do {
        int count;
        size_t at = r->at;
        int64_t unit = take_number(r, &count) ? seconds_of_unit(peek(r)) : 0;
        if (unit == 0 || unit >= last)
            return wrong(r, "expected a distance such as 1h30m, of d, h, m and s", at);
        rule->every_s += count * unit;
        last = unit;
        r->at++;
    } while (r->at < r->text.len);
    if (rule->every_s < 1 || rule->every_s > MOST_EVERY_S)
        return wrong(r, "expected a distance of 1 second to 366 days", start);
    return true;
}

static bool read_at(reader *r, berm_rule *rule)
{
    static const char *const NAMES[][2] = {
        {"@hourly", "0 * * * *"},  {"@daily", "0 0 * * *"},   {"@midnight", "0 0 * * *"},
        {"@weekly", "0 0 * * 0"},  {"@monthly", "0 0 1 * *"}, {"@yearly", "0 0 1 1 *"},
        {"@annually", "0 0 1 1 *"}};
    if (berm_starts_with(r->text, BERM_STR("@every"))) {
        r->at = 6;
        return read_every(r, rule);
    }
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        reader fields = {berm_str_of(NAMES[i][1]), 0, NULL, 0};
        if (berm_is(r->text, NAMES[i][0]))
            return read_fields(&fields, rule);
    }
    return wrong(r, "expected @hourly, @daily, @weekly, @monthly, @yearly or @every", 0);
}

bool berm_rule_parse(berm_str text, berm_rule *rule, berm_rule_error *error)
{
    reader r = {text, 0, NULL, 0};
    berm_rule found = {0, 0, 0, 0, 0, 0, false, false};
    while (r.text.len && is_blank(r.text.ptr[r.text.len - 1]))
        r.text.len--;
    size_t lead = 0;
    while (lead < r.text.len && is_blank(r.text.ptr[lead]))
        lead++;
    r.text = berm_slice(r.text, lead, r.text.len);
    if (r.text.len == 0)
        wrong(&r, "expected five fields, or @daily and its like", 0);
    else if (r.text.len > MOST_TEXT)
        wrong(&r, "the rule is longer than 256 bytes", MOST_TEXT);
    else if (peek(&r) == '@')
        read_at(&r, &found);
    else
        read_fields(&r, &found);
    if (r.reason && error) {
        error->reason = r.reason;
        error->offset = lead + r.wrong_at;
    }
    if (!r.reason)
        *rule = found;
    return !r.reason;
}

berm_rule berm_rule_of(berm_str text)
{
    berm_rule rule;
    berm_rule_error error;
    if (!berm_rule_parse(text, &rule, &error))
        berm_fail("the rule `%.*s` is wrong: %s - at byte %zu", BERM_ARG(berm_slice(text, 0, MOST_TEXT)),
                  error.reason, error.offset);
    return rule;
}
