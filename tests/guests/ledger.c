// What the proofs about lost power declare: it keeps what it is told, and writes down when each wake and each event
// began to run. A second run of the same one is a second line.

#include <berm/berm.h>

BERM_USAGE("Keeps a ledger.");
BERM_REQUESTS("berm.get", "berm.set", "berm.kv.keys", "berm.clock.now", "crabtalk.wake.at", "crabtalk.event.publish");

/* So many rounds of nothing: something to be interrupted. */
static void compute(int64_t rounds)
{
    for (; rounds > 0; rounds--)
        __asm__ volatile("");
}

static void note(const char *what, berm_str id, int64_t attempt)
{
    berm_out key, count;
    berm_out_init(&key, 256);
    berm_printf(&key, "%s/%.*s/%lld/%lld", what, BERM_ARG(id), (long long)attempt, (long long)berm_clock_now().unix_ms);
    berm_out_init(&count, 256);
    berm_str before;
    if (berm_kv_get(berm_out_str(&key), &before)) // it ran within the same millisecond
        berm_put(&count, before);
    berm_putc(&count, '+');
    berm_kv_set(berm_out_str(&key), berm_out_str(&count));
}

BERM_TOOL(keep, "Store a value.", required(string, key, "its key"), required(string, value, "the value"))
{
    berm_kv_set(args->key, args->value);
    berm_puts(out, "kept");
}

BERM_TOOL(find, "Return a value.", required(string, key, "its key"))
{
    berm_str value;
    if (!berm_kv_get(args->key, &value))
        berm_fail("no such key");
    berm_put(out, value);
}

BERM_TOOL(list, "Return keys and values, a line each.", required(string, prefix, "what the keys begin with"))
{
    berm_out_limit(out, (size_t)16 << 20);
    berm_kv_keys keys = berm_kv_begin(args->prefix);
    berm_str value;
    while (berm_kv_next(&keys))
        if (berm_kv_get(keys.key, &value))
            berm_printf(out, "%.*s %.*s\n", BERM_ARG(keys.key), BERM_ARG(value));
}

BERM_TOOL(wake_me, "Schedule a wake of this harness.", required(integer, at_ms, "when"))
{
    berm_put(out, berm_wake_at(args->at_ms, BERM_STR("0"), BERM_STR("")));
}

BERM_TOOL(say, "Say a text back.", required(string, text, "what to say"))
{
    berm_put(out, args->text);
}

BERM_TOOL(spin, "Never end.", optional(integer, dummy, "nothing"))
{
    for (;;)
        __asm__ volatile("");
}

// The payload says for how many rounds; "spin" for ever.
BERM_ON_WAKE
{
    note("ran", wake->id, wake->attempt);
    if (berm_equal(wake->payload, BERM_STR("spin")))
        compute(INT64_MAX);
    int64_t rounds = 0;
    for (size_t i = 0; i < wake->payload.len; i++)
        rounds = rounds * 10 + (wake->payload.ptr[i] - '0');
    compute(rounds);
}

BERM_ON_NOTIFY
{
    note("heard", event->id, 0);
    if (berm_equal(event->payload, BERM_STR("spin")))
        compute(INT64_MAX);
}
