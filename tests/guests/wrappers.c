/* Each typed wrapper of a capability, shown as text. */
#include <berm/berm.h>
#include <string.h>

static void put_file(berm_out *out, const berm_file *file)
{
    berm_printf(out, "%.*s %.*s %lld %lld;", BERM_ARG(file->name), BERM_ARG(file->kind), (long long)file->size,
                (long long)file->mtime_ms);
}

BERM_TOOL(fs, "Files.", required(string, path, "a file"), optional(string, content, "written before"))
{
    if (args->has_content)
        berm_fs_write(args->path, args->content);
    berm_str text = berm_fs_read(args->path);
    berm_printf(out, "%s %zu;", text.ptr, strlen(text.ptr));
    berm_file file = berm_fs_stat(args->path);
    put_file(out, &file);
    berm_files files = berm_fs_list(BERM_STR("."));
    for (size_t i = 0; i < files.len; i++)
        put_file(out, &files.items[i]);
    berm_fs_remove(args->path);
    berm_reply gone = berm_fs_try_read(args->path);
    berm_printf(out, "%d %.*s", gone.status, BERM_ARG(gone.data));
}

BERM_TOOL(exec, "Commands.", required(string, command, "what"))
{
    berm_pair env[] = {{BERM_STR("NAME"), BERM_STR("value")}, {BERM_STR("EMPTY"), BERM_STR("")}};
    berm_run run = berm_exec_env(args->command, BERM_STR("sub"), env, 2);
    berm_printf(out, "%.*s|%.*s|%lld|%lld|%lld", BERM_ARG(run.out), BERM_ARG(run.err), (long long)run.exit_code,
                (long long)run.out_dropped, (long long)run.err_dropped);
}

static void put_response(berm_out *out, const berm_response *response)
{
    berm_str type = BERM_STR("none");
    berm_http_header(response, "content-type", &type);
    berm_printf(out, "%lld %.*s %.*s;", (long long)response->status, BERM_ARG(type), BERM_ARG(response->body));
}

BERM_TOOL(http, "The web.", required(string, url, "where"))
{
    berm_response got = berm_http_get(args->url);
    put_response(out, &got);
    berm_pair headers[] = {{BERM_STR("Accept"), BERM_STR("text/plain")}};
    berm_str one = berm_http_start(BERM_STR("POST"), args->url, BERM_STR("body"), headers, 1);
    berm_collected done = berm_http_collect(one);
    berm_printf(out, "%.*s: ", BERM_ARG(done.id));
    put_response(out, &done.response);
}

BERM_TOOL(clock, "The time.", required(string, zone, "a zone"))
{
    berm_now now = berm_clock_now();
    berm_date date = berm_date_of(now.unix_ms, now.offset_s);
    berm_printf(out, "%lld-%02d-%02d %02d:%02d %.*s;", (long long)date.year, date.month, date.day, date.hour,
                date.minute, BERM_ARG(now.zone));
    berm_offset offset = berm_clock_offset(args->zone, now.unix_ms);
    berm_printf(out, "%lld %d %lld", (long long)offset.offset_s, offset.has_next, (long long)offset.next_ms);
}

BERM_TOOL(kv, "Storage.", required(integer, count, "how many keys"))
{
    berm_str value;
    char name[16];
    size_t seen = 0;
    bool ordered = true;
    berm_out text;
    for (int64_t i = 0; i < args->count; i++) {
        berm_out_fixed(&text, name, sizeof name);
        berm_printf(&text, "key/%05lld", (long long)i);
        berm_kv_set(berm_out_str(&text), BERM_STR(""));
    }
    berm_kv_set(BERM_STR("other"), BERM_STR("value"));
    berm_str last = BERM_STR("");
    berm_kv_keys keys = berm_kv_begin(BERM_STR("key/"));
    for (; berm_kv_next(&keys); seen++) {
        ordered = ordered && berm_compare(last, keys.key) < 0;
        last = keys.key;
    }
    bool empty = berm_kv_get(BERM_STR("key/00000"), &value) && value.len == 0;
    berm_printf(out, "%zu %d %d ", seen, ordered, empty);
    berm_printf(out, "%d ", berm_kv_get(BERM_STR("absent"), &value));
    berm_printf(out, "%d", berm_kv_delete(BERM_STR("other")));
    berm_printf(out, "%d ", berm_kv_delete(BERM_STR("other")));
    berm_printf(out, "%d", berm_kv_get(BERM_STR("other"), &value));
}

BERM_TOOL(call, "Another harness.", required(string, tool, "which of its tools"))
{
    berm_reply reply = berm_try_call(BERM_STR("other"), args->tool, BERM_STR("{\"a\":1}"));
    berm_printf(out, "%d %.*s;", reply.status, BERM_ARG(reply.data));
    berm_put(out, berm_call(BERM_STR("other"), args->tool, BERM_STR("")));
}

BERM_TOOL(any, "Any capability by name.", required(string, which, "its name"), required(strings, fields, "sent"))
{
    berm_put(out, berm_must(berm_capability(args->which.ptr, args->fields.items, args->fields.len)));
}
