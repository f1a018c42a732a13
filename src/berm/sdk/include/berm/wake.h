/* Timed wakes: crabtalk.wake.*, and what `on_wake` is given.
 *
 * A wake is an instant, bytes and a key: the host calls `on_wake` then, with the bytes. It outlives the call,
 * the process and a loss of power. The host knows instants and no calendar; what comes again and again is in
 * recurring.h.
 */
#ifndef BERM_WAKE_H
#define BERM_WAKE_H

#include <berm/capability.h>

BERM_BEGIN

/* Wake this harness at an instant, and return the wake's id. Instants are rounded up to whole seconds; one that
 * has passed is due at once. A pending wake with the same key is replaced; an empty key is none. */
berm_str berm_wake_at(int64_t at_ms, berm_str payload, berm_str key);

/* The same without failing the call. */
berm_reply berm_wake_try_at(int64_t at_ms, berm_str payload, berm_str key);

/* Whether there was such a wake, still pending. */
bool berm_wake_cancel(berm_str id);

typedef struct berm_pending {
    berm_str id;
    berm_str key; /* empty when it has none */
    int64_t at_ms;
} berm_pending;

typedef struct berm_pendings {
    berm_pending *items;
    size_t len;
} berm_pendings;

/* This harness's pending wakes. */
berm_pendings berm_wake_list(void);

/* What BERM_ON_WAKE sees as `wake`. */
typedef struct berm_wake {
    berm_str id;
    berm_str key;
    berm_str payload;        /* as it was scheduled; NUL follows */
    int64_t scheduled_at_ms;
    int64_t now_ms;
    int64_t attempt;         /* grows only when the host crashed during a run of this wake */
    bool late;               /* the host was not there, or too busy, when it was due */
} berm_wake;

/* Read the argument of `on_wake`; what it leaves out is empty or 0. Fails the call when it is no JSON object, or the
 * payload is not base64. */
berm_wake berm_wake_read(berm_str json);

BERM_END

#endif
