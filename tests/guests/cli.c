// What the tests of the `berm` command call: one tool for each way to end.

#include <berm/berm.h>

BERM_USAGE("For tests.\x1b[2J");
BERM_REQUESTS("berm.fs.read");

BERM_TOOL(say, "Say a text back.", required(string, text, "what to say"))
{
    berm_put(out, args->text);
}

BERM_RAW_TOOL(blob, "Give the arguments back as they came.", "{\"type\": \"object\"}")
{
    berm_put(out, args);
}

BERM_TOOL(refuse, "Fail with a message.", required(string, message, "the message"))
{
    berm_fail("%.*s", BERM_ARG(args->message));
}

BERM_TOOL(note, "Log a line and say done.", required(string, line, "the line"))
{
    berm_log("%.*s", BERM_ARG(args->line));
    berm_puts(out, "done");
}

BERM_TOOL(binary, "Return bytes that are not UTF-8.", optional(integer, dummy, "nothing"))
{
    berm_put_bytes(out, "\xff\x00\x1b", 3);
}

BERM_TOOL(spin, "Log a line and never end.", optional(integer, dummy, "nothing"))
{
    berm_log("spinning");
    for (;;)
        __asm__ volatile("");
}

BERM_TOOL(crash, "Read address 8.", optional(integer, dummy, "nothing"))
{
    berm_printf(out, "%d", *(volatile char *)8);
}

static int64_t __attribute__((noinline)) square_sum(int64_t n)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += i * i;
        __asm__ volatile("" : "+r"(sum)); // else the compiler knows the formula
    }
    return sum;
}

BERM_TOOL(work, "Sum squares and fill some heap.", required(integer, n, "how many"))
{
    char *memory = berm_alloc(100 * 1000);
    for (size_t i = 0; i < 100 * 1000; i += 1000)
        memory[i] = 1;
    berm_printf(out, "%lld", (long long)square_sum(args->n));
}

BERM_TOOL(relay, "Call `say` of the harness `peer`.", required(string, text, "what it says"))
{
    berm_put(out, berm_call(BERM_STR("peer"), BERM_STR("blob"), args->text));
}

BERM_TOOL(consult, "Ask the capability `test.oracle`.", required(string, question, "what to ask"))
{
    berm_str fields[] = {args->question};
    berm_put(out, berm_must(berm_capability("test.oracle", fields, 1)));
}
