/* Talking to other agents: crabtalk.agent.send. */
#ifndef BERM_AGENT_H
#define BERM_AGENT_H

#include <berm/capability.h>

BERM_BEGIN

/* Have an agent that the declaration's `send` names run a turn on this text, in a conversation of its own, and
 * return what it says at the end. The turn is one deeper in the chain of this call; the call waits for it. */
berm_str berm_agent_send(berm_str agent, berm_str content);

/* The same without failing the call: there is no such agent, the chain is too deep or used up, the turn failed. */
berm_reply berm_agent_try_send(berm_str agent, berm_str content);

/* What an agent said at the end, or why it said nothing. */
typedef struct berm_agent_answer {
    bool failed;
    berm_str text;
} berm_agent_answer;

/* Have agents work side by side: each pair is an agent and what it is told, 16 at most. `answers` has room for as many,
 * in their order. A turn that fails does not fail the call, nor the other turns. */
void berm_agent_send_all(const berm_pair *asked, size_t count, berm_agent_answer *answers);

BERM_END

#endif
