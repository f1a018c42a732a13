/* JSON out: punctuation that places itself, and a panic where it would come out wrong. */
#include <berm/json.h>
#include <string.h>

void berm_json_write_to(berm_json_writer *writer, berm_out *out)
{
    memset(writer, 0, sizeof *writer);
    writer->out = out;
}

static void before_value(berm_json_writer *w)
{
    bool in_object = w->depth && w->object[w->depth - 1];
    if (in_object && !w->keyed)
        berm_panic("json writer: a value in an object needs a key");
    if (w->depth == 0 && w->comma)
        berm_panic("json writer: a document is one value");
    if (w->comma && !w->keyed)
        berm_putc(w->out, ',');
    w->comma = true;
    w->keyed = false;
}

static void open_container(berm_json_writer *w, bool object)
{
    before_value(w);
    if (w->depth == BERM_JSON_DEPTH)
        berm_panic("json writer: nested more than %d deep", BERM_JSON_DEPTH);
    w->object[w->depth++] = object;
    w->comma = false;
    berm_putc(w->out, object ? '{' : '[');
}

void berm_json_open_object(berm_json_writer *writer)
{
    open_container(writer, true);
}

void berm_json_open_array(berm_json_writer *writer)
{
    open_container(writer, false);
}

void berm_json_close(berm_json_writer *w)
{
    if (w->depth == 0 || w->keyed)
        berm_panic("json writer: %s", w->keyed ? "a key without its value" : "nothing to close");
    berm_putc(w->out, w->object[--w->depth] ? '}' : ']');
    w->comma = true;
}

void berm_json_key_str(berm_json_writer *w, berm_str key)
{
    if (w->depth == 0 || !w->object[w->depth - 1] || w->keyed)
        berm_panic("json writer: a key outside an object");
    if (w->comma)
        berm_putc(w->out, ',');
    berm_put_json_string(w->out, key);
    berm_putc(w->out, ':');
    w->keyed = true;
}

void berm_json_key(berm_json_writer *writer, const char *key)
{
    berm_json_key_str(writer, berm_str_of(key));
}

void berm_json_write_string(berm_json_writer *writer, berm_str text)
{
    before_value(writer);
    berm_put_json_string(writer->out, text);
}

void berm_json_write_int(berm_json_writer *writer, int64_t value)
{
    before_value(writer);
    berm_printf(writer->out, "%lld", (long long)value);
}

void berm_json_write_uint(berm_json_writer *writer, uint64_t value)
{
    before_value(writer);
    berm_printf(writer->out, "%llu", (unsigned long long)value);
}

void berm_json_write_double(berm_json_writer *writer, double value)
{
    if (value - value != 0) {
        berm_json_write_null(writer);
        return;
    }
    before_value(writer);
    berm_put_double(writer->out, value);
}

void berm_json_write_bool(berm_json_writer *writer, bool value)
{
    before_value(writer);
    berm_puts(writer->out, value ? "true" : "false");
}

void berm_json_write_null(berm_json_writer *writer)
{
    before_value(writer);
    berm_puts(writer->out, "null");
}

void berm_json_write(berm_json_writer *writer, berm_json value)
{
    before_value(writer);
    if (value.kind == BERM_JSON_ABSENT)
        berm_puts(writer->out, "null");
    else
        berm_put(writer->out, value.text);
}

static bool is_plain(unsigned char byte)
{
    return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
}

static void put_escape(berm_out *out, unsigned char byte)
{
    static const char LETTERS[] = "btn.fr"; /* from \b on; 0x0b has none */
    if (byte == '"' || byte == '\\') {
        berm_putc(out, '\\');
        berm_putc(out, (char)byte);
    } else if (byte >= '\b' && byte <= '\r' && byte != 0x0b) {
        berm_putc(out, '\\');
        berm_putc(out, LETTERS[byte - '\b']);
    } else {
        berm_printf(out, "\\u%04x", byte);
    }
}

void berm_put_json_string(berm_out *out, berm_str text)
{
    size_t at = 0;
    berm_putc(out, '"');
    while (at < text.len) {
        size_t from = at;
        uint32_t code_point;
        while (at < text.len && is_plain((unsigned char)text.ptr[at]))
            at++;
        berm_put(out, berm_slice(text, from, at));
        if (at == text.len)
            break;
        size_t len = berm_utf8_decode(text, at, &code_point);
        if (len > 1)
            berm_put(out, berm_slice(text, at, at + len));
        else if (len == 1)
            put_escape(out, (unsigned char)text.ptr[at]);
        else
            berm_put(out, BERM_STR("\xef\xbf\xbd"));
        at += len ? len : 1;
    }
    berm_putc(out, '"');
}
