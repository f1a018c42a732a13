/* Walking a tree of files: one listing per directory, depth first. */
#include "walk.h"

#include <stdlib.h>

/* Without "./" in front and slashes behind; the root itself stays "/". */
static berm_str tidy(berm_str path)
{
    while (berm_starts_with(path, BERM_STR("./")))
        path = berm_slice(path, 2, path.len);
    while (path.len > 1 && berm_ends_with(path, BERM_STR("/")))
        path.len--;
    return path;
}

berm_str join_path(berm_str a, berm_str b)
{
    berm_out out;
    a = tidy(a);
    if (a.len == 0 || berm_is(a, "."))
        return b;
    if (b.len == 0 || berm_is(b, "."))
        return a;
    berm_out_init(&out, a.len + b.len + 2);
    berm_put(&out, a);
    if (!berm_ends_with(a, BERM_STR("/")))
        berm_putc(&out, '/');
    berm_put(&out, b);
    return berm_out_str(&out);
}

static int by_name(const void *a, const void *b)
{
    return berm_compare(((const berm_file *)a)->name, ((const berm_file *)b)->name);
}

static bool walk_directory(walk *w, berm_str start, berm_str below, int depth);

static bool walk_entry(walk *w, berm_str start, berm_str below, const berm_file *file, int depth)
{
    berm_str path = join_path(below, file->name);
    if (++w->seen > WALK_MOST) {
        w->incomplete = true;
        return false;
    }
    if (!w->visit(w, path, file))
        return false;
    if (!berm_file_is_dir(file) || !w->enter(w, path))
        return true;
    if (depth == WALK_DEEPEST) {
        w->incomplete = true;
        return true;
    }
    return walk_directory(w, start, path, depth + 1);
}

static bool walk_directory(walk *w, berm_str start, berm_str below, int depth)
{
    berm_str place = join_path(start, below);
    berm_reply reply = berm_fs_try_list(place.len ? place : BERM_STR("."));
    if (reply.status != BERM_OK) {
        if (depth == 0)
            berm_must(reply);
        w->unread++; /* gone meanwhile, or not allowed: the rest is still worth showing */
        return true;
    }
    berm_files files = berm_fs_entries(reply.data);
    berm_free((void *)reply.data.ptr);
    qsort(files.items, files.len, sizeof *files.items, by_name);
    for (size_t i = 0; i < files.len; i++)
        if (!walk_entry(w, start, below, &files.items[i], depth))
            return false;
    return true;
}

void walk_tree(walk *w, berm_str start)
{
    walk_directory(w, start, BERM_STR(""), 0);
}
