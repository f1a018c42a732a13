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

BERM_END

#endif
