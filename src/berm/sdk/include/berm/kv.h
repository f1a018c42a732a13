/* Storage that outlives the call: berm.get, berm.set, berm.kv.* */
#ifndef BERM_KV_H
#define BERM_KV_H

#include <berm/capability.h>

BERM_BEGIN

/* False when there is no such key; an empty value is a value. */
bool berm_kv_get(berm_str key, berm_str *value);

/* Fails the call when the quota is used up. */
void berm_kv_set(berm_str key, berm_str value);

/* Whether there was something to delete. */
bool berm_kv_delete(berm_str key);

/* Take the next key with this prefix, in order:
 *     berm_kv_keys keys = berm_kv_begin(BERM_STR("user/"));
 *     while (berm_kv_next(&keys)) use(keys.key); */
typedef struct berm_kv_keys {
    berm_str key;
    berm_str prefix;
    berm_str *page;
    size_t at, len;
    bool last;
} berm_kv_keys;

berm_kv_keys berm_kv_begin(berm_str prefix);
bool berm_kv_next(berm_kv_keys *keys);

berm_reply berm_kv_try_get(berm_str key); /* framed: zero or one field */
berm_reply berm_kv_try_set(berm_str key, berm_str value);

BERM_END

#endif
