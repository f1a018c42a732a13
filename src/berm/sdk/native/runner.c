/* Runs the registered tests, each in a process of its own. Exits with 1 when one did not pass. */
#include "native.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TESTS_MOST 4096
#define SECONDS 20 /* a test that takes longer is stuck */

static struct {
    const char *name;
    void (*function)(void);
} tests[TESTS_MOST];
static size_t test_count;

void berm_test_register(const char *name, void (*function)(void))
{
    if (test_count == TESTS_MOST)
        abort();
    tests[test_count].name = name;
    tests[test_count++].function = function;
}

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

/* Run one test in a child; returns what went wrong, or NULL. */
static const char *run_test(void (*function)(void), char reason[64])
{
    int status;
    pid_t child = fork();
    if (child < 0)
        return "could not start a process";
    if (child == 0) {
        alarm(SECONDS);
        function();
        fflush(NULL);
        _exit(0);
    }
    while (waitpid(child, &status, 0) < 0)
        continue;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        snprintf(reason, 64, "did not end within %d s", SECONDS);
    else if (WIFSIGNALED(status))
        snprintf(reason, 64, "ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status))
        snprintf(reason, 64, "failed");
    else
        return NULL;
    return reason;
}

int main(int argc, char **argv)
{
    size_t passed = 0, failed = 0;
    for (size_t i = 0; i < test_count; i++) {
        char memory[64];
        if (argc > 1 && !strstr(tests[i].name, argv[1]))
            continue;
        const char *reason = run_test(tests[i].function, memory);
        fflush(stderr);
        if (reason)
            printf("FAILED  %s: %s\n", tests[i].name, reason);
        else
            printf("ok      %s\n", tests[i].name);
        fflush(stdout);
        if (reason)
            failed++;
        else
            passed++;
    }
    printf("%zu passed, %zu failed\n", passed, failed);
    return failed || passed == 0;
}
