/* The SDK on this machine, asked from Python: requests and replies over stdin and stdout, each a u32
 * length and its bytes. A request's first byte says what is wanted. */
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t take_u64(berm_str *text)
{
    uint64_t value = 0;
    if (text->len >= 8)
        memcpy(&value, text->ptr, 8);
    *text = berm_slice(*text, 8, text->len);
    return value;
}

static double take_double(berm_str *text)
{
    uint64_t bits = take_u64(text);
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

/* ---- JSON in ---- */

static void dump(berm_json_writer *w, berm_json value);

static void dump_number(berm_json_writer *w, berm_json value)
{
    int64_t integer;
    uint64_t natural;
    double number;
    berm_json_open_object(w);
    berm_json_key(w, "raw");
    berm_json_write_string(w, value.text);
    if (berm_json_int(value, &integer)) {
        berm_json_key(w, "int");
        berm_json_write_int(w, integer);
    }
    if (berm_json_uint(value, &natural)) {
        berm_json_key(w, "uint");
        berm_json_write_uint(w, natural);
    }
    if (berm_json_double(value, &number)) {
        uint64_t bits;
        memcpy(&bits, &number, 8);
        berm_json_key(w, "bits");
        berm_json_write_uint(w, bits);
    }
    berm_json_close(w);
}

/* An array ["kind", …] for each value: all that the accessors say of it. */
static void dump(berm_json_writer *w, berm_json value)
{
    berm_str text;
    bool flag = false;
    berm_json_each each = berm_json_begin(value);
    berm_json_open_array(w);
    berm_json_write_string(w, berm_str_of(berm_json_kind_name(value.kind)));
    if (value.kind == BERM_JSON_NUMBER)
        dump_number(w, value);
    else if (berm_json_string(value, &text))
        berm_json_write_string(w, text);
    else if (berm_json_bool(value, &flag))
        berm_json_write_bool(w, flag);
    for (size_t i = 0; berm_json_next(&each); i++) {
        if (value.kind == BERM_JSON_OBJECT && berm_json_string(each.key, &text)) {
            berm_json_write_string(w, text);
            if (!berm_json_string_is(each.key, text) || berm_json_get_str(value, text).kind == BERM_JSON_ABSENT)
                abort();
        } else if (berm_json_at(value, i).text.ptr != each.value.text.ptr) {
            abort();
        }
        dump(w, each.value);
    }
    berm_json_close(w);
}

static void answer_json(berm_str text, berm_out *out)
{
    berm_json value;
    berm_json_error error;
    berm_json_writer writer;
    if (!berm_json_parse(text, &value, &error)) {
        berm_printf(out, "!%zu %s", error.offset, error.reason);
        return;
    }
    berm_json_write_to(&writer, out);
    dump(&writer, value);
}

/* ---- JSON out: the same document through the writer ---- */

static void rewrite(berm_json_writer *w, berm_json value)
{
    int64_t integer;
    double number;
    bool flag;
    berm_str text;
    berm_json_each each = berm_json_begin(value);
    switch (value.kind) {
    case BERM_JSON_NUMBER:
        if (berm_json_int(value, &integer))
            berm_json_write_int(w, integer);
        else if (berm_json_double(value, &number))
            berm_json_write_double(w, number);
        else
            berm_json_write(w, value);
        break;
    case BERM_JSON_STRING:
        berm_json_string(value, &text);
        berm_json_write_string(w, text);
        break;
    case BERM_JSON_BOOLEAN:
        berm_json_bool(value, &flag);
        berm_json_write_bool(w, flag);
        break;
    case BERM_JSON_ARRAY:
        berm_json_open_array(w);
        while (berm_json_next(&each))
            rewrite(w, each.value);
        berm_json_close(w);
        break;
    case BERM_JSON_OBJECT:
        berm_json_open_object(w);
        while (berm_json_next(&each)) {
            berm_json_string(each.key, &text);
            berm_json_key_str(w, text);
            rewrite(w, each.value);
        }
        berm_json_close(w);
        break;
    default:
        berm_json_write_null(w);
    }
}

static void answer_rewrite(berm_str text, berm_out *out)
{
    berm_json value;
    berm_json_writer writer;
    if (!berm_json_parse(text, &value, NULL))
        return;
    berm_json_write_to(&writer, out);
    rewrite(&writer, value);
}

/* ---- numbers, text, formats ---- */

static void answer_parse_double(berm_str text, berm_out *out)
{
    double value;
    if (berm_parse_double(text, &value))
        berm_put_bytes(out, &value, 8);
}

static void answer_parse_int(berm_str text, berm_out *out)
{
    int64_t value;
    if (berm_parse_int(text, &value))
        berm_put_bytes(out, &value, 8);
}

static void answer_format(berm_str text, berm_out *out, bool is_double)
{
    uint64_t bits = take_u64(&text);
    double value;
    memcpy(&value, &bits, 8);
    char *format = berm_str_dup(text);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (is_double)
        berm_printf(out, format, value);
    else
        berm_printf(out, format, (long long)bits);
#pragma GCC diagnostic pop
}

static void answer_date(berm_str text, berm_out *out)
{
    int64_t ms = (int64_t)take_u64(&text);
    int64_t offset = (int64_t)take_u64(&text);
    berm_date d = berm_date_of(ms, offset);
    berm_printf(out, "%lld %d %d %d %d %d %d %d %lld", (long long)d.year, d.month, d.day, d.hour, d.minute,
                d.second, d.millisecond, d.weekday, (long long)berm_date_to_ms(&d, offset));
}

static void answer(berm_str request, berm_out *out)
{
    char what = request.len ? request.ptr[0] : 0;
    berm_str rest = berm_slice(request, 1, request.len);
    switch (what) {
    case 'j': answer_json(rest, out); break;
    case 'w': answer_rewrite(rest, out); break;
    case 'd': berm_put_double(out, take_double(&rest)); break;
    case 'p': answer_parse_double(rest, out); break;
    case 'i': answer_parse_int(rest, out); break;
    case 'f': answer_format(rest, out, true); break;
    case 'n': answer_format(rest, out, false); break;
    case 'u': berm_printf(out, "%zu", berm_utf8_valid_prefix(rest)); break;
    case 'l': berm_put_lossy(out, rest); break;
    case 's': berm_put_json_string(out, rest); break;
    case 't': answer_date(rest, out); break;
    case 'a': probe_heap(rest, out); break;
    case 'm': probe_libc(rest, out); break;
    default: abort();
    }
}

int main(void)
{
    uint32_t len;
    while (fread(&len, 4, 1, stdin) == 1) {
        berm_out out;
        /* Exactly as large as the request, so that a sanitizer sees every byte read past its end. */
        char *request = (char *)malloc(len ? len : 1);
        if (!request || fread(request, 1, len, stdin) != len)
            return 1;
        berm_out_init(&out, (size_t)256 << 20);
        answer(berm_str_make(request, len), &out);
        len = (uint32_t)out.len;
        fwrite(&len, 4, 1, stdout);
        if (out.len)
            fwrite(out.ptr, 1, out.len, stdout);
        fflush(stdout);
        free(request);
        native_heap_clear();
    }
    return 0;
}
