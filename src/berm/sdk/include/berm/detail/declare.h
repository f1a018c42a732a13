/* The macros behind tool.h. Nothing here is for authors.
 *
 * A declaration becomes a string literal in the section `.berm.decl` of the object file: fields split
 * by BERM_FS, sub-fields by BERM_SS, the arguments of a type by BERM_TS. `berm build` reads it there and composes the manifest; nothing
 * refers to it, so that the linker drops it from the image.
 */
#ifndef BERM_DETAIL_DECLARE_H
#define BERM_DETAIL_DECLARE_H

#include <berm/json.h>
#include <berm/out.h>

BERM_BEGIN

enum berm_kind {
    BERM_KIND_STRING,
    BERM_KIND_CHOICE,
    BERM_KIND_INTEGER,
    BERM_KIND_NUMBER,
    BERM_KIND_BOOLEAN,
    BERM_KIND_STRINGS,
    BERM_KIND_ARRAY,
    BERM_KIND_OBJECT,
    BERM_KIND_JSON,
};

struct berm_type {
    enum berm_kind kind;
    int64_t low, high;   /* bounds of an integer */
    const char *choices; /* "a|b" */
};

struct berm_field {
    const char *name;
    struct berm_type type;
    bool required;
    size_t offset;     /* of the value in the argument struct */
    size_t has_offset; /* of has_NAME; an optional field's only */
};

/* Parse the arguments into memory by fields, run the body, hand back what it wrote. */
berm_result berm_run_tool(const struct berm_field *fields, size_t count, void *memory,
                          void (*body)(void *memory, berm_out *out));

/* Run a body on the arguments as they came. */
berm_result berm_run_raw(void (*body)(berm_str args, berm_out *out));

#ifndef BERM_GUEST
void berm_native_export(const char *name, berm_result (*entry)(void));
#endif

BERM_END

#define BERM_FS "\x1f"
#define BERM_SS "\x1d"
#define BERM_TS "\x1c"
#define BERM_TEXT_(...) #__VA_ARGS__
#define BERM_TEXT(...) BERM_TEXT_(__VA_ARGS__)
#define BERM_JOIN_(a, b) a##b
#define BERM_JOIN(a, b) BERM_JOIN_(a, b)

#ifdef __cplusplus
#define BERM_LINKAGE extern "C"
#define BERM_ASSERT(condition, text) static_assert(condition, text)
#else
#define BERM_LINKAGE
#define BERM_ASSERT(condition, text) _Static_assert(condition, text)
#endif

/* One record: its number in the file, the author's line, then what is declared. */
#ifdef BERM_GUEST
#define BERM_RECORD(text) BERM_RECORD_(text, __COUNTER__)
#define BERM_RECORD_(text, number) BERM_RECORD__(text, number)
#define BERM_RECORD__(text, number)                                                        \
    static const char berm_record_##number[] __attribute__((section(".berm.decl"), used)) = \
        "\x1e" #number BERM_FS BERM_TEXT(__LINE__) BERM_FS __FILE__ BERM_FS text
#define BERM_EXPORT(symbol)                                                            \
    BERM_LINKAGE __attribute__((used, visibility("default"))) berm_result symbol(void); \
    BERM_LINKAGE berm_result symbol(void)
#else
#define BERM_RECORD(text) BERM_ASSERT(sizeof(text) > 0, "a declaration")
#define BERM_EXPORT(symbol)                                                            \
    BERM_LINKAGE berm_result symbol(void);                                             \
    __attribute__((constructor)) static void BERM_JOIN(berm_export_, symbol)(void)      \
    {                                                                                  \
        berm_native_export(#symbol, symbol);                                           \
    }                                                                                  \
    BERM_LINKAGE berm_result symbol(void)
#endif

#define BERM_RAW_BODY(symbol, body, name)                                  \
    static void body(berm_str name, berm_out *out);                        \
    BERM_EXPORT(symbol)                                                    \
    {                                                                      \
        return berm_run_raw(body);                                         \
    }                                                                      \
    static void body(berm_str name BERM_UNUSED, berm_out *out BERM_UNUSED)

/* An entry whose argument is JSON of the host's: TYPE_read makes a value of it. */
#define BERM_ENTRY_BODY(symbol, type, name)                              \
    static void berm_body_##symbol(const type *name, berm_out *out);     \
    static void berm_start_##symbol(berm_str berm_json_text, berm_out *out) \
    {                                                                    \
        const type name = type##_read(berm_json_text);                   \
        berm_body_##symbol(&name, out);                                  \
    }                                                                    \
    BERM_EXPORT(symbol)                                                  \
    {                                                                    \
        return berm_run_raw(berm_start_##symbol);                        \
    }                                                                    \
    static void berm_body_##symbol(const type *name BERM_UNUSED, berm_out *out BERM_UNUSED)

/* BERM_EACH(macro, a, b, …) is macro(a) macro(b) …, for up to 80 items. */
#define BERM_PARENTHESES ()
#define BERM_EXPAND(...) BERM_EXPAND3(BERM_EXPAND3(BERM_EXPAND3(__VA_ARGS__)))
#define BERM_EXPAND3(...) BERM_EXPAND2(BERM_EXPAND2(BERM_EXPAND2(__VA_ARGS__)))
#define BERM_EXPAND2(...) BERM_EXPAND1(BERM_EXPAND1(BERM_EXPAND1(__VA_ARGS__)))
#define BERM_EXPAND1(...) __VA_ARGS__
#define BERM_EACH(macro, ...) __VA_OPT__(BERM_EXPAND(BERM_EACH_STEP(macro, __VA_ARGS__)))
#define BERM_EACH_STEP(macro, item, ...) \
    macro(item) __VA_OPT__(BERM_EACH_AGAIN BERM_PARENTHESES(macro, __VA_ARGS__))
#define BERM_EACH_AGAIN() BERM_EACH_STEP

#define BERM_REQUEST_TEXT(name) BERM_FS name

/* `required(…)` and `optional(…)` are never macros: these paste a prefix before them. */
#define BERM_PARAMETER_TEXT(item) BERM_PARAMETER_TEXT_##item
#define BERM_PARAMETER_TEXT_required(type, name, description) \
    BERM_FS "required" BERM_SS #name BERM_SS description BERM_SS BERM_SCHEMA_##type
#define BERM_PARAMETER_TEXT_optional(type, name, description, ...)          \
    BERM_FS "optional" BERM_SS #name BERM_SS description BERM_SS BERM_SCHEMA_##type \
        __VA_OPT__(BERM_SS BERM_DEFAULT_TEXT_##type(__VA_ARGS__))

#define BERM_MEMBER(item) BERM_MEMBER_##item
#define BERM_MEMBER_required(type, name, description) BERM_C_##type name;
#define BERM_MEMBER_optional(type, name, description, ...) \
    BERM_C_##type name;                                    \
    bool has_##name;

#define BERM_FIELD(item) BERM_FIELD_##item
#define BERM_FIELD_required(type, name, description) \
    {#name, BERM_TYPE_##type, true, offsetof(berm_args, name), 0},
#define BERM_FIELD_optional(type, name, description, ...) \
    {#name, BERM_TYPE_##type, false, offsetof(berm_args, name), offsetof(berm_args, has_##name)},

#define BERM_DEFAULT(item) BERM_DEFAULT_##item
#define BERM_DEFAULT_required(type, name, description)
#define BERM_DEFAULT_optional(type, name, description, ...) \
    __VA_OPT__(BERM_SET_##type(args->name, __VA_ARGS__);)

/* Per type: the C type, the run-time description, the text for the manifest, the default. */
#define BERM_C_string berm_str
#define BERM_TYPE_string {BERM_KIND_STRING, 0, 0, 0}
#define BERM_SCHEMA_string "string"
#define BERM_DEFAULT_TEXT_string(value) value
#define BERM_SET_string BERM_SET_TEXT

#define BERM_C_choice(choices) berm_str
#define BERM_TYPE_choice(choices) {BERM_KIND_CHOICE, 0, 0, choices}
#define BERM_SCHEMA_choice(choices) "choice" BERM_TS choices
#define BERM_DEFAULT_TEXT_choice(choices) BERM_LITERAL
#define BERM_SET_choice(choices) BERM_SET_TEXT

#define BERM_C_integer int64_t
#define BERM_TYPE_integer {BERM_KIND_INTEGER, INT64_MIN, INT64_MAX, 0}
#define BERM_SCHEMA_integer "integer"
#define BERM_DEFAULT_TEXT_integer(value) BERM_TEXT(value)
#define BERM_SET_integer BERM_SET_PLAIN

#define BERM_C_range(low, high) int64_t
#define BERM_TYPE_range(low, high) {BERM_KIND_INTEGER, low, high, 0}
#define BERM_SCHEMA_range(low, high) "range" BERM_TS BERM_TEXT(low) "|" BERM_TEXT(high)
#define BERM_DEFAULT_TEXT_range(low, high) BERM_TEXT
#define BERM_SET_range(low, high) BERM_SET_PLAIN

#define BERM_C_number double
#define BERM_TYPE_number {BERM_KIND_NUMBER, 0, 0, 0}
#define BERM_SCHEMA_number "number"
#define BERM_DEFAULT_TEXT_number(value) BERM_TEXT(value)
#define BERM_SET_number BERM_SET_PLAIN

#define BERM_C_boolean bool
#define BERM_TYPE_boolean {BERM_KIND_BOOLEAN, 0, 0, 0}
#define BERM_SCHEMA_boolean "boolean"
#define BERM_DEFAULT_TEXT_boolean(value) BERM_TEXT(value)
#define BERM_SET_boolean BERM_SET_PLAIN

#define BERM_C_strings berm_strings
#define BERM_TYPE_strings {BERM_KIND_STRINGS, 0, 0, 0}
#define BERM_SCHEMA_strings "strings"

#define BERM_C_array berm_json
#define BERM_TYPE_array {BERM_KIND_ARRAY, 0, 0, 0}
#define BERM_SCHEMA_array "array"

#define BERM_C_object berm_json
#define BERM_TYPE_object {BERM_KIND_OBJECT, 0, 0, 0}
#define BERM_SCHEMA_object "object"

#define BERM_C_json berm_json
#define BERM_TYPE_json {BERM_KIND_JSON, 0, 0, 0}
#define BERM_SCHEMA_json "json"

#define BERM_LITERAL(value) value
#define BERM_SET_TEXT(field, value) field = berm_str_make(value, sizeof(value) - 1)
#define BERM_SET_PLAIN(field, value) field = (value)

/* An array, an object or any JSON has no default: test has_NAME. */
#define BERM_NO_DEFAULT(value) "a parameter of this type takes no default"
#define BERM_DEFAULT_TEXT_strings(value) BERM_NO_DEFAULT(value)
#define BERM_DEFAULT_TEXT_array(value) BERM_NO_DEFAULT(value)
#define BERM_DEFAULT_TEXT_object(value) BERM_NO_DEFAULT(value)
#define BERM_DEFAULT_TEXT_json(value) BERM_NO_DEFAULT(value)
#define BERM_SET_NOTHING(field, value) \
    BERM_ASSERT(0, "a parameter of this type takes no default; test args->has_NAME instead")
#define BERM_SET_strings BERM_SET_NOTHING
#define BERM_SET_array BERM_SET_NOTHING
#define BERM_SET_object BERM_SET_NOTHING
#define BERM_SET_json BERM_SET_NOTHING

#endif
