/* The mix that embedded-processor benchmarks are made of: a linked list, small matrices, a state machine, a CRC. */
#include "../kernel.h"

enum { NODES = 120, N = 12, TEXT = 400 };

struct node {
    int32_t next; /* index, -1 at the end: the same size everywhere */
    int16_t key, value;
};
static struct node nodes[NODES];
static int16_t a[N][N], b[N][N];
static int32_t c[N][N];
static char text[TEXT + 1];

static uint16_t crc16(uint16_t crc, uint32_t value, int bits) {
    for (int i = 0; i < bits; i++) {
        uint16_t low = (uint16_t)((crc ^ value) & 1);
        value >>= 1;
        crc = (uint16_t)(crc >> 1);
        if (low) crc ^= 0xa001;
    }
    return crc;
}

static int32_t reverse(int32_t list) {
    int32_t done = -1;
    while (list >= 0) {
        int32_t rest = nodes[list].next;
        nodes[list].next = done;
        done = list;
        list = rest;
    }
    return done;
}

static NOINLINE int32_t find(int32_t list, int16_t key) {
    while (list >= 0 && nodes[list].key != key) list = nodes[list].next;
    return list;
}

static int32_t merge(int32_t x, int32_t y, int by_value) {
    int32_t head = -1, tail = -1;
    while (x >= 0 || y >= 0) {
        int from_x = y < 0 || (x >= 0 && (by_value ? nodes[x].value <= nodes[y].value : nodes[x].key <= nodes[y].key));
        int32_t taken = from_x ? x : y;
        if (from_x) x = nodes[x].next;
        else y = nodes[y].next;
        if (tail < 0) head = taken;
        else nodes[tail].next = taken;
        tail = taken;
    }
    if (tail >= 0) nodes[tail].next = -1;
    return head;
}

static NOINLINE int32_t sort(int32_t list, int by_value) {
    if (list < 0 || nodes[list].next < 0) return list;
    int32_t slow = list, fast = nodes[list].next;
    while (fast >= 0 && nodes[fast].next >= 0) {
        slow = nodes[slow].next;
        fast = nodes[nodes[fast].next].next;
    }
    int32_t second = nodes[slow].next;
    nodes[slow].next = -1;
    return merge(sort(list, by_value), sort(second, by_value), by_value);
}

static NOINLINE uint16_t list_work(uint16_t seed) {
    uint16_t crc = 0;
    uint32_t state = seed | 1u;
    for (int i = 0; i < NODES; i++)
        nodes[i] = (struct node){i + 1 < NODES ? i + 1 : -1, (int16_t)(next_random(&state) & 255), (int16_t)(state >> 20)};
    int32_t list = 0;
    for (int16_t key = 0; key < 24; key++) {
        int32_t hit = find(list, key);
        list = reverse(list);
        if (hit >= 0) crc = crc16(crc, (uint16_t)nodes[hit].value, 16);
    }
    list = sort(list, 1);
    for (int32_t at = list; at >= 0; at = nodes[at].next) crc = crc16(crc, (uint16_t)nodes[at].value, 8);
    list = sort(list, 0);
    return crc16(crc, (uint16_t)nodes[list].key, 16);
}

static NOINLINE uint16_t matrix_work(uint16_t seed) {
    int32_t total = 0, last = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            a[i][j] = (int16_t)((seed + i * N + j) & 0x3ff);
            b[i][j] = (int16_t)((seed ^ (i - j)) & 0xff);
        }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            int32_t sum = 0;
            for (int k = 0; k < N; k++) {
                int32_t product = a[i][k] * b[k][j];
                sum += (product >> 2 & 15) * (product >> 5 & 127);
            }
            c[i][j] = sum;
            a[i][j] = (int16_t)(a[i][j] + sum);
        }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            total += c[i][j] > last ? 10 : 1;
            last = c[i][j];
        }
    return crc16((uint16_t)last, (uint32_t)total, 16);
}

enum state { START, SIGN, INTEGER, FRACTION, EXPONENT, POWER, BAD, STATES };

static enum state advance(enum state s, char ch) {
    int digit = ch >= '0' && ch <= '9';
    switch (s) {
    case START: return digit ? INTEGER : ch == '+' || ch == '-' ? SIGN : ch == '.' ? FRACTION : BAD;
    case SIGN: return digit ? INTEGER : ch == '.' ? FRACTION : BAD;
    case INTEGER: return digit ? INTEGER : ch == '.' ? FRACTION : BAD;
    case FRACTION: return digit ? FRACTION : ch == 'e' || ch == 'E' ? EXPONENT : BAD;
    case EXPONENT: return digit || ch == '+' || ch == '-' ? POWER : BAD;
    case POWER: return digit ? POWER : BAD;
    default: return BAD;
    }
}

static NOINLINE uint16_t state_work(uint16_t seed) {
    static const char *const pieces[] = {"5012", "1234.", "-.874", "+122.5e-3", "-7.e+44", "T0.3e-1F", "0x", "35.54400e3"};
    uint32_t finals[STATES] = {0}, moves[STATES] = {0}, state = seed | 1u;
    int length = 0;
    while (length < TEXT - 12) {
        for (const char *p = pieces[next_random(&state) & 7]; *p; p++) text[length++] = *p;
        text[length++] = ',';
    }
    text[length] = 0;
    for (int i = 0; i < length; i += 31) text[i] ^= 1;
    enum state s = START;
    for (const char *p = text; *p; p++) {
        if (*p == ',') {
            finals[s]++;
            s = START;
            continue;
        }
        enum state next = s == BAD ? BAD : advance(s, *p);
        moves[next] += next != s;
        s = next;
    }
    uint16_t crc = 0;
    for (int i = 0; i < STATES; i++) crc = crc16(crc16(crc, finals[i], 32), moves[i], 32);
    return crc;
}

uint64_t kernel(uint64_t n) {
    uint64_t sum = 0;
    uint16_t seed = 0x66;
    for (uint64_t round = 0; round < n; round++) {
        uint16_t list = list_work(seed), matrix = matrix_work(seed), state = state_work(seed);
        sum = mix(sum, (uint64_t)list << 32 | (uint64_t)matrix << 16 | state);
        seed = (uint16_t)(seed * 5 + list + 1);
    }
    return sum;
}
