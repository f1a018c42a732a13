/* What comes again and again: a rule, kept alive by wakes.
 *
 *     static void remind(const berm_occurrence *occurrence, berm_out *out)
 *     {
 *         berm_event_publish(BERM_STR("reminders:due"), occurrence->payload);
 *     }
 *     BERM_ON_WAKE
 *     {
 *         berm_recurring_run(wake, remind, out);
 *     }
 *     …
 *     berm_recurrence daily = {.key = BERM_STR("standup"), .rule = BERM_STR("0 8 * * mon-fri"),
 *                              .zone = BERM_STR("Europe/Berlin"), .payload = BERM_STR("stand up")};
 *     berm_recurring_start(&daily);
 *
 * Each wake schedules the next one before it runs the body, so a body that fails, traps or never ends costs one
 * occurrence and not the recurrence. All that is to be remembered travels in the wake, so no storage is needed;
 * a recurrence counts as one pending wake. It needs crabtalk.wake.* and berm.clock.*.
 *
 * It comes once a minute at most: wakes closer than that belong to one chain of calls, which the host ends.
 */
#ifndef BERM_RECURRING_H
#define BERM_RECURRING_H

#include <berm/out.h>
#include <berm/rule.h>
#include <berm/wake.h>

BERM_BEGIN

/* What becomes of occurrences that were missed: the machine was off, the daemon down. */
typedef enum berm_late {
    BERM_LATE_ONCE, /* run once for all of them, then go on from now */
    BERM_LATE_EACH, /* run once for each, in order */
    BERM_LATE_SKIP, /* run none of them that is later than grace_s, then go on from now */
} berm_late;

#define BERM_GRACE_S 60

typedef struct berm_recurrence {
    berm_str key;     /* its name in this harness; starting another one with the same key replaces it */
    berm_str rule;    /* see rule.h */
    berm_str zone;    /* where the rule is read; empty: the zone of berm_clock_now */
    berm_str payload; /* UTF-8, for the body */
    berm_gap gap;
    berm_overlap overlap;
    berm_late late;
    int64_t grace_s; /* 0: BERM_GRACE_S */

    /* Backing off: when a body has failed n times in a row, it is run again retry_s * 2^(n-1) later, at most
     * retry_most_s (0: an hour), in place of the occurrences until then. A success goes back to the rule.
     * retry_s 0: a failure changes nothing; else at least 60. A trap changes nothing either. */
    int64_t retry_s;
    int64_t retry_most_s;
} berm_recurrence;

typedef struct berm_occurrence {
    berm_str key;
    berm_str payload;
    int64_t due_ms;   /* what the rule said; a retry keeps the instant of the run that failed first */
    int64_t now_ms;
    int64_t next_ms;  /* when the next one is due */
    int64_t failures; /* in a row, before this run */
    bool late;        /* by more than grace_s */
} berm_occurrence;

/* Schedule the first occurrence, and return its instant. Fails the call when the rule is wrong. */
int64_t berm_recurring_start(const berm_recurrence *recurrence);

/* Whether there was such a recurrence. Ends it also from within its own body. */
bool berm_recurring_stop(berm_str key);

/* Serve a wake: schedule the next occurrence, then run the body. When the body fails, so does the call, after
 * the retry has been scheduled. False, and nothing done, for a wake that belongs to no recurrence. */
bool berm_recurring_run(const berm_wake *wake, void (*body)(const berm_occurrence *occurrence, berm_out *out),
                        berm_out *out);

BERM_END

#endif
