/* berm_out: an output buffer that grows to a limit and remembers what it had to drop.
 *
 * Nothing is ever checked while writing: past the limit (or when the heap is full) bytes are counted
 * and dropped, and `berm_out_overflowed` says so at the end. A tool's result ends with a line that
 * names the loss; see berm_out_limit.
 */
#ifndef BERM_OUT_H
#define BERM_OUT_H

#include <berm/str.h>
#include <stdarg.h>

BERM_BEGIN

typedef struct berm_out {
    char *ptr;      /* what was written */
    size_t len;     /* how much of it */
    size_t cap;     /* bytes at ptr */
    size_t limit;   /* never grow past this */
    size_t dropped; /* bytes that found no room */
    bool fixed;     /* ptr is the caller's memory: never grown */
} berm_out;

/* Start an empty buffer on the heap that grows up to limit bytes. */
void berm_out_init(berm_out *out, size_t limit);

/* Start an empty buffer in the caller's memory. */
void berm_out_fixed(berm_out *out, char *memory, size_t cap);

/* Change how far the buffer may grow; a tool's own `out` starts at BERM_OUTPUT_LIMIT. */
void berm_out_limit(berm_out *out, size_t limit);

/* Give the heap memory back. */
void berm_out_free(berm_out *out);

void berm_put(berm_out *out, berm_str text);
void berm_puts(berm_out *out, const char *text);
void berm_putc(berm_out *out, char byte);
void berm_put_bytes(berm_out *out, const void *bytes, size_t len);

/* Write text that may not be UTF-8: what is invalid becomes U+FFFD. */
void berm_put_lossy(berm_out *out, berm_str text);

/* printf: %d %i %u %x %X %o %c %s %p %f %F %e %E %g %G, flags - + space # 0, width, precision,
 * hh h l ll z j t. Floating point is rounded correctly. */
void berm_printf(berm_out *out, const char *format, ...) BERM_PRINTF(2, 3);
void berm_vprintf(berm_out *out, const char *format, va_list arguments) BERM_PRINTF(2, 0);

/* The shortest decimal text that reads back as exactly this value. */
void berm_put_double(berm_out *out, double value);

static inline bool berm_out_overflowed(const berm_out *out)
{
    return out->dropped != 0;
}

static inline berm_str berm_out_str(const berm_out *out)
{
    return berm_str_make(out->ptr, out->len);
}

/* How far a tool's result grows before bytes are dropped. */
#ifndef BERM_OUTPUT_LIMIT
#define BERM_OUTPUT_LIMIT ((size_t)1 << 20)
#endif

BERM_END

#endif
