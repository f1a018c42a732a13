/* Declaring tools: name, description and typed parameters in one place.
 *
 *     BERM_USAGE("Counts things.");
 *     BERM_REQUESTS("berm.fs.read");
 *
 *     BERM_TOOL(count, "Count the lines of a file.",
 *         required(string, path, "the file, relative to the root"),
 *         optional(integer, from, "first line to count", 1),
 *         optional(choice("lines|words"), unit, "what to count", "lines"))
 *     {
 *         berm_printf(out, "%lld\n", (long long)args->from);
 *     }
 *
 * From this one declaration come the manifest (`berm build` reads it out of the object file), the
 * exported function, the parser of the arguments with its error texts, and the struct behind `args`.
 * The body sees `args` and `out`; what it writes to `out` is the result, and berm_fail ends it.
 *
 * Parameters:  required(type, name, description)
 *              optional(type, name, description)            args->has_NAME says whether it came
 *              optional(type, name, description, default)   a literal; it is shown in the schema
 * A name may end in one underscore, which is not part of it (`new_` for C++).
 *
 *     type                 JSON                        field
 *     string               a string                    berm_str, NUL follows
 *     choice("a|b")        one of these strings        berm_str
 *     integer              a number without fraction   int64_t
 *     range(low, high)     an integer within           int64_t
 *     number               a number                    double
 *     boolean              true or false               bool
 *     strings              an array of strings         berm_strings
 *     array object json    array, object, anything     berm_json
 *
 * A JSON null for an optional parameter counts as absent; a parameter that was not declared is an error
 * that names the declared ones.
 */
#ifndef BERM_TOOL_H
#define BERM_TOOL_H

#include <berm/detail/declare.h>
#include <berm/event.h>
#include <berm/json.h>
#include <berm/out.h>
#include <berm/wake.h>

BERM_BEGIN

typedef struct berm_strings {
    berm_str *items;
    size_t len;
} berm_strings;

/* Run a function and catch its berm_fail: true, with the message, when it failed. The message stays until
 * the next one is caught; nothing is unwound, so what the function had half done stays half done. */
bool berm_catch(void (*function)(void *context), void *context, berm_str *message);

BERM_END

/* What the model reads about the whole harness. */
#define BERM_USAGE(text) BERM_RECORD("usage" BERM_FS text)

/* The capabilities this harness would like. A wish for people to read, never a grant. */
#define BERM_REQUESTS(...) BERM_RECORD("requests" BERM_EACH(BERM_REQUEST_TEXT, __VA_ARGS__))

/* A tool with declared parameters; see above. */
#define BERM_TOOL(tool, description, ...)                                                            \
    BERM_RECORD("tool" BERM_FS #tool BERM_FS description BERM_EACH(BERM_PARAMETER_TEXT, __VA_ARGS__)); \
    struct berm_args_##tool {                                                                        \
        BERM_EACH(BERM_MEMBER, __VA_ARGS__) char berm_end;                                           \
    };                                                                                               \
    static void berm_body_##tool(const struct berm_args_##tool *args, berm_out *out);                \
    static void berm_start_##tool(void *memory, berm_out *out)                                       \
    {                                                                                                \
        berm_body_##tool((const struct berm_args_##tool *)memory, out);                              \
    }                                                                                                \
    BERM_EXPORT(berm_tool_##tool)                                                                    \
    {                                                                                                \
        typedef struct berm_args_##tool berm_args;                                                   \
        static const struct berm_field fields[] = {                                                  \
            BERM_EACH(BERM_FIELD, __VA_ARGS__){0, BERM_TYPE_json, false, 0, 0}};                     \
        berm_args values;                                                                            \
        berm_args *args = &values;                                                                   \
        __builtin_memset(args, 0, sizeof values);                                                    \
        BERM_EACH(BERM_DEFAULT, __VA_ARGS__)                                                         \
        return berm_run_tool(fields, sizeof fields / sizeof *fields - 1, args, berm_start_##tool);   \
    }                                                                                                \
    static void berm_body_##tool(const struct berm_args_##tool *args BERM_UNUSED,                    \
                                 berm_out *out BERM_UNUSED)

/* A tool that takes its arguments as they came: `args` is a berm_str. The schema is a JSON literal. */
#define BERM_RAW_TOOL(tool, description, schema)                                \
    BERM_RECORD("raw" BERM_FS #tool BERM_FS description BERM_FS schema);        \
    BERM_RAW_BODY(berm_tool_##tool, berm_body_##tool, args)

/* The entry of a timed wake; the body sees `wake`, a `const berm_wake *`.
 *     BERM_ON_WAKE { berm_log("woke: %.*s", BERM_ARG(wake->payload)); } */
#define BERM_ON_WAKE                         \
    BERM_RECORD("export" BERM_FS "on_wake"); \
    BERM_ENTRY_BODY(on_wake, berm_wake, wake)

/* The entry of an event; the body sees `event`, a `const berm_event *`. */
#define BERM_ON_NOTIFY                         \
    BERM_RECORD("export" BERM_FS "on_notify"); \
    BERM_ENTRY_BODY(on_notify, berm_event, event)

#endif
