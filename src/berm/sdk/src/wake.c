/* crabtalk.wake.*: the wrappers of wake.h. */
#include "wrap.h"

#include <berm/alloc.h>
#include <berm/base64.h>
#include <berm/wake.h>

berm_reply berm_wake_try_at(int64_t at_ms, berm_str payload, berm_str key)
{
    char memory[24];
    berm_str fields[] = {wrap_decimal(at_ms, memory), payload, key};
    return berm_capability("crabtalk.wake.schedule", fields, 3);
}

berm_str berm_wake_at(int64_t at_ms, berm_str payload, berm_str key)
{
    return berm_must(berm_wake_try_at(at_ms, payload, key));
}

bool berm_wake_cancel(berm_str id)
{
    return berm_is(berm_must(berm_capability("crabtalk.wake.cancel", &id, 1)), "1");
}

berm_pendings berm_wake_list(void)
{
    berm_json array = wrap_json(berm_must(berm_capability("crabtalk.wake.list", NULL, 0)));
    berm_pendings pendings = {NULL, 0};
    pendings.items = BERM_NEW_ARRAY(berm_pending, berm_json_count(array));
    berm_json_each each = berm_json_begin(array);
    while (berm_json_next(&each)) {
        berm_pending *pending = &pendings.items[pendings.len++];
        pending->id = wrap_text(each.value, "id");
        pending->key = wrap_text(each.value, "key");
        pending->at_ms = wrap_number(each.value, "at_ms");
    }
    return pendings;
}

berm_wake berm_wake_read(berm_str json)
{
    berm_wake wake;
    berm_json object = wrap_entry("on_wake", json);
    wake.id = wrap_text(object, "id");
    wake.key = wrap_text(object, "key");
    wake.scheduled_at_ms = wrap_number(object, "scheduled_at_ms");
    wake.now_ms = wrap_number(object, "now_ms");
    wake.attempt = wrap_number(object, "attempt");
    wake.late = berm_json_string_is(berm_json_get(object, "reason"), BERM_STR("late"));
    if (!berm_base64_decode(wrap_text(object, "payload_base64"), &wake.payload))
        berm_fail("the argument of `on_wake` has a payload that is not base64");
    return wake;
}
