/* Walking a tree of files, in order of names, without following links. */
#ifndef OS_WALK_H
#define OS_WALK_H

#include <berm/berm.h>

typedef struct walk {
    /* Called for each entry with its path below the start; false ends the walk. */
    bool (*visit)(struct walk *walk, berm_str path, const berm_file *file);
    /* Whether to look into a directory. */
    bool (*enter)(struct walk *walk, berm_str path);
    size_t seen;     /* entries so far */
    size_t unread;   /* directories that could not be listed */
    bool incomplete; /* WALK_MOST entries were reached, or WALK_DEEPEST levels */
} walk;

#define WALK_MOST 200000
#define WALK_DEEPEST 60

/* Walk everything below `start`; fails the call when `start` cannot be listed. */
void walk_tree(walk *w, berm_str start);

/* Join two parts of a path; either may be empty or ".". */
berm_str join_path(berm_str a, berm_str b);

#endif
