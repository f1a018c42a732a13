/* Stand-ins of what the daemon serves: wakes and events in memory. */
#include "native.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAKES_MOST 1024
#define SUBSCRIPTIONS_MOST 64

typedef struct pending {
    char id[24];
    berm_str key;
    berm_str payload;
    int64_t at_ms;
} pending;

static pending wakes[WAKES_MOST]; /* in no order */
static size_t wake_count;
static size_t wakes_made;

static struct {
    char id[24];
    char *source;
} subscriptions[SUBSCRIPTIONS_MOST];
static size_t subscription_count;
static size_t subscriptions_made;

static char *published; /* all lines */
static size_t published_len;

static void write_id(char id[24], size_t number)
{
    snprintf(id, 24, "%zu", number);
}

/* ---- wakes ---- */

static void take_wake(size_t i)
{
    wakes[i] = wakes[--wake_count];
}

static void wake_schedule(berm_request *request, berm_answer *answer)
{
    int64_t at_ms;
    berm_str at = berm_request_field(request);
    berm_str payload = berm_request_field(request);
    berm_str key = berm_request_field(request);
    if (!berm_parse_int(at, &at_ms))
        berm_test_failed(NULL, 0, "expected an instant for a wake, got `%.*s`", BERM_ARG(at));
    if (payload.len > 65536) {
        berm_answer_error(answer, "payload is %zu bytes long, at most 65536 are taken", payload.len);
        return;
    }
    for (size_t i = wake_count; i-- > 0;)
        if (key.len && berm_equal(wakes[i].key, key))
            take_wake(i);
    if (wake_count == WAKES_MOST)
        berm_test_failed(NULL, 0, "more than %d pending wakes", WAKES_MOST);
    pending *made = &wakes[wake_count++];
    write_id(made->id, ++wakes_made);
    made->key = berm_str_make(native_copy(key), key.len);
    made->payload = berm_str_make(native_copy(payload), payload.len);
    made->at_ms = (at_ms + 999) / 1000 * 1000;
    berm_answer_bytes(answer, berm_str_of(made->id));
}

static void wake_cancel(berm_request *request, berm_answer *answer)
{
    berm_str id = berm_request_field(request);
    size_t i = 0;
    while (i < wake_count && !berm_is(id, wakes[i].id))
        i++;
    berm_answer_printf(answer, "%d", i < wake_count);
    if (i < wake_count)
        take_wake(i);
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

static void wake_list(berm_request *request, berm_answer *answer)
{
    berm_json_writer json;
    (void)request;
    berm_json_write_to(&json, &answer->data);
    berm_json_open_array(&json);
    for (size_t i = 0; i < wake_count; i++) {
        berm_json_open_object(&json);
        put_text(&json, "id", berm_str_of(wakes[i].id));
        put_text(&json, "key", wakes[i].key);
        put_number(&json, "at_ms", wakes[i].at_ms);
        berm_json_close(&json);
    }
    berm_json_close(&json);
}

void berm_test_wakes(void)
{
    berm_test_stand_in("crabtalk.wake.schedule", wake_schedule);
    berm_test_stand_in("crabtalk.wake.cancel", wake_cancel);
    berm_test_stand_in("crabtalk.wake.list", wake_list);
}

size_t berm_test_pending(void)
{
    return wake_count;
}

int64_t berm_test_pending_at(const char *key)
{
    for (size_t i = 0; i < wake_count; i++)
        if (berm_is(wakes[i].key, key))
            return wakes[i].at_ms;
    return -1;
}

/* What the daemon hands to on_wake. */
static void write_wake(berm_out *out, const pending *wake, bool late)
{
    berm_out encoded;
    berm_json_writer json;
    berm_out_init(&encoded, SIZE_MAX);
    berm_put_base64(&encoded, wake->payload);
    berm_json_write_to(&json, out);
    berm_json_open_object(&json);
    put_text(&json, "id", berm_str_of(wake->id));
    put_text(&json, "key", wake->key);
    put_text(&json, "payload_base64", berm_out_str(&encoded));
    put_number(&json, "scheduled_at_ms", wake->at_ms);
    put_number(&json, "now_ms", native_now_ms());
    put_number(&json, "attempt", 1);
    put_text(&json, "reason", late ? BERM_STR("late") : BERM_STR("due"));
    berm_json_close(&json);
}

berm_outcome berm_test_wake_late(int64_t late_ms)
{
    berm_out argument;
    size_t first = 0;
    if (wake_count == 0)
        berm_test_failed(NULL, 0, "no wake is pending");
    for (size_t i = 1; i < wake_count; i++)
        if (wakes[i].at_ms < wakes[first].at_ms)
            first = i;
    pending wake = wakes[first];
    take_wake(first);
    int64_t now_ms = wake.at_ms + late_ms;
    if (now_ms > native_now_ms())
        berm_test_clock_to(now_ms);
    berm_out_init(&argument, SIZE_MAX);
    write_wake(&argument, &wake, late_ms > 0);
    return berm_test_call_bytes("on_wake", berm_out_str(&argument));
}

berm_outcome berm_test_wake(void)
{
    return berm_test_wake_late(0);
}

/* ---- events ---- */

static void event_publish(berm_request *request, berm_answer *answer)
{
    berm_str source = berm_request_field(request);
    berm_str payload = berm_request_field(request);
    size_t len = source.len + payload.len + 2;
    if (payload.len > 65536 || !berm_utf8_valid(payload)) {
        berm_answer_error(answer, "a payload is UTF-8 of at most 65536 bytes");
        return;
    }
    published = (char *)realloc(published, published_len + len);
    if (!published)
        abort();
    berm_out line;
    berm_out_fixed(&line, published + published_len, len);
    berm_printf(&line, "%.*s %.*s\n", BERM_ARG(source), BERM_ARG(payload));
    published_len += len;
}

static void event_subscribe(berm_request *request, berm_answer *answer)
{
    berm_str source = berm_request_field(request);
    berm_str once = berm_request_field(request);
    if (!berm_is(once, "0") && !berm_is(once, "1"))
        berm_test_failed(NULL, 0, "expected `once` as 0 or 1, got `%.*s`", BERM_ARG(once));
    if (subscription_count == SUBSCRIPTIONS_MOST) {
        berm_answer_error(answer, "more than %d subscriptions", SUBSCRIPTIONS_MOST);
        return;
    }
    write_id(subscriptions[subscription_count].id, ++subscriptions_made);
    subscriptions[subscription_count].source = native_copy(source);
    berm_answer_bytes(answer, berm_str_of(subscriptions[subscription_count++].id));
}

static void event_unsubscribe(berm_request *request, berm_answer *answer)
{
    berm_str id = berm_request_field(request);
    size_t i = 0;
    while (i < subscription_count && !berm_is(id, subscriptions[i].id))
        i++;
    berm_answer_printf(answer, "%d", i < subscription_count);
    if (i < subscription_count)
        subscriptions[i] = subscriptions[--subscription_count];
}

void berm_test_events(void)
{
    berm_test_stand_in("crabtalk.event.publish", event_publish);
    berm_test_stand_in("crabtalk.event.subscribe", event_subscribe);
    berm_test_stand_in("crabtalk.event.unsubscribe", event_unsubscribe);
}

berm_str berm_test_published(void)
{
    return berm_str_make(published ? published : "", published_len);
}

bool berm_test_subscribed(const char *source)
{
    for (size_t i = 0; i < subscription_count; i++)
        if (strcmp(subscriptions[i].source, source) == 0)
            return true;
    return false;
}

berm_outcome berm_test_notify(const char *source, const char *payload)
{
    berm_out argument;
    berm_json_writer json;
    berm_out_init(&argument, SIZE_MAX);
    berm_json_write_to(&json, &argument);
    berm_json_open_object(&json);
    put_text(&json, "id", BERM_STR("event-1"));
    put_text(&json, "source", berm_str_of(source));
    put_text(&json, "payload", berm_str_of(payload));
    put_number(&json, "published_at_ms", native_now_ms());
    put_number(&json, "subscription", 1);
    berm_json_close(&json);
    return berm_test_call_bytes("on_notify", berm_out_str(&argument));
}
