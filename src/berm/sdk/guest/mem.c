/* memcpy and its kin for a guest: eight bytes at a time, since the ABI promises misaligned access.
 *
 * Built without builtins, or the compiler would see a memcpy in these loops and call it.
 */
#include <stdint.h>
#include <string.h>

typedef uint64_t __attribute__((may_alias, aligned(1))) word;

#define ONES UINT64_C(0x0101010101010101)
#define HIGHS UINT64_C(0x8080808080808080)

static uint64_t load(const char *p)
{
    return *(const word *)p;
}

static void store(char *p, uint64_t value)
{
    *(word *)p = value;
}

static void copy_forward(char *d, const char *s, size_t n)
{
    for (; n >= 32; n -= 32, d += 32, s += 32) {
        uint64_t a = load(s), b = load(s + 8), c = load(s + 16), e = load(s + 24);
        store(d, a);
        store(d + 8, b);
        store(d + 16, c);
        store(d + 24, e);
    }
    for (; n >= 8; n -= 8, d += 8, s += 8)
        store(d, load(s));
    for (; n; n--)
        *d++ = *s++;
}

static void copy_backward(char *d, const char *s, size_t n)
{
    for (; n >= 8; n -= 8)
        store(d + n - 8, load(s + n - 8));
    for (; n; n--)
        d[n - 1] = s[n - 1];
}

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    copy_forward((char *)to, (const char *)from, n);
    return to;
}

void *memmove(void *to, const void *from, size_t n)
{
    if ((uintptr_t)to - (uintptr_t)from >= n)
        copy_forward((char *)to, (const char *)from, n);
    else
        copy_backward((char *)to, (const char *)from, n);
    return to;
}

void *memset(void *to, int byte, size_t n)
{
    char *d = (char *)to;
    uint64_t pattern = (unsigned char)byte * ONES;
    for (; n >= 32; n -= 32, d += 32) {
        store(d, pattern);
        store(d + 8, pattern);
        store(d + 16, pattern);
        store(d + 24, pattern);
    }
    for (; n >= 8; n -= 8, d += 8)
        store(d, pattern);
    for (; n; n--)
        *d++ = (char)byte;
    return to;
}

int memcmp(const void *a, const void *b, size_t n)
{
    const char *x = (const char *)a;
    const char *y = (const char *)b;
    for (; n >= 8 && load(x) == load(y); n -= 8) {
        x += 8;
        y += 8;
    }
    for (; n; n--, x++, y++)
        if (*x != *y)
            return (unsigned char)*x - (unsigned char)*y;
    return 0;
}

/* A word holds a zero byte exactly when this is not 0. */
static uint64_t zero_bytes(uint64_t value)
{
    return (value - ONES) & ~value & HIGHS;
}

void *memchr(const void *memory, int byte, size_t n)
{
    const char *p = (const char *)memory;
    uint64_t pattern = (unsigned char)byte * ONES;
    for (; n >= 8 && !zero_bytes(load(p) ^ pattern); n -= 8)
        p += 8;
    for (; n; n--, p++)
        if (*p == (char)byte)
            return (void *)p;
    return NULL;
}

/* By words from an aligned place on: they never reach into a page that the text does not. */
size_t strlen(const char *text)
{
    const char *p = text;
    for (; (uintptr_t)p % 8; p++)
        if (!*p)
            return (size_t)(p - text);
    while (!zero_bytes(load(p)))
        p += 8;
    while (*p)
        p++;
    return (size_t)(p - text);
}
