/* Skills: instructions that are read when they are needed. */
#include <berm/berm.h>

#define NAME_SHOWN 80

BERM_USAGE(
    "Skills are instructions for kinds of work. When a task is not plain, look with `list_skills` whether there is "
    "one for it, read it with `read_skill` before you begin, and do as it says.");

BERM_REQUESTS("crabtalk.skills.list", "crabtalk.skills.get");

/* On one line. */
static void put_flat(berm_out *out, berm_str text)
{
    text = berm_trim(text);
    for (size_t i = 0; i < text.len; i++)
        berm_putc(out, (unsigned char)text.ptr[i] < 0x20 ? ' ' : text.ptr[i]);
}

BERM_TOOL(list_skills, "Show the skills: a line for each, with its name and when to use it.")
{
    berm_skills skills = berm_skills_list();
    for (size_t i = 0; i < skills.len; i++) {
        berm_printf(out, "%.*s: ", BERM_ARG(skills.items[i].name));
        put_flat(out, skills.items[i].description);
        berm_putc(out, '\n');
    }
    if (skills.len == 0)
        berm_puts(out, "no skills\n");
}

static bool is_listed(berm_str name)
{
    berm_skills skills = berm_skills_list();
    for (size_t i = 0; i < skills.len; i++)
        if (berm_equal(skills.items[i].name, name))
            return true;
    return false;
}

BERM_TOOL(read_skill, "Read the instructions of a skill.", required(string, name, "from list_skills"))
{
    berm_str name = berm_trim(args->name);
    berm_reply reply = berm_skills_try_get(name);
    if (reply.status == BERM_OK) {
        berm_put(out, reply.data);
        return;
    }
    if (is_listed(name))
        berm_must(reply);
    size_t shown = berm_utf8_valid_prefix(berm_slice(name, 0, NAME_SHOWN));
    berm_fail("no skill `%.*s`; list_skills shows them", BERM_ARG(berm_slice(name, 0, shown)));
}
