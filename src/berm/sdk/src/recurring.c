/* Recurrences: state in the payload of a wake, the next wake before the body. */
#include "wrap.h"

#include <berm/recurring.h>
#include <berm/tool.h>

#define RETRY_MOST_S 3600
#define PAYLOAD_MOST 65536
#define LEAST_S 60 /* between two runs */
#define OWN_CHAIN_MS (2 * LEAST_S * 1000)
#define LATEST_MS INT64_C(253000000000000) /* in the year 9987 */

/* What travels from wake to wake. */
typedef struct state {
    berm_recurrence recurrence;
    int64_t due_ms;   /* the occurrence that this wake is for */
    int64_t failures; /* in a row */
} state;

/* The recurrence whose body runs: what the body stops or starts anew is not to be scheduled behind its back. */
static berm_str running;
static bool taken_over;

static bool are_seconds(int64_t value)
{
    return value >= 0 && value <= INT64_C(366) * 86400;
}

/* ---- state in JSON ---- */

static void put_number(berm_json_writer *json, const char *key, int64_t value)
{
    berm_json_key(json, key);
    berm_json_write_int(json, value);
}

static void put_text(berm_json_writer *json, const char *key, berm_str text)
{
    berm_json_key(json, key);
    berm_json_write_string(json, text);
}

static berm_str pack(const state *s)
{
    berm_out out;
    berm_json_writer json;
    const berm_recurrence *r = &s->recurrence;
    berm_out_init(&out, PAYLOAD_MOST);
    berm_json_write_to(&json, &out);
    berm_json_open_object(&json);
    put_text(&json, "recurring", r->rule);
    put_text(&json, "zone", r->zone);
    put_number(&json, "gap", r->gap);
    put_number(&json, "overlap", r->overlap);
    put_number(&json, "late", r->late);
    put_number(&json, "grace_s", r->grace_s);
    put_number(&json, "retry_s", r->retry_s);
    put_number(&json, "retry_most_s", r->retry_most_s);
    put_number(&json, "due_ms", s->due_ms);
    put_number(&json, "failures", s->failures);
    put_text(&json, "payload", r->payload);
    berm_json_close(&json);
    if (berm_out_overflowed(&out))
        berm_fail("the payload of a recurrence is too long: %zu bytes", r->payload.len);
    return berm_out_str(&out);
}

/* False for a payload that `pack` did not write. */
static bool unpack(const berm_wake *wake, state *s)
{
    berm_json object;
    berm_recurrence *r = &s->recurrence;
    if (!berm_json_parse(wake->payload, &object, NULL) || object.kind != BERM_JSON_OBJECT ||
        berm_json_get(object, "recurring").kind != BERM_JSON_STRING)
        return false;
    r->key = wake->key;
    r->rule = wrap_text(object, "recurring");
    r->zone = wrap_text(object, "zone");
    r->payload = wrap_text(object, "payload");
    r->gap = (berm_gap)wrap_number(object, "gap");
    r->overlap = (berm_overlap)wrap_number(object, "overlap");
    r->late = (berm_late)wrap_number(object, "late");
    r->grace_s = wrap_number(object, "grace_s");
    r->retry_s = wrap_number(object, "retry_s");
    r->retry_most_s = wrap_number(object, "retry_most_s");
    s->due_ms = wrap_number(object, "due_ms");
    s->failures = wrap_number(object, "failures");
    return s->due_ms >= 0 && s->due_ms <= LATEST_MS && are_seconds(r->grace_s) && are_seconds(r->retry_s) &&
           are_seconds(r->retry_most_s) && s->failures >= 0 && s->failures <= INT32_MAX;
}

/* ---- instants ---- */

static int64_t rule_after(const berm_recurrence *r, int64_t anchor_ms, int64_t after_ms)
{
    int64_t at_ms;
    berm_rule rule = berm_rule_of(r->rule);
    berm_calendar calendar = {r->zone, r->gap, r->overlap, anchor_ms};
    if (!berm_rule_next(&rule, &calendar, after_ms, &at_ms))
        berm_fail("the rule `%.*s` has no occurrence in the next 50 years", BERM_ARG(r->rule));
    return at_ms;
}

static int64_t next_of(const state *s, int64_t now_ms)
{
    bool each = s->recurrence.late == BERM_LATE_EACH;
    int64_t from_ms = each || now_ms < s->due_ms ? s->due_ms : now_ms;
    return rule_after(&s->recurrence, s->due_ms, from_ms);
}

static int64_t retry_delay_ms(const berm_recurrence *r, int64_t failures)
{
    int64_t most_s = r->retry_most_s < r->retry_s ? r->retry_s : r->retry_most_s;
    int64_t delay_s = r->retry_s;
    for (int64_t n = 1; n < failures && delay_s < most_s; n++)
        delay_s = delay_s > most_s / 2 ? most_s : delay_s * 2;
    return delay_s * 1000;
}

/* ---- wakes ---- */

/* Schedule the wake for a state. A wake that comes sooner than a minute belongs to the chain of calls that asks
 * for it, and a chain ends; so where a host refuses that, a wake far enough ahead is better than none. */
static void arm(const state *s, int64_t at_ms, int64_t now_ms)
{
    berm_str payload = pack(s);
    berm_reply reply = berm_wake_try_at(at_ms, payload, s->recurrence.key);
    if (reply.status != BERM_OK && at_ms < now_ms + OWN_CHAIN_MS)
        reply = berm_wake_try_at(now_ms + OWN_CHAIN_MS, payload, s->recurrence.key);
    berm_must(reply);
}

static void note_taken_over(berm_str key)
{
    taken_over = taken_over || berm_equal(key, running);
}

static void check(const berm_recurrence *r)
{
    berm_rule rule = berm_rule_of(r->rule);
    if (r->key.len == 0)
        berm_fail("a recurrence needs a key");
    if (!berm_utf8_valid(r->payload))
        berm_fail("the payload of a recurrence is not UTF-8");
    if (rule.every_s && rule.every_s < LEAST_S)
        berm_fail("the rule `%.*s` is wrong: a recurrence comes once a minute at most", BERM_ARG(r->rule));
    if (!are_seconds(r->grace_s))
        berm_fail("expected `grace_s` of 0 seconds to 366 days, got %lld", (long long)r->grace_s);
    if (!are_seconds(r->retry_s) || !are_seconds(r->retry_most_s) || (r->retry_s && r->retry_s < LEAST_S))
        berm_fail("expected `retry_s` and `retry_most_s` of 0, or 60 seconds to 366 days, got %lld and %lld",
                  (long long)r->retry_s, (long long)r->retry_most_s);
}

int64_t berm_recurring_start(const berm_recurrence *recurrence)
{
    state s = {*recurrence, 0, 0};
    check(recurrence);
    if (s.recurrence.grace_s == 0)
        s.recurrence.grace_s = BERM_GRACE_S;
    if (s.recurrence.retry_most_s == 0)
        s.recurrence.retry_most_s = RETRY_MOST_S;
    berm_now now = berm_clock_now();
    if (s.recurrence.zone.len == 0)
        s.recurrence.zone = now.zone;
    s.due_ms = rule_after(&s.recurrence, now.unix_ms, now.unix_ms);
    arm(&s, s.due_ms, now.unix_ms);
    note_taken_over(s.recurrence.key);
    return s.due_ms;
}

bool berm_recurring_stop(berm_str key)
{
    bool stopped = false;
    berm_pendings pendings = berm_wake_list();
    note_taken_over(key);
    for (size_t i = 0; i < pendings.len; i++)
        if (berm_equal(pendings.items[i].key, key))
            stopped = berm_wake_cancel(pendings.items[i].id) || stopped;
    return stopped;
}

/* ---- a run ---- */

typedef struct run {
    void (*body)(const berm_occurrence *occurrence, berm_out *out);
    const berm_occurrence *occurrence;
    berm_out *out;
} run;

static void run_body(void *context)
{
    const run *r = (const run *)context;
    r->body(r->occurrence, r->out);
}

/* Schedule what follows a run that ended as the wake before it had not foreseen. */
static void settle(const state *before, const state *next, const berm_wake *wake, bool failed)
{
    const berm_recurrence *r = &before->recurrence;
    if (taken_over)
        return;
    if (failed && r->retry_s) {
        state retry = *before;
        retry.failures++;
        int64_t now_ms = berm_clock_now().unix_ms; /* the body may have taken long */
        arm(&retry, now_ms + retry_delay_ms(r, retry.failures), now_ms);
    } else if (!failed && before->failures) {
        state regular = *next;
        regular.failures = 0;
        arm(&regular, regular.due_ms, wake->now_ms);
    }
}

bool berm_recurring_run(const berm_wake *wake, void (*body)(const berm_occurrence *occurrence, berm_out *out),
                        berm_out *out)
{
    state s;
    berm_str message;
    if (!unpack(wake, &s))
        return false;
    const berm_recurrence *r = &s.recurrence;
    state next = s;
    next.due_ms = next_of(&s, wake->now_ms);
    arm(&next, next.due_ms, wake->now_ms);
    bool late = wake->now_ms - s.due_ms > r->grace_s * 1000;
    if (late && r->late == BERM_LATE_SKIP && s.failures == 0) {
        berm_printf(out, "skipped: %lld s late\n", (long long)(wake->now_ms - s.due_ms) / 1000);
        return true;
    }
    berm_occurrence occurrence = {r->key, r->payload, s.due_ms, wake->now_ms, next.due_ms, s.failures, late};
    run context = {body, &occurrence, out};
    running = r->key;
    taken_over = false;
    bool failed = berm_catch(run_body, &context, &message);
    settle(&s, &next, wake, failed);
    running = BERM_STR("");
    if (failed)
        berm_fail("%.*s", BERM_ARG(message));
    return true;
}
