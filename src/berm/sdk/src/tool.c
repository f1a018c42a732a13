/* One call of an exported function: constructors, arguments, body, result. */
#include <berm/alloc.h>
#include <berm/tool.h>
#include <setjmp.h>
#include <string.h>

#define FAIL_MESSAGE 8192
#define LOG_LINE 1024
#define OVERFLOW_NOTE 96

static jmp_buf leave;    /* where berm_fail goes */
static bool can_leave;   /* a call is under way */
static bool failed;      /* it has called berm_fail */

typedef struct catcher {
    jmp_buf leave;
    struct catcher *outer;
} catcher;

static catcher *catching; /* the innermost berm_catch; NULL outside of one */
static char caught[FAIL_MESSAGE + 1]; /* what was caught last: no heap, which may be what is missing */
static size_t caught_len;

void berm_log(const char *format, ...)
{
    char memory[LOG_LINE];
    berm_out line;
    va_list list;
    berm_out_fixed(&line, memory, sizeof memory);
    va_start(list, format);
    berm_vprintf(&line, format, list);
    va_end(list);
    berm_host_log(line.ptr, line.len);
}

void berm_panic(const char *format, ...)
{
    char memory[LOG_LINE];
    berm_out line;
    va_list list;
    berm_out_fixed(&line, memory, sizeof memory);
    va_start(list, format);
    berm_vprintf(&line, format, list);
    va_end(list);
    berm_host_log(line.ptr, line.len);
#ifdef BERM_GUEST
    __asm__ volatile("ebreak");
#endif
    __builtin_abort();
}

void berm_fail(const char *format, ...)
{
    char memory[FAIL_MESSAGE];
    berm_out message;
    va_list list;
    berm_out_fixed(&message, memory, sizeof memory);
    va_start(list, format);
    berm_vprintf(&message, format, list);
    va_end(list);
    if (!can_leave)
        berm_panic("failed outside a call: %.*s", BERM_ARG(berm_out_str(&message)));
    size_t len = berm_utf8_valid_prefix(berm_out_str(&message));
    if (catching) {
        memcpy(caught, memory, len);
        caught[len] = 0;
        caught_len = len;
        longjmp(catching->leave, 1);
    }
    berm_host_fail(message.ptr, len);
    longjmp(leave, 1);
}

bool berm_catch(void (*function)(void *context), void *context, berm_str *message)
{
    catcher here;
    here.outer = catching;
    catching = &here;
    bool failed_inside = setjmp(here.leave) != 0;
    if (!failed_inside)
        function(context);
    catching = here.outer;
    if (failed_inside)
        *message = berm_str_make(caught, caught_len);
    return failed_inside;
}

/* ---- arguments ---- */

static berm_str read_arguments(void)
{
    size_t len = berm_host_args_len();
    char *text = (char *)berm_alloc(len + 1);
    berm_host_args_read(text, len);
    text[len] = 0;
    return berm_str_make(text, len);
}

/* The name as the model knows it: without one underscore at the end. */
static berm_str shown_name(const struct berm_field *field)
{
    berm_str name = berm_str_of(field->name);
    return name.len > 1 && name.ptr[name.len - 1] == '_' ? berm_slice(name, 0, name.len - 1) : name;
}

static void check_range(const struct berm_field *field, int64_t value)
{
    berm_str name = shown_name(field);
    if (value < field->type.low)
        berm_fail("expected at least %lld, got %lld - at `%.*s`", (long long)field->type.low, (long long)value,
                  BERM_ARG(name));
    if (value > field->type.high)
        berm_fail("expected at most %lld, got %lld - at `%.*s`", (long long)field->type.high, (long long)value,
                  BERM_ARG(name));
}

static void check_choice(const struct berm_field *field, berm_str value)
{
    char memory[FAIL_MESSAGE / 2];
    berm_out listed;
    berm_str rest = berm_str_of(field->type.choices);
    berm_str one;
    bool more = true;
    berm_out_fixed(&listed, memory, sizeof memory);
    while (more) {
        more = berm_cut(rest, BERM_STR("|"), &one, &rest);
        if (berm_equal(one, value))
            return;
        berm_printf(&listed, "%s`%.*s`", listed.len ? more ? ", " : " or " : "", BERM_ARG(one));
    }
    berm_str name = shown_name(field);
    berm_fail("expected %.*s, got `%.*s` - at `%.*s`", BERM_ARG(berm_out_str(&listed)),
              BERM_ARG(berm_slice(value, 0, 200)), BERM_ARG(name));
}

BERM_NORETURN static void wrong_kind(const struct berm_field *field, const char *wanted, berm_json got)
{
    berm_str name = shown_name(field);
    if (got.kind == BERM_JSON_NUMBER)
        berm_fail("expected %s, got %.*s - at `%.*s`", wanted, BERM_ARG(berm_slice(got.text, 0, 60)),
                  BERM_ARG(name));
    berm_fail("expected %s, got %s - at `%.*s`", wanted, berm_json_kind_name(got.kind), BERM_ARG(name));
}

/* A copy that a NUL follows. */
static bool read_text(berm_json value, berm_str *text)
{
    if (!berm_json_string(value, text))
        return false;
    *text = berm_str_make(berm_str_dup(*text), text->len);
    return true;
}

static void read_strings(const struct berm_field *field, berm_json value, berm_strings *strings)
{
    if (value.kind != BERM_JSON_ARRAY)
        wrong_kind(field, "array of strings", value);
    strings->items = BERM_NEW_ARRAY(berm_str, berm_json_count(value));
    berm_json_each each = berm_json_begin(value);
    while (berm_json_next(&each))
        if (!read_text(each.value, &strings->items[strings->len++]))
            wrong_kind(field, "array of strings", each.value);
}

static void read_json(const struct berm_field *field, berm_json value, berm_json_kind kind, berm_json *slot)
{
    if (kind != BERM_JSON_ABSENT && value.kind != kind)
        wrong_kind(field, berm_json_kind_name(kind), value);
    *slot = value;
}

static void read_value(const struct berm_field *field, berm_json value, void *slot)
{
    switch (field->type.kind) {
    case BERM_KIND_STRING:
    case BERM_KIND_CHOICE:
        if (!read_text(value, (berm_str *)slot))
            wrong_kind(field, "string", value);
        if (field->type.kind == BERM_KIND_CHOICE)
            check_choice(field, *(berm_str *)slot);
        break;
    case BERM_KIND_INTEGER:
        if (!berm_json_int(value, (int64_t *)slot))
            wrong_kind(field, "integer", value);
        check_range(field, *(int64_t *)slot);
        break;
    case BERM_KIND_NUMBER:
        if (!berm_json_double(value, (double *)slot))
            wrong_kind(field, "number", value);
        break;
    case BERM_KIND_BOOLEAN:
        if (!berm_json_bool(value, (bool *)slot))
            wrong_kind(field, "boolean", value);
        break;
    case BERM_KIND_STRINGS: read_strings(field, value, (berm_strings *)slot); break;
    case BERM_KIND_ARRAY: read_json(field, value, BERM_JSON_ARRAY, (berm_json *)slot); break;
    case BERM_KIND_OBJECT: read_json(field, value, BERM_JSON_OBJECT, (berm_json *)slot); break;
    case BERM_KIND_JSON: read_json(field, value, BERM_JSON_ABSENT, (berm_json *)slot); break;
    }
}

BERM_NORETURN static void unknown_parameter(const struct berm_field *fields, size_t count, berm_json key)
{
    char memory[FAIL_MESSAGE / 2];
    berm_out known;
    berm_str name = {0, 0};
    berm_json_string(key, &name);
    berm_out_fixed(&known, memory, sizeof memory);
    for (size_t i = 0; i < count; i++)
        berm_printf(&known, "%s`%.*s`", i ? ", " : "", BERM_ARG(shown_name(&fields[i])));
    berm_fail("unknown parameter `%.*s` (%s%.*s)", BERM_ARG(berm_slice(name, 0, 200)),
              count ? "known: " : "there are none", BERM_ARG(berm_out_str(&known)));
}

/* Every value that was given, before any is read: a key given twice counts as its last. */
static void find_values(const struct berm_field *fields, size_t count, berm_json object, berm_json *values)
{
    berm_json_each each = berm_json_begin(object);
    while (berm_json_next(&each)) {
        size_t i = 0;
        while (i < count && !berm_json_string_is(each.key, shown_name(&fields[i])))
            i++;
        if (i == count)
            unknown_parameter(fields, count, each.key);
        values[i] = each.value;
    }
}

static berm_json parse_object(berm_str text)
{
    berm_json object;
    berm_json_error error;
    if (berm_trim(text).len == 0)
        text = BERM_STR("{}");
    if (!berm_json_parse(text, &object, &error))
        berm_fail("the arguments are not JSON: %s - at byte %zu", error.reason, error.offset);
    if (object.kind != BERM_JSON_OBJECT)
        berm_fail("expected the arguments as object, got %s", berm_json_kind_name(object.kind));
    return object;
}

static void fill(const struct berm_field *fields, size_t count, char *memory)
{
    berm_json *values = count ? BERM_NEW_ARRAY(berm_json, count) : NULL;
    find_values(fields, count, parse_object(read_arguments()), values);
    for (size_t i = 0; i < count; i++) {
        const struct berm_field *field = &fields[i];
        bool given = values[i].kind != BERM_JSON_ABSENT;
        if (!field->required && values[i].kind == BERM_JSON_NULL)
            given = false;
        if (!given && field->required)
            berm_fail("missing parameter `%.*s`", BERM_ARG(shown_name(field)));
        if (!given)
            continue;
        read_value(field, values[i], memory + field->offset);
        if (!field->required)
            *(bool *)(memory + field->has_offset) = true;
    }
}

/* ---- the call ---- */

typedef struct call {
    const struct berm_field *fields;
    size_t count;
    void *memory;
    void (*body)(void *memory, berm_out *out);
    void (*raw_body)(berm_str args, berm_out *out);
    berm_out out;
} call;

#ifdef BERM_GUEST
extern void (*__init_array_start[])(void) __attribute__((visibility("hidden")));
extern void (*__init_array_end[])(void) __attribute__((visibility("hidden")));

/* Fresh memory each call, so the constructors of C++ run in each. */
static void run_constructors(void)
{
    for (void (**constructor)(void) = __init_array_start; constructor < __init_array_end; constructor++)
        (*constructor)();
}
#else
static void run_constructors(void)
{
}
#endif

/* Cut a broken last character off and say how much is missing. */
static void note_overflow(berm_out *out)
{
    size_t dropped = out->dropped;
    size_t room = out->limit > OVERFLOW_NOTE ? out->limit - OVERFLOW_NOTE : 0;
    if (out->len > room) {
        dropped += out->len - room;
        out->len = room;
    }
    size_t whole = berm_utf8_valid_prefix(berm_out_str(out));
    if (out->len - whole < 4) {
        dropped += out->len - whole;
        out->len = whole;
    }
    out->dropped = 0;
    berm_printf(out, "\n[output too long: %zu bytes were dropped here]", dropped);
}

static void run_body(call *c)
{
    run_constructors();
    berm_out_init(&c->out, BERM_OUTPUT_LIMIT);
    if (c->raw_body) {
        c->raw_body(read_arguments(), &c->out);
    } else {
        fill(c->fields, c->count, (char *)c->memory);
        c->body(c->memory, &c->out);
    }
    if (berm_out_overflowed(&c->out))
        note_overflow(&c->out);
}

static berm_result run(call *c)
{
    berm_result result = {"", 0};
    failed = false;
    catching = NULL;
    can_leave = true;
    if (setjmp(leave) == 0)
        run_body(c);
    else
        failed = true;
    can_leave = false;
    if (!failed && c->out.len) {
        result.ptr = c->out.ptr;
        result.len = c->out.len;
    }
    return result;
}

berm_result berm_run_tool(const struct berm_field *fields, size_t count, void *memory,
                          void (*body)(void *memory, berm_out *out))
{
    call c;
    memset(&c, 0, sizeof c);
    c.fields = fields;
    c.count = count;
    c.memory = memory;
    c.body = body;
    return run(&c);
}

berm_result berm_run_raw(void (*body)(berm_str args, berm_out *out))
{
    call c;
    memset(&c, 0, sizeof c);
    c.raw_body = body;
    return run(&c);
}
