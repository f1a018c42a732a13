/* Files below the root that the host bound: berm.fs.*
 *
 * Paths are relative to that root; nothing outside it can be named. The plain forms fail the call with
 * the host's message; the try_ forms hand the reply to you.
 */
#ifndef BERM_FS_H
#define BERM_FS_H

#include <berm/capability.h>
#include <berm/json.h>

BERM_BEGIN

typedef struct berm_file {
    berm_str name; /* the last part of the path; empty from berm_fs_stat */
    berm_str kind; /* "file", "directory", "symlink" or "other" */
    int64_t size;
    int64_t mtime_ms; /* Unix time */
} berm_file;

typedef struct berm_files {
    berm_file *items;
    size_t len;
} berm_files;

static inline bool berm_file_is_dir(const berm_file *file)
{
    return berm_is(file->kind, "directory");
}

berm_str berm_fs_read(berm_str path);
void berm_fs_write(berm_str path, berm_str content);
berm_files berm_fs_list(berm_str path);
berm_file berm_fs_stat(berm_str path);
void berm_fs_remove(berm_str path);

berm_reply berm_fs_try_read(berm_str path);
berm_reply berm_fs_try_write(berm_str path, berm_str content);
berm_reply berm_fs_try_list(berm_str path); /* its data is JSON: berm_fs_entries reads it */
berm_reply berm_fs_try_stat(berm_str path); /* its data is JSON: berm_fs_entry reads it */
berm_reply berm_fs_try_remove(berm_str path);

berm_files berm_fs_entries(berm_str json);
berm_file berm_fs_entry(berm_str json);

BERM_END

#endif
