/* Merge sort, heap sort and insertion sort over 32-bit keys. */
#include "../kernel.h"

enum { SIZE = 1024 };
static uint32_t keys[SIZE], spare[SIZE];

static void insertion(uint32_t *a, size_t n) {
    for (size_t i = 1; i < n; i++) {
        uint32_t v = a[i];
        size_t j = i;
        for (; j > 0 && a[j - 1] > v; j--) a[j] = a[j - 1];
        a[j] = v;
    }
}

static NOINLINE void merge_sort(uint32_t *a, uint32_t *tmp, size_t n) {
    if (n <= 12) {
        insertion(a, n);
        return;
    }
    size_t half = n / 2, i = 0, j = half, k = 0;
    merge_sort(a, tmp, half);
    merge_sort(a + half, tmp, n - half);
    while (i < half && j < n) tmp[k++] = a[i] <= a[j] ? a[i++] : a[j++];
    while (i < half) tmp[k++] = a[i++];
    for (size_t m = 0; m < k; m++) a[m] = tmp[m];
}

static void sift(uint32_t *a, size_t root, size_t n) {
    uint32_t v = a[root];
    for (size_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && a[child + 1] > a[child]) child++;
        if (a[child] <= v) break;
        a[root] = a[child];
    }
    a[root] = v;
}

static NOINLINE void heap_sort(uint32_t *a, size_t n) {
    for (size_t i = n / 2; i-- > 0;) sift(a, i, n);
    for (size_t end = n; end-- > 1;) {
        uint32_t top = a[0];
        a[0] = a[end];
        a[end] = top;
        sift(a, 0, end);
    }
}

uint64_t kernel(uint64_t n) {
    uint64_t sum = 0;
    uint32_t seed = 2463534242u;
    for (uint64_t round = 0; round < n; round++) {
        for (size_t i = 0; i < SIZE; i++) keys[i] = next_random(&seed);
        if (round & 1) heap_sort(keys, SIZE);
        else merge_sort(keys, spare, SIZE);
        for (size_t i = 0; i < SIZE; i += 37) sum = mix(sum, keys[i]);
    }
    return sum;
}
