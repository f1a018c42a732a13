#include <berm/test.h>

static void say_things(void)
{
    berm_test_said("s1", "Lunch", "user", "what is for lunch?");
    berm_test_said("s1", "Lunch", "tool", "read_menu");
    berm_test_said("s1", "Lunch", "assistant", "Soup.\nAnd bread.");
    berm_test_said("s1", "Lunch", "user", "thanks");
    berm_test_said("s2", "", "user", "soup recipe");
}

BERM_TEST(what_was_said_is_found_with_what_was_around_it)
{
    say_things();
    EXPECT_DONE(berm_test_call("search_sessions", "{\"query\": \"soup\"}"),
                "session s1, \"Lunch\"\n"
                "  1 tool: [read_menu]\n"
                "> 2 assistant: Soup. And bread.\n"
                "  3 user: thanks\n"
                "\n"
                "session s2\n"
                "> 0 user: soup recipe\n");
}

BERM_TEST(the_hits_and_what_is_around_them_are_bounded)
{
    say_things();
    EXPECT_DONE(berm_test_call("search_sessions", "{\"query\": \"soup bread\", \"limit\": 1, \"around\": 0}"),
                "session s1, \"Lunch\"\n> 2 assistant: Soup. And bread.\n");
    EXPECT_FAILED(berm_test_call("search_sessions", "{\"query\": \"soup\", \"limit\": 21}"),
                  "expected at most 20, got 21 - at `limit`");
}

BERM_TEST(nothing_is_found)
{
    say_things();
    EXPECT_DONE(berm_test_call("search_sessions", "{\"query\": \"dessert\"}"), "nothing was found\n");
    EXPECT_DONE(berm_test_call("search_sessions", "{\"query\": \"read_menu\"}"), "nothing was found\n");
}

BERM_TEST(a_query_without_words_is_refused_by_the_host)
{
    berm_test_sessions();
    EXPECT_FAILED(berm_test_call("search_sessions", "{\"query\": \" \"}"), "query: expected words to look for");
}

static void give_a_long_one(berm_request *request, berm_answer *answer)
{
    EXPECT_TEXT(berm_request_field(request), "x");
    EXPECT_TEXT(berm_request_field(request), "5");
    EXPECT_TEXT(berm_request_field(request), "2");
    EXPECT_TEXT(berm_request_field(request), "2");
    berm_answer_bytes(answer,
                      BERM_STR("[{\"session\": \"s\", \"index\": 7, \"score\": 2.5, \"title\": \"a\\nb\", \"window\": "
                               "[{\"role\": \"assistant\", \"index\": 7, \"snippet\": \"x\", \"truncated\": true, "
                               "\"tool_name\": \"read, write\"}]}]"));
}

BERM_TEST(what_is_cut_and_what_was_called_is_shown)
{
    berm_test_stand_in("crabtalk.sessions.search", give_a_long_one);
    EXPECT_DONE(berm_test_call("search_sessions", "{\"query\": \"x\", \"around\": 2}"),
                "session s, \"a b\"\n> 7 assistant: x … [read, write]\n");
}
