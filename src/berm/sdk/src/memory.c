/* Allocation for tools: no NULL, no unchecked product. A full heap fails the call. */
#include <berm/alloc.h>
#include <string.h>

static size_t product(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        berm_fail("out of memory: %zu elements of %zu bytes", count, size);
    return bytes;
}

static void *or_fail(void *memory, size_t n)
{
    if (!memory)
        berm_fail("out of memory: no room for %zu bytes", n);
    return memory;
}

void *berm_alloc(size_t n)
{
    return or_fail(berm_heap_alloc(n), n);
}

void *berm_alloc_zeroed(size_t count, size_t size)
{
    size_t bytes = product(count, size);
    return memset(berm_alloc(bytes), 0, bytes);
}

void *berm_realloc(void *memory, size_t count, size_t size)
{
    size_t bytes = product(count, size);
    return or_fail(berm_heap_resize(memory, bytes), bytes);
}

void berm_free(void *memory)
{
    berm_heap_free(memory);
}
