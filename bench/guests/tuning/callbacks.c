/* Quicksort, binary search and folding over records, all through function pointers. */
#include "../kernel.h"

enum { SIZE = 600 };
struct record {
    uint32_t id;
    int16_t rank;
    char name[10];
    const struct record *parent;
};
typedef int (*compare)(const void *, const void *);
typedef uint64_t (*step)(uint64_t, const struct record *);
static struct record records[SIZE];

static int by_id(const void *a, const void *b) {
    uint32_t x = ((const struct record *)a)->id, y = ((const struct record *)b)->id;
    return x < y ? -1 : x > y;
}

static int by_name(const void *a, const void *b) {
    const char *x = ((const struct record *)a)->name, *y = ((const struct record *)b)->name;
    while (*x && *x == *y) x++, y++;
    return (uint8_t)*x - (uint8_t)*y;
}

static int by_rank_then_id(const void *a, const void *b) {
    int d = ((const struct record *)b)->rank - ((const struct record *)a)->rank;
    return d ? d : by_id(a, b);
}

static void swap(struct record *a, struct record *b) {
    struct record t = *a;
    *a = *b;
    *b = t;
}

static NOINLINE void quicksort(struct record *a, size_t n, compare less) {
    while (n > 1) {
        swap(&a[0], &a[n / 2]);
        size_t last = 0;
        for (size_t i = 1; i < n; i++)
            if (less(&a[i], &a[0]) < 0) swap(&a[++last], &a[i]);
        swap(&a[0], &a[last]);
        quicksort(a, last, less);
        a += last + 1;
        n -= last + 1;
    }
}

static NOINLINE const struct record *bisect(const struct record *a, size_t n, const struct record *key, compare less) {
    size_t low = 0;
    while (n > 0) {
        size_t half = n / 2;
        if (less(&a[low + half], key) < 0) low += half + 1, n -= half + 1;
        else n = half;
    }
    return &a[low];
}

static uint64_t add_rank(uint64_t sum, const struct record *r) { return sum + (uint64_t)r->rank; }
static uint64_t mix_name(uint64_t sum, const struct record *r) { return mix(sum, (uint8_t)r->name[1]); }
static uint64_t climb(uint64_t sum, const struct record *r) {
    int depth = 0;
    while (r->parent && depth < 20) r = r->parent, depth++;
    return sum * 31 + depth + r->id;
}

static NOINLINE uint64_t fold(step f, uint64_t sum) {
    for (size_t i = 0; i < SIZE; i++) sum = f(sum, &records[i]);
    return sum;
}

uint64_t kernel(uint64_t n) {
    static compare const orders[] = {by_id, by_name, by_rank_then_id};
    static step const steps[] = {add_rank, mix_name, climb};
    uint64_t sum = 0;
    uint32_t seed = 77777u;
    for (uint64_t round = 0; round < n; round++) {
        for (size_t i = 0; i < SIZE; i++) {
            struct record *r = &records[i];
            r->id = next_random(&seed);
            r->rank = (int16_t)(r->id % 50 - 25);
            for (int k = 0; k < 9; k++) r->name[k] = (char)('a' + (r->id >> 3 * k) % 7);
            r->name[9] = 0;
            r->parent = i ? &records[r->id % i] : NULL;
        }
        compare order = orders[round % COUNT(orders)];
        quicksort(records, SIZE, order);
        struct record key = records[round % SIZE];
        sum = mix(sum, (uint64_t)(bisect(records, SIZE, &key, order) - records));
        for (size_t i = 0; i < COUNT(steps); i++) sum = fold(steps[i], sum);
    }
    return sum;
}
