/* berm.get, berm.set, berm.kv.*: the wrappers of kv.h. */
#include "wrap.h"

#include <berm/alloc.h>
#include <berm/kv.h>

#define PAGE 1000 /* keys in a full page of berm.kv.keys */

berm_reply berm_kv_try_get(berm_str key)
{
    return berm_capability("berm.get", &key, 1);
}

berm_reply berm_kv_try_set(berm_str key, berm_str value)
{
    berm_str fields[] = {key, value};
    return berm_capability("berm.set", fields, 2);
}

bool berm_kv_get(berm_str key, berm_str *value)
{
    berm_str rest = berm_must(berm_kv_try_get(key));
    return berm_next_field(&rest, value);
}

void berm_kv_set(berm_str key, berm_str value)
{
    berm_must(berm_kv_try_set(key, value));
}

bool berm_kv_delete(berm_str key)
{
    return berm_is(berm_must(berm_capability("berm.kv.delete", &key, 1)), "1");
}

berm_kv_keys berm_kv_begin(berm_str prefix)
{
    berm_kv_keys keys = {{"", 0}, prefix, NULL, 0, 0, false};
    return keys;
}

/* The page after the last key seen. */
static void turn_page(berm_kv_keys *keys)
{
    berm_str fields[] = {keys->prefix, keys->key};
    berm_json array = wrap_json(berm_must(berm_capability("berm.kv.keys", fields, 2)));
    berm_json_each each = berm_json_begin(array);
    keys->at = keys->len = 0;
    keys->page = BERM_NEW_ARRAY(berm_str, berm_json_count(array));
    while (berm_json_next(&each))
        if (!berm_json_string(each.value, &keys->page[keys->len++]))
            berm_panic("berm.kv.keys gave a key that is no string");
    keys->last = keys->len < PAGE;
}

bool berm_kv_next(berm_kv_keys *keys)
{
    if (keys->at == keys->len && keys->last)
        return false;
    if (keys->at == keys->len)
        turn_page(keys);
    if (keys->at == keys->len)
        return false;
    keys->key = keys->page[keys->at++];
    return true;
}
