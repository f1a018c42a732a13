/* Pattern text to a tree. Every error names the place in the pattern. */
#include "regex_parse.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define NESTING_MOST 100
#define RANGES_MOST 512
#define LAST_CODE_POINT 0x10ffff

typedef struct parser {
    berm_str text;
    size_t at;
    unsigned depth;
    bool ignore_case;
} parser;

/* A set being collected. */
typedef struct set {
    range ranges[RANGES_MOST];
    size_t count;
} set;

BERM_NORETURN static void wrong(const parser *p, const char *reason)
{
    berm_fail("pattern: %s - at character %zu of `%.*s`", reason, p->at + 1, BERM_ARG(p->text));
}

static bool more(const parser *p)
{
    return p->at < p->text.len;
}

static bool looking_at(const parser *p, const char *text)
{
    return berm_starts_with(berm_slice(p->text, p->at, p->text.len), berm_str_of(text));
}

static bool accept(parser *p, const char *text)
{
    if (!looking_at(p, text))
        return false;
    p->at += strlen(text);
    return true;
}

static uint32_t take_code_point(parser *p)
{
    uint32_t code_point;
    size_t len = berm_utf8_decode(p->text, p->at, &code_point);
    if (len == 0)
        wrong(p, "the text is not UTF-8");
    p->at += len;
    return code_point;
}

static node *make(node_kind kind, node *left, node *right)
{
    node *n = BERM_NEW(node);
    n->kind = kind;
    n->left = left;
    n->right = right;
    return n;
}

/* ---- sets ---- */

static void add(parser *p, set *s, uint32_t low, uint32_t high)
{
    if (s->count == RANGES_MOST)
        wrong(p, "a class has too many parts");
    s->ranges[s->count].low = low;
    s->ranges[s->count++].high = high;
}

static int by_low(const void *a, const void *b)
{
    const range *x = (const range *)a;
    const range *y = (const range *)b;
    return x->low < y->low ? -1 : x->low > y->low;
}

static void normalise(set *s)
{
    size_t kept = 0;
    qsort(s->ranges, s->count, sizeof *s->ranges, by_low);
    for (size_t i = 0; i < s->count; i++) {
        range *last = kept ? &s->ranges[kept - 1] : NULL;
        if (last && s->ranges[i].low <= last->high + 1)
            last->high = s->ranges[i].high > last->high ? s->ranges[i].high : last->high;
        else
            s->ranges[kept++] = s->ranges[i];
    }
    s->count = kept;
}

/* Everything else; normalised before and after. */
static void negate(parser *p, set *s)
{
    set inverse;
    uint32_t next = 0;
    inverse.count = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (s->ranges[i].low > next)
            add(p, &inverse, next, s->ranges[i].low - 1);
        next = s->ranges[i].high + 1;
    }
    if (next <= LAST_CODE_POINT)
        add(p, &inverse, next, LAST_CODE_POINT);
    *s = inverse;
}

/* The part of a range between low and high, moved by `shift` code points. */
static void add_shifted(parser *p, set *s, range r, uint32_t low, uint32_t high, int shift)
{
    uint32_t from = r.low > low ? r.low : low;
    uint32_t to = r.high < high ? r.high : high;
    if (from <= to)
        add(p, s, from + (uint32_t)shift, to + (uint32_t)shift);
}

static node *set_node(parser *p, set *s, bool negated)
{
    size_t given = s->count;
    for (size_t i = 0; p->ignore_case && i < given; i++) {
        range r = s->ranges[i];
        add_shifted(p, s, r, 'a', 'z', 'A' - 'a');
        add_shifted(p, s, r, 'A', 'Z', 'a' - 'A');
    }
    normalise(s);
    if (negated)
        negate(p, s);
    node *n = make(NODE_SET, NULL, NULL);
    n->count = s->count;
    n->ranges = BERM_NEW_ARRAY(range, s->count);
    if (s->count)
        memcpy(n->ranges, s->ranges, s->count * sizeof *s->ranges);
    return n;
}

/* \d \w \s and their opposites; false for any other letter. */
static bool add_class(parser *p, set *s, uint32_t letter)
{
    set class_;
    class_.count = 0;
    switch (letter | 0x20) {
    case 'd':
        add(p, &class_, '0', '9');
        break;
    case 'w':
        add(p, &class_, '0', '9');
        add(p, &class_, 'A', 'Z');
        add(p, &class_, '_', '_');
        add(p, &class_, 'a', 'z');
        break;
    case 's':
        add(p, &class_, '\t', '\r');
        add(p, &class_, ' ', ' ');
        break;
    default:
        return false;
    }
    if (!(letter & 0x20))
        negate(p, &class_);
    for (size_t i = 0; i < class_.count; i++)
        add(p, s, class_.ranges[i].low, class_.ranges[i].high);
    return true;
}

static uint32_t take_hex(parser *p, size_t least, size_t most)
{
    uint32_t value = 0;
    size_t n = 0;
    for (; n < most && more(p) && isxdigit((unsigned char)p->text.ptr[p->at]); n++, p->at++) {
        char c = p->text.ptr[p->at];
        value = value * 16 + (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    if (n < least || value > LAST_CODE_POINT)
        wrong(p, "expected a code point in hexadecimal");
    return value;
}

/* The character that an escape stands for; the letter has been taken. */
static uint32_t escaped(parser *p, uint32_t letter)
{
    switch (letter) {
    case 't': return '\t';
    case 'n': return '\n';
    case 'r': return '\r';
    case 'f': return '\f';
    case 'v': return '\v';
    case 'u': return take_hex(p, 4, 4);
    case 'x':
        if (!accept(p, "{"))
            return take_hex(p, 2, 2);
        letter = take_hex(p, 1, 6);
        if (!accept(p, "}"))
            wrong(p, "expected `}`");
        return letter;
    default:
        if (letter >= '1' && letter <= '9')
            wrong(p, "back-references are not supported");
        if (letter < 0x80 && isalnum((int)letter))
            wrong(p, "unknown escape");
        return letter;
    }
}

/* One end of a range in [...]; false when it was a class such as \d, which went into the set. */
static bool take_end(parser *p, set *s, uint32_t *end)
{
    *end = take_code_point(p);
    if (*end != '\\')
        return true;
    if (!more(p))
        wrong(p, "a backslash at the end");
    uint32_t letter = take_code_point(p);
    if (add_class(p, s, letter))
        return false;
    *end = letter == 'b' ? '\b' : escaped(p, letter);
    return true;
}

static node *parse_brackets(parser *p)
{
    set s;
    bool negated = accept(p, "^");
    bool first = true;
    s.count = 0;
    for (; first || !looking_at(p, "]"); first = false) {
        uint32_t low, high;
        if (!more(p))
            wrong(p, "`[` without `]`");
        if (looking_at(p, "[:"))
            wrong(p, "classes such as [:alpha:] are not supported");
        if (!take_end(p, &s, &low))
            continue;
        high = low;
        bool is_range = looking_at(p, "-") && p->at + 1 < p->text.len && p->text.ptr[p->at + 1] != ']';
        if (is_range) {
            p->at++;
            if (!take_end(p, &s, &high) || high < low)
                wrong(p, "the range is the wrong way round");
        }
        add(p, &s, low, high);
    }
    p->at++;
    return set_node(p, &s, negated);
}

/* ---- the grammar ---- */

static node *parse_either(parser *p);

static node *parse_group(parser *p)
{
    if (accept(p, "?") && !accept(p, ":"))
        wrong(p, "only (?:…) and a leading (?i) are supported");
    if (++p->depth > NESTING_MOST)
        wrong(p, "groups are nested too deeply");
    node *inside = parse_either(p);
    if (!accept(p, ")"))
        wrong(p, "`(` without `)`");
    p->depth--;
    return inside;
}

static node *assertion_node(assertion which)
{
    node *n = make(NODE_ASSERT, NULL, NULL);
    n->assertion = which;
    return n;
}

static node *parse_escape(parser *p)
{
    set s;
    s.count = 0;
    if (!more(p))
        wrong(p, "a backslash at the end");
    uint32_t letter = take_code_point(p);
    if (letter == 'b' || letter == 'B')
        return assertion_node(letter == 'b' ? WORD_EDGE : NO_WORD_EDGE);
    if (!add_class(p, &s, letter)) {
        letter = escaped(p, letter);
        add(p, &s, letter, letter);
    }
    return set_node(p, &s, false);
}

static node *parse_atom(parser *p)
{
    set s;
    s.count = 0;
    uint32_t c = take_code_point(p);
    switch (c) {
    case '(': return parse_group(p);
    case '[': return parse_brackets(p);
    case '\\': return parse_escape(p);
    case '^': return assertion_node(LINE_START);
    case '$': return assertion_node(LINE_END);
    case '*':
    case '+':
    case '?':
        p->at--;
        wrong(p, "nothing to repeat");
    case '.':
        add(p, &s, '\n', '\n');
        return set_node(p, &s, true);
    default:
        add(p, &s, c, c);
        return set_node(p, &s, false);
    }
}

/* Digits, or -1 when there are none. */
static int take_count(parser *p)
{
    int value = -1;
    for (; more(p) && isdigit((unsigned char)p->text.ptr[p->at]); p->at++) {
        value = (value < 0 ? 0 : value * 10) + (p->text.ptr[p->at] - '0');
        if (value > REPEAT_MOST)
            wrong(p, "a repeat of more than 1000");
    }
    return value;
}

/* {m}, {m,} or {m,n}; false, with nothing taken, when the brace is a character of the text. */
static bool take_braces(parser *p, int *least, int *most)
{
    size_t start = p->at;
    if (!accept(p, "{"))
        return false;
    *least = *most = take_count(p);
    if (*least >= 0 && accept(p, ",")) {
        *most = take_count(p);
        *most = *most < 0 ? UNBOUNDED : *most;
    }
    if (*least < 0 || !accept(p, "}")) {
        p->at = start;
        return false;
    }
    if (*most != UNBOUNDED && *most < *least)
        wrong(p, "the repeat is the wrong way round");
    return true;
}

static bool take_repeat(parser *p, int *least, int *most)
{
    *least = looking_at(p, "+");
    *most = looking_at(p, "?") ? 1 : UNBOUNDED;
    return accept(p, "*") || accept(p, "+") || accept(p, "?") || take_braces(p, least, most);
}

static node *parse_repeat(parser *p)
{
    node *n = parse_atom(p);
    int least, most;
    while (take_repeat(p, &least, &most)) {
        accept(p, "?");
        n = make(NODE_REPEAT, n, NULL);
        n->least = least;
        n->most = most;
    }
    return n;
}

static node *parse_then(parser *p)
{
    node *n = make(NODE_EMPTY, NULL, NULL);
    while (more(p) && !looking_at(p, "|") && !looking_at(p, ")"))
        n = n->kind == NODE_EMPTY ? parse_repeat(p) : make(NODE_THEN, n, parse_repeat(p));
    return n;
}

static node *parse_either(parser *p)
{
    node *n = parse_then(p);
    while (accept(p, "|"))
        n = make(NODE_EITHER, n, parse_then(p));
    return n;
}

node *regex_parse(berm_str pattern, bool ignore_case)
{
    parser p = {pattern, 0, 0, ignore_case};
    if (accept(&p, "(?i)"))
        p.ignore_case = true;
    node *n = parse_either(&p);
    if (more(&p))
        wrong(&p, "`)` without `(`");
    return n;
}
