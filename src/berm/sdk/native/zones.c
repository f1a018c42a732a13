/* Stand-ins over time: a clock that tests move, and zones by their POSIX rules. */
#include "native.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ZONES_MOST 16
#define DAY_S 86400

static struct {
    int64_t unix_ms, offset_s;
    const char *zone;
} clock_now;

static struct {
    const char *name;
    const char *rule;
} zones[ZONES_MOST];
static size_t zone_count;

static const char *rule_of(berm_str name)
{
    for (size_t i = 0; i < zone_count; i++)
        if (berm_is(name, zones[i].name))
            return zones[i].rule;
    return NULL;
}

static int64_t offset_at(const char *rule, int64_t second)
{
    time_t at = (time_t)second;
    struct tm local;
    setenv("TZ", rule, 1);
    tzset();
    localtime_r(&at, &local);
    return local.tm_gmtoff;
}

/* When the offset changes within about a year; -1: it does not. */
static int64_t next_change(const char *rule, int64_t second)
{
    int64_t offset = offset_at(rule, second);
    int64_t low = second, high = second + DAY_S;
    while (offset_at(rule, high) == offset && high - second < 400 * DAY_S) {
        low = high;
        high += DAY_S;
    }
    if (offset_at(rule, high) == offset)
        return -1;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (offset_at(rule, middle) == offset)
            low = middle;
        else
            high = middle;
    }
    return high;
}

static int64_t second_of(int64_t ms)
{
    return ms / 1000 - (ms % 1000 < 0);
}

int64_t native_now_ms(void)
{
    return clock_now.unix_ms;
}

void native_answer_integer(berm_answer *answer, int64_t value)
{
    char memory[24];
    berm_out text;
    berm_out_fixed(&text, memory, sizeof memory);
    berm_printf(&text, "%lld", (long long)value);
    berm_answer_field(answer, berm_out_str(&text));
}

static void clock_answer(berm_request *request, berm_answer *answer)
{
    const char *rule = rule_of(berm_str_of(clock_now.zone));
    (void)request;
    native_answer_integer(answer, clock_now.unix_ms);
    native_answer_integer(answer, rule ? offset_at(rule, second_of(clock_now.unix_ms)) : clock_now.offset_s);
    berm_answer_field(answer, berm_str_of(clock_now.zone));
}

static void offset_answer(berm_request *request, berm_answer *answer)
{
    berm_str name = berm_request_field(request);
    berm_str at = berm_request_field(request);
    const char *rule = rule_of(name);
    int64_t at_ms;
    if (!berm_parse_int(at, &at_ms))
        berm_test_failed(NULL, 0, "expected an instant for `berm.clock.offset`, got `%.*s`", BERM_ARG(at));
    if (!rule) {
        berm_answer_error(answer, "zone is not bound: `%.*s`", BERM_ARG(name));
        return;
    }
    int64_t change = next_change(rule, second_of(at_ms));
    native_answer_integer(answer, offset_at(rule, second_of(at_ms)));
    if (change < 0)
        berm_answer_field(answer, BERM_STR(""));
    else
        native_answer_integer(answer, change * 1000);
}

void berm_test_clock(int64_t unix_ms, int64_t offset_s, const char *zone)
{
    clock_now.unix_ms = unix_ms;
    clock_now.offset_s = offset_s;
    clock_now.zone = zone;
    berm_test_stand_in("berm.clock.now", clock_answer);
}

void berm_test_clock_to(int64_t unix_ms)
{
    clock_now.unix_ms = unix_ms;
}

void berm_test_zone(const char *name, const char *posix_rule)
{
    if (zone_count == ZONES_MOST)
        berm_test_failed(NULL, 0, "more than %d zones", ZONES_MOST);
    zones[zone_count].name = name;
    zones[zone_count++].rule = posix_rule;
    berm_test_stand_in("berm.clock.offset", offset_answer);
}
