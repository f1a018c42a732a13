/* Double arithmetic through the compiler's soft-float calls: planets, a logistic map, Newton square roots. */
#include "../kernel.h"

enum { BODIES = 4 };
struct body {
    double x, y, vx, vy, mass;
};

static double root(double v) {
    double guess = v > 1 ? v / 2 : 1;
    for (int i = 0; i < 6; i++) guess = (guess + v / guess) * 0.5;
    return guess;
}

static NOINLINE void advance(struct body *b, double dt) {
    for (int i = 0; i < BODIES; i++)
        for (int j = i + 1; j < BODIES; j++) {
            double dx = b[i].x - b[j].x, dy = b[i].y - b[j].y;
            double d2 = dx * dx + dy * dy + 0.01, pull = dt / (d2 * root(d2));
            b[i].vx -= dx * b[j].mass * pull, b[i].vy -= dy * b[j].mass * pull;
            b[j].vx += dx * b[i].mass * pull, b[j].vy += dy * b[i].mass * pull;
        }
    for (int i = 0; i < BODIES; i++) b[i].x += dt * b[i].vx, b[i].y += dt * b[i].vy;
}

uint64_t kernel(uint64_t n) {
    struct body b[BODIES] = {{0, 0, 0, 0, 40}, {4.8, -1.1, 0.6, 2.8, 0.04}, {8.3, 4.1, -1.0, 1.8, 0.01}, {12.8, -15, 1.1, 0.8, 0.002}};
    double population = 0.31;
    for (uint64_t round = 0; round < n; round++) {
        advance(b, 0.01);
        for (int i = 0; i < 20; i++) population = 3.7 * population * (1 - population);
    }
    uint64_t sum = (uint64_t)(int64_t)(population * 1e15);
    for (int i = 0; i < BODIES; i++) {
        uint64_t bits;
        memcpy(&bits, &b[i].x, 8);
        sum = mix(sum, bits);
    }
    return sum;
}
