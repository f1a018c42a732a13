/* Calling a capability by name: the framing, the reply, and how it failed.
 *
 * The typed headers (fs.h, exec.h, http.h, clock.h, kv.h, call.h) stand on this one; use it directly for
 * a capability that they do not know:
 *     berm_str fields[] = {BERM_STR("build:done"), payload};
 *     berm_must(berm_capability("crabtalk.event.publish", fields, 2));
 * A capability that the host did not bind does not exist: calling it is a trap that names it.
 */
#ifndef BERM_CAPABILITY_H
#define BERM_CAPABILITY_H

#include <berm/str.h>

BERM_BEGIN

typedef enum berm_status {
    BERM_OK,
    BERM_ERROR,   /* it ran and failed, or the request was wrong */
    BERM_REFUSED, /* nothing ran: not allowed, no such target, over budget, over quota */
} berm_status;

typedef struct berm_reply {
    berm_status status;
    berm_str data; /* the reply, or the error message; NUL follows */
} berm_reply;

/* Send fields, wait, and copy the reply out. */
berm_reply berm_capability(const char *name, const berm_str *fields, size_t count);

/* The reply's bytes; fails the call with the error message unless it is BERM_OK. */
berm_str berm_must(berm_reply reply);

/* Take the next field off a framed reply. False at its end; panics when the framing is broken. */
bool berm_next_field(berm_str *rest, berm_str *field);

/* A pair of texts, for headers and environments. */
typedef struct berm_pair {
    berm_str key;
    berm_str value;
} berm_pair;

/* Send `count` fields and then pairs, key, value, key, value. */
berm_reply berm_capability_pairs(const char *name, const berm_str *fields, size_t count,
                                 const berm_pair *pairs, size_t pair_count);

BERM_END

#endif
