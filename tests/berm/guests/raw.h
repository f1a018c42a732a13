/* The guest ABI without an SDK: one ecall, and a way to export a tool. */
#ifndef RAW_H
#define RAW_H
#include "numbers.h"

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long u64;
typedef struct { const void *at; u64 size; } Result;

#define TOOL(name) Result berm_tool_##name(void)

static inline u64 ecall2(u64 number, u64 a, u64 b) {
    register u64 a0 __asm__("a0") = a;
    register u64 a1 __asm__("a1") = b;
    register u64 a7 __asm__("a7") = number;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a7) : "memory");
    return a0;
}

static inline u64 length(const char *text) {
    u64 size = 0;
    while (text[size]) size++;
    return size;
}

static inline Result text(const char *at) { return (Result){at, length(at)}; }
static inline void say(const char *line) { ecall2(CALL_berm_log, (u64)line, length(line)); }
static inline void fail(const char *why) { ecall2(CALL_berm_fail, (u64)why, length(why)); }

/* Arguments of these guests are at most a page, decimal numbers where a number is meant. */
static u8 args[4096];
static inline u64 read_args(void) { return ecall2(CALL_berm_args_read, (u64)args, sizeof args); }
static inline u64 number(void) {
    u64 size = read_args(), value = 0;
    for (u64 i = 0; i < size && i < sizeof args; i++) value = value * 10 + (args[i] - '0');
    return value;
}

static u8 digits[24];
static inline Result decimal(u64 value) {
    u64 at = sizeof digits;
    do { digits[--at] = '0' + value % 10; value /= 10; } while (value);
    return (Result){digits + at, sizeof digits - at};
}
#endif
