/* A table of engines, and two ways to read an answer: a page by its tags, or JSON. */
#include "engines.h"

#include "html.h"

#include <string.h>

#define URL_MOST 2048
#define TITLE_MOST 200   /* bytes */
#define SNIPPET_MOST 500 /* bytes */
#define ITEMS_MOST 100   /* that are looked at on one page */
#define PAGE_MOST ((size_t)2 << 20) /* bytes of a page that are looked at */

struct engine {
    const char *name;
    const char *base;
    const char *before; /* the query, in the address */
    void (*read)(const engine *e, berm_str base, berm_str body, results *found);
    berm_str (*unwrap)(berm_str url); /* the address behind a counting link; NULL: it is one already */
    html_select item;                 /* around one result */
    html_select within;               /* around its link, if it has to be looked for there */
    html_select link;
    html_select title;                /* nothing selected: the link's text */
    html_select snippet[2];           /* the first that is there */
    html_select hidden;               /* within the title and the snippet */
};

/* ---- addresses ---- */

static void put_encoded(berm_out *out, berm_str text, const char *kept)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     (c && strchr(kept, c));
        if (plain)
            berm_putc(out, c);
        else
            berm_printf(out, "%%%02X", (unsigned)(unsigned char)c);
    }
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static berm_str decoded(berm_str text)
{
    berm_out out;
    berm_out_init(&out, text.len + 1);
    for (size_t i = 0; i < text.len; i++) {
        bool coded = text.ptr[i] == '%' && i + 2 < text.len && hex(text.ptr[i + 1]) >= 0 && hex(text.ptr[i + 2]) >= 0;
        berm_putc(&out, coded ? (char)(hex(text.ptr[i + 1]) << 4 | hex(text.ptr[i + 2])) : text.ptr[i]);
        i += coded ? 2 : 0;
    }
    return berm_out_str(&out);
}

/* The value of a parameter of an address, as it stands there. */
static bool parameter(berm_str url, const char *name, berm_str *value)
{
    berm_str before, query, part, key;
    berm_cut(url, BERM_STR("?"), &before, &query);
    while (query.len) {
        berm_cut(query, BERM_STR("&"), &part, &query);
        if (berm_cut(part, BERM_STR("="), &key, value) && berm_is(key, name))
            return true;
    }
    return false;
}

/* //duckduckgo.com/l/?uddg=ADDRESS */
static berm_str unwrap_duckduckgo(berm_str url)
{
    berm_str target;
    return parameter(url, "uddg", &target) ? decoded(target) : url;
}

/* https://www.bing.com/ck/a?…&u=a1ADDRESS, in base64 of the kind for addresses, without padding */
static berm_str unwrap_bing(berm_str url)
{
    berm_str target, plain;
    berm_out out;
    if (berm_find(url, BERM_STR("/ck/a?"), 0) == BERM_NOT_FOUND || !parameter(url, "u", &target) || target.len < 3)
        return url;
    target = berm_slice(target, 2, target.len);
    berm_out_init(&out, target.len + 4);
    for (size_t i = 0; i < target.len; i++)
        berm_putc(&out, target.ptr[i] == '-' ? '+' : target.ptr[i] == '_' ? '/' : target.ptr[i]);
    while (out.len % 4)
        berm_putc(&out, '=');
    return berm_base64_decode(berm_out_str(&out), &plain) ? plain : url;
}

static bool is_address(berm_str url)
{
    if (url.len > URL_MOST || !berm_utf8_valid(url) ||
        !(berm_starts_with(url, BERM_STR("http://")) || berm_starts_with(url, BERM_STR("https://"))))
        return false;
    for (size_t i = 0; i < url.len; i++)
        if ((unsigned char)url.ptr[i] <= 0x20 || url.ptr[i] == 0x7f)
            return false;
    return true;
}

/* ---- results ---- */

static berm_str cut(berm_str text, size_t most)
{
    berm_out out;
    if (text.len <= most)
        return text;
    berm_out_init(&out, most + 8);
    berm_str part = berm_slice(text, 0, most);
    berm_put(&out, berm_slice(part, 0, berm_utf8_valid_prefix(part)));
    berm_puts(&out, "…");
    return berm_out_str(&out);
}

static void add(results *found, berm_str url, berm_str title, berm_str snippet)
{
    if (found->len == RESULTS_MOST || !is_address(url) || title.len == 0)
        return;
    result one = {url, cut(title, TITLE_MOST), cut(snippet, SNIPPET_MOST)};
    found->items[found->len++] = one;
}

/* ---- pages ---- */

static bool is_nothing(const html_select *select)
{
    return !select->name && !select->class_name;
}

static berm_str shown(const engine *e, berm_str part, const html_tag *tag)
{
    return html_text(html_inner(part, tag, NULL), is_nothing(&e->hidden) ? NULL : &e->hidden);
}

static berm_str text_of(const engine *e, berm_str item, const html_select *select)
{
    html_tag tag;
    size_t at = 0;
    if (is_nothing(select) || !html_find(item, &at, select, &tag))
        return BERM_STR("");
    return shown(e, item, &tag);
}

static void read_item(const engine *e, berm_str item, results *found)
{
    html_tag tag;
    berm_str url;
    berm_str part = item;
    size_t at = 0;
    if (!is_nothing(&e->within)) {
        if (!html_find(item, &at, &e->within, &tag))
            return;
        part = html_inner(item, &tag, NULL);
        at = 0;
    }
    if (!html_find(part, &at, &e->link, &tag) || !html_attribute(&tag, "href", &url))
        return;
    berm_str title = is_nothing(&e->title) ? shown(e, part, &tag) : text_of(e, item, &e->title);
    berm_str snippet = text_of(e, item, &e->snippet[0]);
    if (snippet.len == 0)
        snippet = text_of(e, item, &e->snippet[1]);
    add(found, e->unwrap ? e->unwrap(berm_trim(url)) : berm_trim(url), title, snippet);
}

static void read_page(const engine *e, berm_str base, berm_str body, results *found)
{
    html_tag tag;
    size_t at = 0;
    (void)base;
    body = berm_slice(body, 0, PAGE_MOST);
    for (int items = 0; items < ITEMS_MOST && html_find(body, &at, &e->item, &tag); items++) {
        berm_str item = html_inner(body, &tag, &e->item);
        read_item(e, item, found);
        at = tag.stop + item.len;
    }
}

/* ---- JSON ---- */

static berm_str member(berm_json object, const char *key)
{
    berm_str text;
    return berm_json_string(berm_json_get(object, key), &text) ? text : BERM_STR("");
}

static void read_wikipedia(const engine *e, berm_str base, berm_str body, results *found)
{
    berm_json document;
    (void)e;
    if (!berm_json_parse(body, &document, NULL))
        return;
    berm_json_each each = berm_json_begin(berm_json_get(berm_json_get(document, "query"), "search"));
    while (berm_json_next(&each)) {
        berm_out url;
        berm_str title = member(each.value, "title");
        char *name = berm_str_dup(title);
        for (size_t i = 0; i < title.len; i++)
            name[i] = name[i] == ' ' ? '_' : name[i];
        berm_out_init(&url, URL_MOST * 2);
        berm_printf(&url, "%.*s/wiki/", BERM_ARG(base));
        put_encoded(&url, berm_str_make(name, title.len), "-_.~:,()/!*'");
        add(found, berm_out_str(&url), html_text(title, NULL),
            html_text(member(each.value, "snippet"), NULL));
    }
}

static void read_searxng(const engine *e, berm_str base, berm_str body, results *found)
{
    berm_json document;
    (void)e;
    (void)base;
    if (!berm_json_parse(body, &document, NULL))
        return;
    berm_json_each each = berm_json_begin(berm_json_get(document, "results"));
    while (berm_json_next(&each))
        add(found, member(each.value, "url"), html_text(member(each.value, "title"), NULL),
            html_text(member(each.value, "content"), NULL));
}

/* ---- the table ---- */

static const engine DUCKDUCKGO = {
    .name = "duckduckgo",
    .base = "https://html.duckduckgo.com",
    .before = "/html/?q=",
    .read = read_page,
    .unwrap = unwrap_duckduckgo,
    .item = {"div", "web-result", NULL, NULL}, /* and not result--ad */
    .link = {"a", "result__a", NULL, NULL},
    .snippet = {{NULL, "result__snippet", NULL, NULL}},
};

static const engine BING = {
    .name = "bing",
    .base = "https://www.bing.com",
    .before = "/search?q=",
    .read = read_page,
    .unwrap = unwrap_bing,
    .item = {"li", "b_algo", NULL, NULL}, /* and not b_ad */
    .within = {"h2", NULL, NULL, NULL},
    .link = {"a", NULL, NULL, NULL},
    .snippet = {{"p", NULL, NULL, NULL}},
    .hidden = {"span", "algoSlug_icon", NULL, NULL},
};

static const engine BRAVE = {
    .name = "brave",
    .base = "https://search.brave.com",
    .before = "/search?source=web&q=",
    .read = read_page,
    .item = {"div", "snippet", "data-type", "web"},
    .link = {"a", NULL, NULL, NULL},
    .title = {NULL, "title", NULL, NULL},
    .snippet = {{NULL, "generic-snippet", NULL, NULL}, {NULL, "snippet-description", NULL, NULL}},
};

static const engine MOJEEK = {
    .name = "mojeek",
    .base = "https://www.mojeek.com",
    .before = "/search?q=",
    .read = read_page,
    .item = {"li", NULL, NULL, NULL}, /* those without such a link are none */
    .within = {"h2", NULL, NULL, NULL},
    .link = {"a", "title", NULL, NULL},
    .snippet = {{"p", "s", NULL, NULL}},
};

static const engine WIKIPEDIA = {
    .name = "wikipedia",
    .base = "https://en.wikipedia.org",
    .before = "/w/api.php?action=query&list=search&format=json&srlimit=10&srsearch=",
    .read = read_wikipedia,
};

static const engine SEARXNG = {
    .name = "searxng",
    .base = "",
    .before = "/search?format=json&q=",
    .read = read_searxng,
};

const engine *const ENGINES[] = {&DUCKDUCKGO, &BING, &BRAVE, &MOJEEK, &WIKIPEDIA, &SEARXNG, NULL};

const char *engine_name(const engine *e)
{
    return e->name;
}

berm_str engine_base(const engine *e)
{
    return berm_str_of(e->base);
}

berm_str engine_accept(const engine *e)
{
    return e->read == read_page ? BERM_STR("text/html") : BERM_STR("application/json");
}

berm_str engine_address(const engine *e, berm_str base, berm_str query)
{
    berm_out out;
    berm_out_init(&out, 8192);
    berm_printf(&out, "%.*s%s", BERM_ARG(base), e->before);
    put_encoded(&out, query, "-_.~");
    return berm_out_str(&out);
}

void engine_read(const engine *e, berm_str base, berm_str body, results *found)
{
    found->len = 0;
    e->read(e, base, body, found);
}
