/* Other agents: crabtalk.peers.list. */
#ifndef BERM_PEERS_H
#define BERM_PEERS_H

#include <berm/capability.h>

BERM_BEGIN

typedef struct berm_peer {
    berm_str name;
    berm_str description;
} berm_peer;

typedef struct berm_peers {
    berm_peer *items;
    size_t len;
} berm_peers;

/* The agents that the declaration's `peers` names, as far as they exist. */
berm_peers berm_peers_list(void);

BERM_END

#endif
