/* Open-addressing map from short strings to counts: insert, look up, delete, grow. */
#include "../kernel.h"

struct entry {
    uint32_t hash;
    uint16_t length;
    uint8_t state; /* 0 free, 1 used, 2 deleted */
    char key[17];
    uint64_t value;
};
struct map {
    struct entry *slots;
    uint32_t mask, used;
};
static struct entry storage[2][4096];

static uint32_t hash_of(const char *key, size_t n) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++) h = (h ^ (uint8_t)key[i]) * 16777619u;
    return h;
}

static struct entry *find(struct map *m, const char *key, size_t n, uint32_t hash) {
    struct entry *grave = NULL;
    for (uint32_t i = hash & m->mask;; i = (i + 1) & m->mask) {
        struct entry *e = &m->slots[i];
        if (e->state == 0) return grave ? grave : e;
        if (e->state == 2) {
            if (!grave) grave = e;
        } else if (e->hash == hash && e->length == n && memcmp(e->key, key, n) == 0) {
            return e;
        }
    }
}

static NOINLINE void grow(struct map *m, int half) {
    struct map bigger = {storage[half], m->mask * 2 + 1, 0};
    memset(bigger.slots, 0, sizeof(struct entry) * (bigger.mask + 1));
    for (uint32_t i = 0; i <= m->mask; i++) {
        if (m->slots[i].state != 1) continue;
        *find(&bigger, m->slots[i].key, m->slots[i].length, m->slots[i].hash) = m->slots[i];
        bigger.used++;
    }
    *m = bigger;
}

static void bump(struct map *m, const char *key, size_t n, uint64_t by) {
    uint32_t hash = hash_of(key, n);
    struct entry *e = find(m, key, n, hash);
    if (e->state != 1) {
        e->state = 1;
        e->hash = hash;
        e->length = (uint16_t)n;
        memcpy(e->key, key, n);
        e->value = 0;
        m->used++;
    }
    e->value += by;
}

static size_t name(char *out, uint32_t v) {
    size_t n = 0;
    do out[n++] = (char)('a' + v % 23);
    while ((v /= 23) && n < 12);
    return n;
}

uint64_t kernel(uint64_t n) {
    uint64_t sum = 0;
    uint32_t seed = 88172645u;
    char key[16];
    for (uint64_t round = 0; round < n; round++) {
        struct map m = {storage[0], 63, 0};
        int half = 0;
        memset(storage[0], 0, sizeof(struct entry) * 64);
        for (int i = 0; i < 1500; i++) {
            size_t length = name(key, next_random(&seed) % 9001);
            bump(&m, key, length, i);
            if (m.used * 4 > (m.mask + 1) * 3) grow(&m, half ^= 1);
            if (i % 7 == 0) {
                length = name(key, next_random(&seed) % 9001);
                struct entry *e = find(&m, key, length, hash_of(key, length));
                if (e->state == 1) sum = mix(sum, e->value), e->state = 2;
            }
        }
        sum = mix(sum, m.used);
    }
    return sum;
}
