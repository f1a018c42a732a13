/* A first-fit allocator with coalescing, used for growing strings and linked lists. */
#include "../kernel.h"

enum { HEAP = 32768, SLOTS = 64 };
struct block {
    size_t size; /* of the payload */
    struct block *next;
    int is_free;
};
static uint64_t heap[HEAP / 8];
static struct block *first;

static void reset(void) {
    first = (struct block *)heap;
    *first = (struct block){HEAP - sizeof(struct block), NULL, 1};
}

static NOINLINE void *allocate(size_t n) {
    n = (n + 15) & ~(size_t)15;
    for (struct block *b = first; b; b = b->next) {
        if (!b->is_free || b->size < n) continue;
        if (b->size >= n + sizeof(struct block) + 32) {
            struct block *rest = (struct block *)((char *)(b + 1) + n);
            *rest = (struct block){b->size - n - sizeof(struct block), b->next, 1};
            b->next = rest;
            b->size = n;
        }
        b->is_free = 0;
        return b + 1;
    }
    return NULL;
}

static NOINLINE void release(void *p) {
    if (!p) return;
    ((struct block *)p - 1)->is_free = 1;
    for (struct block *b = first; b; b = b->next)
        while (b->is_free && b->next && b->next->is_free) {
            b->size += sizeof(struct block) + b->next->size;
            b->next = b->next->next;
        }
}

struct string {
    char *data;
    size_t length, room;
};

static int append(struct string *s, const char *more, size_t n) {
    if (s->length + n > s->room) {
        size_t room = s->room ? s->room * 2 : 24;
        while (room < s->length + n) room *= 2;
        char *bigger = allocate(room);
        if (!bigger) return 0;
        if (s->data) memcpy(bigger, s->data, s->length);
        release(s->data);
        s->data = bigger;
        s->room = room;
    }
    memcpy(s->data + s->length, more, n);
    s->length += n;
    return 1;
}

uint64_t kernel(uint64_t n) {
    static struct string strings[SLOTS];
    uint64_t sum = 0;
    uint32_t seed = 1021u;
    for (uint64_t round = 0; round < n; round++) {
        reset();
        memset(strings, 0, sizeof strings);
        for (int i = 0; i < 400; i++) {
            uint32_t r = next_random(&seed);
            struct string *s = &strings[r % SLOTS];
            if (r % 5 == 0) {
                for (size_t k = 0; k < s->length; k++) sum = sum * 33 + (uint8_t)s->data[k];
                release(s->data);
                *s = (struct string){0};
            } else if (!append(s, "a quick brown fox jumps over it" + r % 9, 3 + r % 20)) {
                sum++;
            }
        }
        size_t free_bytes = 0;
        for (struct block *b = first; b; b = b->next) free_bytes += b->is_free ? b->size : 0;
        sum = mix(sum, free_bytes);
    }
    return sum;
}
