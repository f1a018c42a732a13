/* The output buffer: growth, overflow, lossy text. Formatting is in format.c. */
#include <berm/alloc.h>
#include <berm/out.h>
#include <string.h>

#define FIRST_SIZE 1024

void berm_out_init(berm_out *out, size_t limit)
{
    memset(out, 0, sizeof *out);
    out->limit = limit;
}

void berm_out_fixed(berm_out *out, char *memory, size_t cap)
{
    memset(out, 0, sizeof *out);
    out->ptr = memory;
    out->cap = out->limit = cap;
    out->fixed = true;
}

void berm_out_limit(berm_out *out, size_t limit)
{
    if (!out->fixed)
        out->limit = limit;
}

void berm_out_free(berm_out *out)
{
    if (!out->fixed)
        berm_heap_free(out->ptr);
    memset(out, 0, sizeof *out);
}

/* Make room for n more bytes. False when the limit or the heap says no. */
static bool grow(berm_out *out, size_t n)
{
    if (out->fixed || n > out->limit || out->len > out->limit - n)
        return false;
    size_t cap = out->cap > out->limit / 2 ? out->limit : out->cap * 2;
    if (cap < FIRST_SIZE)
        cap = FIRST_SIZE < out->limit ? FIRST_SIZE : out->limit;
    if (cap < out->len + n)
        cap = out->len + n;
    char *bigger = (char *)berm_heap_resize(out->ptr, cap);
    if (!bigger)
        return false;
    out->ptr = bigger;
    out->cap = cap;
    return true;
}

void berm_put_bytes(berm_out *out, const void *bytes, size_t len)
{
    /* Once something was dropped nothing more is written: what is there stays a prefix. */
    if (out->dropped) {
        out->dropped += len;
        return;
    }
    if (len > out->cap - out->len && !grow(out, len)) {
        size_t room = out->limit > out->len ? out->limit - out->len : 0;
        size_t kept = room < len ? room : len;
        if (kept > out->cap - out->len && !grow(out, kept))
            kept = out->cap - out->len;
        out->dropped = len - kept;
        len = kept;
    }
    if (len)
        memcpy(out->ptr + out->len, bytes, len);
    out->len += len;
}

void berm_put(berm_out *out, berm_str text)
{
    berm_put_bytes(out, text.ptr, text.len);
}

void berm_puts(berm_out *out, const char *text)
{
    berm_put_bytes(out, text, strlen(text));
}

void berm_putc(berm_out *out, char byte)
{
    if (BERM_LIKELY(out->len < out->cap && !out->dropped))
        out->ptr[out->len++] = byte;
    else
        berm_put_bytes(out, &byte, 1);
}

void berm_put_lossy(berm_out *out, berm_str text)
{
    while (text.len) {
        size_t good = berm_utf8_valid_prefix(text);
        berm_put(out, berm_slice(text, 0, good));
        text = berm_slice(text, good, text.len);
        if (text.len) {
            berm_put(out, BERM_STR("\xef\xbf\xbd"));
            text = berm_slice(text, 1, text.len);
        }
    }
}
