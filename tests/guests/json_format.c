/* A JSON formatter: indents, compacts, or sorts the keys of a document. */
#include <berm/berm.h>
#include <stdlib.h>

typedef struct style {
    int64_t indent; /* 0: compact */
    bool sort;
} style;

typedef struct member {
    berm_json key, value;
    size_t index;
} member;

static void put_value(berm_out *out, berm_json value, const style *s, int64_t depth);

static void new_line(berm_out *out, const style *s, int64_t depth)
{
    if (s->indent)
        berm_printf(out, "\n%*s", (int)(s->indent * depth), "");
}

static int by_key(const void *a, const void *b)
{
    const member *x = (const member *)a;
    const member *y = (const member *)b;
    berm_str left, right;
    berm_json_string(x->key, &left);
    berm_json_string(y->key, &right);
    int order = berm_compare(left, right);
    return order ? order : x->index < y->index ? -1 : 1;
}

static void put_container(berm_out *out, berm_json value, const style *s, int64_t depth)
{
    bool object = value.kind == BERM_JSON_OBJECT;
    size_t count = berm_json_count(value), n = 0;
    member *members = BERM_NEW_ARRAY(member, count);
    berm_json_each each = berm_json_begin(value);
    for (; berm_json_next(&each); n++) {
        members[n].key = each.key;
        members[n].value = each.value;
        members[n].index = n;
    }
    if (object && s->sort)
        qsort(members, count, sizeof *members, by_key);
    berm_putc(out, object ? '{' : '[');
    for (size_t i = 0; i < count; i++) {
        berm_puts(out, i ? "," : "");
        new_line(out, s, depth + 1);
        if (object) {
            put_value(out, members[i].key, s, depth);
            berm_puts(out, s->indent ? ": " : ":");
        }
        put_value(out, members[i].value, s, depth + 1);
    }
    if (count)
        new_line(out, s, depth);
    berm_putc(out, object ? '}' : ']');
    berm_free(members);
}

static void put_value(berm_out *out, berm_json value, const style *s, int64_t depth)
{
    berm_str text;
    if (value.kind == BERM_JSON_OBJECT || value.kind == BERM_JSON_ARRAY) {
        put_container(out, value, s, depth);
    } else if (berm_json_string(value, &text)) {
        berm_put_json_string(out, text);
    } else {
        berm_put(out, value.text);
    }
}

BERM_TOOL(format, "Format a JSON document.",
    required(json, document, "any JSON value"),
    optional(range(0, 8), indent, "spaces a level; 0 for none", 2),
    optional(boolean, sort, "order the keys of objects", false))
{
    style s = {args->indent, args->sort};
    berm_out_limit(out, (size_t)16 << 20);
    put_value(out, args->document, &s, 0);
}
