/* Views of text and UTF-8. Owns no memory but what berm_str_dup asks for. */
#include <berm/alloc.h>
#include <berm/str.h>
#include <string.h>

berm_str berm_str_of(const char *text)
{
    return berm_str_make(text, strlen(text));
}

char *berm_str_dup(berm_str s)
{
    char *copy = (char *)berm_alloc(s.len + 1);
    if (s.len)
        memcpy(copy, s.ptr, s.len);
    copy[s.len] = 0;
    return copy;
}

berm_str berm_slice(berm_str s, size_t start, size_t stop)
{
    if (stop > s.len)
        stop = s.len;
    if (start > stop)
        start = stop;
    return berm_str_make(s.ptr ? s.ptr + start : s.ptr, stop - start);
}

bool berm_equal(berm_str a, berm_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

bool berm_is(berm_str s, const char *text)
{
    return berm_equal(s, berm_str_of(text));
}

int berm_compare(berm_str a, berm_str b)
{
    size_t shorter = a.len < b.len ? a.len : b.len;
    int order = shorter ? memcmp(a.ptr, b.ptr, shorter) : 0;
    if (order)
        return order;
    return a.len < b.len ? -1 : a.len > b.len;
}

bool berm_starts_with(berm_str s, berm_str prefix)
{
    return berm_equal(berm_slice(s, 0, prefix.len), prefix);
}

bool berm_ends_with(berm_str s, berm_str suffix)
{
    return s.len >= suffix.len && berm_equal(berm_slice(s, s.len - suffix.len, s.len), suffix);
}

size_t berm_find(berm_str s, berm_str needle, size_t from)
{
    if (from > s.len || needle.len > s.len - from)
        return BERM_NOT_FOUND;
    if (needle.len == 0)
        return from;
    const char *at = s.ptr + from;
    const char *last = s.ptr + s.len - needle.len;
    while (at <= last) {
        at = (const char *)memchr(at, needle.ptr[0], (size_t)(last - at) + 1);
        if (!at)
            break;
        if (memcmp(at, needle.ptr, needle.len) == 0)
            return (size_t)(at - s.ptr);
        at++;
    }
    return BERM_NOT_FOUND;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

berm_str berm_trim(berm_str s)
{
    while (s.len && is_space(s.ptr[0])) {
        s.ptr++;
        s.len--;
    }
    while (s.len && is_space(s.ptr[s.len - 1]))
        s.len--;
    return s;
}

bool berm_next_line(berm_str *rest, berm_str *line)
{
    if (rest->len == 0)
        return false;
    const char *end = (const char *)memchr(rest->ptr, '\n', rest->len);
    size_t len = end ? (size_t)(end - rest->ptr) : rest->len;
    size_t taken = end ? len + 1 : len;
    if (end && len && rest->ptr[len - 1] == '\r')
        len--;
    *line = berm_str_make(rest->ptr, len);
    *rest = berm_slice(*rest, taken, rest->len);
    return true;
}

bool berm_cut(berm_str s, berm_str separator, berm_str *before, berm_str *after)
{
    size_t at = berm_find(s, separator, 0);
    if (at == BERM_NOT_FOUND) {
        *before = s;
        *after = berm_slice(s, s.len, s.len);
        return false;
    }
    *before = berm_slice(s, 0, at);
    *after = berm_slice(s, at + separator.len, s.len);
    return true;
}

bool berm_parse_int(berm_str s, int64_t *value)
{
    bool negative = s.len && s.ptr[0] == '-';
    size_t at = s.len && (s.ptr[0] == '-' || s.ptr[0] == '+');
    uint64_t most = negative ? (uint64_t)INT64_MAX + 1 : INT64_MAX;
    uint64_t sum = 0;
    if (at == s.len)
        return false;
    for (; at < s.len; at++) {
        unsigned digit = (unsigned char)s.ptr[at] - (unsigned)'0';
        if (digit > 9 || sum > (most - digit) / 10)
            return false;
        sum = sum * 10 + digit;
    }
    *value = negative ? (int64_t)(0 - sum) : (int64_t)sum;
    return true;
}

uint64_t berm_hash(berm_str s)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < s.len; i++)
        hash = (hash ^ (unsigned char)s.ptr[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Well-formed byte sequences, Unicode 15 table 3-7: what the second byte may be, by the first. */
static bool second_byte_fits(unsigned char first, unsigned char second)
{
    switch (first) {
    case 0xe0: return second >= 0xa0 && second <= 0xbf;
    case 0xed: return second >= 0x80 && second <= 0x9f;
    case 0xf0: return second >= 0x90 && second <= 0xbf;
    case 0xf4: return second >= 0x80 && second <= 0x8f;
    default: return (second & 0xc0) == 0x80;
    }
}

static size_t sequence_length(unsigned char first)
{
    if (first < 0x80)
        return 1;
    if (first < 0xc2 || first > 0xf4)
        return 0;
    return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

size_t berm_utf8_decode(berm_str s, size_t at, uint32_t *code_point)
{
    if (at >= s.len)
        return 0;
    const unsigned char *p = (const unsigned char *)s.ptr + at;
    size_t len = sequence_length(p[0]);
    if (len == 1) {
        *code_point = p[0];
        return 1;
    }
    if (len == 0 || len > s.len - at || !second_byte_fits(p[0], p[1]))
        return 0;
    uint32_t value = p[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (p[i] & 0x3fu);
    }
    *code_point = value;
    return len;
}

size_t berm_utf8_encode(uint32_t c, char into[4])
{
    if (c < 0x80) {
        into[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        into[0] = (char)(0xc0 | c >> 6);
        into[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 0;
    if (c < 0x10000) {
        into[0] = (char)(0xe0 | c >> 12);
        into[1] = (char)(0x80 | (c >> 6 & 0x3f));
        into[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    into[0] = (char)(0xf0 | c >> 18);
    into[1] = (char)(0x80 | (c >> 12 & 0x3f));
    into[2] = (char)(0x80 | (c >> 6 & 0x3f));
    into[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

size_t berm_utf8_valid_prefix(berm_str s)
{
    size_t at = 0;
    while (at < s.len) {
        uint32_t code_point;
        if (!(s.ptr[at] & 0x80)) {
            at++;
            continue;
        }
        size_t len = berm_utf8_decode(s, at, &code_point);
        if (len == 0)
            break;
        at += len;
    }
    return at;
}
