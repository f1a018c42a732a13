/* Events: crabtalk.event.*, and what `on_notify` is given.
 *
 * A source is words joined by colons, "build:done"; the declaration's topics say which ones this harness may
 * publish and subscribe to. A published event has been stored for each subscription when the call returns.
 */
#ifndef BERM_EVENT_H
#define BERM_EVENT_H

#include <berm/capability.h>

BERM_BEGIN

void berm_event_publish(berm_str source, berm_str payload);
berm_reply berm_event_try_publish(berm_str source, berm_str payload);

/* Have `on_notify` called for each event from a source, or from all below it when it ends in ":*"; only for
 * the first one when `once`. Returns the subscription's id. It lasts until it is taken back. */
berm_str berm_event_subscribe(berm_str source, bool once);

/* Whether there was such a subscription. */
bool berm_event_unsubscribe(berm_str id);

/* What BERM_ON_NOTIFY sees as `event`. */
typedef struct berm_event {
    berm_str id;
    berm_str source;
    berm_str payload; /* NUL follows */
    int64_t published_at_ms;
    berm_str subscription; /* its id */
} berm_event;

/* Read the argument of `on_notify`; what it leaves out is empty or 0. Fails the call when it is no JSON object. */
berm_event berm_event_read(berm_str json);

BERM_END

#endif
