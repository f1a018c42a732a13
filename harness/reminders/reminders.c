/* Reminders: a text that comes back at a time, once or by a rule, as an event `reminders:due`.
 *
 * A reminder is a record in storage and a pending wake, both under the key r/ID. The wake says when; the record
 * says what, and its absence that the reminder was cancelled.
 */
#include "when.h"

#define TEXT_MOST 4096
#define WHEN_MOST 400
#define ID_LETTERS 6
#define RETRY_S 60
#define RETRY_MOST_S 3600

BERM_USAGE(
    "Reminders that outlast the conversation. `remind` sets one, for example when `every weekday 08:00 "
    "Europe/Berlin` or `in 20 minutes`; it is published as an event `reminders:due` each time. "
    "`list_reminders` shows them with their ids, `cancel_reminder` takes one back.");

BERM_REQUESTS("crabtalk.wake.schedule", "crabtalk.wake.cancel", "crabtalk.wake.list", "crabtalk.event.publish",
              "berm.clock.now", "berm.clock.offset", "berm.get", "berm.set", "berm.kv.delete", "berm.kv.keys");

/* ---- records ---- */

typedef struct reminder {
    berm_str text;
    berm_str when; /* as it was said */
    berm_str zone;
} reminder;

static berm_str key_of(berm_str id)
{
    berm_out out;
    berm_out_init(&out, 256);
    berm_printf(&out, "r/%.*s", BERM_ARG(id));
    return berm_out_str(&out);
}

static berm_str id_of(berm_str key)
{
    return berm_slice(key, 2, key.len);
}

static berm_str pack(const reminder *r)
{
    berm_out out;
    berm_json_writer json;
    berm_out_init(&out, 65536);
    berm_json_write_to(&json, &out);
    berm_json_open_object(&json);
    berm_json_key(&json, "text");
    berm_json_write_string(&json, r->text);
    berm_json_key(&json, "when");
    berm_json_write_string(&json, r->when);
    berm_json_key(&json, "zone");
    berm_json_write_string(&json, r->zone);
    berm_json_close(&json);
    return berm_out_str(&out);
}

static bool find(berm_str key, reminder *r)
{
    berm_str value;
    berm_json object;
    if (!berm_kv_get(key, &value))
        return false;
    if (!berm_json_parse(value, &object, NULL) || !berm_json_string(berm_json_get(object, "text"), &r->text) ||
        !berm_json_string(berm_json_get(object, "when"), &r->when) ||
        !berm_json_string(berm_json_get(object, "zone"), &r->zone))
        berm_panic("the record `%.*s` is broken", BERM_ARG(key));
    return true;
}

/* Short, and another one for each reminder: a hash of what it says and when it was set. */
static berm_str new_key(berm_str text, berm_str said, int64_t now_ms)
{
    static const char LETTERS[] = "0123456789abcdefghjkmnpqrstvwxyz";
    berm_str value;
    for (unsigned salt = 0;; salt++) {
        char letters[ID_LETTERS];
        berm_out out;
        berm_out_init(&out, 16384);
        berm_printf(&out, "%lld %u %.*s %.*s", (long long)now_ms, salt, BERM_ARG(said), BERM_ARG(text));
        uint64_t hash = berm_hash(berm_out_str(&out));
        hash ^= hash >> 32;
        for (int i = 0; i < ID_LETTERS; i++)
            letters[i] = LETTERS[hash >> (5 * i) & 31];
        berm_str key = key_of(berm_str_make(letters, ID_LETTERS));
        if (!berm_kv_get(key, &value))
            return key;
    }
}

/* ---- times for people ---- */

static void put_local(berm_out *out, int64_t at_ms, berm_str zone)
{
    int64_t offset_s = berm_is(zone, "UTC") ? 0 : berm_clock_offset(zone, at_ms).offset_s;
    berm_put_minute(out, at_ms, offset_s);
    berm_printf(out, " %.*s", BERM_ARG(zone));
}

/* ---- tools ---- */

typedef struct plan {
    berm_str key;
    when when;
    int64_t due_ms;
} plan;

static void schedule(void *context)
{
    plan *p = (plan *)context;
    p->due_ms = p->when.at_ms;
    if (p->when.rule.len == 0) {
        berm_wake_at(p->when.at_ms, BERM_STR("0"), p->key);
        return;
    }
    berm_recurrence recurrence = {.key = p->key,
                                  .rule = p->when.rule,
                                  .zone = p->when.zone,
                                  .retry_s = RETRY_S,
                                  .retry_most_s = RETRY_MOST_S};
    p->due_ms = berm_recurring_start(&recurrence);
}

BERM_TOOL(remind, "Set a reminder. It is published as an event when it is due, and survives restarts.",
    required(string, when, "when: " WHEN_EXAMPLES "; a zone may stand at the end"),
    required(string, text, "what to be reminded of"))
{
    berm_str text = berm_trim(args->text);
    berm_str said = berm_trim(args->when);
    berm_str why;
    if (text.len == 0 || text.len > TEXT_MOST)
        berm_fail("`text` has 1 to %d bytes, got %zu", TEXT_MOST, text.len);
    if (said.len > WHEN_MOST)
        berm_fail("`when` has at most %d bytes, got %zu", WHEN_MOST, said.len);
    berm_now now = berm_clock_now();
    plan p = {new_key(text, said, now.unix_ms), when_read(said, &now), 0};
    reminder r = {text, said, p.when.zone};
    /* The record first: a wake may come before this call is over. */
    berm_kv_set(p.key, pack(&r));
    if (berm_catch(schedule, &p, &why)) {
        berm_kv_delete(p.key);
        berm_fail("%.*s", BERM_ARG(why));
    }
    berm_printf(out, "%.*s: %s ", BERM_ARG(id_of(p.key)), p.when.rule.len ? "first" : "once");
    put_local(out, p.due_ms, p.when.zone);
    berm_putc(out, '\n');
}

static const berm_pending *pending_of(const berm_pendings *pendings, berm_str key)
{
    for (size_t i = 0; i < pendings->len; i++)
        if (berm_equal(pendings->items[i].key, key))
            return &pendings->items[i];
    return NULL;
}

BERM_TOOL(list_reminders, "Show all reminders: id, when next, when as it was said, text.")
{
    berm_pendings pendings = berm_wake_list();
    berm_kv_keys keys = berm_kv_begin(BERM_STR("r/"));
    while (berm_kv_next(&keys)) {
        reminder r;
        if (!find(keys.key, &r))
            continue;
        const berm_pending *pending = pending_of(&pendings, keys.key);
        berm_printf(out, "%.*s  ", BERM_ARG(id_of(keys.key)));
        if (pending)
            put_local(out, pending->at_ms, r.zone);
        else
            berm_puts(out, "not scheduled");
        berm_printf(out, "  [%.*s]  ", BERM_ARG(r.when));
        berm_put_json_string(out, r.text);
        berm_putc(out, '\n');
    }
    if (out->len == 0)
        berm_puts(out, "no reminders\n");
}

BERM_TOOL(cancel_reminder, "Take a reminder back.", required(string, id, "from remind or list_reminders"))
{
    reminder r;
    berm_str id = berm_trim(args->id);
    berm_str key = key_of(id);
    if (id.len == 0 || id.len > 64 || !find(key, &r))
        berm_fail("no reminder `%.*s`; list_reminders shows them", BERM_ARG(berm_slice(id, 0, 64)));
    berm_kv_delete(key);
    berm_recurring_stop(key);
    berm_printf(out, "cancelled: %.*s\n", BERM_ARG(r.text));
}

/* ---- wakes ---- */

static berm_str event_of(berm_str key, const reminder *r, int64_t due_ms, int64_t now_ms)
{
    berm_out out;
    berm_json_writer json;
    berm_out_init(&out, 65536);
    berm_json_write_to(&json, &out);
    berm_json_open_object(&json);
    berm_json_key(&json, "id");
    berm_json_write_string(&json, id_of(key));
    berm_json_key(&json, "text");
    berm_json_write_string(&json, r->text);
    berm_json_key(&json, "when");
    berm_json_write_string(&json, r->when);
    berm_json_key(&json, "due_ms");
    berm_json_write_int(&json, due_ms);
    berm_json_key(&json, "late");
    berm_json_write_bool(&json, now_ms - due_ms > BERM_GRACE_S * 1000);
    berm_json_close(&json);
    return berm_out_str(&out);
}

static void recur(const berm_occurrence *occurrence, berm_out *out)
{
    reminder r;
    if (!find(occurrence->key, &r)) {
        berm_recurring_stop(occurrence->key);
        berm_puts(out, "cancelled meanwhile\n");
        return;
    }
    berm_event_publish(BERM_STR("reminders:due"),
                       event_of(occurrence->key, &r, occurrence->due_ms, occurrence->now_ms));
    berm_printf(out, "reminded: %.*s\n", BERM_ARG(r.text));
}

/* The wake of a single reminder carries how often publishing it has failed, and when it was due. */
static void remind_once(const berm_wake *wake, berm_out *out)
{
    reminder r;
    berm_str count, due;
    int64_t failures, due_ms = wake->scheduled_at_ms;
    berm_cut(wake->payload, BERM_STR(" "), &count, &due);
    if (!berm_parse_int(count, &failures) || (failures && !berm_parse_int(due, &due_ms)))
        berm_fail("the wake `%.*s` is not a reminder's", BERM_ARG(wake->id));
    if (!find(wake->key, &r)) {
        berm_puts(out, "cancelled meanwhile\n");
        return;
    }
    berm_reply reply =
        berm_event_try_publish(BERM_STR("reminders:due"), event_of(wake->key, &r, due_ms, wake->now_ms));
    if (reply.status != BERM_OK) {
        char memory[64];
        berm_out payload;
        int64_t delay_s = failures < 6 ? RETRY_S << failures : RETRY_MOST_S;
        berm_out_fixed(&payload, memory, sizeof memory);
        berm_printf(&payload, "%lld %lld", (long long)failures + 1, (long long)due_ms);
        berm_wake_at(wake->now_ms + delay_s * 1000, berm_out_str(&payload), wake->key);
        berm_must(reply);
    }
    berm_kv_delete(wake->key);
    berm_printf(out, "reminded: %.*s\n", BERM_ARG(r.text));
}

BERM_ON_WAKE
{
    if (!berm_recurring_run(wake, recur, out))
        remind_once(wake, out);
}
