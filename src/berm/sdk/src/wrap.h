/* What the typed wrappers share. Internal. */
#ifndef BERM_WRAP_H
#define BERM_WRAP_H

#include <berm/capability.h>
#include <berm/json.h>

/* The next field, which the layout promises. */
berm_str wrap_field(berm_str *rest);

/* The next field as decimal text. */
int64_t wrap_integer(berm_str *rest);

/* Decimal text in memory of the caller. */
berm_str wrap_decimal(int64_t value, char memory[24]);

/* A document that the host made; panics when it is none. */
berm_json wrap_json(berm_str text);

/* The argument of on_wake or on_notify, which is an object; fails the call when it is none. */
berm_json wrap_entry(const char *entry, berm_str text);

/* A member: text (empty when absent), a copy that a NUL follows; an integer (0 when absent). */
berm_str wrap_text(berm_json object, const char *key);
int64_t wrap_number(berm_json object, const char *key);

#endif
