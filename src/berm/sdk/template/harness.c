/* @NAME@: a harness. Each BERM_TOOL below is one tool that a model can call. */
#include <berm/berm.h>

BERM_USAGE("`@TOOL@` greets somebody.");

BERM_TOOL(@TOOL@, "Greet somebody by name.",
    required(string, who, "whom to greet"),
    optional(range(1, 10), times, "how often", 1))
{
    if (args->who.len == 0)
        berm_fail("`who` is empty: whom shall I greet?");
    for (int64_t i = 0; i < args->times; i++)
        berm_printf(out, "Hello, %.*s!\n", BERM_ARG(args->who));
}
