/* Well-behaved tools: one for each thing that the ABI lets a guest do. */
#include "raw.h"

static u8 reply[1 << 16];
static u8 request[1 << 16];

TOOL(echo) { return (Result){args, read_args()}; }

TOOL(args_len) { return decimal(ecall2(CALL_berm_args_len, 0, 0)); }

/* A short buffer still learns the full length. */
TOOL(args_short) { return decimal(ecall2(CALL_berm_args_read, (u64)args, 4) * 1000 + args[3] + args[4]); }

TOOL(fails) {
    u64 size = read_args();
    ecall2(CALL_berm_fail, (u64)args, size);
    return text("this result is not looked at");
}

TOOL(fails_twice) {
    fail("first");
    fail("second");
    return text("");
}

TOOL(logs) {
    say("one");
    say("two");
    return text("logged");
}

TOOL(logs_args) {
    u64 size = read_args();
    ecall2(CALL_berm_log, (u64)args, size);
    return text("logged");
}

TOOL(nothing) { return (Result){(void *)~0ul, 0}; }

TOOL(heap) {
    u8 *heap = (u8 *)ecall2(CALL_berm_heap_start, 0, 0);
    u64 size = ecall2(CALL_berm_heap_size, 0, 0);
    if ((u64)heap & 4095 || size & 4095 || size < 4096) return text("heap bounds are not pages");
    if (heap[0] | heap[size / 2] | heap[size - 1]) return text("heap is not zero");
    heap[0] = heap[size / 2] = heap[size - 1] = 1;
    return text("ok");
}

/* What one invocation writes, the next must not see. */
static u64 counter;
TOOL(count) { return decimal(++counter); }

static Result call(u64 which) {
    u64 size = read_args();
    u64 length = ecall2(which, (u64)args, size);
    u64 bits = length >> 62;
    length = length << 2 >> 2;
    ecall2(CALL_berm_result_read, (u64)reply + 2, sizeof reply - 2);
    reply[0] = '0' + bits;
    reply[1] = ':';
    return (Result){reply, length + 2};
}

/* Answers with the two status bits, a colon and the reply. */
TOOL(ask) { return call(CALL_test_ask); }
TOOL(wait) { return call(CALL_test_wait); }
TOOL(block) { return call(CALL_test_block); }
TOOL(block_then_wait) {
    ecall2(CALL_test_block, (u64)args, 1);
    return call(CALL_test_wait);
}
TOOL(get) { return call(CALL_berm_get); }
TOOL(call) { return call(CALL_berm_call); }
TOOL(unbound) { return call(CALL_berm_fs_read); }
TOOL(retired) { return call(CALL_crabtalk_protocol_call); }
TOOL(unheard) { return call(CALL_test_unheard); }

TOOL(ask_often) {
    u64 times = number(), sum = 0;
    for (u64 i = 0; i < times; i++) sum += ecall2(CALL_test_ask, (u64)args, 1);
    return decimal(sum);
}

TOOL(wait_often) {
    u64 times = number(), sum = 0;
    for (u64 i = 0; i < times; i++) sum += ecall2(CALL_test_wait, (u64)args, 1);
    return decimal(sum);
}

/* Computes for about args × 3 instructions. */
TOOL(compute) {
    u64 rounds = number(), state = 1;
    for (u64 i = 0; i < rounds; i++) {
        state ^= state << 7;
        __asm__ volatile("" : "+r"(state));
    }
    return decimal(rounds);
}

TOOL(compute_then_ask) {
    berm_tool_compute();
    return decimal(ecall2(CALL_test_ask, (u64)args, 1));
}

/* Everything the host gave is still there after a suspension. */
TOOL(keeps_state) {
    u64 local[8];
    for (u64 i = 0; i < 8; i++) local[i] = i * 0x0101010101010101ul;
    request[0] = 'x';
    ecall2(CALL_test_wait, (u64)request, 1);
    for (u64 i = 0; i < 8; i++)
        if (local[i] != i * 0x0101010101010101ul) return text("stack changed");
    return text("ok");
}

TOOL(latin1) { return (Result){"caf\xe9", 4}; }
TOOL(utf8) { return text("caf\xc3\xa9"); }

Result on_wake(void) { return (Result){args, read_args()}; }
Result on_notify(void) {
    fail("nothing to say");
    return text("");
}
