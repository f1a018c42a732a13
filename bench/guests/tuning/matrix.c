/* Integer matrices: transposed product, convolution 3x3, Gaussian elimination modulo a prime. */
#include "../kernel.h"

enum { N = 24, PRIME = 65521 };
static int32_t a[N][N], b[N][N], c[N][N];
static uint8_t image[64][64];
static int16_t filtered[64][64];

static NOINLINE void transpose(int32_t m[N][N]) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < i; j++) {
            int32_t t = m[i][j];
            m[i][j] = m[j][i];
            m[j][i] = t;
        }
}

static NOINLINE void product(void) {
    transpose(b);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            int64_t s = 0;
            for (int k = 0; k < N; k++) s += (int64_t)a[i][k] * b[j][k];
            c[i][j] = (int32_t)(s % PRIME);
        }
}

static NOINLINE void convolve(const int8_t weights[9]) {
    for (int y = 1; y < 63; y++)
        for (int x = 1; x < 63; x++) {
            int s = 0;
            for (int k = 0; k < 9; k++) s += weights[k] * image[y + k / 3 - 1][x + k % 3 - 1];
            filtered[y][x] = (int16_t)(s < 0 ? 0 : s > 1020 ? 1020 : s);
        }
}

static int32_t inverse(int32_t v) {
    int64_t result = 1, base = v;
    for (int e = PRIME - 2; e; e >>= 1) {
        if (e & 1) result = result * base % PRIME;
        base = base * base % PRIME;
    }
    return (int32_t)result;
}

static NOINLINE int64_t determinant(int32_t m[N][N]) {
    int64_t det = 1;
    for (int i = 0; i < N; i++) {
        int pivot = i;
        while (pivot < N && !m[pivot][i]) pivot++;
        if (pivot == N) return 0;
        for (int k = 0; pivot != i && k < N; k++) {
            int32_t t = m[i][k];
            m[i][k] = m[pivot][k];
            m[pivot][k] = t;
        }
        det = det * m[i][i] % PRIME;
        int64_t scale = inverse(m[i][i]);
        for (int r = i + 1; r < N; r++) {
            int64_t f = m[r][i] * scale % PRIME;
            for (int k = i; k < N; k++) m[r][k] = (int32_t)((m[r][k] + (PRIME - f) * m[i][k]) % PRIME);
        }
    }
    return det;
}

uint64_t kernel(uint64_t n) {
    static const int8_t edge[9] = {-1, -1, -1, -1, 8, -1, -1, -1, -1}, blur[9] = {1, 2, 1, 2, 4, 2, 1, 2, 1};
    uint64_t sum = 0;
    uint32_t seed = 123456789u;
    for (uint64_t round = 0; round < n; round++) {
        for (int i = 0; i < N * N; i++) {
            a[i / N][i % N] = (int32_t)(next_random(&seed) % PRIME);
            b[i / N][i % N] = (int32_t)(next_random(&seed) % PRIME);
        }
        for (int i = 0; i < 64 * 64; i++) image[i / 64][i % 64] = (uint8_t)(i * 7 + a[i % N][i % 7]);
        product();
        convolve(round & 1 ? edge : blur);
        sum = mix(sum, (uint64_t)determinant(c));
        for (int i = 0; i < 64; i++) sum = mix(sum, (uint64_t)filtered[i][(i * 11) % 64]);
    }
    return sum;
}
