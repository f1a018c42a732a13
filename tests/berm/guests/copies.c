/* Tools that have the host copy as much as it is asked to: once, or again and again. */
#include "raw.h"

static u64 heap(void) { return ecall2(CALL_berm_heap_start, 0, 0); }
static u64 all_args(void) { return ecall2(CALL_berm_args_read, heap(), ~0ul); }
static u64 reply(void) { return ecall2(CALL_berm_result_read, heap(), ~0ul); }

TOOL(args) { return (Result){(void *)heap(), all_args()}; }
TOOL(reply) {
    ecall2(CALL_test_ask, 0, 0);
    return (Result){(void *)heap(), reply()};
}
TOOL(fail) {
    ecall2(CALL_berm_fail, heap(), all_args());
    return text("");
}
TOOL(fail_after_more) { /* the message is shorter than the one before it */
    u64 size = all_args();
    ecall2(CALL_berm_fail, heap(), size);
    ecall2(CALL_berm_fail, heap() + 1, size - 2);
    return text("");
}
TOOL(log) {
    u64 size = all_args();
    say("before");
    ecall2(CALL_berm_log, heap(), size);
    say("after");
    return text("logged");
}
TOOL(into_the_guard) { /* 64 KiB of memory are there for a great many arguments */
    ecall2(CALL_berm_args_read, heap() + ecall2(CALL_berm_heap_size, 0, 0) - 65536, ~0ul);
    return text("read");
}

TOOL(args_for_ever) {
    for (;;) all_args();
}
TOOL(reply_for_ever) {
    ecall2(CALL_test_ask, 0, 0);
    for (;;) reply();
}
TOOL(fail_for_ever) {
    for (u64 size = all_args();;) ecall2(CALL_berm_fail, heap(), size);
}
TOOL(log_for_ever) {
    for (u64 size = all_args();;) ecall2(CALL_berm_log, heap(), size);
}
