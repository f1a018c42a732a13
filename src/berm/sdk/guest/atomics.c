/* One- and two-byte atomics for gcc, which calls them by name. A guest is one hart that nothing
 * interrupts, so plain accesses are atomic. */
#if defined(__GNUC__) && !defined(__clang__)

#include <stdbool.h>
#include <stdint.h>

#define FETCH(name, size, type, expression)                                                     \
    type berm_fetch_##name##size(volatile type *p, type v, int order)                           \
        __asm__("__atomic_fetch_" #name "_" #size);                                             \
    type berm_fetch_##name##size(volatile type *p, type v, int order)                           \
    {                                                                                           \
        type old = *p;                                                                          \
        (void)order;                                                                            \
        *p = (type)(expression);                                                                \
        return old;                                                                             \
    }

#define ATOMICS(size, type)                                                                      \
    FETCH(add, size, type, old + v)                                                              \
    FETCH(sub, size, type, old - v)                                                              \
    FETCH(and, size, type, old & v)                                                              \
    FETCH(or, size, type, old | v)                                                               \
    FETCH(xor, size, type, old ^ v)                                                              \
    FETCH(nand, size, type, ~(old & v))                                                          \
    type berm_exchange##size(volatile type *p, type v, int order)                                \
        __asm__("__atomic_exchange_" #size);                                                     \
    type berm_exchange##size(volatile type *p, type v, int order)                                \
    {                                                                                            \
        type old = *p;                                                                           \
        (void)order;                                                                             \
        *p = v;                                                                                  \
        return old;                                                                              \
    }                                                                                            \
    bool berm_compare##size(volatile type *p, type *expected, type v, bool weak, int ok, int no) \
        __asm__("__atomic_compare_exchange_" #size);                                             \
    bool berm_compare##size(volatile type *p, type *expected, type v, bool weak, int ok, int no) \
    {                                                                                            \
        type old = *p;                                                                           \
        bool same = old == *expected;                                                            \
        (void)weak, (void)ok, (void)no;                                                          \
        if (same)                                                                                \
            *p = v;                                                                              \
        else                                                                                     \
            *expected = old;                                                                     \
        return same;                                                                             \
    }

ATOMICS(1, uint8_t)
ATOMICS(2, uint16_t)

#else
typedef int berm_no_atomics_needed;
#endif
