/* Runs the registered tests, each in a process of its own. Exits with 1 when one did not pass. */
#include <berm/test.h>

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
    if (argc > 1 && passed + failed == 0)
        fprintf(stderr, "none of the %zu tests has `%s` in its name\n", test_count, argv[1]);
    else
        printf("%zu passed, %zu failed\n", passed, failed);
    return failed || passed == 0;
}
