/* Grids and tables: cellular automaton on bytes and on bit rows, edit distance, a longest common subsequence. */
#include "../kernel.h"

enum { W = 40, H = 30, LONGEST = 64 };
static uint8_t cells[2][H + 2][W + 2];
static uint64_t rows[2][64];
static uint16_t table[LONGEST + 1][LONGEST + 1];

static NOINLINE int step(int from) {
    int alive = 0;
    for (int y = 1; y <= H; y++)
        for (int x = 1; x <= W; x++) {
            int around = 0;
            for (int dy = -1; dy <= 1; dy++)
                for (int dx = -1; dx <= 1; dx++) around += cells[from][y + dy][x + dx];
            int me = cells[from][y][x];
            around -= me;
            cells[from ^ 1][y][x] = (uint8_t)(around == 3 || (me && around == 2));
            alive += cells[from ^ 1][y][x];
        }
    return alive;
}

static NOINLINE void step_bits(int from) {
    for (int y = 0; y < 64; y++) {
        uint64_t up = rows[from][(y + 63) & 63], here = rows[from][y], down = rows[from][(y + 1) & 63];
        uint64_t parity = up ^ down ^ here << 1 ^ here >> 1;
        rows[from ^ 1][y] = (parity & ~here) | (up & down & here);
    }
}

static NOINLINE uint32_t distance(const char *a, size_t n, const char *b, size_t m) {
    for (size_t j = 0; j <= m; j++) table[0][j] = (uint16_t)j;
    for (size_t i = 1; i <= n; i++) {
        table[i][0] = (uint16_t)i;
        for (size_t j = 1; j <= m; j++) {
            uint16_t best = (uint16_t)(table[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (table[i - 1][j] + 1 < best) best = (uint16_t)(table[i - 1][j] + 1);
            if (table[i][j - 1] + 1 < best) best = (uint16_t)(table[i][j - 1] + 1);
            table[i][j] = best;
        }
    }
    return table[n][m];
}

static NOINLINE uint32_t common(const char *a, size_t n, const char *b, size_t m) {
    uint16_t row[LONGEST + 1] = {0};
    for (size_t i = 0; i < n; i++) {
        uint16_t diagonal = 0;
        for (size_t j = 0; j < m; j++) {
            uint16_t above = row[j + 1];
            row[j + 1] = a[i] == b[j] ? (uint16_t)(diagonal + 1) : row[j] > above ? row[j] : above;
            diagonal = above;
        }
    }
    return row[m];
}

uint64_t kernel(uint64_t n) {
    static const char left[] = "the interpreter reads one instruction and does it",
                      right[] = "an interrupted reader does one more destruction of it";
    uint64_t sum = 0;
    uint32_t seed = 271828u;
    for (int y = 1; y <= H; y++)
        for (int x = 1; x <= W; x++) cells[0][y][x] = next_random(&seed) % 3 == 0;
    for (int y = 0; y < 64; y++) rows[0][y] = (uint64_t)next_random(&seed) << 32 | seed;
    for (uint64_t round = 0; round < n; round++) {
        sum = mix(sum, (uint64_t)step(round & 1));
        for (int i = 0; i < 8; i++) step_bits(i & 1);
        sum = mix(sum, rows[0][round & 63]);
        sum = mix(sum, distance(left, sizeof left - 1, right + round % 7, sizeof right - 8));
        sum = mix(sum, common(left, sizeof left - 1, right + round % 5, sizeof right - 6));
    }
    return sum;
}
