/* The heap of a native test: the C library's, so that a sanitizer watches every block.
 *
 * What a call has allocated is freed when it ends, as in the sandbox: a pointer that is kept across calls
 * is found as a use after free.
 */
#include "native.h"

#include <stdlib.h>
#include <string.h>

typedef struct block {
    struct block *next, *previous;
    size_t size;
    size_t pad; /* keeps what follows 16-byte aligned */
} block;

static block *blocks;
static size_t used;

static void link_block(block *b, size_t size)
{
    b->size = size;
    b->next = blocks;
    b->previous = NULL;
    if (blocks)
        blocks->previous = b;
    blocks = b;
    used += size;
}

static void unlink_block(block *b)
{
    if (b->previous)
        b->previous->next = b->next;
    else
        blocks = b->next;
    if (b->next)
        b->next->previous = b->previous;
    used -= b->size;
}

void *berm_heap_alloc(size_t n)
{
    block *b = n > PTRDIFF_MAX - sizeof(block) ? NULL : (block *)malloc(sizeof(block) + n);
    if (!b)
        return NULL;
    link_block(b, n);
    return b + 1;
}

void *berm_heap_resize(void *memory, size_t n)
{
    if (!memory)
        return berm_heap_alloc(n);
    size_t old = ((block *)memory - 1)->size;
    void *moved = berm_heap_alloc(n);
    if (!moved)
        return NULL;
    memcpy(moved, memory, old < n ? old : n);
    berm_heap_free(memory);
    return moved;
}

void *berm_heap_aligned(size_t alignment, size_t n)
{
    return alignment <= 16 ? berm_heap_alloc(n) : NULL;
}

void berm_heap_free(void *memory)
{
    if (!memory)
        return;
    unlink_block((block *)memory - 1);
    free((block *)memory - 1);
}

berm_heap_usage berm_heap_statistics(void)
{
    berm_heap_usage usage = {SIZE_MAX, used, used};
    return usage;
}

void native_heap_clear(void)
{
    while (blocks)
        berm_heap_free(blocks + 1);
}

char *native_copy(berm_str text)
{
    char *copy = (char *)malloc(text.len + 1);
    if (!copy)
        abort();
    if (text.len)
        memcpy(copy, text.ptr, text.len);
    copy[text.len] = 0;
    return copy;
}
