/* crabtalk.event.*: the wrappers of event.h. */
#include "wrap.h"

#include <berm/event.h>

berm_reply berm_event_try_publish(berm_str source, berm_str payload)
{
    berm_str fields[] = {source, payload};
    return berm_capability("crabtalk.event.publish", fields, 2);
}

void berm_event_publish(berm_str source, berm_str payload)
{
    berm_must(berm_event_try_publish(source, payload));
}

berm_str berm_event_subscribe(berm_str source, bool once)
{
    berm_str fields[] = {source, once ? BERM_STR("1") : BERM_STR("0")};
    return berm_must(berm_capability("crabtalk.event.subscribe", fields, 2));
}

bool berm_event_unsubscribe(berm_str id)
{
    return berm_is(berm_must(berm_capability("crabtalk.event.unsubscribe", &id, 1)), "1");
}

berm_event berm_event_read(berm_str json)
{
    berm_event event;
    berm_json object = wrap_entry("on_notify", json);
    event.id = wrap_text(object, "id");
    event.source = wrap_text(object, "source");
    event.payload = wrap_text(object, "payload");
    event.published_at_ms = wrap_number(object, "published_at_ms");
    berm_json subscription = berm_json_get(object, "subscription");
    bool is_number = subscription.kind == BERM_JSON_NUMBER;
    event.subscription = is_number ? subscription.text : wrap_text(object, "subscription");
    return event;
}
