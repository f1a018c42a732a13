/* File name patterns: braces are multiplied out first, then each alternative is a list of parts. */
#include "glob.h"

#include <string.h>

#define ALTERNATIVES_MOST 64
#define PATTERN_MOST 1024
#define PARTS_MOST 64

typedef struct parts {
    berm_str items[PARTS_MOST];
    size_t len;
} parts;

struct glob_pattern {
    parts *alternatives;
    size_t count;
};

static bool split(berm_str path, parts *into)
{
    into->len = 0;
    for (bool more = true; more;) {
        berm_str part;
        more = berm_cut(path, BERM_STR("/"), &part, &path);
        if (part.len == 0 || berm_is(part, "."))
            continue;
        if (into->len == PARTS_MOST)
            return false;
        into->items[into->len++] = part;
    }
    return true;
}

/* ---- braces ---- */

/* The end of the group that opens at `at`. */
static size_t find_close(berm_str text, size_t at)
{
    int depth = 0;
    for (; at < text.len; at++) {
        depth += text.ptr[at] == '{';
        depth -= text.ptr[at] == '}';
        if (depth == 0)
            return at;
    }
    berm_fail("pattern: `{` without `}` in `%.*s`", BERM_ARG(text));
}

static void add_alternative(glob_pattern *pattern, berm_str text)
{
    if (pattern->count == ALTERNATIVES_MOST)
        berm_fail("pattern: more than %d alternatives in braces", ALTERNATIVES_MOST);
    if (!split(text, &pattern->alternatives[pattern->count]))
        berm_fail("pattern: more than %d parts", PARTS_MOST);
    pattern->count++;
}

static berm_str join(berm_str a, berm_str b, berm_str c)
{
    berm_out out;
    berm_out_init(&out, PATTERN_MOST * 2);
    berm_put(&out, a);
    berm_put(&out, b);
    berm_put(&out, c);
    return berm_out_str(&out);
}

static void expand(glob_pattern *pattern, berm_str text)
{
    size_t open = berm_find(text, BERM_STR("{"), 0);
    if (open == BERM_NOT_FOUND) {
        add_alternative(pattern, text);
        return;
    }
    size_t close = find_close(text, open);
    berm_str head = berm_slice(text, 0, open);
    berm_str tail = berm_slice(text, close + 1, text.len);
    int depth = 0;
    size_t from = open + 1;
    for (size_t at = from; at <= close; at++) {
        char c = text.ptr[at];
        if ((c == ',' && depth == 0) || at == close) {
            expand(pattern, join(head, berm_slice(text, from, at), tail));
            from = at + 1;
        }
        depth += c == '{';
        depth -= c == '}';
    }
}

glob_pattern *glob_compile(berm_str text)
{
    if (text.len == 0 || text.len > PATTERN_MOST)
        berm_fail("pattern: expected 1 to %d bytes, got %zu", PATTERN_MOST, text.len);
    glob_pattern *pattern = BERM_NEW(glob_pattern);
    pattern->alternatives = BERM_NEW_ARRAY(parts, ALTERNATIVES_MOST);
    expand(pattern, text);
    return pattern;
}

bool glob_is_name_only(const glob_pattern *pattern)
{
    for (size_t i = 0; i < pattern->count; i++)
        if (pattern->alternatives[i].len != 1)
            return false;
    return true;
}

/* ---- one name ---- */

/* Match [...] at *at against a character; moves *at behind it. A bracket that is not closed is itself. */
static bool bracket_matches(berm_str pattern, size_t *at, uint32_t c)
{
    size_t i = *at + 1;
    bool negated = i < pattern.len && (pattern.ptr[i] == '!' || pattern.ptr[i] == '^');
    bool found = false;
    i += negated;
    for (size_t first = i; i < pattern.len; ) {
        uint32_t low, high;
        if (pattern.ptr[i] == ']' && i > first) {
            *at = i + 1;
            return found != negated;
        }
        size_t len = berm_utf8_decode(pattern, i, &low);
        i += len ? len : 1;
        high = low;
        if (i + 1 < pattern.len && pattern.ptr[i] == '-' && pattern.ptr[i + 1] != ']') {
            len = berm_utf8_decode(pattern, i + 1, &high);
            i += 1 + (len ? len : 1);
        }
        found = found || (low <= c && c <= high);
    }
    *at += 1;
    return c == '[';
}

/* One character of the pattern, not `*`, against one of the name; moves both on. */
static bool one_matches(berm_str pattern, size_t *p, berm_str name, size_t *n)
{
    uint32_t c;
    size_t len = berm_utf8_decode(name, *n, &c);
    if (len == 0) {
        c = UINT32_MAX; /* a name that is not UTF-8: byte by byte */
        len = 1;
    }
    bool same;
    if (pattern.ptr[*p] == '?') {
        *p += 1;
        same = true;
    } else if (pattern.ptr[*p] == '[') {
        same = bracket_matches(pattern, p, c);
    } else {
        if (pattern.ptr[*p] == '\\' && *p + 1 < pattern.len)
            *p += 1;
        len = 1;
        same = pattern.ptr[*p] == name.ptr[*n];
        *p += 1;
    }
    *n += len;
    return same;
}

/* The last `*` is the only one that ever needs another try, so this is at most pattern × name. */
static bool name_matches(berm_str pattern, berm_str name)
{
    size_t p = 0, n = 0;
    size_t star = BERM_NOT_FOUND, star_n = 0;
    if (name.len && name.ptr[0] == '.' && pattern.len && pattern.ptr[0] != '.' && pattern.ptr[0] != '\\')
        return false;
    while (n < name.len) {
        if (p < pattern.len && pattern.ptr[p] == '*') {
            star = ++p;
            star_n = n;
            continue;
        }
        if (p < pattern.len && one_matches(pattern, &p, name, &n))
            continue;
        if (star == BERM_NOT_FOUND)
            return false;
        p = star;
        n = ++star_n;
    }
    while (p < pattern.len && pattern.ptr[p] == '*')
        p++;
    return p == pattern.len;
}

/* ---- paths ---- */

static bool is_deep(berm_str part)
{
    return berm_is(part, "**");
}

static bool is_hidden(berm_str name)
{
    return name.len && name.ptr[0] == '.';
}

/* Like name_matches, with `**` for `*` and names for characters. `below`: whether the path could go on to
 * a match instead. */
static bool parts_match(const parts *pattern, const parts *path, bool below)
{
    size_t p = 0, n = 0;
    size_t deep = BERM_NOT_FOUND, deep_n = 0;
    while (n < path->len) {
        if (p < pattern->len && is_deep(pattern->items[p])) {
            deep = ++p;
            deep_n = n;
            continue;
        }
        if (p < pattern->len && name_matches(pattern->items[p], path->items[n])) {
            p++;
            n++;
            continue;
        }
        if (deep == BERM_NOT_FOUND || is_hidden(path->items[deep_n]))
            return false;
        p = deep;
        n = ++deep_n;
    }
    if (below)
        return p < pattern->len || deep != BERM_NOT_FOUND;
    while (p < pattern->len && is_deep(pattern->items[p]))
        p++;
    return p == pattern->len;
}

static bool any_matches(const glob_pattern *pattern, berm_str path, bool below)
{
    parts split_path;
    if (!split(path, &split_path))
        return false;
    for (size_t i = 0; i < pattern->count; i++)
        if (parts_match(&pattern->alternatives[i], &split_path, below))
            return true;
    return false;
}

bool glob_matches(const glob_pattern *pattern, berm_str path)
{
    return any_matches(pattern, path, false);
}

bool glob_may_match_below(const glob_pattern *pattern, berm_str directory)
{
    return any_matches(pattern, directory, true);
}
