/* berm_str: a piece of text that knows its length, and what one does with it.
 *
 * A view owns nothing: slicing and splitting copy no bytes. Text that came as an argument of a tool or
 * as the reply of a capability is followed by a NUL byte, so its `.ptr` serves where C wants a string.
 */
#ifndef BERM_STR_H
#define BERM_STR_H

#include <berm/abi.h>

BERM_BEGIN

typedef struct berm_str {
    const char *ptr;
    size_t len;
} berm_str;

#define BERM_NOT_FOUND SIZE_MAX

/* A literal as a view: BERM_STR("text"). */
#ifdef __cplusplus
#define BERM_STR(literal) (berm_str{(literal), sizeof(literal) - 1})
#else
#define BERM_STR(literal) ((berm_str){(literal), sizeof(literal) - 1})
#endif

/* Two printf arguments for "%.*s". */
#define BERM_ARG(view) berm_str_precision(view), (view).ptr

static inline int berm_str_precision(berm_str s)
{
    return s.len > INT32_MAX ? INT32_MAX : (int)s.len;
}

static inline berm_str berm_str_make(const char *ptr, size_t len)
{
    berm_str s;
    s.ptr = ptr;
    s.len = len;
    return s;
}

/* View a NUL-terminated string. */
berm_str berm_str_of(const char *text);

/* Copy a view into fresh, NUL-terminated memory. */
char *berm_str_dup(berm_str s);

/* The bytes from start up to stop, both cut to the length. */
berm_str berm_slice(berm_str s, size_t start, size_t stop);

bool berm_equal(berm_str a, berm_str b);
bool berm_is(berm_str s, const char *text);
int berm_compare(berm_str a, berm_str b);
bool berm_starts_with(berm_str s, berm_str prefix);
bool berm_ends_with(berm_str s, berm_str suffix);

/* Where needle first stands at or after `from`, or BERM_NOT_FOUND. */
size_t berm_find(berm_str s, berm_str needle, size_t from);

/* Without the ASCII white space at both ends. */
berm_str berm_trim(berm_str s);

/* Take the next line off *rest (without its \n or \r\n). False when nothing is left. */
bool berm_next_line(berm_str *rest, berm_str *line);

/* Split at the first separator. False, with all of s in *before, when there is none. */
bool berm_cut(berm_str s, berm_str separator, berm_str *before, berm_str *after);

/* Read all of s as a decimal integer. False when it is none or does not fit. */
bool berm_parse_int(berm_str s, int64_t *value);

/* Read all of s as a decimal number, rounded correctly. False when it is none or too large. */
bool berm_parse_double(berm_str s, double *value);

/* FNV-1a 64 of the bytes: to tell texts apart that nobody forges. */
uint64_t berm_hash(berm_str s);

/* Decode one code point at s.ptr[at]; returns its length in bytes, or 0 where s is not UTF-8 there. */
size_t berm_utf8_decode(berm_str s, size_t at, uint32_t *code_point);

/* Encode one code point; returns 1 to 4, or 0 for a surrogate or a value past U+10FFFF. */
size_t berm_utf8_encode(uint32_t code_point, char into[4]);

/* The length of the longest prefix that is UTF-8: s.len when all of it is. */
size_t berm_utf8_valid_prefix(berm_str s);

static inline bool berm_utf8_valid(berm_str s)
{
    return berm_utf8_valid_prefix(s) == s.len;
}

BERM_END

#endif
