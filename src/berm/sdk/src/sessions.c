/* crabtalk.sessions.search: the wrapper of sessions.h. */
#include "wrap.h"

#include <berm/alloc.h>
#include <berm/sessions.h>

static void read_window(berm_json array, berm_hit *hit)
{
    hit->window = BERM_NEW_ARRAY(berm_said, berm_json_count(array));
    hit->window_len = 0;
    berm_json_each each = berm_json_begin(array);
    while (berm_json_next(&each)) {
        berm_said *said = &hit->window[hit->window_len++];
        said->role = wrap_text(each.value, "role");
        said->index = wrap_number(each.value, "index");
        said->snippet = wrap_text(each.value, "snippet");
        said->tool_name = wrap_text(each.value, "tool_name");
        said->truncated = false;
        berm_json_bool(berm_json_get(each.value, "truncated"), &said->truncated);
    }
}

berm_hits berm_sessions_search(berm_str query, int64_t limit, int64_t before, int64_t after)
{
    char memory[3][24];
    berm_str fields[] = {query, wrap_decimal(limit, memory[0]), wrap_decimal(before, memory[1]),
                         wrap_decimal(after, memory[2])};
    berm_json array = wrap_json(berm_must(berm_capability("crabtalk.sessions.search", fields, 4)));
    berm_hits hits = {NULL, 0};
    hits.items = BERM_NEW_ARRAY(berm_hit, berm_json_count(array));
    berm_json_each each = berm_json_begin(array);
    while (berm_json_next(&each)) {
        berm_hit *hit = &hits.items[hits.len++];
        hit->session = wrap_text(each.value, "session");
        hit->title = wrap_text(each.value, "title");
        hit->index = wrap_number(each.value, "index");
        hit->score = 0;
        berm_json_double(berm_json_get(each.value, "score"), &hit->score);
        read_window(berm_json_get(each.value, "window"), hit);
    }
    return hits;
}
