/* What the typed wrappers share: reading replies whose layout is known. */
#include "wrap.h"

#include <berm/alloc.h>
#include <berm/out.h>

berm_str wrap_field(berm_str *rest)
{
    berm_str field;
    if (!berm_next_field(rest, &field))
        berm_panic("the reply of a capability has fewer fields than its layout");
    return field;
}

int64_t wrap_integer(berm_str *rest)
{
    int64_t value;
    berm_str text = wrap_field(rest);
    if (!berm_parse_int(text, &value))
        berm_panic("expected an integer in a reply, got `%.*s`", BERM_ARG(berm_slice(text, 0, 60)));
    return value;
}

berm_str wrap_decimal(int64_t value, char memory[24])
{
    berm_out out;
    berm_out_fixed(&out, memory, 24);
    berm_printf(&out, "%lld", (long long)value);
    return berm_out_str(&out);
}

berm_json wrap_json(berm_str text)
{
    berm_json value;
    berm_json_error error;
    if (!berm_json_parse(text, &value, &error))
        berm_panic("the reply of a capability is not JSON: %s at byte %zu", error.reason, error.offset);
    return value;
}

berm_json wrap_entry(const char *entry, berm_str text)
{
    berm_json object;
    berm_json_error error;
    if (!berm_json_parse(text, &object, &error))
        berm_fail("the argument of `%s` is not JSON: %s - at byte %zu", entry, error.reason, error.offset);
    if (object.kind != BERM_JSON_OBJECT)
        berm_fail("expected the argument of `%s` as object, got %s", entry, berm_json_kind_name(object.kind));
    return object;
}

berm_str wrap_text(berm_json object, const char *key)
{
    berm_str text;
    if (!berm_json_string(berm_json_get(object, key), &text))
        text = BERM_STR("");
    return berm_str_make(berm_str_dup(text), text.len);
}

int64_t wrap_number(berm_json object, const char *key)
{
    int64_t value = 0;
    berm_json_int(berm_json_get(object, key), &value);
    return value;
}
