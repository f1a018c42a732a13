/* Arbitrary precision on 32-bit limbs: factorials, schoolbook products, decimal conversion, modular power. */
#include "../kernel.h"

enum { LIMBS = 40 };
struct big {
    uint32_t limb[2 * LIMBS];
    int used;
};

static void set_small(struct big *a, uint32_t v) {
    a->limb[0] = v;
    a->used = v != 0;
}

static void multiply_small(struct big *a, uint32_t by) {
    uint64_t carry = 0;
    for (int i = 0; i < a->used; i++) {
        carry += (uint64_t)a->limb[i] * by;
        a->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry) a->limb[a->used++] = (uint32_t)carry;
}

static uint32_t divide_small(struct big *a, uint32_t by) {
    uint64_t rest = 0;
    for (int i = a->used; i-- > 0;) {
        rest = rest << 32 | a->limb[i];
        a->limb[i] = (uint32_t)(rest / by);
        rest %= by;
    }
    while (a->used && !a->limb[a->used - 1]) a->used--;
    return (uint32_t)rest;
}

static NOINLINE void multiply(struct big *out, const struct big *a, const struct big *b) {
    memset(out->limb, 0, sizeof out->limb);
    for (int i = 0; i < a->used; i++) {
        uint64_t carry = 0;
        for (int j = 0; j < b->used; j++) {
            carry += (uint64_t)a->limb[i] * b->limb[j] + out->limb[i + j];
            out->limb[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        out->limb[i + b->used] = (uint32_t)carry;
    }
    out->used = a->used + b->used;
    while (out->used && !out->limb[out->used - 1]) out->used--;
}

static NOINLINE uint64_t decimal_digest(struct big *a) {
    uint64_t digest = 0;
    while (a->used) digest = mix(digest, divide_small(a, 1000000000u));
    return digest;
}

static uint64_t power_modulo(uint64_t base, uint64_t exponent, uint64_t modulus) {
    uint64_t result = 1;
    for (base %= modulus; exponent; exponent >>= 1) {
        if (exponent & 1) result = result * base % modulus;
        base = base * base % modulus;
    }
    return result;
}

uint64_t kernel(uint64_t n) {
    static struct big a, b, product;
    uint64_t sum = 0;
    for (uint64_t round = 0; round < n; round++) {
        set_small(&a, 1 + (uint32_t)(round & 3));
        for (uint32_t i = 2; i < 150 && a.used < LIMBS - 1; i++) multiply_small(&a, i);
        b = a;
        divide_small(&b, 65521);
        multiply(&product, &a, &b);
        sum = mix(sum, decimal_digest(&product));
        for (uint64_t i = 0; i < 20; i++) sum = mix(sum, power_modulo(sum | 3, 0xfffb + i, 4294967291u));
    }
    return sum;
}
