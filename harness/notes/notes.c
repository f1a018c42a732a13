/* Notes: texts under names, which last.
 *
 * A note is one value in storage under the key n/NAME, as it was written and nothing else.
 */
#include <berm/berm.h>
#include <string.h>

#define NAME_MOST 200
#define TEXT_MOST 65536 /* what a model can read at once */
#define LINE_MOST 200   /* bytes of a line that find_notes shows */
#define FOUND_MOST 100  /* lines that it shows */
#define FIND_MOST 200   /* bytes of a text that it looks for */

BERM_USAGE(
    "Notes that outlast the conversation, texts under names such as `project/plan`. `save_note` writes one, "
    "`append_note` adds a line to one, `read_note` reads one, `list_notes` and `find_notes` find them, "
    "`delete_note` ends one.");

BERM_REQUESTS("berm.get", "berm.set", "berm.kv.delete", "berm.kv.keys");

static berm_str key_of(berm_str name)
{
    berm_out out;
    name = berm_trim(name);
    if (name.len == 0 || name.len > NAME_MOST)
        berm_fail("`name` has 1 to %d bytes, got %zu", NAME_MOST, name.len);
    for (size_t i = 0; i < name.len; i++)
        if ((unsigned char)name.ptr[i] < 0x20 || name.ptr[i] == 0x7f)
            berm_fail("`name` has a control character, byte 0x%02x", (unsigned char)name.ptr[i]);
    berm_out_init(&out, NAME_MOST + 2);
    berm_printf(&out, "n/%.*s", BERM_ARG(name));
    return berm_out_str(&out);
}

static berm_str name_of(berm_str key)
{
    return berm_slice(key, 2, key.len);
}

static void save(berm_str key, berm_str text)
{
    if (text.len > TEXT_MOST)
        berm_fail("a note has at most %d bytes, this one would have %zu: begin another", TEXT_MOST, text.len);
    berm_kv_set(key, text);
}

BERM_NORETURN static void fail_missing(berm_str key)
{
    berm_fail("no note `%.*s`; list_notes shows them", BERM_ARG(name_of(key)));
}

BERM_TOOL(save_note, "Write a note: creates it, or replaces all of it.",
    required(string, name, "its name; `/` may part it"),
    required(string, text, "what to keep"))
{
    berm_str before;
    berm_str key = key_of(args->name);
    bool replaced = berm_kv_get(key, &before);
    save(key, args->text);
    berm_printf(out, "%s %.*s, %zu bytes\n", replaced ? "replaced" : "saved", BERM_ARG(name_of(key)),
                args->text.len);
}

BERM_TOOL(append_note, "Add to the end of a note, on a line of its own; creates the note if there is none.",
    required(string, name, "its name"),
    required(string, text, "what to add"))
{
    berm_out all;
    berm_str text;
    berm_str key = key_of(args->name);
    berm_out_init(&all, (size_t)4 << 20);
    if (berm_kv_get(key, &text) && text.len) {
        berm_put(&all, text);
        if (text.ptr[text.len - 1] != '\n')
            berm_putc(&all, '\n');
    }
    berm_put(&all, args->text);
    save(key, berm_out_str(&all));
    berm_printf(out, "%.*s has %zu bytes now\n", BERM_ARG(name_of(key)), all.len);
}

BERM_TOOL(read_note, "Read a note.", required(string, name, "its name"))
{
    berm_str text;
    berm_str key = key_of(args->name);
    if (!berm_kv_get(key, &text))
        fail_missing(key);
    berm_put_lossy(out, text);
    if (text.len == 0)
        berm_puts(out, "[the note is empty]\n");
}

BERM_TOOL(delete_note, "Delete a note.", required(string, name, "its name"))
{
    berm_str key = key_of(args->name);
    if (!berm_kv_delete(key))
        fail_missing(key);
    berm_printf(out, "deleted %.*s\n", BERM_ARG(name_of(key)));
}

BERM_TOOL(list_notes, "Show the names of notes.",
    optional(string, prefix, "only names that begin with it", ""))
{
    berm_out prefix;
    if (args->prefix.len > NAME_MOST)
        berm_fail("`prefix` has at most %d bytes, got %zu", NAME_MOST, args->prefix.len);
    berm_out_init(&prefix, 1024);
    berm_printf(&prefix, "n/%.*s", BERM_ARG(args->prefix));
    berm_kv_keys keys = berm_kv_begin(berm_out_str(&prefix));
    while (berm_kv_next(&keys))
        berm_printf(out, "%.*s\n", BERM_ARG(name_of(keys.key)));
    if (out->len == 0)
        berm_puts(out, args->prefix.len ? "no notes whose names begin so\n" : "no notes\n");
}

/* ---- finding ---- */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* Where the text stands in a line, ASCII case aside; or BERM_NOT_FOUND. */
static size_t find(berm_str line, berm_str text)
{
    for (size_t at = 0; at + text.len <= line.len; at++) {
        size_t i = 0;
        while (i < text.len && lower(line.ptr[at + i]) == lower(text.ptr[i]))
            i++;
        if (i == text.len)
            return at;
    }
    return BERM_NOT_FOUND;
}

static bool continues_character(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* The line, or the part of it around the place. */
static void put_around(berm_out *out, berm_str line, size_t at)
{
    size_t start = at > LINE_MOST / 2 ? at - LINE_MOST / 2 : 0;
    while (start > 0 && start < line.len && continues_character(line.ptr[start]))
        start--;
    size_t stop = start + LINE_MOST < line.len ? start + LINE_MOST : line.len;
    while (stop < line.len && stop > start && continues_character(line.ptr[stop]))
        stop--;
    berm_puts(out, start ? "…" : "");
    berm_put_lossy(out, berm_slice(line, start, stop));
    berm_puts(out, stop < line.len ? "…\n" : "\n");
}

BERM_TOOL(find_notes, "Find a text in all notes, whatever the case of its letters: name, line number, line.",
    required(string, text, "what to find, within one line"))
{
    size_t found = 0;
    berm_kv_keys keys = berm_kv_begin(BERM_STR("n/"));
    if (args->text.len == 0)
        berm_fail("`text` is empty; list_notes shows all notes");
    if (args->text.len > FIND_MOST)
        berm_fail("`text` has at most %d bytes, got %zu", FIND_MOST, args->text.len);
    while (berm_kv_next(&keys)) {
        berm_str text, line;
        if (!berm_kv_get(keys.key, &text))
            continue; /* deleted meanwhile */
        for (size_t number = 1; berm_next_line(&text, &line); number++) {
            size_t at = find(line, args->text);
            if (at == BERM_NOT_FOUND || ++found > FOUND_MOST)
                continue;
            berm_printf(out, "%.*s:%zu: ", BERM_ARG(name_of(keys.key)), number);
            put_around(out, line, at);
        }
    }
    if (found == 0)
        berm_puts(out, "not found\n");
    else if (found > FOUND_MOST)
        berm_printf(out, "[%zu more lines]\n", found - FOUND_MOST);
}
