/* Files and commands: read, write, edit and bash. glob and grep are in search.c.
 *
 * Everything happens below the root that the host bound; without one the capabilities are absent and each
 * of these tools is a trap.
 */
#include <berm/berm.h>
#include <string.h>

#define LINE_MOST 2000    /* bytes of a line that `read` shows */
#define PLACES_SHOWN 10   /* lines that `edit` names when a text is not unique */

BERM_USAGE(
    "Work on the files of one directory, the root, and run commands in it. Paths are relative to the root; "
    "nothing outside it can be reached by the file tools. `read` before `edit`; `edit` replaces a text that "
    "occurs exactly once, so include enough of its surroundings. Find files by name with `glob` and by "
    "content with `grep` rather than with `bash`.");

BERM_REQUESTS("berm.fs.read", "berm.fs.write", "berm.fs.list", "berm.fs.stat", "berm.exec.run");

static berm_str read_text(berm_str path)
{
    berm_str text = berm_fs_read(path);
    size_t good = berm_utf8_valid_prefix(text);
    if (good < text.len)
        berm_fail("`%.*s` is not UTF-8 text: byte %zu is 0x%02x", BERM_ARG(path), good,
                  (unsigned char)text.ptr[good]);
    return text;
}

static size_t count_lines(berm_str text)
{
    size_t lines = 0;
    berm_str line;
    while (berm_next_line(&text, &line))
        lines++;
    return lines;
}

/* ---- read ---- */

static void put_numbered(berm_out *out, size_t number, berm_str line)
{
    size_t shown = line.len > LINE_MOST ? berm_utf8_valid_prefix(berm_slice(line, 0, LINE_MOST)) : line.len;
    berm_printf(out, "%6zu\t", number);
    berm_put(out, berm_slice(line, 0, shown));
    if (shown < line.len)
        berm_printf(out, " [%zu more bytes on this line]", line.len - shown);
    berm_putc(out, '\n');
}

BERM_TOOL(read, "Read a text file; each line comes with its number and a tab before it.",
    required(string, path, "the file, relative to the root"),
    optional(range(1, 1000000000), offset, "the first line to show, from 1", 1),
    optional(range(1, 1000000000), limit, "how many lines to show", 2000))
{
    berm_str text = read_text(args->path);
    uint64_t first = (uint64_t)args->offset;
    uint64_t stop = first + (uint64_t)args->limit;
    size_t number = 0;
    berm_str rest = text;
    berm_str line;
    if (text.len == 0)
        berm_puts(out, "[the file is empty]\n");
    while (berm_next_line(&rest, &line) && ++number < stop)
        if (number >= first)
            put_numbered(out, number, line);
    if (number >= stop)
        berm_printf(out, "[%zu more lines; go on with offset %zu]\n", count_lines(rest) + 1, number);
    else if (number < first && text.len)
        berm_fail("`%.*s` has %zu lines, so none from %zu on", BERM_ARG(args->path), number, (size_t)first);
}

/* ---- write ---- */

BERM_TOOL(write, "Write a file: creates it, or replaces all of it.",
    required(string, path, "the file, relative to the root"),
    required(string, content, "what the file shall hold"))
{
    berm_fs_write(args->path, args->content);
    berm_printf(out, "wrote %zu bytes to %.*s\n", args->content.len, BERM_ARG(args->path));
}

/* ---- edit ---- */

static size_t line_of(berm_str text, size_t at)
{
    size_t line = 1;
    for (size_t i = 0; i < at; i++)
        line += text.ptr[i] == '\n';
    return line;
}

/* Fails with the lines on which the text stands, overlapping places included. */
BERM_NORETURN static void fail_not_unique(berm_str path, berm_str text, berm_str old)
{
    char memory[PLACES_SHOWN * 24];
    berm_out lines;
    size_t count = 0;
    berm_out_fixed(&lines, memory, sizeof memory);
    for (size_t at = 0; (at = berm_find(text, old, at)) != BERM_NOT_FOUND; at++)
        if (count++ < PLACES_SHOWN)
            berm_printf(&lines, "%s%zu", count > 1 ? ", " : "", line_of(text, at));
    if (count == 0)
        berm_fail("`old` does not occur in `%.*s`: it must match exactly, white space included", BERM_ARG(path));
    berm_fail("`old` occurs %zu times in `%.*s` (lines %.*s%s): include more of its surroundings", count,
              BERM_ARG(path), BERM_ARG(berm_out_str(&lines)), count > PLACES_SHOWN ? ", …" : "");
}

BERM_TOOL(edit, "Replace a text in a file. It must occur there exactly once.",
    required(string, path, "the file, relative to the root"),
    required(string, old, "the text to replace, exactly as it stands in the file"),
    required(string, new_, "what to put in its place"))
{
    berm_str text = berm_fs_read(args->path);
    berm_str old = args->old;
    if (old.len == 0)
        berm_fail("`old` is empty; `write` replaces a whole file");
    if (berm_equal(old, args->new_))
        berm_fail("`old` and `new` are the same");
    size_t at = berm_find(text, old, 0);
    if (at == BERM_NOT_FOUND || berm_find(text, old, at + 1) != BERM_NOT_FOUND)
        fail_not_unique(args->path, text, old);

    berm_out changed;
    berm_out_init(&changed, text.len + args->new_.len);
    berm_put(&changed, berm_slice(text, 0, at));
    berm_put(&changed, args->new_);
    berm_put(&changed, berm_slice(text, at + old.len, text.len));
    if (berm_out_overflowed(&changed))
        berm_fail("out of memory: the file would have %zu bytes", text.len - old.len + args->new_.len);
    berm_fs_write(args->path, berm_out_str(&changed));
    berm_printf(out, "replaced in %.*s, line %zu\n", BERM_ARG(args->path), line_of(text, at));
}

/* ---- bash ---- */

static void put_stream(berm_out *out, const char *name, berm_str text, int64_t dropped)
{
    if (text.len == 0)
        return;
    if (name)
        berm_printf(out, "[%s]\n", name);
    berm_put_lossy(out, text);
    if (text.ptr[text.len - 1] != '\n')
        berm_putc(out, '\n');
    if (dropped)
        berm_printf(out, "[%lld bytes were dropped in the middle]\n", (long long)dropped);
}

BERM_TOOL(bash, "Run a shell command and show what it printed. It has 30 seconds.",
    required(string, command, "the command line, for bash -c"),
    optional(string, cwd, "where to run it, relative to the root", ""))
{
    berm_run run = berm_exec(args->command, args->cwd);
    berm_out_limit(out, (size_t)3 << 20);
    put_stream(out, NULL, run.out, run.out_dropped);
    put_stream(out, "stderr", run.err, run.err_dropped);
    if (run.exit_code < 0)
        berm_puts(out, "[ended by a signal]\n");
    else if (run.exit_code > 0)
        berm_printf(out, "[exit code %lld]\n", (long long)run.exit_code);
    else if (out->len == 0)
        berm_puts(out, "[no output]\n");
}
