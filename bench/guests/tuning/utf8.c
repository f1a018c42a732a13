/* UTF-8: decode with full validation, fold case, encode again, count and truncate on boundaries. */
#include "../kernel.h"

static const char text[] =
    "Der Fl\xc3\xbcgel schl\xc3\xa4gt leise; \xce\xb1\xce\xb2\xce\xb3\xce\xb4 \xe6\xb8\xaf\xe5\x8f\xa3\xe3\x81\xae\xe7\x81\xaf "
    "plain ascii goes on for a while here, as it does in most files \xf0\x9f\x9a\xa2 END \xd0\x9f\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82 "
    "broken: \xc3\x28 \xe2\x82 \xf0\x9f\x98 \xed\xa0\x80 \xc0\xaf tail";
static uint8_t folded[1024];

/* Return the code point at *p and step over it, or U+FFFD for one malformed byte. */
static uint32_t decode(const uint8_t **p, const uint8_t *end) {
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    uint8_t first = *(*p)++;
    if (first < 0x80) return first;
    int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc2 ? 1 : 0;
    if (!more || first > 0xf4 || end - *p < more) return 0xfffd;
    uint32_t c = first & (0x3f >> more);
    for (int i = 0; i < more; i++) {
        if (((*p)[i] & 0xc0) != 0x80) return 0xfffd;
        c = c << 6 | ((*p)[i] & 0x3f);
    }
    if (c < least[more] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return 0xfffd;
    *p += more;
    return c;
}

static uint8_t *encode(uint8_t *out, uint32_t c) {
    if (c < 0x80) {
        *out++ = (uint8_t)c;
    } else if (c < 0x800) {
        *out++ = (uint8_t)(0xc0 | c >> 6);
        *out++ = (uint8_t)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *out++ = (uint8_t)(0xe0 | c >> 12);
        *out++ = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        *out++ = (uint8_t)(0x80 | (c & 0x3f));
    } else {
        *out++ = (uint8_t)(0xf0 | c >> 18);
        *out++ = (uint8_t)(0x80 | (c >> 12 & 0x3f));
        *out++ = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        *out++ = (uint8_t)(0x80 | (c & 0x3f));
    }
    return out;
}

static uint32_t fold(uint32_t c) {
    if (c - 'A' < 26) return c + 32;
    if (c >= 0xc0 && c <= 0xde && c != 0xd7) return c + 32;
    if (c >= 0x391 && c <= 0x3a9) return c + 32;
    if (c >= 0x410 && c <= 0x42f) return c + 32;
    return c;
}

static NOINLINE size_t boundary(const uint8_t *p, size_t at) {
    while (at > 0 && (p[at] & 0xc0) == 0x80) at--;
    return at;
}

uint64_t kernel(uint64_t n) {
    uint64_t sum = 0;
    const uint8_t *start = (const uint8_t *)text, *end = start + sizeof text - 1;
    for (uint64_t round = 0; round < n; round++) {
        const uint8_t *p = start + round % 16;
        uint8_t *out = folded;
        uint32_t points = 0, bad = 0;
        while (p < end) {
            uint32_t c = decode(&p, end);
            bad += c == 0xfffd;
            points++;
            out = encode(out, fold(c));
        }
        size_t length = (size_t)(out - folded);
        for (size_t at = 7; at < length; at += 29) sum = mix(sum, boundary(folded, at) + folded[at]);
        sum = mix(sum, points * 1000 + bad);
    }
    return sum;
}
