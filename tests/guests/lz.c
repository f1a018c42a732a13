/* An LZ77 compressor with a hash of three bytes, and its inverse.
 *
 * The packed form: a control byte below 128 says that so many literals plus one follow; above, its low
 * seven bits plus four are the length of a match, and two bytes behind it say how far back.
 */
#include <berm/berm.h>
#include <string.h>

#define WINDOW 65535
#define SHORTEST 4
#define LONGEST (127 + SHORTEST)
#define HASH_BITS 13

static unsigned hash_of(const unsigned char *p)
{
    uint32_t three = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
    return three * 2654435761u >> (32 - HASH_BITS);
}

static void put_literals(berm_out *out, const unsigned char *p, size_t n)
{
    while (n) {
        size_t run = n < 128 ? n : 128;
        berm_putc(out, (char)(run - 1));
        berm_put_bytes(out, p, run);
        p += run;
        n -= run;
    }
}

static size_t match_length(const unsigned char *a, const unsigned char *b, size_t most)
{
    size_t n = 0;
    while (n < most && a[n] == b[n])
        n++;
    return n;
}

static void compress(berm_str text, berm_out *out)
{
    const unsigned char *data = (const unsigned char *)text.ptr;
    size_t *last = BERM_NEW_ARRAY(size_t, (size_t)1 << HASH_BITS); /* place + 1 */
    size_t at = 0, literals = 0;
    while (at + 3 <= text.len) {
        size_t *slot = &last[hash_of(data + at)];
        size_t from = *slot, len = 0;
        *slot = at + 1;
        if (from && at - (from - 1) <= WINDOW) {
            size_t rest = text.len - at;
            len = match_length(data + from - 1, data + at, rest < LONGEST ? rest : LONGEST);
        }
        if (len < SHORTEST) {
            at++;
            continue;
        }
        size_t back = at - (from - 1);
        put_literals(out, data + literals, at - literals);
        berm_putc(out, (char)(0x80 | (len - SHORTEST)));
        berm_putc(out, (char)back);
        berm_putc(out, (char)(back >> 8));
        literals = at += len;
    }
    put_literals(out, data + literals, text.len - literals);
}

static void expand(berm_str packed, berm_out *out)
{
    const unsigned char *p = (const unsigned char *)packed.ptr;
    const unsigned char *end = p + packed.len;
    while (p < end) {
        size_t control = *p++;
        if (control < 128) {
            if ((size_t)(end - p) < control + 1)
                berm_fail("the packed text is cut off");
            berm_put_bytes(out, p, control + 1);
            p += control + 1;
            continue;
        }
        if (end - p < 2)
            berm_fail("the packed text is cut off");
        size_t back = (size_t)p[0] | (size_t)p[1] << 8;
        if (back == 0 || back > out->len)
            berm_fail("a match reaches %zu back of %zu", back, out->len);
        for (size_t n = (control & 127) + SHORTEST; n; n--)
            berm_putc(out, out->ptr[out->len - back]);
        p += 2;
    }
}

static void put_hex(berm_out *out, berm_str bytes)
{
    for (size_t i = 0; i < bytes.len; i++)
        berm_printf(out, "%02x", (unsigned char)bytes.ptr[i]);
}

BERM_TOOL(pack, "Compress a text; the result is in hexadecimal.", required(string, text, "what to compress"))
{
    berm_out packed;
    berm_out_init(&packed, (size_t)16 << 20);
    compress(args->text, &packed);
    berm_out_limit(out, (size_t)32 << 20);
    put_hex(out, berm_out_str(&packed));
}

BERM_TOOL(round_trip, "Compress a text, expand it again, and say how small it was.",
    required(string, text, "what to compress"))
{
    berm_out packed, again;
    berm_out_init(&packed, (size_t)16 << 20);
    berm_out_init(&again, (size_t)16 << 20);
    compress(args->text, &packed);
    expand(berm_out_str(&packed), &again);
    if (!berm_equal(berm_out_str(&again), args->text))
        berm_fail("the text came back changed");
    berm_printf(out, "%zu -> %zu", args->text.len, packed.len);
}

BERM_RAW_TOOL(unpack, "Expand what is packed, given as raw bytes.", "{\"type\": \"object\"}")
{
    berm_out again;
    berm_out_init(&again, (size_t)1 << 20);
    expand(args, &again);
    berm_put_lossy(out, berm_out_str(&again));
}
