/* The host interface: how a guest reaches its host, and nothing more.
 *
 * In a guest each function is one `ecall`: the number in a7 is the FNV-1a 64 of the call's name. In a
 * native test build the same functions are served by native/host.c, so that everything above this
 * file is the same source in both worlds. Authors use the headers above this one.
 */
#ifndef BERM_ABI_H
#define BERM_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__riscv) && !defined(BERM_NATIVE)
#define BERM_GUEST 1
#endif

#ifdef __cplusplus
#define BERM_BEGIN extern "C" {
#define BERM_END }
#else
#define BERM_BEGIN
#define BERM_END
#endif

#define BERM_UNUSED __attribute__((unused))
#define BERM_NORETURN __attribute__((noreturn))
#define BERM_PRINTF(format_at, first_at) __attribute__((format(printf, format_at, first_at)))
#define BERM_LIKELY(condition) __builtin_expect(!!(condition), 1)
#define BERM_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

BERM_BEGIN

/* What an exported function hands back in a0 and a1. */
typedef struct berm_result {
    const char *ptr;
    size_t len;
} berm_result;

/* Bits of a capability's returned length. */
#define BERM_REPLY_ERROR (UINT64_C(1) << 63)   /* the staged reply is an error message */
#define BERM_REPLY_REFUSED (UINT64_C(1) << 62) /* beside it: refused, nothing ran */

/* The calls that every host answers; the numbers are checked against their names by the tests. */
#define BERM_CALL_LOG          UINT64_C(0x718e2c830194e059) /* berm.log */
#define BERM_CALL_ARGS_LEN     UINT64_C(0x6ee73f4eae1c1535) /* berm.args.len */
#define BERM_CALL_ARGS_READ    UINT64_C(0x4d9b428e492faf86) /* berm.args.read */
#define BERM_CALL_FAIL         UINT64_C(0x71ea7deedc66e725) /* berm.fail */
#define BERM_CALL_RESULT_READ  UINT64_C(0x6c92a7d946a830be) /* berm.result.read */
#define BERM_CALL_HEAP_START   UINT64_C(0x22dd50ae74636d29) /* berm.heap.start */
#define BERM_CALL_HEAP_SIZE    UINT64_C(0x028d9fa83164ad8a) /* berm.heap.size */

/* FNV-1a 64 of a call's name: the number that goes into a7. */
static inline uint64_t berm_call_number(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    while (*name)
        hash = (hash ^ (unsigned char)*name++) * UINT64_C(0x100000001b3);
    return hash;
}

#ifdef BERM_GUEST

static inline uint64_t berm_ecall(uint64_t number, uint64_t first, uint64_t second)
{
    register uint64_t a0 __asm__("a0") = first;
    register uint64_t a1 __asm__("a1") = second;
    register uint64_t a7 __asm__("a7") = number;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a7) : "memory");
    return a0;
}

static inline void berm_host_log(const char *text, size_t len)
{
    berm_ecall(BERM_CALL_LOG, (uintptr_t)text, len);
}

static inline size_t berm_host_args_len(void)
{
    return berm_ecall(BERM_CALL_ARGS_LEN, 0, 0);
}

static inline size_t berm_host_args_read(void *into, size_t cap)
{
    return berm_ecall(BERM_CALL_ARGS_READ, (uintptr_t)into, cap);
}

static inline void berm_host_fail(const char *text, size_t len)
{
    berm_ecall(BERM_CALL_FAIL, (uintptr_t)text, len);
}

static inline size_t berm_host_result_read(void *into, size_t cap)
{
    return berm_ecall(BERM_CALL_RESULT_READ, (uintptr_t)into, cap);
}

static inline uintptr_t berm_host_heap_start(void)
{
    return berm_ecall(BERM_CALL_HEAP_START, 0, 0);
}

static inline size_t berm_host_heap_size(void)
{
    return berm_ecall(BERM_CALL_HEAP_SIZE, 0, 0);
}

static inline uint64_t berm_host_call(const char *name, const void *request, size_t len)
{
    return berm_ecall(berm_call_number(name), (uintptr_t)request, len);
}

#else

void berm_host_log(const char *text, size_t len);
size_t berm_host_args_len(void);
size_t berm_host_args_read(void *into, size_t cap);
void berm_host_fail(const char *text, size_t len);
size_t berm_host_result_read(void *into, size_t cap);
uintptr_t berm_host_heap_start(void);
size_t berm_host_heap_size(void);
uint64_t berm_host_call(const char *name, const void *request, size_t len);

#endif

/* Log a formatted line (cut at 1 KiB) and stop with `ebreak`: the host reports a trap. For broken
 * invariants of the harness itself; what the model got wrong is a berm_fail. */
BERM_NORETURN void berm_panic(const char *format, ...) BERM_PRINTF(1, 2);

/* Write a formatted line (cut at 1 KiB) to the host's log. */
void berm_log(const char *format, ...) BERM_PRINTF(1, 2);

/* End this call as *failed* with a formatted message for the model (cut at 8 KiB). Does not return;
 * nothing is unwound, since the memory of an invocation dies with it. */
BERM_NORETURN void berm_fail(const char *format, ...) BERM_PRINTF(1, 2);

BERM_END

#endif
