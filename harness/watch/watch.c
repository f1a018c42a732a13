/* Watches: a URL is fetched by a rule, and an event tells when what it gives has changed.
 *
 * A watch is a record in storage and a recurrence, both under the key w/ID, where ID is made from the URL: so a
 * URL is watched once. What is compared is in page.h.
 */
#include "page.h"

#include <berm/berm.h>

#define URL_MOST 2048
#define ID_LETTERS 6
#define RETRY_S 60
#define RETRY_MOST_S 3600
#define FAILURES_TOLD 3 /* in a row; fewer are no news */

BERM_USAGE(
    "Watches web addresses. `watch` fetches one now and from then on by a rule, and publishes an event "
    "`watch:changed` when what comes back has changed, `watch:failing` when it cannot be fetched three times in "
    "a row, and `watch:recovered` after that. `list_watches` shows them, `check_watch` looks now, `unwatch` "
    "ends one.");

BERM_REQUESTS("crabtalk.wake.schedule", "crabtalk.wake.cancel", "crabtalk.wake.list", "crabtalk.event.publish",
              "berm.http.fetch", "berm.clock.now", "berm.clock.offset", "berm.get", "berm.set", "berm.kv.delete",
              "berm.kv.keys");

/* ---- records ---- */

typedef struct record {
    berm_str url;
    berm_str rule;
    berm_str zone;      /* in which times are shown */
    page page;          /* as it was last */
    int64_t changed_ms; /* when that was seen first */
} record;

static berm_str key_of(berm_str url)
{
    static const char LETTERS[] = "0123456789abcdefghjkmnpqrstvwxyz";
    berm_out out;
    uint64_t hash = berm_hash(url);
    hash ^= hash >> 32;
    berm_out_init(&out, 16);
    berm_puts(&out, "w/");
    for (int i = 0; i < ID_LETTERS; i++)
        berm_putc(&out, LETTERS[hash >> (5 * i) & 31]);
    return berm_out_str(&out);
}

static berm_str id_of(berm_str key)
{
    return berm_slice(key, 2, key.len);
}

static void put_text(berm_json_writer *json, const char *key, berm_str text)
{
    berm_json_key(json, key);
    berm_json_write_string(json, text);
}

static void put_number(berm_json_writer *json, const char *key, int64_t value)
{
    berm_json_key(json, key);
    berm_json_write_int(json, value);
}

static berm_str pack(const record *r)
{
    berm_out out;
    berm_json_writer json;
    berm_out_init(&out, 65536);
    berm_json_write_to(&json, &out);
    berm_json_open_object(&json);
    put_text(&json, "url", r->url);
    put_text(&json, "rule", r->rule);
    put_text(&json, "zone", r->zone);
    berm_json_key(&json, "page");
    page_write(&json, &r->page);
    put_number(&json, "changed_ms", r->changed_ms);
    berm_json_close(&json);
    return berm_out_str(&out);
}

static bool find(berm_str key, record *r)
{
    berm_str value;
    berm_json object;
    if (!berm_kv_get(key, &value))
        return false;
    if (!berm_json_parse(value, &object, NULL) || !berm_json_string(berm_json_get(object, "url"), &r->url) ||
        !berm_json_string(berm_json_get(object, "rule"), &r->rule) ||
        !berm_json_string(berm_json_get(object, "zone"), &r->zone) ||
        !berm_json_int(berm_json_get(object, "changed_ms"), &r->changed_ms) ||
        !page_read(berm_json_get(object, "page"), &r->page))
        berm_panic("the record `%.*s` is broken", BERM_ARG(key));
    return true;
}

static void find_or_fail(berm_str id, berm_str *key, record *r)
{
    berm_out out;
    id = berm_trim(id);
    berm_out_init(&out, 256);
    berm_printf(&out, "w/%.*s", BERM_ARG(id));
    *key = berm_out_str(&out);
    if (id.len == 0 || id.len > 64 || !find(*key, r))
        berm_fail("no watch `%.*s`; list_watches shows them", BERM_ARG(berm_slice(id, 0, 64)));
}

/* ---- events ---- */

/* The event of a change, `before` being NULL for other news. */
static void publish(const char *source, berm_str key, const record *r, const page *before, berm_str reason)
{
    berm_out out;
    berm_json_writer json;
    berm_out_init(&out, 65536);
    berm_json_write_to(&json, &out);
    berm_json_open_object(&json);
    put_text(&json, "id", id_of(key));
    put_text(&json, "url", r->url);
    if (before) {
        berm_json_key(&json, "before");
        page_write(&json, before);
    }
    berm_json_key(&json, "now");
    page_write(&json, &r->page);
    if (reason.len)
        put_text(&json, "reason", berm_slice(reason, 0, berm_utf8_valid_prefix(berm_slice(reason, 0, 500))));
    berm_json_close(&json);
    berm_event_publish(berm_str_of(source), berm_out_str(&out));
}

/* Compare, and tell and keep what has changed. True when something has. */
static bool look(berm_str key, record *r, int64_t now_ms)
{
    page before = r->page;
    page now = page_fetch(r->url, &before);
    if (page_same(&before, &now)) {
        /* A new validator for the same content saves the next transfer. */
        if (!berm_equal(before.etag, now.etag) || !berm_equal(before.modified, now.modified)) {
            r->page = now;
            berm_kv_set(key, pack(r));
        }
        return false;
    }
    r->page = now;
    r->changed_ms = now_ms;
    /* Told first: a crash in between tells twice, and not never. */
    publish("watch:changed", key, r, &before, BERM_STR(""));
    berm_kv_set(key, pack(r));
    return true;
}

/* ---- tools ---- */

/* "15m" or any rule. */
static berm_str rule_of(berm_str text)
{
    berm_out out;
    berm_rule rule;
    text = berm_trim(text);
    berm_out_init(&out, 1024);
    berm_printf(&out, "@every %.*s", BERM_ARG(berm_slice(text, 0, 300)));
    if (!berm_rule_parse(berm_out_str(&out), &rule, NULL)) {
        berm_rule_of(text);
        return text;
    }
    return berm_out_str(&out);
}

static void put_page(berm_out *out, const page *p)
{
    berm_printf(out, "status %lld, %lld bytes", (long long)p->status, (long long)p->size);
}

typedef struct plan {
    berm_str key;
    const record *record;
} plan;

static void schedule(void *context)
{
    const plan *p = (const plan *)context;
    berm_recurrence recurrence = {.key = p->key,
                                  .rule = p->record->rule,
                                  .zone = p->record->zone,
                                  .retry_s = RETRY_S,
                                  .retry_most_s = RETRY_MOST_S};
    berm_recurring_start(&recurrence);
}

BERM_TOOL(watch, "Watch a web address: fetch it now and again and again, and publish an event when it changes. "
                 "Watching the same address again changes how often.",
    required(string, url, "the address; its host must be one that was granted"),
    optional(string, every, "how often: `90s`, `15m`, `1h30m`, or cron's five fields `0 8 * * mon-fri`", "15m"))
{
    berm_str url = berm_trim(args->url);
    berm_str why;
    if (url.len == 0 || url.len > URL_MOST)
        berm_fail("`url` has 1 to %d bytes, got %zu", URL_MOST, url.len);
    berm_now now = berm_clock_now();
    berm_str key = key_of(url);
    record r = {url, rule_of(args->every), now.zone, page_none(), now.unix_ms};
    record known;
    bool is_new = !find(key, &known);
    if (!is_new && !berm_equal(known.url, url))
        berm_fail("this address and `%.*s` have the same id: unwatch that one first", BERM_ARG(known.url));
    if (is_new) {
        r.page = page_fetch(url, &r.page);
    } else {
        r.page = known.page;
        r.changed_ms = known.changed_ms;
    }
    /* The record first: a wake may come before this call is over. */
    berm_kv_set(key, pack(&r));
    plan p = {key, &r};
    if (berm_catch(schedule, &p, &why)) {
        if (is_new)
            berm_kv_delete(key);
        berm_fail("%.*s", BERM_ARG(why));
    }
    berm_printf(out, "%.*s: ", BERM_ARG(id_of(key)));
    put_page(out, &r.page);
    berm_printf(out, ", %.*s\n", BERM_ARG(r.rule));
}

static void put_local(berm_out *out, int64_t at_ms, berm_str zone)
{
    int64_t offset_s = berm_is(zone, "UTC") ? 0 : berm_clock_offset(zone, at_ms).offset_s;
    berm_put_minute(out, at_ms, offset_s);
    berm_printf(out, " %.*s", BERM_ARG(zone));
}

static void put_watch(berm_out *out, berm_str key, const record *r, const berm_pendings *pendings)
{
    berm_printf(out, "%.*s  %.*s  ", BERM_ARG(id_of(key)), BERM_ARG(r->url));
    put_page(out, &r->page);
    berm_puts(out, ", unchanged since ");
    put_local(out, r->changed_ms, r->zone);
    for (size_t i = 0; i < pendings->len; i++)
        if (berm_equal(pendings->items[i].key, key)) {
            berm_printf(out, ", %.*s, next ", BERM_ARG(r->rule));
            put_local(out, pendings->items[i].at_ms, r->zone);
            berm_putc(out, '\n');
            return;
        }
    berm_puts(out, ", not scheduled\n");
}

BERM_TOOL(list_watches, "Show all watches: id, address, what it gave, how often, when next.")
{
    berm_pendings pendings = berm_wake_list();
    berm_kv_keys keys = berm_kv_begin(BERM_STR("w/"));
    while (berm_kv_next(&keys)) {
        record r;
        if (find(keys.key, &r))
            put_watch(out, keys.key, &r, &pendings);
    }
    if (out->len == 0)
        berm_puts(out, "no watches\n");
}

BERM_TOOL(check_watch, "Fetch a watched address now, and publish if it has changed.",
    required(string, id, "from watch or list_watches"))
{
    berm_str key;
    record r;
    find_or_fail(args->id, &key, &r);
    bool changed = look(key, &r, berm_clock_now().unix_ms);
    berm_puts(out, changed ? "changed: " : "unchanged: ");
    put_page(out, &r.page);
    berm_putc(out, '\n');
}

BERM_TOOL(unwatch, "End a watch.", required(string, id, "from watch or list_watches"))
{
    berm_str key;
    record r;
    find_or_fail(args->id, &key, &r);
    berm_kv_delete(key);
    berm_recurring_stop(key);
    berm_printf(out, "no longer watched: %.*s\n", BERM_ARG(r.url));
}

/* ---- wakes ---- */

typedef struct visit {
    berm_str key;
    record *record;
    int64_t now_ms;
    bool changed;
} visit;

static void look_now(void *context)
{
    visit *v = (visit *)context;
    v->changed = look(v->key, v->record, v->now_ms);
}

static void occur(const berm_occurrence *occurrence, berm_out *out)
{
    record r;
    berm_str why;
    if (!find(occurrence->key, &r)) {
        berm_recurring_stop(occurrence->key);
        berm_puts(out, "unwatched meanwhile\n");
        return;
    }
    visit v = {occurrence->key, &r, occurrence->now_ms, false};
    if (berm_catch(look_now, &v, &why)) {
        why = berm_str_make(berm_str_dup(why), why.len);
        if (occurrence->failures + 1 == FAILURES_TOLD)
            publish("watch:failing", occurrence->key, &r, NULL, why);
        berm_fail("%.*s", BERM_ARG(why));
    }
    if (occurrence->failures >= FAILURES_TOLD)
        publish("watch:recovered", occurrence->key, &r, NULL, BERM_STR(""));
    berm_printf(out, "%s: ", v.changed ? "changed" : "unchanged");
    put_page(out, &r.page);
    berm_putc(out, '\n');
}

BERM_ON_WAKE
{
    if (!berm_recurring_run(wake, occur, out))
        berm_fail("the wake `%.*s` is not a watch's", BERM_ARG(wake->id));
}
