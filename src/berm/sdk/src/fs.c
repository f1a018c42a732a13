/* berm.fs.*: the wrappers of fs.h. */
#include "wrap.h"

#include <berm/alloc.h>
#include <berm/fs.h>

berm_reply berm_fs_try_read(berm_str path)
{
    return berm_capability("berm.fs.read", &path, 1);
}

berm_reply berm_fs_try_write(berm_str path, berm_str content)
{
    berm_str fields[] = {path, content};
    return berm_capability("berm.fs.write", fields, 2);
}

berm_reply berm_fs_try_list(berm_str path)
{
    return berm_capability("berm.fs.list", &path, 1);
}

berm_reply berm_fs_try_stat(berm_str path)
{
    return berm_capability("berm.fs.stat", &path, 1);
}

berm_reply berm_fs_try_remove(berm_str path)
{
    return berm_capability("berm.fs.remove", &path, 1);
}

static berm_file file_of(berm_json object)
{
    berm_file file;
    file.name = wrap_text(object, "name");
    file.kind = wrap_text(object, "kind");
    file.size = wrap_number(object, "size");
    file.mtime_ms = wrap_number(object, "mtime_ms");
    return file;
}

berm_files berm_fs_entries(berm_str json)
{
    berm_json array = wrap_json(json);
    berm_files files = {NULL, 0};
    files.items = BERM_NEW_ARRAY(berm_file, berm_json_count(array));
    berm_json_each each = berm_json_begin(array);
    while (berm_json_next(&each))
        files.items[files.len++] = file_of(each.value);
    return files;
}

berm_file berm_fs_entry(berm_str json)
{
    return file_of(wrap_json(json));
}

berm_str berm_fs_read(berm_str path)
{
    return berm_must(berm_fs_try_read(path));
}

void berm_fs_write(berm_str path, berm_str content)
{
    berm_must(berm_fs_try_write(path, content));
}

berm_files berm_fs_list(berm_str path)
{
    return berm_fs_entries(berm_must(berm_fs_try_list(path)));
}

berm_file berm_fs_stat(berm_str path)
{
    return berm_fs_entry(berm_must(berm_fs_try_stat(path)));
}

void berm_fs_remove(berm_str path)
{
    berm_must(berm_fs_try_remove(path));
}
