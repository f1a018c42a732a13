/* Rules: when something comes again. Cron's five fields, or a distance; and the calendar that they are read in.
 *
 *     minute hour day month weekday      0 8 * * mon-fri
 *
 * A field is `*`, a value, a range a-b, either with /step, or a list of those with commas. Months and weekdays
 * have names of three letters; Sunday is 0 or 7. When both day and weekday are restricted (neither begins
 * with `*`), a day that fits one of them fits, as cron has it. Also @hourly, @daily (@midnight), @weekly,
 * @monthly, @yearly (@annually), and `@every 1h30m` with the units d, h, m and s.
 *
 * A rule is read in the local time of a zone. Where clocks are set forward a local time does not exist, and
 * where they are set back it comes twice: a berm_calendar says what happens then. A rule that fits every hour
 * of a day goes straight through both, as a clock on the wall would not, and so does `@every`.
 */
#ifndef BERM_RULE_H
#define BERM_RULE_H

#include <berm/clock.h>

BERM_BEGIN

/* A local time that does not exist, 02:30 in a gap from 02:00 to 03:00: */
typedef enum berm_gap {
    BERM_GAP_SHIFT,  /* as far behind the gap's start: 03:30 */
    BERM_GAP_AFTER,  /* at the first instant behind the gap: 03:00 */
    BERM_GAP_BEFORE, /* as far before the gap's end: 01:30 */
    BERM_GAP_SKIP,   /* not at all */
} berm_gap;

/* A local time that comes twice: */
typedef enum berm_overlap {
    BERM_OVERLAP_FIRST,
    BERM_OVERLAP_SECOND,
    BERM_OVERLAP_BOTH,
} berm_overlap;

typedef struct berm_calendar {
    berm_str zone; /* an IANA name that the declaration's `zone` binds; "UTC" and empty need no clock */
    berm_gap gap;
    berm_overlap overlap;
    int64_t anchor_ms; /* where `@every` counts from */
} berm_calendar;

typedef struct berm_rule {
    int64_t every_s;    /* the distance of `@every`; 0 for a calendar rule, which has the rest */
    uint64_t minutes;   /* bit n: minute n */
    uint32_t hours;     /* bit n: hour n */
    uint32_t days;      /* bit n: day n, from 1 */
    uint32_t months;    /* bit n: month n, from 1 */
    uint32_t weekdays;  /* bit n: weekday n, 0 for Sunday */
    bool open_day;      /* the field began with `*` */
    bool open_weekday;
} berm_rule;

typedef struct berm_rule_error {
    const char *reason; /* "expected five fields" */
    size_t offset;      /* the byte at which */
} berm_rule_error;

/* Read a rule. On false *error says what is wrong and where; error may be NULL. */
bool berm_rule_parse(berm_str text, berm_rule *rule, berm_rule_error *error);

/* The same; fails the call with what is wrong. */
berm_rule berm_rule_of(berm_str text);

/* Find the first occurrence after an instant. False when there is none in the next 50 years. */
bool berm_rule_next(const berm_rule *rule, const berm_calendar *calendar, int64_t after_ms, int64_t *at_ms);

/* The instant of a local time, to the minute; `weekday` is not looked at. False when the calendar skips it, or
 * there is no such date. */
bool berm_calendar_instant(const berm_calendar *calendar, const berm_date *local, int64_t *at_ms);

BERM_END

#endif
