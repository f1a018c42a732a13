/* Calls one host function n times: the same source for the RISC-V and the WebAssembly engines. */
#include "../kernel.h"

#ifdef __wasm__
__attribute__((import_module("bench"), import_name("nop"))) uint64_t nop(uint64_t value);
#else
static inline uint64_t nop(uint64_t value) {
    register uint64_t a0 __asm__("a0") = value;
    register uint64_t a7 __asm__("a7") = 1;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a7) : "memory");
    return a0;
}
#endif

uint64_t kernel(uint64_t n) {
    uint64_t sum = 0;
    for (; n > 0; n--) sum += nop(n);
    return sum;
}
