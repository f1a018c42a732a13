/* crabtalk.skills.*: the wrappers of skills.h. */
#include "wrap.h"

#include <berm/alloc.h>
#include <berm/skills.h>

berm_skills berm_skills_list(void)
{
    berm_json array = wrap_json(berm_must(berm_capability("crabtalk.skills.list", NULL, 0)));
    berm_skills skills = {NULL, 0};
    skills.items = BERM_NEW_ARRAY(berm_skill, berm_json_count(array));
    berm_json_each each = berm_json_begin(array);
    while (berm_json_next(&each)) {
        berm_skill *skill = &skills.items[skills.len++];
        skill->name = wrap_text(each.value, "name");
        skill->description = wrap_text(each.value, "description");
    }
    return skills;
}

berm_reply berm_skills_try_get(berm_str name)
{
    return berm_capability("crabtalk.skills.get", &name, 1);
}

berm_str berm_skills_get(berm_str name)
{
    return berm_must(berm_skills_try_get(name));
}
