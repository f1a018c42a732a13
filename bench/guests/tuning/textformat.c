/* printf-style formatting into a bounded buffer, column padding, joining and line wrapping with memcpy. */
#include "../kernel.h"
#include <stdarg.h>

struct buffer {
    char *data;
    size_t length, size;
};
static char storage[8192], wrapped[8192];

static void append(struct buffer *b, const char *from, size_t n) {
    if (n > b->size - b->length) n = b->size - b->length;
    memcpy(b->data + b->length, from, n);
    b->length += n;
}

static void pad(struct buffer *b, char c, int count) {
    while (count-- > 0) append(b, &c, 1);
}

static void number(struct buffer *b, uint64_t v, unsigned base, int width, int negative) {
    char digits[24];
    int at = sizeof digits;
    do digits[--at] = "0123456789abcdef"[v % base];
    while (v /= base);
    if (negative) digits[--at] = '-';
    pad(b, ' ', width - (int)(sizeof digits - (size_t)at));
    append(b, digits + at, sizeof digits - (size_t)at);
}

static NOINLINE void format(struct buffer *b, const char *f, ...) {
    va_list list;
    va_start(list, f);
    while (*f) {
        const char *run = f;
        while (*f && *f != '%') f++;
        append(b, run, (size_t)(f - run));
        if (!*f) break;
        int width = 0;
        for (f++; *f >= '0' && *f <= '9'; f++) width = width * 10 + (*f - '0');
        switch (*f++) {
        case 'd': {
            int64_t v = va_arg(list, int64_t);
            number(b, v < 0 ? -(uint64_t)v : (uint64_t)v, 10, width, v < 0);
            break;
        }
        case 'x': number(b, va_arg(list, uint64_t), 16, width, 0); break;
        case 's': {
            const char *s = va_arg(list, const char *);
            size_t n = text_length(s);
            append(b, s, n);
            pad(b, ' ', width - (int)n);
            break;
        }
        case 'c': pad(b, (char)va_arg(list, int), 1); break;
        default: append(b, "%", 1);
        }
    }
    va_end(list);
}

static NOINLINE size_t wrap(const char *in, size_t n, char *out, size_t columns) {
    size_t used = 0, column = 0;
    for (size_t at = 0; at < n;) {
        size_t word = at;
        while (word < n && in[word] != ' ' && in[word] != '\n') word++;
        size_t length = word - at;
        if (column && column + 1 + length > columns) out[used++] = '\n', column = 0;
        else if (column) out[used++] = ' ', column++;
        memcpy(out + used, in + at, length);
        used += length;
        column += length;
        at = word + 1;
    }
    return used;
}

uint64_t kernel(uint64_t n) {
    static const char *const names[] = {"alpha", "beta", "gamma-long-name", "delta", "epsilon and more"};
    uint64_t sum = 0;
    for (uint64_t round = 0; round < n; round++) {
        struct buffer b = {storage, 0, sizeof storage};
        for (int64_t i = 0; i < 40; i++)
            format(&b, "%4d| %16s  size=%8d  addr=0x%x flag %c 100%%\n", i, names[i % 5], (i * 7919 - 90000) * (i & 1 ? 1 : -1),
                   (uint64_t)i * 0x1f3d5b79u + round, "rwx-"[i & 3]);
        size_t length = wrap(storage, b.length, wrapped, 40 + round % 40);
        for (size_t i = 0; i < length; i += 97) sum = mix(sum, (uint8_t)wrapped[i]);
        sum = mix(sum, length);
    }
    return sum;
}
