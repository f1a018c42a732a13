/* A generator whose bits steer branches: little memory, much that cannot be predicted. */
#include "../kernel.h"

uint64_t kernel(uint64_t n) {
    uint64_t x = 88172645463325252u, a = 1, b = 2, odd = 0, steps = n * 1000;
    for (uint64_t i = 0; i < steps; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        if (x & 1) {
            a += x >> 3;
            odd++;
        } else {
            b ^= a;
        }
        if ((x & 0x70) == 0x30) a = (a << 5) - b;
        else if ((x & 0x700) == 0) b += odd * 3;
        switch (x >> 61) {
        case 0: a ^= b >> 1; break;
        case 3: b -= i; break;
        case 5: a += 77; break;
        default: break;
        }
    }
    return mix(mix(a, b), odd);
}
