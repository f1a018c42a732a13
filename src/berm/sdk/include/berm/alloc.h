/* Memory: the guest's heap, asked for on the first allocation.
 *
 * `malloc`, `calloc`, `realloc`, `free` and C++'s `new` are this allocator in a guest. They return NULL
 * when the heap is full; the berm_* forms below fail the call with "out of memory" instead, which is
 * what a tool wants nearly always. An invocation's memory dies with it, so freeing is optional.
 */
#ifndef BERM_ALLOC_H
#define BERM_ALLOC_H

#include <berm/abi.h>

BERM_BEGIN

/* At least n bytes, 16-byte aligned; fails the call when there are none. */
void *berm_alloc(size_t n);

/* count * size zeroed bytes; the product is checked. */
void *berm_alloc_zeroed(size_t count, size_t size);

/* Resize to count * size bytes, moving if needed; the product is checked. */
void *berm_realloc(void *memory, size_t count, size_t size);

void berm_free(void *memory);

/* BERM_NEW(struct node) and BERM_NEW_ARRAY(int, n): zeroed. */
#define BERM_NEW(type) ((type *)berm_alloc_zeroed(1, sizeof(type)))
#define BERM_NEW_ARRAY(type, count) ((type *)berm_alloc_zeroed((count), sizeof(type)))

/* The heap itself: NULL when full. `berm_heap_free` panics on a pointer it never gave out or that was
 * freed before. */
void *berm_heap_alloc(size_t n);
void *berm_heap_resize(void *memory, size_t n);
void *berm_heap_aligned(size_t alignment, size_t n);
void berm_heap_free(void *memory);

/* What has been handed out, and the most that ever was. */
typedef struct berm_heap_usage {
    size_t size;  /* bytes the host gave us */
    size_t used;  /* bytes in use, headers included */
    size_t reach; /* bytes of the heap ever touched */
} berm_heap_usage;

berm_heap_usage berm_heap_statistics(void);

BERM_END

#endif
