/* <stdlib.h>, <stdio.h> and <errno.h> for a guest. */
#include "../src/decimal.h"

#include <berm/alloc.h>
#include <berm/out.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int errno;

void *malloc(size_t n)
{
    return berm_heap_alloc(n);
}

void *calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    void *memory = berm_heap_alloc(bytes);
    return memory ? memset(memory, 0, bytes) : NULL;
}

void *realloc(void *memory, size_t n)
{
    return berm_heap_resize(memory, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
    return berm_heap_aligned(alignment, n);
}

void free(void *memory)
{
    berm_heap_free(memory);
}

void abort(void)
{
    berm_panic("abort");
}

void exit(int code)
{
    berm_panic("exit(%d): a tool returns, or calls berm_fail", code);
}

/* ---- numbers ---- */

static unsigned digit_value(char c)
{
    unsigned char byte = (unsigned char)c;
    if (isdigit(byte))
        return (unsigned)(byte - '0');
    return isalpha(byte) ? (unsigned)(tolower(byte) - 'a') + 10 : 99;
}

static const char *skip_base(const char *p, int *base)
{
    bool hex = p[0] == '0' && (p[1] == 'x' || p[1] == 'X') && digit_value(p[2]) < 16;
    if (*base == 0)
        *base = hex ? 16 : *p == '0' ? 8 : 10;
    return hex && *base == 16 ? p + 2 : p;
}

/* Sign and magnitude, held at `most` (for a negative number: most + 1) with ERANGE. */
static unsigned long long parse(const char *text, char **end, int base, bool *negative, bool is_signed)
{
    const char *p = text;
    unsigned long long sum = 0;
    bool over = false;
    while (isspace((unsigned char)*p))
        p++;
    *negative = *p == '-';
    if (*p == '-' || *p == '+')
        p++;
    p = skip_base(p, &base);
    const char *digits = p;
    unsigned long long most = is_signed ? (unsigned long long)LLONG_MAX + *negative : ULLONG_MAX;
    for (; digit_value(*p) < (unsigned)base; p++) {
        unsigned digit = digit_value(*p);
        over = over || sum > (most - digit) / (unsigned)base;
        sum = over ? most : sum * (unsigned)base + digit;
    }
    if (over)
        errno = ERANGE;
    if (end)
        *end = (char *)(p == digits ? text : p);
    return sum;
}

unsigned long long strtoull(const char *restrict text, char **restrict end, int base)
{
    bool negative;
    unsigned long long value = parse(text, end, base, &negative, false);
    return negative ? 0 - value : value;
}

long long strtoll(const char *restrict text, char **restrict end, int base)
{
    bool negative;
    unsigned long long value = parse(text, end, base, &negative, true);
    return (long long)(negative ? 0 - value : value);
}

long strtol(const char *restrict text, char **restrict end, int base)
{
    return (long)strtoll(text, end, base);
}

unsigned long strtoul(const char *restrict text, char **restrict end, int base)
{
    return (unsigned long)strtoull(text, end, base);
}

int atoi(const char *text)
{
    return (int)strtol(text, NULL, 10);
}

long atol(const char *text)
{
    return strtol(text, NULL, 10);
}

static const char *skip_digits(const char *p)
{
    while (isdigit((unsigned char)*p))
        p++;
    return p;
}

double strtod(const char *restrict text, char **restrict end)
{
    const char *start = text;
    while (isspace((unsigned char)*start))
        start++;
    const char *p = start + (*start == '-' || *start == '+');
    const char *whole = p;
    p = skip_digits(p);
    size_t digits = (size_t)(p - whole);
    if (*p == '.') {
        const char *fraction = skip_digits(p + 1);
        digits += (size_t)(fraction - p - 1);
        p = digits ? fraction : p;
    }
    if (digits && (*p == 'e' || *p == 'E')) {
        const char *exponent = p + 1 + (p[1] == '-' || p[1] == '+');
        if (isdigit((unsigned char)*exponent))
            p = skip_digits(exponent);
    }
    if (end)
        *end = (char *)(digits ? p : text);
    if (!digits)
        return 0;
    decimal d;
    decimal_parse(&d, berm_str_make(start, (size_t)(p - start)));
    double value = decimal_to_double(&d);
    if (value - value != 0)
        errno = ERANGE;
    return value;
}

double atof(const char *text)
{
    return strtod(text, NULL);
}

int abs(int value)
{
    return value < 0 ? -value : value;
}

long labs(long value)
{
    return value < 0 ? -value : value;
}

long long llabs(long long value)
{
    return value < 0 ? -value : value;
}

div_t div(int a, int b)
{
    div_t result = {a / b, a % b};
    return result;
}

/* ---- sorting: heap sort, so that no input is slow and none needs memory ---- */

static void swap(char *a, char *b, size_t size)
{
    for (; size; size--, a++, b++) {
        char kept = *a;
        *a = *b;
        *b = kept;
    }
}

static void sift_down(char *base, size_t root, size_t count, size_t size,
                      int (*compare)(const void *, const void *))
{
    for (size_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && compare(base + child * size, base + (child + 1) * size) < 0)
            child++;
        if (compare(base + root * size, base + child * size) >= 0)
            return;
        swap(base + root * size, base + child * size, size);
    }
}

void qsort(void *base, size_t count, size_t size, int (*compare)(const void *, const void *))
{
    char *array = (char *)base;
    for (size_t root = count / 2; root-- > 0;)
        sift_down(array, root, count, size, compare);
    for (size_t left = count; left-- > 1;) {
        swap(array, array + left * size, size);
        sift_down(array, 0, left, size, compare);
    }
}

void *bsearch(const void *key, const void *base, size_t count, size_t size,
              int (*compare)(const void *, const void *))
{
    const char *array = (const char *)base;
    while (count) {
        const char *middle = array + count / 2 * size;
        int order = compare(key, middle);
        if (order == 0)
            return (void *)middle;
        if (order > 0) {
            array = middle + size;
            count--;
        }
        count /= 2;
    }
    return NULL;
}

/* ---- formatting into memory ---- */

int vsnprintf(char *restrict to, size_t n, const char *restrict format, va_list arguments)
{
    berm_out out;
    berm_out_fixed(&out, to, n ? n - 1 : 0);
    berm_vprintf(&out, format, arguments);
    if (n)
        to[out.len] = 0;
    return (int)(out.len + out.dropped);
}

int snprintf(char *restrict to, size_t n, const char *restrict format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(to, n, format, arguments);
    va_end(arguments);
    return len;
}

int sprintf(char *restrict to, const char *restrict format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int len = vsnprintf(to, (size_t)INT_MAX, format, arguments);
    va_end(arguments);
    return len;
}
