/* crabtalk.peers.list: the wrapper of peers.h. */
#include "wrap.h"

#include <berm/alloc.h>
#include <berm/peers.h>

berm_peers berm_peers_list(void)
{
    berm_json array = wrap_json(berm_must(berm_capability("crabtalk.peers.list", NULL, 0)));
    berm_peers peers = {NULL, 0};
    peers.items = BERM_NEW_ARRAY(berm_peer, berm_json_count(array));
    berm_json_each each = berm_json_begin(array);
    while (berm_json_next(&each)) {
        berm_peer *peer = &peers.items[peers.len++];
        peer->name = wrap_text(each.value, "name");
        peer->description = wrap_text(each.value, "description");
    }
    return peers;
}
