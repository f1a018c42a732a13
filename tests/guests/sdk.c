/* What the SDK promises, as tools to be called from tests. */
#include <assert.h>
#include <berm/berm.h>
#include <ctype.h>
#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST 3

BERM_USAGE("Checks \"the SDK\": ünïcode \\ and\nlines.");
BERM_REQUESTS("berm.fs.read", "berm.kv.keys");

/* ---- parameters ---- */

BERM_TOOL(kinds, "Every type of parameter, shown back.",
    required(string, text, "a \"quoted\" text"),
    required(integer, whole, "an integer"),
    optional(string, other, "text with a default", "dé\"f"),
    optional(integer, first, "a default that is a macro", FIRST),
    optional(range(-5, 10), bounded, "within bounds", -1),
    optional(choice("red|light green"), colour, "one of two", "red"),
    optional(number, ratio, "a double", 2.5),
    optional(boolean, flag, "a boolean", true),
    optional(integer, bare, "without a default"),
    optional(strings, words, "texts"),
    optional(array, list, "any array"),
    optional(object, thing, "any object"),
    optional(json, any, "anything"),
    optional(string, new_, "its name is new"))
{
    berm_printf(out, "text=%s whole=%lld other=%s first=%lld bounded=%lld colour=%s ", args->text.ptr,
                (long long)args->whole, args->other.ptr, (long long)args->first, (long long)args->bounded,
                args->colour.ptr);
    berm_printf(out, "ratio=%g flag=%d bare=%d:%lld words=%d", args->ratio, args->flag, args->has_bare,
                (long long)args->bare, args->has_words);
    for (size_t i = 0; i < args->words.len; i++)
        berm_printf(out, ",%s", args->words.items[i].ptr);
    berm_printf(out, " list=%.*s thing=%.*s any=%.*s:%s new=%.*s", BERM_ARG(args->list.text),
                BERM_ARG(args->thing.text), BERM_ARG(args->any.text), berm_json_kind_name(args->any.kind),
                BERM_ARG(args->new_));
}

BERM_TOOL(nothing, "Takes nothing, gives nothing.")
{
}

BERM_RAW_TOOL(raw, "Takes bytes.", "{\"type\": \"object\", \"properties\": {}}")
{
    berm_printf(out, "%zu:%.*s", args.len, BERM_ARG(args));
}

BERM_ON_WAKE
{
    berm_printf(out, "woke with %.*s", BERM_ARG(wake->payload));
}

BERM_ON_NOTIFY
{
    berm_log("notified of %.*s", BERM_ARG(event->payload));
}

/* ---- failures ---- */

static void deep(int n)
{
    if (n == 0)
        berm_fail("failed %s", "deep down");
    deep(n - 1);
    berm_log("never reached");
}

BERM_TOOL(fails, "Fails far from the tool.")
{
    berm_puts(out, "this is lost");
    deep(20);
}

BERM_TOOL(fails_long, "Fails with a long message of two-byte characters.")
{
    berm_out text;
    berm_out_init(&text, 100000);
    for (int i = 0; i < 20000; i++)
        berm_puts(&text, "é");
    berm_fail("x%.*s", BERM_ARG(berm_out_str(&text)));
}

BERM_TOOL(panics, "Breaks one of its own rules.",
    required(choice("panic|abort|assert|exit|double free|wild free|overrun|writer|format"), how, "which"))
{
    berm_json_writer writer;
    char *memory = (char *)malloc(40);
    if (berm_is(args->how, "panic"))
        berm_panic("panicked at %d", 7);
    if (berm_is(args->how, "abort"))
        abort();
    assert(!berm_is(args->how, "assert"));
    if (berm_is(args->how, "exit"))
        exit(3);
    if (berm_is(args->how, "wild free"))
        free(memory + 16);
    if (berm_is(args->how, "overrun")) {
        memset(malloc(16), 1, 16);
        memset(memory, 0xff, 64);
    }
    if (berm_is(args->how, "writer")) {
        berm_json_write_to(&writer, out);
        berm_json_open_array(&writer);
        berm_json_key(&writer, "key");
    }
    if (berm_is(args->how, "format")) {
        const char *volatile format = "%q";
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
        berm_printf(out, format);
#pragma GCC diagnostic pop
    }
    free(memory);
    free(memory);
}

/* ---- memory and output ---- */

BERM_TOOL(flood, "Writes this many copies of a text.",
    required(string, text, "what"),
    required(integer, times, "how often"),
    optional(integer, limit, "of the output"))
{
    if (args->has_limit)
        berm_out_limit(out, (size_t)args->limit);
    for (int64_t i = 0; i < args->times; i++)
        berm_put(out, args->text);
}

BERM_TOOL(exhaust, "Allocates until the heap is full.", required(boolean, fail, "by berm_alloc instead of malloc"))
{
    size_t blocks = 0;
    void *first = malloc(100000);
    while (args->fail ? berm_alloc(100000) : malloc(100000))
        blocks++;
    free(first);
    berm_heap_usage usage = berm_heap_statistics();
    berm_printf(out, "%d %d %d %d", blocks > 500, malloc(90000) != NULL, malloc(SIZE_MAX) == NULL,
                usage.used < usage.size && usage.reach <= usage.size);
}

BERM_TOOL(overflows, "Asks for more bytes than there are numbers.")
{
    berm_printf(out, "%d", calloc(SIZE_MAX / 2, 3) == NULL);
    berm_alloc_zeroed(SIZE_MAX / 4, 5);
}

/* ---- the C library ---- */

static int by_value(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static jmp_buf place;

static void jump(int n)
{
    if (n == 0)
        longjmp(place, 42);
    jump(n - 1);
}

BERM_TOOL(libc, "A tour of the C library.")
{
    int numbers[] = {5, -3, 9, 0, 5, 2}, wanted = 9;
    char text[64], *end, *state;
    qsort(numbers, 6, sizeof *numbers, by_value);
    for (int i = 0; i < 6; i++)
        berm_printf(out, "%d ", numbers[i]);
    int *found = (int *)bsearch(&wanted, numbers, 6, sizeof *numbers, by_value);
    berm_printf(out, "at %d\n", (int)(found - numbers));

    volatile int before = 1;
    int jumped = setjmp(place);
    if (!jumped) {
        before = 2;
        jump(10);
    }
    berm_printf(out, "jumped %d %d\n", jumped, before);

    berm_printf(out, "%ld %lu %lld ", strtol(" -0x1Fz", &end, 0), strtoul("777", NULL, 8), strtoll("z", NULL, 36));
    errno = 0;
    berm_printf(out, "%s %d %d\n", end, strtoll("99999999999999999999", NULL, 10) == INT64_MAX, errno == ERANGE);
    berm_printf(out, "%g %g %s ", strtod("1.5e3xyz", &end), atof("-.25"), end);
    berm_printf(out, "%g %d\n", strtod("e5", &end), *end == 'e');

    int len = snprintf(text, 8, "%s-%05d", "abc", 42);
    berm_printf(out, "%d %s %s\n", len, text, strcpy(text + 10, "copied"));
    strcpy(text, "a,b;;c");
    for (char *word = strtok_r(text, ",;", &state); word; word = strtok_r(NULL, ",;", &state))
        berm_printf(out, "<%s>", word);
    strcpy(text, "Hello");
    strncat(strcat(text, ", "), "world!!!", 5);
    berm_printf(out, " %s %zu %s %s %d", text, strcspn(text, "lo"), strstr(text, "wor"), strrchr(text, 'o'),
                strcasecmp(text, "HELLO, WORLD"));
    berm_printf(out, " %d%d%d %c\n", !!isdigit('5'), !!isalpha('5'), !!isspace('\t'), toupper('q'));
    berm_printf(out, "%5.2f|%-8s|%+d|%#x|%e|%c|%zu|%p|%%|%.3s|%*d", 3.14159, "left", 7, 255, 12345.678, 'z',
                sizeof(long), (void *)16, "cut off", 6, 1234);
}
