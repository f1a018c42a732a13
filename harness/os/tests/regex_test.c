/* The regular expressions of grep: a table of pattern, line and answer. */
#include <berm/test.h>
#include <stdlib.h>
#include <string.h>

static bool found(const char *pattern, const char *line)
{
    char args[8192];
    berm_out out;
    berm_test_file("line", line);
    berm_out_fixed(&out, args, sizeof args);
    berm_puts(&out, "{\"path\":\"line\",\"pattern\":");
    berm_put_json_string(&out, berm_str_of(pattern));
    berm_puts(&out, "}");
    berm_outcome got = berm_test_call_bytes("grep", berm_out_str(&out));
    if (got.failed)
        berm_test_failed(NULL, 0, "`%s`: %.*s", pattern, BERM_ARG(got.text));
    return !berm_is(got.text, "[no line matches]\n");
}

static void check(const char *pattern, const char *line, bool wanted)
{
    if (found(pattern, line) != wanted)
        berm_test_failed(NULL, 0, "`%s` %s match `%s`", pattern, wanted ? "does not" : "does", line);
}

#define YES(pattern, line) check(pattern, line, true)
#define NO(pattern, line) check(pattern, line, false)

BERM_TEST(literals_and_sets)
{
    YES("b", "abc");
    NO("d", "abc");
    YES("a.c", "abc");
    NO("a.c", "ac");
    YES("[b-d]", "xcx");
    NO("[^b-d]", "bcd");
    YES("[]x]", "]");
    YES("[^]x]", "a");
    YES("[a-]", "-");
    YES("\\d\\w\\s", "1_ ");
    NO("\\D", "123");
    YES("[\\d.]+$", "1.5");
    YES("\\.", "a.b");
    NO("\\.", "ab");
    YES("\\x41\\x{42}\\u0043", "ABC");
    YES("a\\{2\\}", "a{2}");
    YES("a{", "a{");
    YES("a{,2}", "a{,2}");
}

BERM_TEST(repeats)
{
    YES("^ab*c$", "ac");
    YES("^ab*c$", "abbbc");
    NO("^ab+c$", "ac");
    YES("^ab?c$", "abc");
    NO("^ab?c$", "abbc");
    YES("^a{3}$", "aaa");
    NO("^a{3}$", "aaaa");
    YES("^a{2,}$", "aaaaa");
    NO("^a{2,3}$", "aaaa");
    YES("^a{0}$", "\n");
    YES("^(ab){2}$", "abab");
    YES("^a*?$", "aaa");
    YES("^(a*)*$", "aaaa");
    YES("^(a|b*)*c", "abac");
    YES("^(|a)+b$", "aab");
}

BERM_TEST(alternatives_and_groups)
{
    YES("^(cat|dog)s?$", "dogs");
    NO("^(cat|dog)s?$", "cows");
    YES("^(?:a|b|)x$", "x");
    YES("a|b|c", "zc");
    NO("^(a(b(c)))$", "ab");
}

BERM_TEST(anchors_and_word_edges)
{
    YES("^$", "\n");
    NO("^b", "ab");
    NO("a$", "ab");
    YES("a^b|c", "c");
    NO("a^b", "ab");
    YES("\\bint\\b", "an int x");
    NO("\\bint\\b", "print");
    NO("\\bint\\b", "integer");
    YES("\\Bint", "print");
    YES("int\\b", "int");
    NO("\\b", " . ");
    YES("\\B", " . ");
    YES("a\\b.", "a.");
}

BERM_TEST(characters_are_code_points)
{
    YES("^.$", "\u00e9");
    YES("^.$", "\U0001f600");
    NO("^..$", "\u00e9");
    YES("^[\u00e0-\u00ff]+$", "\u00e0\u00e9\u00ff");
    NO("[\u00e0-\u00ff]", "\u0100\u00df");
    YES("^[^a]$", "\u20ac");
    YES("^\\u20ac\\x{1F600}$", "\u20ac\U0001f600");
    YES("^[\\x{7f}-\\x{10ffff}]{4}$", "\x7f\u0800\uffff\U0010ffff");
    NO("[\\x{801}-\\x{fffe}]", "\u0800\uffff");
}

BERM_TEST(case_is_ignored_on_request)
{
    NO("abc", "ABC");
    YES("(?i)abc", "aBc");
    YES("(?i)[x-z]", "Y");
    NO("(?i)[^x]", "X");
}

static void refused(const char *pattern, const char *message)
{
    char args[8192];
    berm_out out;
    berm_test_file("line", "");
    berm_out_fixed(&out, args, sizeof args);
    berm_puts(&out, "{\"path\":\"line\",\"pattern\":");
    berm_put_json_string(&out, berm_str_of(pattern));
    berm_puts(&out, "}");
    berm_outcome got = berm_test_call_bytes("grep", berm_out_str(&out));
    EXPECT(got.failed);
    EXPECT_CONTAINS(got.text, message);
}

BERM_TEST(what_is_wrong_is_named_with_its_place)
{
    refused("(a", "`(` without `)` - at character 3 of `(a`");
    refused("a)", "`)` without `(` - at character 2");
    refused("[a", "`[` without `]`");
    refused("*a", "nothing to repeat - at character 1");
    refused("a|+", "nothing to repeat - at character 3");
    refused("[z-a]", "the range is the wrong way round");
    refused("a{3,2}", "the repeat is the wrong way round");
    refused("a{1001}", "a repeat of more than 1000");
    refused("(a)\\1", "back-references are not supported");
    refused("(?=a)", "only (?:…) and a leading (?i) are supported");
    refused("[[:alpha:]]", "classes such as [:alpha:] are not supported");
    refused("\\q", "unknown escape");
    refused("\\", "a backslash at the end");
    refused("((((a{100}){100}){100}){100})", "too large");
}

BERM_TEST(hostile_patterns_take_bounded_time)
{
    static char line[20001];
    memset(line, 'a', 20000);
    NO("^(a+)+$b", line);
    NO("(a*)*b", line);
    NO("(a|aa)+$b", line);
    NO("(x+x+)+y", line);
    NO("a{1,500}b", line);
    /* More subsets than the table may hold: states are forgotten and made anew. */
    for (int i = 0; i < 20000; i++)
        line[i] = "ab"[(i * 7919 >> 5) & 1];
    YES("a[ab]{40}b[ab]", line);
    NO("a[ab]{13}c", line);
}

BERM_TEST(deep_nesting_and_long_patterns_are_refused)
{
    char pattern[5001];
    memset(pattern, '(', 200);
    memset(pattern + 200, ')', 200);
    pattern[400] = 0;
    refused(pattern, "groups are nested too deeply");
    memset(pattern, 'a', 5000);
    pattern[5000] = 0;
    refused(pattern, "longer than 4096 bytes");
}
