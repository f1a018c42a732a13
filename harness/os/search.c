/* glob and grep: finding files by name and by content. */
#include "glob.h"
#include "regex.h"
#include "walk.h"

#include <string.h>

#define RESULTS_MOST 1000
#define MATCHES_MOST 500
#define LINE_MOST 400            /* bytes of a matching line that are shown */
#define FILE_MOST (10 * 1048576) /* larger files are skipped */

static bool is_hidden(berm_str name)
{
    return name.len && name.ptr[0] == '.';
}

static berm_str last_part(berm_str path)
{
    size_t at = path.len;
    while (at && path.ptr[at - 1] != '/')
        at--;
    return berm_slice(path, at, path.len);
}

static void put_incomplete(berm_out *out, const walk *w)
{
    if (w->incomplete)
        berm_printf(out, "[stopped after %d entries or %d levels: name a narrower path]\n", WALK_MOST,
                    WALK_DEEPEST);
    if (w->unread)
        berm_printf(out, "[%zu directories could not be read]\n", w->unread);
}

/* ---- glob ---- */

typedef struct glob_walk {
    walk walk; /* first, so that a walk is a glob_walk */
    const glob_pattern *pattern;
    berm_str start;
    berm_out *out;
    size_t found;
} glob_walk;

static bool glob_visit(walk *w, berm_str path, const berm_file *file)
{
    glob_walk *g = (glob_walk *)w;
    if (!glob_matches(g->pattern, path))
        return true;
    if (g->found == RESULTS_MOST) {
        berm_printf(g->out, "[more than %d: use a narrower pattern]\n", RESULTS_MOST);
        return false;
    }
    g->found++;
    berm_put_lossy(g->out, join_path(g->start, path));
    berm_puts(g->out, berm_file_is_dir(file) ? "/\n" : "\n");
    return true;
}

static bool glob_enter(walk *w, berm_str path)
{
    return glob_may_match_below(((glob_walk *)w)->pattern, path);
}

BERM_TOOL(glob, "List the files and directories whose path matches a pattern: `*`, `?`, `[a-z]`, `{a,b}`, and "
                "`**` for any number of directories. Names that begin with a dot need one in the pattern.",
    required(string, pattern, "such as `src/**/*.c`, relative to `path`"),
    optional(string, path, "the directory to start in", "."))
{
    glob_walk g;
    memset(&g, 0, sizeof g);
    g.walk.visit = glob_visit;
    g.walk.enter = glob_enter;
    g.pattern = glob_compile(args->pattern);
    g.start = args->path;
    g.out = out;
    walk_tree(&g.walk, args->path);
    if (!g.found)
        berm_puts(out, "[nothing matches]\n");
    put_incomplete(out, &g.walk);
}

/* ---- grep ---- */

typedef struct grep_walk {
    walk walk; /* first, so that a walk is a grep_walk */
    regex *re;
    const glob_pattern *only; /* NULL: all files */
    bool by_name;             /* the glob has no slash: it is about names */
    berm_str start;
    berm_out *out;
    size_t matches, files, skipped;
} grep_walk;

static void put_match(berm_out *out, berm_str path, size_t number, berm_str line)
{
    size_t shown = line.len > LINE_MOST ? berm_utf8_valid_prefix(berm_slice(line, 0, LINE_MOST)) : line.len;
    berm_put_lossy(out, path);
    berm_printf(out, ":%zu: ", number);
    berm_put(out, berm_slice(line, 0, shown));
    berm_puts(out, shown < line.len ? " …\n" : "\n");
}

/* False when there are enough matches. */
static bool grep_text(grep_walk *g, berm_str path, berm_str text)
{
    size_t before = g->matches;
    size_t number = 0;
    berm_str line;
    while (berm_next_line(&text, &line)) {
        number++;
        if (!regex_matches(g->re, line))
            continue;
        if (g->matches == MATCHES_MOST)
            return false;
        put_match(g->out, path, number, line);
        g->matches++;
    }
    g->files += g->matches > before;
    return true;
}

static bool is_text(berm_str content)
{
    return !memchr(content.ptr, 0, content.len) && berm_utf8_valid(content);
}

static bool grep_file(grep_walk *g, berm_str path, int64_t size)
{
    berm_reply reply;
    if (size > FILE_MOST) {
        g->skipped++;
        return true;
    }
    reply = berm_fs_try_read(path);
    if (reply.status != BERM_OK || !is_text(reply.data)) {
        g->skipped++;
        berm_free((void *)reply.data.ptr);
        return true;
    }
    bool more = grep_text(g, path, reply.data);
    berm_free((void *)reply.data.ptr);
    if (!more)
        berm_printf(g->out, "[more than %d matches: use a narrower pattern or path]\n", MATCHES_MOST);
    return more;
}

static bool grep_visit(walk *w, berm_str path, const berm_file *file)
{
    grep_walk *g = (grep_walk *)w;
    if (!berm_is(file->kind, "file") || is_hidden(file->name))
        return true;
    if (g->only && !glob_matches(g->only, g->by_name ? file->name : path))
        return true;
    return grep_file(g, join_path(g->start, path), file->size);
}

static bool grep_enter(walk *w, berm_str path)
{
    (void)w;
    return !is_hidden(last_part(path));
}

BERM_TOOL(grep, "Show the lines that match a regular expression, as `path:line: text`. Hidden, binary and very "
                "large files are skipped. No back-references and no look-around.",
    required(string, pattern, "such as `fn \\w+\\(`; `(?i)` in front ignores case"),
    optional(string, path, "a file, or the directory to search", "."),
    optional(string, glob, "only files whose name (with a slash: whose path) matches, such as `*.{c,h}`"))
{
    grep_walk g;
    memset(&g, 0, sizeof g);
    g.walk.visit = grep_visit;
    g.walk.enter = grep_enter;
    g.re = regex_compile(args->pattern, false);
    g.only = args->has_glob ? glob_compile(args->glob) : NULL;
    g.by_name = g.only && glob_is_name_only(g.only);
    g.start = args->path;
    g.out = out;
    berm_file start = berm_fs_stat(args->path);
    if (berm_file_is_dir(&start))
        walk_tree(&g.walk, args->path);
    else
        grep_file(&g, args->path, start.size);
    if (!g.matches)
        berm_puts(out, "[no line matches]\n");
    if (g.skipped)
        berm_printf(out, "[%zu files skipped: binary, too large or unreadable]\n", g.skipped);
    put_incomplete(out, &g.walk);
}
