#include <berm/test.h>

BERM_TEST(says_back_what_it_is_told)
{
    EXPECT_DONE(berm_test_call("echo", "{\"text\": \"hello\"}"), "hello");
    EXPECT_DONE(berm_test_call("echo", "{\"text\": \"\"}"), "");
    EXPECT_DONE(berm_test_call("echo", "{\"text\": \"\\u00e9 \\ud83d\\ude00 \\\"\\n\"}"), "\u00e9 \U0001f600 \"\n");
}

BERM_TEST(names_the_parameter_that_is_missing_or_wrong)
{
    EXPECT_FAILED(berm_test_call("echo", "{}"), "missing parameter `text`");
    EXPECT_FAILED(berm_test_call("echo", ""), "missing parameter `text`");
    EXPECT_FAILED(berm_test_call("echo", "{\"text\": [1]}"), "expected string, got array - at `text`");
    EXPECT_FAILED(berm_test_call("echo", "{\"txt\": \"\"}"), "unknown parameter `txt` (known: `text`)");
    EXPECT_FAILED(berm_test_call("echo", "[]"), "expected the arguments as object, got array");
    EXPECT_FAILED(berm_test_call("echo", "{\"text\": \"a}"),
                  "the arguments are not JSON: the string does not end - at byte 12");
}
