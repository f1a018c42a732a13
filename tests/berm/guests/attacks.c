/* Tools that misbehave, each in one way. Addresses come as decimal arguments. */
#include "raw.h"

static const u8 constant[16] = "read only bytes";
static u8 data[8192] __attribute__((aligned(4096)));

TOOL(spin) {
    for (;;) __asm__ volatile("");
}

__attribute__((noinline)) static u64 deeper(u64 n) {
    volatile u64 frame[16];
    frame[n & 15] = n;
    return deeper(n + 1) + frame[n & 15];
}
TOOL(recurse) { return decimal(deeper(number())); }

/* Two functions that jump to each other for ever: no loop edge inside either. */
__attribute__((noinline)) void tail_a(u64);
__attribute__((noinline)) void tail_b(u64 n) {
    __asm__ volatile("" ::: "memory");
    return tail_a(n + 1);
}
__attribute__((noinline)) void tail_a(u64 n) {
    __asm__ volatile("" ::: "memory");
    return tail_b(n ^ 1);
}
TOOL(tail_chain) {
    tail_a(0);
    return text("came back");
}

static void (*volatile hop)(void);
static void hopping(void) { hop(); }
TOOL(indirect_chain) {
    hop = hopping;
    hop();
    return text("came back");
}

TOOL(read8) { return decimal(*(volatile u8 *)number()); }
TOOL(read64) { return decimal(*(volatile u64 *)number()); }
TOOL(write8) {
    *(volatile u8 *)number() = 1;
    return text("written");
}
TOOL(write64) {
    *(volatile u64 *)number() = 1;
    return text("written");
}
TOOL(write_text) {
    *(volatile u32 *)(u64)&berm_tool_spin = 0x00008067;
    return text("written");
}
TOOL(write_rodata) {
    *(volatile u8 *)(u64)constant = 1;
    return text("written");
}

static void jump(u64 to) { __asm__ volatile("jalr ra, 0(%0)" ::"r"(to) : "ra", "memory"); }
static void swap_return(u64 to) { __asm__ volatile("mv ra, %0\n ret" ::"r"(to)); }

TOOL(jump_data) {
    data[0] = 0x67, data[1] = 0x80; /* ret */
    jump((u64)data);
    return text("ran data");
}
TOOL(jump_to) {
    jump(number());
    return text("jumped");
}
TOOL(jump_middle) {
    u64 to;
    __asm__ volatile("lui %0, %%hi(tail_a)\n addi %0, %0, %%lo(tail_a)" : "=r"(to));
    jump(to + 4);
    return text("jumped into a function");
}

/* Only ever called directly, so no relocation makes it a target; its address is computed from a neighbour. */
__attribute__((noinline, used)) static void never_taken(void) { __asm__ volatile("" ::: "memory"); }
TOOL(jump_never_taken) {
    never_taken();
    u64 to;
    __asm__ volatile("jal %0, 1f\n1: " : "=r"(to));
    for (u64 at = to & ~1ul; at < to + 4096; at += 2) jump(at); /* a walk through everything that follows */
    return text("reached");
}
TOOL(bad_return) {
    swap_return((u64)data);
    return text("returned");
}
TOOL(return_to) {
    swap_return(number());
    return text("returned");
}
/* A buffer overflow in miniature: the saved return address is overwritten. */
__attribute__((noinline)) static void overflow(u64 value) {
    u64 buffer[2];
    volatile u64 *at = buffer;
    for (u64 i = 0; i < 5; i++) at[i] = value;
    __asm__ volatile("" ::"r"(buffer) : "ra", "memory");
}
TOOL(smash_stack) {
    overflow((u64)data);
    return text("survived");
}

/* Host calls with wild pointers: args is "which pointer" as number, sizes are fixed by the tool. */
TOOL(log_at) {
    ecall2(CALL_berm_log, number(), 16);
    return text("logged");
}
TOOL(log_huge) {
    ecall2(CALL_berm_log, (u64)data, number());
    return text("logged");
}
TOOL(fail_at) {
    ecall2(CALL_berm_fail, number(), 16);
    return text("");
}
TOOL(fail_huge) {
    ecall2(CALL_berm_fail, (u64)data, number());
    return text("");
}
TOOL(args_to) { return decimal(ecall2(CALL_berm_args_read, number(), 16)); }
TOOL(args_to_text) { return decimal(ecall2(CALL_berm_args_read, (u64)&berm_tool_spin, 16)); }
TOOL(ask_at) { return decimal(ecall2(CALL_test_ask, number(), 16)); }
TOOL(ask_huge) { return decimal(ecall2(CALL_test_ask, (u64)data, number())); }
TOOL(reply_to) {
    u64 to = number();
    ecall2(CALL_test_ask, (u64)data, 16);
    return decimal(ecall2(CALL_berm_result_read, to, 16));
}
TOOL(reply_twice) {
    ecall2(CALL_test_ask, (u64)data, 1);
    ecall2(CALL_berm_result_read, (u64)data, sizeof data);
    return decimal(ecall2(CALL_berm_result_read, (u64)data, sizeof data));
}
TOOL(reply_before_any) { return decimal(ecall2(CALL_berm_result_read, (u64)data, sizeof data)); }

TOOL(log_flood) {
    for (;;) ecall2(CALL_berm_log, (u64)"flood", 5);
}
TOOL(log_flood_empty) {
    for (u64 i = 0; i < 1000000; i++) ecall2(CALL_berm_log, 0, 0);
    return text("done");
}
TOOL(log_garbage) {
    ecall2(CALL_berm_log, (u64) "\xff\xfe\x1b[2J", 6);
    return text("logged");
}
TOOL(fail_flood) {
    for (u64 i = 0; i < 100000; i++) ecall2(CALL_berm_fail, (u64)data, sizeof data);
    return text("");
}
/* Each call makes the host look at and copy as much as it ever will. */
TOOL(fail_with_everything) {
    u64 heap = ecall2(CALL_berm_heap_start, 0, 0), size = ecall2(CALL_berm_heap_size, 0, 0);
    for (;;) ecall2(CALL_berm_fail, heap, size);
}
TOOL(ask_flood) {
    for (;;) ecall2(CALL_test_ask, (u64)data, 1);
}

/* Any host call with any two arguments: number, a0 and a1 are the argument blob, three little-endian words. */
TOOL(host_call) {
    u64 *words = (u64 *)args;
    read_args();
    return decimal(ecall2(words[0], words[1], words[2]));
}

TOOL(result_at) { return (Result){(void *)number(), 16}; }
TOOL(result_huge) { return (Result){data, number()}; }
TOOL(result_empty_anywhere) { return (Result){(void *)number(), 0}; }

TOOL(touch_everything) {
    u8 *heap = (u8 *)ecall2(CALL_berm_heap_start, 0, 0);
    u64 size = ecall2(CALL_berm_heap_size, 0, 0);
    for (u64 at = 0; at < size; at += 4096) heap[at] = 0xAA;
    for (u64 at = 0; at < size; at += 4096)
        if (heap[at] != 0xAA) return text("lost");
    return text("ok");
}
/* Counts bytes that are not zero in the heap, or in what the image says is zero. */
TOOL(find_leftovers) {
    u64 *heap = (u64 *)ecall2(CALL_berm_heap_start, 0, 0);
    u64 size = ecall2(CALL_berm_heap_size, 0, 0), found = 0;
    for (u64 i = 0; i < size / 8; i += 64) found += heap[i] != 0;
    for (u64 i = 0; i < sizeof data; i++) found += data[i] != 0;
    return decimal(found);
}
TOOL(aborts) { __builtin_trap(); }
TOOL(breaks) {
    __asm__ volatile("ebreak");
    return text("went on");
}
TOOL(csr) {
    __asm__ volatile(".word 0xc00022f3"); /* rdcycle t0 */
    return text("went on");
}
TOOL(misaligned_atomic) {
    u64 old;
    __asm__ volatile("amoadd.d %0, %1, (%2)" : "=r"(old) : "r"(1ul), "r"((u64)data + 1) : "memory");
    return text("went on");
}
