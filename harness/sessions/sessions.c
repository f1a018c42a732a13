/* What was said before: a search in the sessions of this agent. */
#include <berm/berm.h>

BERM_USAGE(
    "Earlier conversations. `search_sessions` finds what was said in them, by words, `\"phrases\"` and `beginnings*`; "
    "messages that have all of them come first. What tools returned is not searched; their names are.");

BERM_REQUESTS("crabtalk.sessions.search");

/* On one line. */
static void put_flat(berm_out *out, berm_str text)
{
    for (size_t i = 0; i < text.len; i++)
        berm_putc(out, (unsigned char)text.ptr[i] < 0x20 ? ' ' : text.ptr[i]);
}

static void put_said(berm_out *out, const berm_said *said, bool is_hit)
{
    berm_printf(out, "%c %lld %.*s: ", is_hit ? '>' : ' ', (long long)said->index, BERM_ARG(said->role));
    put_flat(out, said->snippet);
    if (said->truncated && said->snippet.len)
        berm_puts(out, " …");
    if (said->tool_name.len)
        berm_printf(out, "%s[%.*s]", said->snippet.len ? " " : "", BERM_ARG(said->tool_name));
    berm_putc(out, '\n');
}

static void put_hit(berm_out *out, const berm_hit *hit)
{
    berm_printf(out, "%ssession %.*s", out->len ? "\n" : "", BERM_ARG(hit->session));
    if (hit->title.len) {
        berm_puts(out, ", \"");
        put_flat(out, hit->title);
        berm_putc(out, '"');
    }
    berm_putc(out, '\n');
    for (size_t i = 0; i < hit->window_len; i++)
        put_said(out, &hit->window[i], hit->window[i].index == hit->index);
}

BERM_TOOL(search_sessions, "Find what was said in earlier conversations; the messages that match are marked with >.",
    required(string, query, "words, \"phrases\", beginnings*"),
    optional(range(1, 20), limit, "how many messages that match", 5),
    optional(range(0, 10), around, "how many messages to show before and after each", 1))
{
    berm_hits hits = berm_sessions_search(args->query, args->limit, args->around, args->around);
    for (size_t i = 0; i < hits.len; i++)
        put_hit(out, &hits.items[i]);
    if (hits.len == 0)
        berm_puts(out, "nothing was found\n");
}
