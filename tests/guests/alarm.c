// What the tests of the `crabtalk` command declare: each way for a tool to end, a wake and an event.

#include <berm/berm.h>

BERM_USAGE("Rings.");
BERM_REQUESTS("crabtalk.event.publish", "berm.set");

BERM_TOOL(say, "Say a text back.", required(string, text, "what to say"))
{
    berm_put(out, args->text);
}

BERM_TOOL(binary, "Return bytes that are not UTF-8.", optional(integer, dummy, "nothing"))
{
    berm_put_bytes(out, "\xff\x00\x1b", 3);
}

BERM_TOOL(refuse, "Fail with a message.", required(string, message, "the message"))
{
    berm_fail("%.*s", BERM_ARG(args->message));
}

BERM_TOOL(crash, "Read address 8.", optional(integer, dummy, "nothing"))
{
    berm_printf(out, "%d", *(volatile char *)8);
}

BERM_TOOL(spin, "Never end.", optional(integer, dummy, "nothing"))
{
    for (;;)
        __asm__ volatile("");
}

BERM_ON_WAKE
{
    berm_event_publish(BERM_STR("alarm:rang"), wake->payload);
}

BERM_ON_NOTIFY
{
    berm_log("heard %.*s from %.*s", BERM_ARG(event->payload), BERM_ARG(event->source));
}
