/* The image that invocation benchmarks call: one tool for each thing to be timed. Speaks the ABI by hand. */
#include "../kernel.h"

/* FNV-1a 64 of a name, folded by the compiler. */
static inline __attribute__((always_inline)) uint64_t number_of(const char *name) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = 0; name[i]; i++) hash = (hash ^ (uint8_t)name[i]) * 0x100000001b3u;
    return hash;
}

static inline uint64_t host(uint64_t number, uint64_t a, uint64_t b) {
    register uint64_t a0 __asm__("a0") = a;
    register uint64_t a1 __asm__("a1") = b;
    register uint64_t a7 __asm__("a7") = number;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a7) : "memory");
    return a0;
}

#define ARGS_LEN number_of("berm.args.len")
#define ARGS_READ number_of("berm.args.read")
#define RESULT_READ number_of("berm.result.read")
#define CLOCK number_of("berm.clock.now")

struct result {
    const char *data;
    uint64_t size;
};
static char blob[4096];

/* What a fresh invocation costs: the argument blob in, the same bytes out. */
struct result berm_tool_echo(void) {
    uint64_t size = host(ARGS_READ, (uint64_t)blob, sizeof blob);
    return (struct result){blob, size < sizeof blob ? size : sizeof blob};
}

static uint64_t count_wanted(void) {
    uint64_t n = 0;
    host(ARGS_READ, (uint64_t)&n, sizeof n);
    return n;
}

/* What a native host call costs: as many of them as the arguments say. */
struct result berm_tool_native_calls(void) {
    uint64_t sum = 0;
    for (uint64_t n = count_wanted(); n > 0; n--) sum += host(ARGS_LEN, 0, 0);
    blob[0] = (char)sum;
    return (struct result){blob, 0};
}

/* What a capability call costs, its reply read as SDKs do. */
struct result berm_tool_capability_calls(void) {
    for (uint64_t n = count_wanted(); n > 0; n--) {
        uint64_t size = host(CLOCK, (uint64_t)blob, 8);
        host(RESULT_READ, (uint64_t)(blob + 64), size < 64 ? size : 64);
    }
    return (struct result){blob, 0};
}

/* A loop without calls, to take away from the two above. */
struct result berm_tool_no_calls(void) {
    uint64_t sum = 0;
    for (uint64_t n = count_wanted(); n > 0; n--) {
        sum += n;
        __asm__ volatile("" : "+r"(sum));
    }
    return (struct result){blob, 0};
}

/* Touches as many pages as the arguments say (16 at most), then waits for the host, as long as the host likes. */
struct result berm_tool_wait(void) {
    static volatile char pages[16][4096];
    uint64_t n = count_wanted();
    for (uint64_t i = 0; i < n && i < COUNT(pages); i++) pages[i][i] = 1;
    host(CLOCK, (uint64_t)blob, 8);
    return (struct result){"", 0};
}

__asm__(".pushsection .berm.abi,\"\",%progbits\n"
        ".ascii \"{\\\"abi_version\\\":0,\\\"tools\\\":[{\\\"name\\\":\\\"echo\\\",\\\"description\\\":\\\"gives its "
        "arguments back\\\",\\\"parameters\\\":{\\\"type\\\":\\\"object\\\"}}]}\"\n"
        ".popsection");

static struct result (*const volatile entries[])(void) = {
    berm_tool_echo, berm_tool_native_calls, berm_tool_capability_calls, berm_tool_no_calls, berm_tool_wait,
};

/* Keeps every entry; the host never calls it. */
void _start(void) {
    for (size_t i = 0; i < COUNT(entries); i++) entries[i]();
}
