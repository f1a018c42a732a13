/* The host's side of a native test: arguments, log, failure, staged replies, stand-ins. */
#include "native.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTS_MOST 256
#define STAND_INS_MOST 64
#define REPLY_MOST ((size_t)64 << 20)

static struct {
    const char *name;
    berm_result (*entry)(void);
} exports[EXPORTS_MOST];
static size_t export_count;

static struct {
    const char *name;
    berm_stand_in *function;
} stand_ins[STAND_INS_MOST];
static size_t stand_in_count;

static berm_str arguments;
static char *failure;  /* NULL: not failed */
static berm_str staged;
static char *log_text; /* all lines */
static size_t log_len;

void berm_native_export(const char *name, berm_result (*entry)(void))
{
    if (export_count == EXPORTS_MOST)
        abort();
    exports[export_count].name = name;
    exports[export_count++].entry = entry;
}

/* ---- what abi.h declares ---- */

void berm_host_log(const char *text, size_t len)
{
    log_text = (char *)realloc(log_text, log_len + len + 2);
    if (!log_text)
        abort();
    memcpy(log_text + log_len, text, len);
    log_len += len;
    log_text[log_len++] = '\n';
    log_text[log_len] = 0;
    fprintf(stderr, "    log: %.*s\n", (int)len, text);
}

size_t berm_host_args_len(void)
{
    return arguments.len;
}

static size_t copy_out(berm_str from, void *into, size_t cap)
{
    size_t n = cap < from.len ? cap : from.len;
    if (n)
        memcpy(into, from.ptr, n);
    return from.len;
}

size_t berm_host_args_read(void *into, size_t cap)
{
    return copy_out(arguments, into, cap);
}

void berm_host_fail(const char *text, size_t len)
{
    free(failure);
    failure = native_copy(berm_str_make(text, len));
}

size_t berm_host_result_read(void *into, size_t cap)
{
    return copy_out(staged, into, cap);
}

uintptr_t berm_host_heap_start(void)
{
    return 0; /* native/heap.c asks nobody */
}

size_t berm_host_heap_size(void)
{
    return 0;
}

uint64_t berm_host_call(const char *name, const void *request, size_t len)
{
    berm_stand_in *function = native_stand_in(name);
    if (!function)
        berm_test_failed(NULL, 0,
                         "the harness called `%s`, and the test has no stand-in for it: see "
                         "berm_test_stand_in in berm/test.h",
                         name);
    berm_request asked = {berm_str_make((const char *)request, len)};
    berm_answer answer;
    answer.status = BERM_OK;
    berm_out_init(&answer.data, REPLY_MOST);
    function(&asked, &answer);
    free((void *)staged.ptr);
    staged = berm_str_make(native_copy(berm_out_str(&answer.data)), answer.data.len);
    berm_out_free(&answer.data);
    uint64_t bits = answer.status == BERM_OK ? 0 : BERM_REPLY_ERROR;
    return staged.len | bits | (answer.status == BERM_REFUSED ? BERM_REPLY_REFUSED : 0);
}

/* ---- calls ---- */

static berm_result (*find_entry(const char *tool))(void)
{
    for (size_t i = 0; i < export_count; i++) {
        const char *name = exports[i].name;
        if (strncmp(name, "berm_tool_", 10) == 0)
            name += 10;
        if (strcmp(name, tool) == 0)
            return exports[i].entry;
    }
    berm_test_failed(NULL, 0, "the harness has no tool `%s`", tool);
}

berm_outcome berm_test_call_bytes(const char *tool, berm_str args)
{
    berm_outcome outcome;
    berm_result (*entry)(void) = find_entry(tool);
    arguments = args;
    free(failure);
    failure = NULL;
    berm_result result = entry();
    outcome.failed = failure != NULL;
    berm_str text = failure ? berm_str_of(failure) : berm_str_make(result.ptr, result.len);
    outcome.text = berm_str_make(native_copy(text), text.len);
    native_heap_clear();
    if (!berm_utf8_valid(outcome.text))
        berm_test_failed(NULL, 0, "the result of `%s` is not UTF-8: a trap in the sandbox", tool);
    return outcome;
}

berm_outcome berm_test_call(const char *tool, const char *args)
{
    return berm_test_call_bytes(tool, berm_str_of(args));
}

berm_str berm_test_log(void)
{
    return berm_str_make(log_text ? log_text : "", log_len);
}

/* ---- stand-ins ---- */

berm_stand_in *native_stand_in(const char *capability)
{
    for (size_t i = 0; i < stand_in_count; i++)
        if (strcmp(stand_ins[i].name, capability) == 0)
            return stand_ins[i].function;
    return NULL;
}

void berm_test_stand_in(const char *capability, berm_stand_in *function)
{
    size_t i = 0;
    while (i < stand_in_count && strcmp(stand_ins[i].name, capability) != 0)
        i++;
    if (i == STAND_INS_MOST)
        berm_test_failed(NULL, 0, "more than %d stand-ins", STAND_INS_MOST);
    stand_ins[i].name = capability;
    stand_ins[i].function = function;
    stand_in_count += i == stand_in_count;
}

berm_str berm_request_field(berm_request *request)
{
    berm_str field;
    if (!berm_next_field(&request->rest, &field))
        berm_test_failed(NULL, 0, "a stand-in took more fields than the harness sent");
    return field;
}

void berm_answer_bytes(berm_answer *answer, berm_str bytes)
{
    berm_put(&answer->data, bytes);
}

void berm_answer_field(berm_answer *answer, berm_str field)
{
    for (int shift = 0; shift < 32; shift += 8)
        berm_putc(&answer->data, (char)(field.len >> shift));
    berm_put(&answer->data, field);
}

void berm_answer_printf(berm_answer *answer, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    berm_vprintf(&answer->data, format, list);
    va_end(list);
}

void berm_answer_error(berm_answer *answer, const char *format, ...)
{
    va_list list;
    answer->status = BERM_ERROR;
    answer->data.len = 0;
    va_start(list, format);
    berm_vprintf(&answer->data, format, list);
    va_end(list);
}

void berm_answer_refused(berm_answer *answer, const char *format, ...)
{
    va_list list;
    answer->status = BERM_REFUSED;
    answer->data.len = 0;
    va_start(list, format);
    berm_vprintf(&answer->data, format, list);
    va_end(list);
}
