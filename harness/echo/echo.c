/* The smallest harness: one tool that says what it was told. */
#include <berm/berm.h>

BERM_USAGE("`echo` says back what it is told.");

BERM_TOOL(echo, "Say a text back.",
    required(string, text, "what to say"))
{
    berm_put(out, args->text);
}
