/* Huffman coding: frequencies, tree from a binary heap, canonical codes, bit output and input. */
#include "../kernel.h"

enum { SIZE = 2048, SYMBOLS = 256 };
static uint8_t data[SIZE], bits[SIZE * 2], back[SIZE];
static uint32_t weight[2 * SYMBOLS];
static int16_t parent[2 * SYMBOLS], heap[2 * SYMBOLS];
static uint8_t lengths[SYMBOLS];
static uint32_t codes[SYMBOLS];
static int heap_size;

static void push(int16_t item) {
    int at = heap_size++;
    for (; at > 0 && weight[item] < weight[heap[(at - 1) / 2]]; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
    heap[at] = item;
}

static int16_t pop(void) {
    int16_t top = heap[0], last = heap[--heap_size];
    int at = 0;
    for (int child; (child = 2 * at + 1) < heap_size; at = child) {
        if (child + 1 < heap_size && weight[heap[child + 1]] < weight[heap[child]]) child++;
        if (weight[last] <= weight[heap[child]]) break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    return top;
}

static NOINLINE void build(void) {
    int16_t next = SYMBOLS;
    heap_size = 0;
    memset(weight, 0, sizeof weight);
    memset(lengths, 0, sizeof lengths);
    for (int i = 0; i < SIZE; i++) weight[data[i]]++;
    for (int16_t s = 0; s < SYMBOLS; s++)
        if (weight[s]) push(s);
    while (heap_size > 1) {
        int16_t a = pop(), b = pop();
        weight[next] = weight[a] + weight[b];
        parent[a] = parent[b] = next;
        push(next++);
    }
    parent[next - 1] = -1;
    for (int16_t s = 0; s < SYMBOLS; s++)
        for (int16_t at = s; weight[s] && parent[at] >= 0; at = parent[at]) lengths[s]++;
}

static void assign(void) {
    uint32_t code = 0;
    for (int length = 1; length < 32; length++, code <<= 1)
        for (int s = 0; s < SYMBOLS; s++)
            if (lengths[s] == length) codes[s] = code++;
}

static NOINLINE size_t encode(void) {
    uint64_t hold = 0;
    int held = 0;
    size_t used = 0;
    for (int i = 0; i < SIZE; i++) {
        hold = hold << lengths[data[i]] | codes[data[i]];
        held += lengths[data[i]];
        for (; held >= 8; held -= 8) bits[used++] = (uint8_t)(hold >> (held - 8));
    }
    bits[used++] = (uint8_t)(hold << (8 - held));
    return used;
}

static NOINLINE void decode(void) {
    uint16_t count[33] = {0}, first_index[33];
    uint8_t sorted[SYMBOLS];
    int total = 0;
    for (int length = 1; length < 32; length++) {
        first_index[length] = (uint16_t)total;
        for (int s = 0; s < SYMBOLS; s++)
            if (lengths[s] == length) sorted[total++] = (uint8_t)s, count[length]++;
    }
    size_t at = 0;
    for (int i = 0; i < SIZE; i++) {
        uint32_t code = 0, first = 0;
        for (int length = 1;; length++, at++) {
            code = code << 1 | (bits[at >> 3] >> (7 - (at & 7)) & 1);
            first <<= 1;
            if (code - first < count[length]) {
                back[i] = sorted[first_index[length] + code - first];
                at++;
                break;
            }
            first += count[length];
        }
    }
}

uint64_t kernel(uint64_t n) {
    uint64_t sum = 0;
    uint32_t seed = 99991u;
    for (uint64_t round = 0; round < n; round++) {
        for (int i = 0; i < SIZE; i++) {
            uint32_t r = next_random(&seed);
            data[i] = (uint8_t)("etaoin shrdlu"[r % 13] + (r % 97 == 0 ? r >> 27 : 0));
        }
        build();
        assign();
        sum = mix(sum, encode());
        decode();
        sum = mix(sum, (uint64_t)memcmp(data, back, SIZE) == 0);
    }
    return sum;
}
