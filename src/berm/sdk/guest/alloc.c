/* The heap: blocks with a size in front of them and behind, free ones in lists by size class.
 *
 * Memory is taken from the host's range front to back and only when no free block fits, so that a guest
 * touches what it uses. Neighbouring free blocks are joined at once. Every size is bounded by the
 * range before it is used, so no sum can wrap.
 */
#include <berm/alloc.h>
#include <string.h>

#define UNIT 16            /* alignment of all blocks and of what is handed out */
#define IN_USE ((size_t)1) /* in block.size: sizes are multiples of UNIT */
#define CLASSES 48

/* A block: 16 bytes of header, then the memory. While free, the memory holds the list links. */
typedef struct block {
    size_t before; /* size of the block in front, 0 for the first */
    size_t size;   /* of this block, header included, and IN_USE */
    struct block *next, *previous;
} block;

#define HEADER offsetof(block, next)
#define SMALLEST sizeof(block)

static struct {
    char *start;                /* first block; NULL until the first allocation */
    char *top;                  /* end of the last block */
    char *end;                  /* end of the host's range */
    size_t last;                /* size of the block that ends at top */
    size_t used;                /* bytes of blocks in use */
    char *reach;                /* the highest top */
    uint64_t filled;            /* bit c: class c has a block */
    struct block *list[CLASSES];
} heap;

static void start_heap(void)
{
    uintptr_t start = berm_host_heap_start();
    size_t size = berm_host_heap_size();
    size_t skip = (0 - start) % UNIT;
    size = size > skip ? (size - skip) / UNIT * UNIT : 0;
    heap.start = heap.top = heap.reach = (char *)(start + skip);
    heap.end = heap.start + size;
}

/* Class c holds sizes from 2^(c+5) up to the next power of two; 32 bytes is the smallest block. */
static unsigned class_of(size_t size)
{
    return 58u - (unsigned)__builtin_clzll(size);
}

static block *after(block *b)
{
    return (block *)((char *)b + (b->size & ~IN_USE));
}

static void set_size(block *b, size_t size, size_t flag)
{
    b->size = size | flag;
    if ((char *)b + size == heap.top)
        heap.last = size;
    else
        after(b)->before = size;
}

static void unlink_block(block *b)
{
    unsigned c = class_of(b->size);
    if (b->previous)
        b->previous->next = b->next;
    else
        heap.list[c] = b->next;
    if (b->next)
        b->next->previous = b->previous;
    if (!heap.list[c])
        heap.filled &= ~(UINT64_C(1) << c);
}

static void link_block(block *b)
{
    unsigned c = class_of(b->size);
    b->previous = NULL;
    b->next = heap.list[c];
    if (b->next)
        b->next->previous = b;
    heap.list[c] = b;
    heap.filled |= UINT64_C(1) << c;
}

/* A free block of at least this size: a few tries in its own class, then the first of a larger one. */
static block *find(size_t size)
{
    unsigned c = class_of(size);
    int tries = 8;
    for (block *b = heap.list[c]; b && tries; b = b->next, tries--)
        if (b->size >= size)
            return b;
    uint64_t larger = c + 1 < CLASSES ? heap.filled >> (c + 1) : 0;
    return larger ? heap.list[c + 1 + (unsigned)__builtin_ctzll(larger)] : NULL;
}

/* Cut a block in use to size; the rest, when it is worth a block, becomes free. */
static void give_rest_back(block *b, size_t size)
{
    size_t whole = b->size & ~IN_USE;
    if (whole - size < SMALLEST)
        return;
    block *rest = (block *)((char *)b + size);
    heap.used -= whole - size;
    if ((char *)b + whole == heap.top) {
        heap.top = (char *)rest;
        set_size(b, size, IN_USE);
        return;
    }
    block *beyond = after(b);
    b->size = size | IN_USE;
    rest->before = size;
    size_t rest_size = whole - size;
    if (!(beyond->size & IN_USE)) {
        unlink_block(beyond);
        rest_size += beyond->size;
    }
    set_size(rest, rest_size, 0);
    link_block(rest);
}

static block *extend_top(size_t size)
{
    if (size > (size_t)(heap.end - heap.top))
        return NULL;
    block *b = (block *)heap.top;
    b->before = heap.last;
    heap.top += size;
    if (heap.top > heap.reach)
        heap.reach = heap.top;
    set_size(b, size, IN_USE);
    heap.used += size;
    return b;
}

/* The block size for n bytes, or 0 when no heap could hold them. */
static size_t block_size(size_t n)
{
    if (n > (size_t)(heap.end - heap.start))
        return 0;
    size_t size = (n + HEADER + UNIT - 1) / UNIT * UNIT;
    return size < SMALLEST ? SMALLEST : size;
}

void *berm_heap_alloc(size_t n)
{
    if (!heap.start)
        start_heap();
    size_t size = block_size(n);
    if (!size)
        return NULL;
    block *b = heap.filled ? find(size) : NULL;
    if (b) {
        unlink_block(b);
        heap.used += b->size;
        b->size |= IN_USE;
        give_rest_back(b, size);
    } else {
        b = extend_top(size);
    }
    return b ? (char *)b + HEADER : NULL;
}

static block *block_of(const void *memory)
{
    uintptr_t at = (uintptr_t)memory;
    block *b = (block *)(at - HEADER);
    bool ours = at % UNIT == 0 && (char *)memory > heap.start && (char *)memory < heap.top;
    if (!ours || !(b->size & IN_USE) || (b->size & ~IN_USE) > (size_t)(heap.top - (char *)b))
        berm_panic("free of %p, which is no memory in use", memory);
    if ((char *)after(b) != heap.top && after(b)->before != (b->size & ~IN_USE))
        berm_panic("the heap is damaged: something wrote past %p", memory);
    return b;
}

void berm_heap_free(void *memory)
{
    if (!memory)
        return;
    block *b = block_of(memory);
    size_t size = b->size & ~IN_USE;
    heap.used -= size;
    b->size = size;
    if ((char *)b + size != heap.top && !(after(b)->size & IN_USE)) {
        block *beyond = after(b);
        unlink_block(beyond);
        size += beyond->size;
    }
    if (b->before) {
        block *front = (block *)((char *)b - b->before);
        if (!(front->size & IN_USE)) {
            unlink_block(front);
            size += front->size;
            b = front;
        }
    }
    if ((char *)b + size == heap.top) {
        heap.top = (char *)b;
        heap.last = b->before;
        return;
    }
    set_size(b, size, 0);
    link_block(b);
}

/* Grow b where it stands, into the top or a free neighbour. */
static bool grow_in_place(block *b, size_t size)
{
    size_t whole = b->size & ~IN_USE;
    if ((char *)b + whole == heap.top) {
        if (size - whole > (size_t)(heap.end - heap.top))
            return false;
        heap.top = (char *)b + size;
        if (heap.top > heap.reach)
            heap.reach = heap.top;
        heap.used += size - whole;
        set_size(b, size, IN_USE);
        return true;
    }
    block *beyond = after(b);
    if ((beyond->size & IN_USE) || whole + beyond->size < size)
        return false;
    unlink_block(beyond);
    heap.used += beyond->size;
    set_size(b, whole + beyond->size, IN_USE);
    give_rest_back(b, size);
    return true;
}

void *berm_heap_resize(void *memory, size_t n)
{
    if (!memory)
        return berm_heap_alloc(n);
    block *b = block_of(memory);
    size_t size = block_size(n);
    size_t whole = b->size & ~IN_USE;
    if (!size)
        return NULL;
    if (size <= whole) {
        give_rest_back(b, size);
        return memory;
    }
    if (grow_in_place(b, size))
        return memory;
    void *moved = berm_heap_alloc(n);
    if (moved) {
        memcpy(moved, memory, whole - HEADER);
        berm_heap_free(memory);
    }
    return moved;
}

/* Take more than needed and free what stands in front of the aligned place. */
void *berm_heap_aligned(size_t alignment, size_t n)
{
    if (alignment <= UNIT)
        return berm_heap_alloc(n);
    if ((alignment & (alignment - 1)) || n > SIZE_MAX - alignment - SMALLEST)
        return NULL;
    char *memory = (char *)berm_heap_alloc(n + alignment + SMALLEST);
    if (!memory)
        return NULL;
    uintptr_t at = (uintptr_t)memory;
    if (at % alignment == 0)
        return memory;
    uintptr_t aligned = (at + SMALLEST + alignment - 1) & ~(uintptr_t)(alignment - 1);
    block *front = (block *)(memory - HEADER);
    block *b = (block *)((char *)aligned - HEADER);
    size_t gap = (size_t)((char *)b - (char *)front);
    size_t rest = (front->size & ~IN_USE) - gap;
    b->before = gap;
    set_size(b, rest, IN_USE);
    front->size = gap | IN_USE;
    berm_heap_free(memory);
    give_rest_back(b, block_size(n));
    return (char *)aligned;
}

berm_heap_usage berm_heap_statistics(void)
{
    berm_heap_usage usage;
    usage.size = (size_t)(heap.end - heap.start);
    usage.used = heap.used;
    usage.reach = (size_t)(heap.reach - heap.start);
    return usage;
}
