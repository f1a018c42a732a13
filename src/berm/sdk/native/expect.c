/* Expectations: the first that does not hold ends the test, which is a process. */
#include "native.h"

#include <stdio.h>
#include <unistd.h>

void berm_test_failed(const char *file, int line, const char *format, ...)
{
    char memory[8192];
    berm_out text;
    va_list list;
    berm_out_fixed(&text, memory, sizeof memory);
    va_start(list, format);
    berm_vprintf(&text, format, list);
    va_end(list);
    if (file)
        fprintf(stderr, "%s:%d: %.*s\n", file, line, (int)text.len, text.ptr);
    else
        fprintf(stderr, "    %.*s\n", (int)text.len, text.ptr);
    fflush(NULL);
    _exit(1);
}

void berm_test_text(const char *file, int line, berm_str got, const char *wanted)
{
    if (!berm_is(got, wanted))
        berm_test_failed(file, line, "expected `%s`\n    got `%.*s`", wanted, BERM_ARG(got));
}

void berm_test_contains(const char *file, int line, berm_str got, const char *part)
{
    if (berm_find(got, berm_str_of(part), 0) == BERM_NOT_FOUND)
        berm_test_failed(file, line, "expected something with `%s`\n    got `%.*s`", part, BERM_ARG(got));
}

void berm_test_outcome(const char *file, int line, berm_outcome got, bool failed, const char *text)
{
    if (got.failed != failed)
        berm_test_failed(file, line, "expected it to %s, but it %s: `%.*s`", failed ? "fail" : "be done",
                         got.failed ? "failed" : "was done", BERM_ARG(got.text));
    berm_test_text(file, line, got.text, text);
}
