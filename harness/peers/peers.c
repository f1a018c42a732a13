/* Other agents: who they are, as far as the declaration names them. */
#include <berm/berm.h>

#define LINE_MOST 160 /* bytes of a description in a list */
#define NAME_SHOWN 80

BERM_USAGE("Knows the other agents. `list_peers` shows who there is, `describe_peer` all that one says of itself.");

BERM_REQUESTS("crabtalk.peers.list");

/* The first line that says something, cut to a length. */
static void put_summary(berm_out *out, berm_str text)
{
    berm_str line;
    text = berm_trim(text);
    if (!berm_next_line(&text, &line))
        return;
    size_t shown = line.len > LINE_MOST ? berm_utf8_valid_prefix(berm_slice(line, 0, LINE_MOST)) : line.len;
    berm_printf(out, ": %.*s%s", BERM_ARG(berm_slice(line, 0, shown)), shown < line.len || text.len ? " …" : "");
}

BERM_TOOL(list_peers, "Show the other agents: a line for each, with its name and what it is for.")
{
    berm_peers peers = berm_peers_list();
    for (size_t i = 0; i < peers.len; i++) {
        berm_put(out, peers.items[i].name);
        put_summary(out, peers.items[i].description);
        berm_putc(out, '\n');
    }
    if (peers.len == 0)
        berm_puts(out, "no other agents\n");
}

BERM_TOOL(describe_peer, "Show all that another agent says of itself.",
    required(string, name, "from list_peers"))
{
    berm_str name = berm_trim(args->name);
    berm_peers peers = berm_peers_list();
    for (size_t i = 0; i < peers.len; i++)
        if (berm_equal(peers.items[i].name, name)) {
            berm_str text = berm_trim(peers.items[i].description);
            berm_printf(out, "%.*s\n", BERM_ARG(text.len ? text : BERM_STR("[it has no description]")));
            return;
        }
    size_t shown = berm_utf8_valid_prefix(berm_slice(name, 0, NAME_SHOWN));
    berm_fail("no agent `%.*s`; list_peers shows them", BERM_ARG(berm_slice(name, 0, shown)));
}
