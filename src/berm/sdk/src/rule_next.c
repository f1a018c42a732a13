/* The next occurrence of a rule: a search through spans of time in which a zone's offset stays the same.
 *
 * Within a span, local time is the instant plus a constant, so an occurrence is found by stepping through
 * days, hours and minutes. Where two spans meet, local time jumps: forward over a gap, whose times the
 * calendar moves or drops, or back over an overlap, whose times it takes from the first span, the second or
 * both. Two spans that meet are all that is looked at together: no zone has changed twice within a day.
 */
#include <berm/rule.h>

#define MINUTE_MS INT64_C(60000)
#define DAY_MINUTES INT64_C(1440)
#define DAY_MS (DAY_MINUTES * MINUTE_MS)
#define SEARCH_MS (50 * 366 * DAY_MS) /* 29 February on a given weekday comes every 40 years, at worst */
#define LOOK_BACK_MS (2 * DAY_MS)     /* no jump is longer than a day */
#define EVERY_HOUR 0xffffffu

typedef struct span {
    int64_t start_ms; /* INT64_MIN: not known, and long ago */
    int64_t end_ms;   /* INT64_MAX: none */
    int64_t offset_ms;
} span;

typedef struct search {
    const berm_rule *rule;
    const berm_calendar *calendar;
    int64_t after_ms; /* only what is later counts */
    int64_t stop_ms;  /* and only what is earlier */
    int64_t found_ms; /* the earliest so far; INT64_MAX: none */
} search;

static int64_t floor_divide(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- local times that fit ---- */

static bool day_fits(const berm_rule *rule, int64_t day)
{
    berm_date date = berm_date_of(day * DAY_MS, 0);
    bool day_of_month = rule->days >> date.day & 1;
    bool weekday = rule->weekdays >> date.weekday & 1;
    if (!(rule->months >> date.month & 1))
        return false;
    return rule->open_day || rule->open_weekday ? day_of_month && weekday : day_of_month || weekday;
}

/* The first minute of a day, from `minute` on, that fits; -1 when none does. */
static int64_t minute_that_fits(const berm_rule *rule, int64_t minute)
{
    for (int64_t hour = minute / 60; hour < 24; hour++, minute = hour * 60) {
        uint64_t left = rule->minutes >> (minute - hour * 60);
        if (rule->hours >> hour & 1 && left)
            return minute + __builtin_ctzll(left);
    }
    return -1;
}

/* The first local time that fits, at or after `from` and before `until`. */
static bool first_that_fits(const berm_rule *rule, int64_t from, int64_t until, int64_t *local)
{
    int64_t minutes = -floor_divide(-from, MINUTE_MS);
    int64_t day = floor_divide(minutes, DAY_MINUTES);
    int64_t minute = minutes - day * DAY_MINUTES;
    for (; day * DAY_MS < until; day++, minute = 0) {
        int64_t fits = day_fits(rule, day) ? minute_that_fits(rule, minute) : -1;
        if (fits < 0)
            continue;
        *local = day * DAY_MS + fits * MINUTE_MS;
        return *local < until;
    }
    return false;
}

/* Look for local times in a stretch, as instants by an offset. */
static void look(search *s, int64_t from_local, int64_t until_local, int64_t offset_ms)
{
    int64_t local;
    from_local = later(from_local, s->after_ms + 1 + offset_ms);
    until_local = earlier(until_local, earlier(s->stop_ms, s->found_ms) + offset_ms);
    if (first_that_fits(s->rule, from_local, until_local, &local))
        s->found_ms = local - offset_ms;
}

/* ---- spans ---- */

static span span_at(const berm_calendar *calendar, int64_t start_ms, int64_t at_ms)
{
    span here = {start_ms, INT64_MAX, 0};
    if (calendar->zone.len == 0 || berm_is(calendar->zone, "UTC"))
        return here;
    berm_offset offset = berm_clock_offset(calendar->zone, at_ms);
    here.offset_ms = offset.offset_s * 1000;
    if (offset.has_next)
        here.end_ms = offset.next_ms;
    return here;
}

/* Times of the gap between two spans, for what it does within the first of them. */
static void look_before_gap(search *s, const span *first, const span *second)
{
    if (s->calendar->gap == BERM_GAP_BEFORE && second->offset_ms > first->offset_ms)
        look(s, first->end_ms + first->offset_ms, first->end_ms + second->offset_ms, second->offset_ms);
}

/* The same within the second. */
static void look_after_gap(search *s, const span *first, const span *second)
{
    int64_t from = second->start_ms + first->offset_ms;
    int64_t until = second->start_ms + second->offset_ms;
    int64_t local;
    if (s->calendar->gap == BERM_GAP_SHIFT && from < until)
        look(s, from, until, first->offset_ms);
    if (s->calendar->gap == BERM_GAP_AFTER && from < until && second->start_ms > s->after_ms &&
        first_that_fits(s->rule, from, until, &local))
        s->found_ms = earlier(s->found_ms, second->start_ms);
}

/* Look through a span; the ones before and after it may be NULL where they do not matter. */
static void look_through(search *s, const span *before, const span *here, const span *after)
{
    bool straight = s->rule->hours == EVERY_HOUR;
    int64_t from = here->start_ms == INT64_MIN ? INT64_MIN : here->start_ms + here->offset_ms;
    int64_t until = here->end_ms == INT64_MAX ? INT64_MAX : here->end_ms + here->offset_ms;
    if (before && !straight && s->calendar->overlap == BERM_OVERLAP_FIRST)
        from = later(from, here->start_ms + before->offset_ms);
    if (after && !straight && s->calendar->overlap == BERM_OVERLAP_SECOND)
        until = earlier(until, here->end_ms + after->offset_ms);
    look(s, from, until, here->offset_ms);
    if (before && !straight)
        look_after_gap(s, before, here);
    if (after && !straight)
        look_before_gap(s, here, after);
}

static bool find(search *s)
{
    int64_t first_ms = s->after_ms - LOOK_BACK_MS;
    span spans[3] = {{0, 0, 0}, span_at(s->calendar, INT64_MIN, first_ms), {0, 0, 0}};
    bool has_before = false;
    while (s->found_ms == INT64_MAX) {
        bool has_after = spans[1].end_ms < s->stop_ms;
        if (has_after)
            spans[2] = span_at(s->calendar, spans[1].end_ms, spans[1].end_ms);
        look_through(s, has_before ? &spans[0] : NULL, &spans[1], has_after ? &spans[2] : NULL);
        if (!has_after)
            break;
        has_before = true;
        spans[0] = spans[1];
        spans[1] = spans[2];
    }
    return s->found_ms != INT64_MAX;
}

/* ---- what rule.h declares ---- */

static int64_t next_multiple(int64_t anchor_ms, int64_t every_ms, int64_t after_ms)
{
    return anchor_ms + (floor_divide(after_ms - anchor_ms, every_ms) + 1) * every_ms;
}

bool berm_rule_next(const berm_rule *rule, const berm_calendar *calendar, int64_t after_ms, int64_t *at_ms)
{
    if (rule->every_s) {
        *at_ms = next_multiple(calendar->anchor_ms, rule->every_s * 1000, after_ms);
        return true;
    }
    search s = {rule, calendar, after_ms, after_ms + SEARCH_MS, INT64_MAX};
    if (!find(&s))
        return false;
    *at_ms = s.found_ms;
    return true;
}

bool berm_calendar_instant(const berm_calendar *calendar, const berm_date *local, int64_t *at_ms)
{
    berm_date whole = *local;
    whole.second = whole.millisecond = 0;
    int64_t as_utc = berm_date_to_ms(&whole, 0);
    berm_date back = berm_date_of(as_utc, 0);
    if (back.day != local->day || back.month != local->month || back.hour != local->hour ||
        back.minute != local->minute)
        return false;
    berm_rule rule = {0, UINT64_C(1) << local->minute, 1u << local->hour, 1u << local->day, 1u << local->month,
                      0, true, false};
    rule.weekdays = 1u << back.weekday;
    search s = {&rule, calendar, as_utc - LOOK_BACK_MS, as_utc + LOOK_BACK_MS, INT64_MAX};
    if (!find(&s))
        return false;
    *at_ms = s.found_ms;
    return true;
}
