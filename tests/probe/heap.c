/* The guest's allocator under a script of allocations, checked after every step. */
#include "probe.h"

#include <stdlib.h>
#include <string.h>

#define berm_heap_alloc guest_heap_alloc
#define berm_heap_resize guest_heap_resize
#define berm_heap_aligned guest_heap_aligned
#define berm_heap_free guest_heap_free
#define berm_heap_statistics guest_heap_statistics
#define berm_host_heap_start probe_heap_start
#define berm_host_heap_size probe_heap_size
void *guest_heap_alloc(size_t n);
void *guest_heap_resize(void *memory, size_t n);
void *guest_heap_aligned(size_t alignment, size_t n);
void guest_heap_free(void *memory);
berm_heap_usage guest_heap_statistics(void);

#define HEAP_SIZE 65536
#define SLOTS 64

static _Alignas(4096) char arena[HEAP_SIZE + 64];
static size_t skew; /* where in the arena the heap starts */

static uintptr_t probe_heap_start(void)
{
    return (uintptr_t)arena + skew;
}

static size_t probe_heap_size(void)
{
    return HEAP_SIZE;
}

#include "../../src/berm/sdk/guest/alloc.c"

static struct {
    unsigned char *memory;
    size_t len;
    unsigned char fill;
} slots[SLOTS];

static void check(bool condition, const char *what)
{
    if (!condition) {
        berm_log("heap: %s", what);
        abort();
    }
}

static void check_slot(size_t i, size_t len)
{
    for (size_t at = 0; at < len; at++)
        check(slots[i].memory[at] == slots[i].fill, "a block was overwritten");
}

static void keep(size_t i, void *memory, size_t len, size_t alignment)
{
    slots[i].memory = (unsigned char *)memory;
    slots[i].len = memory ? len : 0;
    slots[i].fill = (unsigned char)(i * 37 + len);
    if (!memory)
        return;
    check((uintptr_t)memory % alignment == 0, "a block is not aligned");
    check((char *)memory >= arena + skew && (char *)memory + len <= arena + skew + HEAP_SIZE, "out of the heap");
    memset(memory, slots[i].fill, len);
}

static void step(unsigned what, size_t i, size_t len)
{
    size_t alignment = (size_t)16 << (what / 4 % 6);
    switch (what % 4) {
    case 0:
    case 3:
        check_slot(i, slots[i].len);
        guest_heap_free(slots[i].memory);
        keep(i, what % 4 ? guest_heap_aligned(alignment, len) : guest_heap_alloc(len), len,
             what % 4 ? alignment : 16);
        break;
    case 1:
        check_slot(i, slots[i].len);
        guest_heap_free(slots[i].memory);
        keep(i, NULL, 0, 16);
        break;
    default: {
        void *moved = guest_heap_resize(slots[i].memory, len);
        if (!moved)
            return;
        unsigned char fill = slots[i].fill;
        size_t kept = slots[i].len < len ? slots[i].len : len;
        slots[i].memory = (unsigned char *)moved;
        slots[i].fill = fill;
        check_slot(i, kept);
        keep(i, moved, len, 16);
    }
    }
}

/* Steps of 4 bytes: what, slot, and a length; the first byte says where the heap starts. At the end all is
 * freed, and the whole heap must be one piece again. */
void probe_heap(berm_str request, berm_out *out)
{
    memset(&heap, 0, sizeof heap);
    memset(slots, 0, sizeof slots);
    skew = request.len ? (unsigned char)request.ptr[0] % 64 : 0;
    for (size_t at = 1; at + 4 <= request.len; at += 4) {
        const unsigned char *p = (const unsigned char *)request.ptr + at;
        size_t len = (size_t)(p[2] | p[3] << 8);
        step(p[0], p[1] % SLOTS, p[0] & 0x80 ? len : len % 300);
        for (size_t i = 0; i < SLOTS; i++)
            check_slot(i, slots[i].len);
    }
    for (size_t i = 0; i < SLOTS; i++)
        guest_heap_free(slots[i].memory);
    check(guest_heap_statistics().used == 0, "something is still in use");
    check(!heap.filled && heap.top == heap.start, "the heap is in pieces");
    check(!guest_heap_alloc(SIZE_MAX) && !guest_heap_alloc(SIZE_MAX - 15) && !guest_heap_alloc(HEAP_SIZE), "too large");
    if (request.len)
        check(guest_heap_alloc(HEAP_SIZE - 64) != NULL, "the whole heap is not there");
    berm_printf(out, "ok %zu", guest_heap_statistics().reach);
}
