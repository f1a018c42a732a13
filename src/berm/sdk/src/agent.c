/* crabtalk.agent.send: the wrappers of agent.h. */
#include <berm/agent.h>

berm_reply berm_agent_try_send(berm_str agent, berm_str content)
{
    berm_str fields[] = {agent, content};
    return berm_capability("crabtalk.agent.send", fields, 2);
}

berm_str berm_agent_send(berm_str agent, berm_str content)
{
    return berm_must(berm_agent_try_send(agent, content));
}
