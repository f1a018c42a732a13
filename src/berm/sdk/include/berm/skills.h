/* Skills, which are instructions in files: crabtalk.skills.* */
#ifndef BERM_SKILLS_H
#define BERM_SKILLS_H

#include <berm/capability.h>

BERM_BEGIN

typedef struct berm_skill {
    berm_str name;
    berm_str description;
} berm_skill;

typedef struct berm_skills {
    berm_skill *items;
    size_t len;
} berm_skills;

/* The skills that the declaration's `skills` names, of those that the agent sees. */
berm_skills berm_skills_list(void);

/* The text of a skill; fails the call when there is none. */
berm_str berm_skills_get(berm_str name);
berm_reply berm_skills_try_get(berm_str name);

BERM_END

#endif
