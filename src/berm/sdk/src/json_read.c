/* JSON in: one checking pass over a document, then walking over text that is known to be right. */
#include "decimal.h"

#include <berm/alloc.h>
#include <berm/json.h>
#include <string.h>

/* ---- checking: every function takes and returns a position, NULL after an error ---- */

typedef struct check {
    const char *start, *end;
    const char *failed_at;
    const char *reason;
} check;

static const char *fail(check *c, const char *at, const char *reason)
{
    c->failed_at = at;
    c->reason = reason;
    return NULL;
}

static bool is_white(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *skip_white(const char *p, const char *end)
{
    while (p < end && is_white(*p))
        p++;
    return p;
}

static int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The four digits after \u, or -1. */
static int hex4(const char *p, const char *end)
{
    int value = 0;
    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_value(p[i]);
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

static bool is_high_surrogate(int unit)
{
    return unit >= 0xd800 && unit <= 0xdbff;
}

static bool is_low_surrogate(int unit)
{
    return unit >= 0xdc00 && unit <= 0xdfff;
}

/* p stands behind the backslash. */
static const char *check_escape(check *c, const char *p)
{
    if (p == c->end)
        return fail(c, p, "the string does not end");
    if (*p != 'u')
        return memchr("\"\\/bfnrt", *p, 8) ? p + 1 : fail(c, p - 1, "unknown escape in a string");
    int unit = hex4(p + 1, c->end);
    if (unit < 0)
        return fail(c, p - 1, "\\u needs four hexadecimal digits");
    if (is_low_surrogate(unit))
        return fail(c, p - 1, "a low surrogate without a high one before it");
    if (!is_high_surrogate(unit))
        return p + 5;
    bool paired = c->end - p >= 11 && p[5] == '\\' && p[6] == 'u' && is_low_surrogate(hex4(p + 7, c->end));
    return paired ? p + 11 : fail(c, p - 1, "a high surrogate without a low one behind it");
}

typedef uint64_t __attribute__((may_alias, aligned(1))) word;

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Past what stands for itself in a string, eight characters at a time; a few of them may be left.
 *
 * In each byte: the high bit is set by a borrow where the byte is below a blank, or equal to a quote or a
 * backslash, and is there already where it is not ASCII. A byte behind such a one may be taken for one, too.
 */
static const char *skip_plain(const char *p, const char *end)
{
    for (; end - p >= 8; p += 8) {
        uint64_t eight = *(const word *)p;
        uint64_t marks = (eight - EACH(' ')) | ((eight ^ EACH('"')) - EACH(1)) | ((eight ^ EACH('\\')) - EACH(1));
        if ((marks | eight) & EACH(0x80))
            break;
    }
    return p;
}

static const char *check_string(check *c, const char *p)
{
    for (p = skip_plain(p + 1, c->end); p < c->end;) {
        unsigned char byte = (unsigned char)*p;
        if (byte == '"')
            return p + 1;
        if (byte == '\\') {
            p = check_escape(c, p + 1);
            if (!p)
                return NULL;
        } else if (byte < 0x20) {
            return fail(c, p, "a control character in a string must be escaped");
        } else if (byte < 0x80) {
            p++;
        } else {
            uint32_t code_point;
            size_t len = berm_utf8_decode(berm_str_make(p, (size_t)(c->end - p)), 0, &code_point);
            if (len == 0)
                return fail(c, p, "the text is not UTF-8");
            p += len;
        }
    }
    return fail(c, p, "the string does not end");
}

static const char *check_digits(check *c, const char *p)
{
    if (p == c->end || !is_digit(*p))
        return fail(c, p, "expected a digit");
    while (p < c->end && is_digit(*p))
        p++;
    return p;
}

static const char *check_number(check *c, const char *p)
{
    if (*p == '-')
        p++;
    if (p < c->end && *p == '0' && p + 1 < c->end && is_digit(p[1]))
        return fail(c, p, "a number must not start with 0");
    p = check_digits(c, p);
    if (p && p < c->end && *p == '.')
        p = check_digits(c, p + 1);
    if (p && p < c->end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < c->end && (*p == '+' || *p == '-'))
            p++;
        p = check_digits(c, p);
    }
    return p;
}

static const char *check_word(check *c, const char *p, const char *word, size_t len)
{
    if ((size_t)(c->end - p) < len || memcmp(p, word, len) != 0)
        return fail(c, p, "expected a value");
    return p + len;
}

static const char *check_value(check *c, const char *p, unsigned depth);

static const char *check_member(check *c, const char *p, unsigned depth)
{
    if (p == c->end || *p != '"')
        return fail(c, p, "expected a key in quotes");
    p = check_string(c, p);
    if (!p)
        return NULL;
    p = skip_white(p, c->end);
    if (p == c->end || *p != ':')
        return fail(c, p, "expected `:` after the key");
    return check_value(c, p + 1, depth);
}

static const char *check_container(check *c, const char *p, unsigned depth, char close)
{
    if (depth == BERM_JSON_DEPTH)
        return fail(c, p, "nested too deeply");
    p = skip_white(p + 1, c->end);
    if (p < c->end && *p == close)
        return p + 1;
    for (;;) {
        p = close == '}' ? check_member(c, skip_white(p, c->end), depth + 1) : check_value(c, p, depth + 1);
        if (!p)
            return NULL;
        p = skip_white(p, c->end);
        if (p < c->end && *p == close)
            return p + 1;
        if (p == c->end || *p != ',')
            return fail(c, p, close == '}' ? "expected `,` or `}`" : "expected `,` or `]`");
        p++;
    }
}

static const char *check_value(check *c, const char *p, unsigned depth)
{
    p = skip_white(p, c->end);
    if (p == c->end)
        return fail(c, p, "expected a value");
    switch (*p) {
    case '{': return check_container(c, p, depth, '}');
    case '[': return check_container(c, p, depth, ']');
    case '"': return check_string(c, p);
    case 't': return check_word(c, p, "true", 4);
    case 'f': return check_word(c, p, "false", 5);
    case 'n': return check_word(c, p, "null", 4);
    default:
        return *p == '-' || is_digit(*p) ? check_number(c, p) : fail(c, p, "expected a value");
    }
}

/* ---- walking: the text has been checked ---- */

static berm_json_kind kind_of(char first)
{
    switch (first) {
    case '{': return BERM_JSON_OBJECT;
    case '[': return BERM_JSON_ARRAY;
    case '"': return BERM_JSON_STRING;
    case 't':
    case 'f': return BERM_JSON_BOOLEAN;
    case 'n': return BERM_JSON_NULL;
    default: return BERM_JSON_NUMBER;
    }
}

static berm_json value_of(const char *start, const char *end)
{
    berm_json value;
    value.kind = start == end ? BERM_JSON_ABSENT : kind_of(*start);
    value.text = berm_str_make(start, (size_t)(end - start));
    return value;
}

static const char *skip_string(const char *p, const char *end)
{
    for (p = skip_plain(p + 1, end); *p != '"'; p++)
        if (*p == '\\')
            p++;
    return p + 1;
}

static const char *skip_container(const char *p, const char *end)
{
    for (unsigned depth = 0;;) {
        if (*p == '"') {
            p = skip_string(p, end);
            continue;
        }
        depth += *p == '{' || *p == '[';
        depth -= *p == '}' || *p == ']';
        p++;
        if (depth == 0)
            return p;
    }
}

static const char *skip_value(const char *p, const char *end)
{
    if (*p == '"')
        return skip_string(p, end);
    if (*p == '{' || *p == '[')
        return skip_container(p, end);
    while (p < end && !is_white(*p) && *p != ',' && *p != '}' && *p != ']')
        p++;
    return p;
}

bool berm_json_parse(berm_str text, berm_json *value, berm_json_error *error)
{
    check c = {text.ptr, text.ptr + text.len, NULL, NULL};
    const char *end = check_value(&c, text.ptr, 0);
    if (end) {
        const char *start = skip_white(text.ptr, c.end);
        const char *rest = skip_white(end, c.end);
        *value = value_of(start, end);
        if (rest == c.end)
            return true;
        fail(&c, rest, "expected the end of the text");
    }
    if (error) {
        error->reason = c.reason;
        error->offset = (size_t)(c.failed_at - c.start);
    }
    return false;
}

const char *berm_json_kind_name(berm_json_kind kind)
{
    static const char *const NAMES[] = {"nothing", "null", "boolean", "number", "string", "array", "object"};
    return NAMES[kind];
}

berm_json_each berm_json_begin(berm_json value)
{
    berm_json_each each;
    memset(&each, 0, sizeof each);
    each.keyed = value.kind == BERM_JSON_OBJECT;
    if (each.keyed || value.kind == BERM_JSON_ARRAY) {
        each.at = value.text.ptr + 1;
        each.end = value.text.ptr + value.text.len - 1;
    }
    return each;
}

bool berm_json_next(berm_json_each *each)
{
    const char *p = skip_white(each->at, each->end);
    if (p < each->end && *p == ',')
        p = skip_white(p + 1, each->end);
    if (p == each->end)
        return false;
    if (each->keyed) {
        const char *end = skip_string(p, each->end);
        each->key = value_of(p, end);
        p = skip_white(skip_white(end, each->end) + 1, each->end);
    }
    each->at = skip_value(p, each->end);
    each->value = value_of(p, each->at);
    return true;
}

berm_json berm_json_get_str(berm_json object, berm_str key)
{
    berm_json found = value_of(NULL, NULL);
    if (object.kind != BERM_JSON_OBJECT)
        return found;
    berm_json_each each = berm_json_begin(object);
    while (berm_json_next(&each))
        if (berm_json_string_is(each.key, key))
            found = each.value;
    return found;
}

berm_json berm_json_get(berm_json object, const char *key)
{
    return berm_json_get_str(object, berm_str_of(key));
}

berm_json berm_json_at(berm_json array, size_t index)
{
    berm_json_each each = berm_json_begin(array);
    while (array.kind == BERM_JSON_ARRAY && berm_json_next(&each))
        if (index-- == 0)
            return each.value;
    return value_of(NULL, NULL);
}

size_t berm_json_count(berm_json value)
{
    size_t count = 0;
    berm_json_each each = berm_json_begin(value);
    while (berm_json_next(&each))
        count++;
    return count;
}

/* Decode the escape at p, which stands behind the backslash; *len bytes into into[]. */
static const char *decode_escape(const char *p, char into[4], size_t *len)
{
    *len = 1;
    switch (*p) {
    case 'b': into[0] = '\b'; return p + 1;
    case 'f': into[0] = '\f'; return p + 1;
    case 'n': into[0] = '\n'; return p + 1;
    case 'r': into[0] = '\r'; return p + 1;
    case 't': into[0] = '\t'; return p + 1;
    case 'u': break;
    default: into[0] = *p; return p + 1;
    }
    uint32_t unit = (uint32_t)hex4(p + 1, p + 5);
    if (is_high_surrogate((int)unit)) {
        unit = 0x10000 + ((unit & 0x3ff) << 10) + ((uint32_t)hex4(p + 7, p + 11) & 0x3ff);
        p += 6;
    }
    *len = berm_utf8_encode(unit, into);
    return p + 5;
}

static berm_str string_content(berm_json value)
{
    return berm_slice(value.text, 1, value.text.len - 1);
}

bool berm_json_string(berm_json value, berm_str *result)
{
    if (value.kind != BERM_JSON_STRING)
        return false;
    berm_str raw = string_content(value);
    const char *p = raw.ptr;
    const char *end = raw.ptr + raw.len;
    if (raw.len == 0 || !memchr(raw.ptr, '\\', raw.len)) {
        *result = raw;
        return true;
    }
    char *text = (char *)berm_alloc(raw.len + 1); /* decoded text is never longer than its escapes */
    size_t len = 0;
    while (p < end) {
        size_t decoded = 1;
        if (*p == '\\')
            p = decode_escape(p + 1, text + len, &decoded);
        else
            text[len] = *p++;
        len += decoded;
    }
    text[len] = 0;
    *result = berm_str_make(text, len);
    return true;
}

bool berm_json_string_is(berm_json value, berm_str text)
{
    if (value.kind != BERM_JSON_STRING)
        return false;
    berm_str raw = string_content(value);
    const char *p = raw.ptr;
    const char *end = raw.ptr + raw.len;
    size_t at = 0;
    while (p < end) {
        char decoded[4];
        size_t len = 1;
        decoded[0] = *p;
        p = *p == '\\' ? decode_escape(p + 1, decoded, &len) : p + 1;
        if (len > text.len - at || memcmp(text.ptr + at, decoded, len) != 0)
            return false;
        at += len;
    }
    return at == text.len;
}

bool berm_json_bool(berm_json value, bool *result)
{
    if (value.kind != BERM_JSON_BOOLEAN)
        return false;
    *result = value.text.ptr[0] == 't';
    return true;
}

/* The value of a number as sign and magnitude, when it is an integer below 2^64. */
static bool whole_number(berm_json value, bool *negative, uint64_t *magnitude)
{
    decimal d;
    if (value.kind != BERM_JSON_NUMBER)
        return false;
    decimal_parse(&d, value.text);
    if (d.truncated || d.point < d.count || d.point > 20)
        return false;
    uint64_t sum = 0;
    for (int i = 0; i < d.point; i++) {
        unsigned digit = i < d.count ? d.digit[i] : 0;
        if (__builtin_mul_overflow(sum, (uint64_t)10, &sum) || __builtin_add_overflow(sum, digit, &sum))
            return false;
    }
    *negative = d.negative;
    *magnitude = sum;
    return true;
}

bool berm_json_int(berm_json value, int64_t *result)
{
    bool negative;
    uint64_t magnitude;
    if (!whole_number(value, &negative, &magnitude) || magnitude > (uint64_t)INT64_MAX + negative)
        return false;
    *result = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

bool berm_json_uint(berm_json value, uint64_t *result)
{
    bool negative;
    uint64_t magnitude;
    if (!whole_number(value, &negative, &magnitude) || (negative && magnitude))
        return false;
    *result = magnitude;
    return true;
}

bool berm_json_double(berm_json value, double *result)
{
    decimal d;
    if (value.kind != BERM_JSON_NUMBER)
        return false;
    decimal_parse(&d, value.text);
    double number = decimal_to_double(&d);
    if (number - number != 0)
        return false;
    *result = number;
    return true;
}

bool berm_parse_double(berm_str s, double *value)
{
    berm_str digits = s.len && s.ptr[0] == '+' ? berm_slice(s, 1, s.len) : s;
    check c = {digits.ptr, digits.ptr + digits.len, NULL, NULL};
    bool numeric = digits.len && (digits.ptr[0] == '-' || is_digit(digits.ptr[0]));
    if (!numeric || (s.ptr != digits.ptr && digits.ptr[0] == '-') || check_number(&c, digits.ptr) != c.end)
        return false;
    berm_json number = {BERM_JSON_NUMBER, digits};
    return berm_json_double(number, value);
}
