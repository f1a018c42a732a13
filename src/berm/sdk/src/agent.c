/* crabtalk.agent.send: the wrappers of agent.h. */
#include "wrap.h"

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

void berm_agent_send_all(const berm_pair *asked, size_t count, berm_agent_answer *answers)
{
    if (count == 0)
        return;
    if (count == 1) {
        berm_reply reply = berm_agent_try_send(asked->key, asked->value);
        *answers = (berm_agent_answer){reply.status != BERM_OK, reply.data};
        return;
    }
    berm_str fields[] = {asked->key, asked->value};
    berm_json said =
        wrap_json(berm_must(berm_capability_pairs("crabtalk.agent.send", fields, 2, asked + 1, count - 1)));
    for (size_t i = 0; i < count; i++) {
        berm_json one = berm_json_at(said, i);
        bool failed = berm_json_get(one, "text").kind == BERM_JSON_ABSENT;
        answers[i] = (berm_agent_answer){failed, wrap_text(one, failed ? "error" : "text")};
    }
}
