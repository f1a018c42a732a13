// A harness with two bugs, for `make demo` and docs/debugging-a-trap.md.

#include <berm/berm.h>

typedef struct entry {
    struct entry *older;
    int64_t amount;
} entry;

static entry opening = {NULL, 100};
static entry salary = {&opening, 2500};
static entry rent = {&salary, -900};

// Bug: nothing stops it at the oldest entry.
__attribute__((noinline)) static int64_t amount_of(const entry *newest, int64_t age)
{
    const entry *found = newest;
    while (age-- > 0)
        found = found->older;
    return found->amount;
}

BERM_TOOL(amount, "Say what an entry of the ledger amounts to.",
    required(integer, age, "0 for the newest entry, 1 for the one before, and so on"))
{
    berm_printf(out, "%lld", (long long)amount_of(&rent, args->age));
}

BERM_TOOL(halve, "Say how often a number can be halved until it is 1.",
    required(integer, number, "a positive number"))
{
    int64_t number = args->number, times = 0;
    // Bug: 0 never becomes 1.
    while (number != 1) {
        number /= 2;
        times++;
        __asm__ volatile("" ::"r"(number));
    }
    berm_printf(out, "%lld", (long long)times);
}
