/* Uses of the machine's capabilities that end in other ways than by returning what was asked for. */
#include <berm/berm.h>

static void start_many(berm_str url, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        berm_http_start(BERM_STR("GET"), url, BERM_STR(""), NULL, 0);
}

BERM_TOOL(leave, "Return with requests in flight.", required(string, url, "where"),
    required(integer, count, "how many"))
{
    start_many(args->url, args->count);
    berm_printf(out, "left %lld", (long long)args->count);
}

BERM_TOOL(wait, "Wait for a request.", required(string, url, "where"), required(integer, count, "how many"))
{
    start_many(args->url, args->count);
    berm_collected done = berm_http_collect(BERM_STR(""));
    berm_printf(out, "%.*s %lld %.*s", BERM_ARG(done.id), (long long)done.response.status,
                BERM_ARG(done.response.body));
}

BERM_TOOL(crash, "Die with requests in flight.", required(string, url, "where"),
    required(integer, count, "how many"))
{
    start_many(args->url, args->count);
    *(volatile int *)0 = 1;
    berm_printf(out, "alive");
}

BERM_TOOL(spin, "Never end, with requests in flight.", required(string, url, "where"),
    required(integer, count, "how many"))
{
    start_many(args->url, args->count);
    for (;;)
        __asm__ volatile("");
    berm_printf(out, "ended");
}

BERM_TOOL(gather, "Start requests, fetch them all, show the bodies in the order in which they came.",
    required(string, url, "where"), required(integer, count, "how many"))
{
    start_many(args->url, args->count);
    for (int64_t i = 0; i < args->count; i++) {
        berm_collected done = berm_http_collect(BERM_STR(""));
        berm_printf(out, "%lld %.*s;", (long long)done.response.status, BERM_ARG(done.response.body));
    }
}

BERM_TOOL(around, "Start a request, let another harness leave some, then wait for mine.",
    required(string, url, "where"), required(string, other, "arguments for the other harness"))
{
    start_many(args->url, 1);
    berm_put(out, berm_call(BERM_STR("other"), BERM_STR("leave"), args->other));
    berm_collected done = berm_http_collect(BERM_STR("1"));
    berm_printf(out, ", got %.*s", BERM_ARG(done.response.body));
}
