/* Finding tags, and reading text out of what is between them. */
#include "html.h"

#include <string.h>

#define VALUE_MOST 8192 /* bytes of an attribute; a longer one is none that we want */
#define TEXT_MOST 16384 /* bytes of a page that are read for one text */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static bool is_letter(char c)
{
    return lower(c) >= 'a' && lower(c) <= 'z';
}

static bool same(berm_str a, const char *b)
{
    size_t i = 0;
    while (i < a.len && b[i] && lower(a.ptr[i]) == b[i])
        i++;
    return i == a.len && b[i] == 0;
}

static bool one_of(berm_str name, const char *const *names)
{
    while (*names)
        if (same(name, *names++))
            return true;
    return false;
}

/* ---- attributes ---- */

typedef struct attribute {
    berm_str key, value;
} attribute;

static size_t skip_space(berm_str s, size_t at)
{
    while (at < s.len && is_space(s.ptr[at]))
        at++;
    return at;
}

static size_t value_end(berm_str s, size_t at)
{
    while (at < s.len && !is_space(s.ptr[at]) && s.ptr[at] != '>')
        at++;
    return at;
}

/* The value behind `=`; *at is moved behind it, to the end when its quote does not close. */
static berm_str take_value(berm_str s, size_t *at)
{
    size_t start = skip_space(s, *at);
    if (start < s.len && (s.ptr[start] == '"' || s.ptr[start] == '\'')) {
        const char *close = (const char *)memchr(s.ptr + start + 1, s.ptr[start], s.len - start - 1);
        size_t stop = close ? (size_t)(close - s.ptr) : s.len;
        *at = close ? stop + 1 : s.len;
        return berm_slice(s, start + 1, stop);
    }
    *at = value_end(s, start);
    return berm_slice(s, start, *at);
}

/* The next attribute from *at on; false at `>` or at the end, where *at then stands. */
static bool next_attribute(berm_str s, size_t *at, attribute *found)
{
    while (*at < s.len && (is_space(s.ptr[*at]) || s.ptr[*at] == '/'))
        ++*at;
    if (*at == s.len || s.ptr[*at] == '>')
        return false;
    size_t start = (*at)++; /* even when it is a stray `=` */
    while (*at < s.len && !is_space(s.ptr[*at]) && !memchr("=/>", s.ptr[*at], 3))
        ++*at;
    found->key = berm_slice(s, start, *at);
    found->value = BERM_STR("");
    size_t sign = skip_space(s, *at);
    if (sign < s.len && s.ptr[sign] == '=') {
        *at = sign + 1;
        found->value = take_value(s, at);
    }
    return true;
}

static bool raw_attribute(const html_tag *tag, const char *key, berm_str *value)
{
    size_t at = 0;
    attribute found;
    while (next_attribute(tag->attributes, &at, &found))
        if (same(found.key, key)) {
            *value = found.value;
            return true;
        }
    return false;
}

/* ---- tags ---- */

static bool starts_at(berm_str page, size_t at, const char *text)
{
    return berm_starts_with(berm_slice(page, at, page.len), berm_str_of(text));
}

static size_t behind(berm_str page, size_t at, const char *text)
{
    size_t found = berm_find(page, berm_str_of(text), at);
    return found == BERM_NOT_FOUND ? page.len : found + strlen(text);
}

/* Where the text of a script or style ends: at its closing tag. */
static size_t raw_end(berm_str page, size_t at, berm_str name)
{
    while ((at = berm_find(page, BERM_STR("</"), at)) != BERM_NOT_FOUND) {
        berm_str rest = berm_slice(page, at + 2, at + 2 + name.len);
        size_t i = 0;
        while (i < rest.len && lower(rest.ptr[i]) == lower(name.ptr[i]))
            i++;
        if (i == name.len)
            return at;
        at += 2;
    }
    return page.len;
}

/* The tag whose `<` stands at *at. False when none does; *at is moved on in any case. */
static bool take_tag(berm_str page, size_t *at, html_tag *tag)
{
    static const char *const RAW[] = {"script", "style", "template", NULL};
    attribute skipped;
    size_t p = *at + 1;
    tag->start = *at;
    tag->closing = p < page.len && page.ptr[p] == '/';
    p += tag->closing;
    size_t name = p;
    while (p < page.len && !is_space(page.ptr[p]) && page.ptr[p] != '/' && page.ptr[p] != '>')
        p++;
    tag->name = berm_slice(page, name, p);
    if (tag->name.len == 0 || !is_letter(tag->name.ptr[0])) {
        *at = name;
        return false;
    }
    size_t attributes = p;
    while (next_attribute(page, &p, &skipped))
        continue;
    tag->attributes = berm_slice(page, attributes, p);
    tag->stop = p < page.len ? p + 1 : p;
    *at = !tag->closing && one_of(tag->name, RAW) ? raw_end(page, tag->stop, tag->name) : tag->stop;
    return true;
}

/* The next tag or comment, which is one without a name. */
static bool next_markup(berm_str page, size_t *at, html_tag *tag)
{
    while (*at < page.len) {
        const char *open = (const char *)memchr(page.ptr + *at, '<', page.len - *at);
        size_t start = *at = open ? (size_t)(open - page.ptr) : page.len;
        bool is_comment = starts_at(page, start, "<!--");
        if (is_comment || starts_at(page, start, "<!") || starts_at(page, start, "<?")) {
            *at = is_comment ? behind(page, start + 4, "-->") : behind(page, start, ">");
            *tag = (html_tag){BERM_STR(""), BERM_STR(""), start, *at, false};
            return true;
        }
        if (start < page.len && take_tag(page, at, tag))
            return true;
    }
    return false;
}

bool html_next(berm_str page, size_t *at, html_tag *tag)
{
    while (next_markup(page, at, tag))
        if (tag->name.len)
            return true;
    return false;
}

static bool has_word(berm_str words, const char *word)
{
    size_t at = 0;
    while ((at = skip_space(words, at)) < words.len) {
        size_t start = at;
        while (at < words.len && !is_space(words.ptr[at]))
            at++;
        if (berm_is(berm_slice(words, start, at), word))
            return true;
    }
    return false;
}

bool html_matches(const html_tag *tag, const html_select *select)
{
    berm_str value;
    if (select->name && !same(tag->name, select->name))
        return false;
    if (select->class_name && (!raw_attribute(tag, "class", &value) || !has_word(value, select->class_name)))
        return false;
    return !select->key || (raw_attribute(tag, select->key, &value) && berm_is(value, select->value));
}

bool html_find(berm_str page, size_t *at, const html_select *select, html_tag *tag)
{
    while (html_next(page, at, tag))
        if (!tag->closing && html_matches(tag, select))
            return true;
    return false;
}

berm_str html_inner(berm_str page, const html_tag *tag, const html_select *until)
{
    static const char *const EMPTY[] = {"br", "hr", "img", "input", "link", "meta", "source", "wbr", NULL};
    html_tag next;
    size_t at = tag->stop;
    size_t open = 1;
    if (one_of(tag->name, EMPTY))
        return berm_slice(page, at, at);
    while (html_next(page, &at, &next)) {
        bool same_name = next.name.len == tag->name.len && berm_equal(next.name, tag->name);
        if (!next.closing && until && html_matches(&next, until))
            return berm_slice(page, tag->stop, next.start);
        if (!same_name)
            continue;
        open += next.closing ? (size_t)-1 : 1;
        if (open == 0)
            return berm_slice(page, tag->stop, next.start);
    }
    return berm_slice(page, tag->stop, page.len);
}

/* ---- text ---- */

static const struct {
    const char *name;
    const char *text;
} ENTITIES[] = {
    {"amp", "&"},    {"lt", "<"},     {"gt", ">"},     {"quot", "\""},  {"apos", "'"},   {"nbsp", " "},
    {"ndash", "–"},  {"mdash", "—"},  {"hellip", "…"}, {"middot", "·"}, {"bull", "•"},   {"lsquo", "‘"},
    {"rsquo", "’"},  {"ldquo", "“"},  {"rdquo", "”"},  {"laquo", "«"},  {"raquo", "»"},  {"copy", "©"},
    {"reg", "®"},    {"trade", "™"},  {"euro", "€"},   {"shy", ""},     {"ensp", " "},   {"emsp", " "},
    {"thinsp", " "}, {"zwnj", ""},
};

/* "#39" or "#x27"; -1 when it is no number. */
static int64_t code_of(berm_str name)
{
    int64_t code = 0;
    bool hex = name.len > 1 && lower(name.ptr[1]) == 'x';
    size_t i = hex ? 2 : 1;
    if (i == name.len)
        return -1;
    for (; i < name.len; i++) {
        char c = lower(name.ptr[i]);
        int digit = c >= '0' && c <= '9' ? c - '0' : hex && c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0)
            return -1;
        code = code > 0x10ffff ? code : code * (hex ? 16 : 10) + digit;
    }
    return code;
}

static bool put_number(berm_out *out, berm_str name)
{
    char bytes[4];
    int64_t code = code_of(name);
    if (code < 0)
        return false;
    size_t len = code > 0 && code <= 0x10ffff ? berm_utf8_encode((uint32_t)code, bytes) : 0;
    if (code == 0xa0)
        berm_putc(out, ' ');
    else if (len)
        berm_put(out, berm_str_make(bytes, len));
    else
        berm_puts(out, "\xef\xbf\xbd");
    return true;
}

/* The entity at s.ptr[at], a `&`; returns how many bytes it has. What is none is a `&`. */
static size_t put_entity(berm_out *out, berm_str s, size_t at)
{
    size_t end = at + 1;
    while (end < s.len && end - at < 12 && (is_letter(s.ptr[end]) || s.ptr[end] == '#' ||
                                            (s.ptr[end] >= '0' && s.ptr[end] <= '9')))
        end++;
    berm_str name = berm_slice(s, at + 1, end);
    if (name.len == 0 || end == s.len || s.ptr[end] != ';') {
        berm_putc(out, '&');
        return 1;
    }
    if (name.ptr[0] == '#' && put_number(out, name))
        return end + 1 - at;
    for (size_t i = 0; i < sizeof ENTITIES / sizeof *ENTITIES; i++)
        if (berm_is(name, ENTITIES[i].name)) {
            berm_puts(out, ENTITIES[i].text);
            return end + 1 - at;
        }
    berm_putc(out, '&');
    return 1;
}

static void put_decoded(berm_out *out, berm_str s)
{
    for (size_t at = 0; at < s.len;) {
        if (s.ptr[at] == '&')
            at += put_entity(out, s, at);
        else
            berm_putc(out, s.ptr[at++]);
    }
}

bool html_attribute(const html_tag *tag, const char *key, berm_str *value)
{
    berm_out out;
    berm_str raw;
    if (!raw_attribute(tag, key, &raw) || raw.len > VALUE_MOST)
        return false;
    berm_out_init(&out, raw.len * 3 + 1); /* an entity grows to three times its bytes at most */
    put_decoded(&out, raw);
    *value = berm_out_str(&out);
    return true;
}

/* White space to one space, none at the ends; control characters are white space too. */
static berm_str flat(berm_str s)
{
    berm_out out;
    bool space = false;
    berm_out_init(&out, s.len * 3 + 1);
    for (size_t i = 0; i < s.len; i++) {
        bool white = (unsigned char)s.ptr[i] <= 0x20 || s.ptr[i] == 0x7f;
        if (!white && space && out.len)
            berm_putc(&out, ' ');
        space = white;
        if (!white)
            berm_putc(&out, s.ptr[i]);
    }
    berm_out clean;
    berm_out_init(&clean, out.len * 3 + 1);
    berm_put_lossy(&clean, berm_out_str(&out));
    return berm_out_str(&clean);
}

berm_str html_text(berm_str inner, const html_select *hidden)
{
    static const char *const INLINE[] = {"a",    "b",    "em",  "font", "i",   "mark",   "s", "small",
                                         "span", "code", "sub", "sup",  "u",   "strong", "wbr", NULL};
    berm_out out;
    html_tag tag;
    size_t at = 0;
    size_t shown = 0;
    inner = berm_slice(inner, 0, TEXT_MOST);
    berm_out_init(&out, inner.len * 3 + 1);
    while (next_markup(inner, &at, &tag)) {
        put_decoded(&out, berm_slice(inner, shown, tag.start));
        if (tag.name.len && !one_of(tag.name, INLINE))
            berm_putc(&out, ' ');
        if (hidden && !tag.closing && html_matches(&tag, hidden))
            at = tag.stop + html_inner(inner, &tag, NULL).len;
        shown = at; /* behind a script's text too */
    }
    put_decoded(&out, berm_slice(inner, shown, inner.len));
    return flat(berm_out_str(&out));
}
