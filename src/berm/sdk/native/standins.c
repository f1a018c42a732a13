/* Stand-ins that tests share: files and storage in memory. */
#include "native.h"
#include "table.h"

#include <string.h>

static table files;
static table storage;

/* ---- files: a directory is what the paths of files imply ---- */

/* The path without "./" and slashes at its ends; false when it leaves the root. */
static bool clean_path(berm_str path, char *into, size_t cap, berm_str *clean)
{
    berm_out out;
    berm_out_fixed(&out, into, cap);
    for (bool more = true; more;) {
        berm_str part;
        more = berm_cut(path, BERM_STR("/"), &part, &path);
        if (part.len == 0 || berm_is(part, "."))
            continue;
        if (berm_is(part, ".."))
            return false;
        berm_printf(&out, "%s%.*s", out.len ? "/" : "", BERM_ARG(part));
    }
    *clean = berm_out_str(&out);
    return !berm_out_overflowed(&out);
}

static bool take_path(berm_request *request, berm_answer *answer, char memory[4096], berm_str *path)
{
    berm_str given = berm_request_field(request);
    bool inside = clean_path(given, memory, 4096, path);
    if (!inside)
        berm_answer_error(answer, "path leaves the root: `%.*s`", BERM_ARG(given));
    return inside;
}

/* What stands behind "directory/" in a path below it; empty when it is not below. */
static berm_str below(berm_str path, berm_str directory)
{
    if (directory.len == 0)
        return path;
    if (!berm_starts_with(path, directory) || path.len <= directory.len || path.ptr[directory.len] != '/')
        return berm_slice(path, path.len, path.len);
    return berm_slice(path, directory.len + 1, path.len);
}

static bool is_directory(berm_str path)
{
    for (size_t i = 0; i < files.len; i++)
        if (below(files.entries[i].key, path).len)
            return true;
    return path.len == 0;
}

static void no_such(berm_answer *answer, berm_str path)
{
    if (is_directory(path))
        berm_answer_error(answer, "is a directory: `%.*s`", BERM_ARG(path));
    else
        berm_answer_error(answer, "no such file: `%.*s`", BERM_ARG(path));
}

static void fs_read(berm_request *request, berm_answer *answer)
{
    char memory[4096];
    berm_str path;
    if (!take_path(request, answer, memory, &path))
        return;
    const entry *file = table_find(&files, path);
    if (file)
        berm_answer_bytes(answer, file->value);
    else
        no_such(answer, path);
}

static void fs_write(berm_request *request, berm_answer *answer)
{
    char memory[4096];
    berm_str path;
    if (!take_path(request, answer, memory, &path))
        return;
    if (is_directory(path))
        no_such(answer, path);
    else
        table_set(&files, path, berm_request_field(request));
}

static void fs_remove(berm_request *request, berm_answer *answer)
{
    char memory[4096];
    berm_str path;
    if (take_path(request, answer, memory, &path) && !table_remove(&files, path))
        no_such(answer, path);
}

static void write_status(berm_json_writer *json, const char *kind, size_t size)
{
    berm_json_key(json, "kind");
    berm_json_write_string(json, berm_str_of(kind));
    berm_json_key(json, "size");
    berm_json_write_uint(json, size);
    berm_json_key(json, "mtime_ms");
    berm_json_write_int(json, 0);
    berm_json_close(json);
}

static void fs_stat(berm_request *request, berm_answer *answer)
{
    char memory[4096];
    berm_str path;
    berm_json_writer json;
    if (!take_path(request, answer, memory, &path))
        return;
    const entry *file = table_find(&files, path);
    if (!file && !is_directory(path)) {
        no_such(answer, path);
        return;
    }
    berm_json_write_to(&json, &answer->data);
    berm_json_open_object(&json);
    write_status(&json, file ? "file" : "directory", file ? file->value.len : 0);
}

static void fs_list(berm_request *request, berm_answer *answer)
{
    char memory[4096];
    berm_str path;
    berm_str last = {"", 0};
    berm_json_writer json;
    if (!take_path(request, answer, memory, &path))
        return;
    if (!is_directory(path)) {
        berm_answer_error(answer, "not a directory: `%.*s`", BERM_ARG(path));
        return;
    }
    berm_json_write_to(&json, &answer->data);
    berm_json_open_array(&json);
    for (size_t i = 0; i < files.len; i++) {
        berm_str name, rest;
        bool deeper = berm_cut(below(files.entries[i].key, path), BERM_STR("/"), &name, &rest);
        if (name.len == 0 || berm_equal(name, last))
            continue;
        berm_json_open_object(&json);
        berm_json_key(&json, "name");
        berm_json_write_string(&json, name);
        write_status(&json, deeper ? "directory" : "file", deeper ? 0 : files.entries[i].value.len);
        last = name;
    }
    berm_json_close(&json);
}

static void serve_files(void)
{
    berm_test_stand_in("berm.fs.read", fs_read);
    berm_test_stand_in("berm.fs.write", fs_write);
    berm_test_stand_in("berm.fs.list", fs_list);
    berm_test_stand_in("berm.fs.stat", fs_stat);
    berm_test_stand_in("berm.fs.remove", fs_remove);
}

void berm_test_file_bytes(const char *path, berm_str content)
{
    char memory[4096];
    berm_str clean;
    if (!clean_path(berm_str_of(path), memory, sizeof memory, &clean) || clean.len == 0)
        berm_test_failed(NULL, 0, "`%s` is no path for a test's file", path);
    serve_files();
    table_set(&files, clean, content);
}

void berm_test_file(const char *path, const char *content)
{
    berm_test_file_bytes(path, berm_str_of(content));
}

bool berm_test_has_file(const char *path)
{
    return table_find(&files, berm_str_of(path)) != NULL;
}

berm_str berm_test_file_content(const char *path)
{
    const entry *file = table_find(&files, berm_str_of(path));
    if (!file)
        berm_test_failed(NULL, 0, "there is no file `%s`", path);
    return file->value;
}

/* ---- storage ---- */

static void kv_get(berm_request *request, berm_answer *answer)
{
    const entry *found = table_find(&storage, berm_request_field(request));
    if (found)
        berm_answer_field(answer, found->value);
}

static void kv_set(berm_request *request, berm_answer *answer)
{
    berm_str key = berm_request_field(request);
    berm_str value = berm_request_field(request);
    if (key.len == 0 || key.len > 256 || value.len > 1048576)
        berm_answer_error(answer, "a key has 1 to 256 bytes, a value at most 1 MiB");
    else
        table_set(&storage, key, value);
}

static void kv_delete(berm_request *request, berm_answer *answer)
{
    berm_answer_printf(answer, "%d", table_remove(&storage, berm_request_field(request)));
}

static void kv_keys(berm_request *request, berm_answer *answer)
{
    berm_str prefix = berm_request_field(request);
    berm_str cursor = berm_request_field(request);
    berm_json_writer json;
    size_t shown = 0;
    berm_json_write_to(&json, &answer->data);
    berm_json_open_array(&json);
    for (size_t i = 0; i < storage.len && shown < 1000; i++) {
        berm_str key = storage.entries[i].key;
        if (!berm_starts_with(key, prefix) || berm_compare(key, cursor) <= 0)
            continue;
        berm_json_write_string(&json, key);
        shown++;
    }
    berm_json_close(&json);
}

void berm_test_storage(void)
{
    berm_test_stand_in("berm.get", kv_get);
    berm_test_stand_in("berm.set", kv_set);
    berm_test_stand_in("berm.kv.delete", kv_delete);
    berm_test_stand_in("berm.kv.keys", kv_keys);
}
