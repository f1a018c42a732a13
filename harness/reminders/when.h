/* When: what a person says about a time, as a rule or an instant. */
#ifndef REMINDERS_WHEN_H
#define REMINDERS_WHEN_H

#include <berm/berm.h>

/* Shown where a text cannot be read. */
#define WHEN_EXAMPLES                                                                                      \
    "`every weekday 08:00 Europe/Berlin`, `every monday, thursday 18:30`, `every month on the 1st 09:00`, " \
    "`every 15 minutes`, `in 20 minutes`, `tomorrow 08:00`, `friday 12:00`, `2026-12-24 18:00`, or cron's " \
    "five fields `0 8 * * mon-fri`"

typedef struct when {
    berm_str rule; /* for berm/rule.h; empty: once, at at_ms */
    int64_t at_ms;
    berm_str zone; /* where it is read */
} when;

/* Read a text; fails the call with what is wrong. `now` gives the zone where the text names none. */
when when_read(berm_str text, const berm_now *now);

#endif
