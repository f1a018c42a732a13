#include <berm/test.h>

BERM_TEST(an_agent_does_a_task)
{
    berm_test_agent_says("reviewer", "Looks good.\n");
    EXPECT_DONE(berm_test_call("delegate", "{\"agent\": \" reviewer \", \"task\": \" read it\\n\"}"), "Looks good.\n");
    EXPECT_TEXT(berm_test_sent(), "reviewer read it\n");
}

BERM_TEST(several_do_the_same_task_in_order)
{
    berm_test_agent_says("b", "second");
    berm_test_agent_says("a", "first");
    berm_test_agent_says("c", " ");
    EXPECT_DONE(berm_test_call("delegate_to_all", "{\"agents\": [\"a\", \"b\", \"c\"], \"task\": \"go\"}"),
                "## a\n\nfirst\n\n## b\n\nsecond\n\n## c\n\n[it said nothing]\n");
    EXPECT_TEXT(berm_test_sent(), "a go\nb go\nc go\n");
}

BERM_TEST(one_that_fails_does_not_stop_the_others)
{
    berm_test_agent_fails("a", "the model is overloaded");
    berm_test_agent_says("b", "done");
    EXPECT_DONE(berm_test_call("delegate_to_all", "{\"agents\": [\"a\", \"stranger\", \"b\"], \"task\": \"go\"}"),
                "## a\n\n[failed: the model is overloaded]\n\n"
                "## stranger\n\n[failed: no such agent: stranger]\n\n"
                "## b\n\ndone\n");
}

BERM_TEST(when_all_fail_the_call_fails_and_says_why)
{
    berm_test_agent_fails("a", "the chain is too deep");
    EXPECT_FAILED(berm_test_call("delegate", "{\"agent\": \"a\", \"task\": \"go\"}"), "the chain is too deep");
    EXPECT_FAILED(berm_test_call("delegate_to_all", "{\"agents\": [\"a\"], \"task\": \"go\"}"),
                  "none of them did it\n\n## a\n\n[failed: the chain is too deep]\n");
}

BERM_TEST(what_makes_no_sense_is_sent_to_nobody)
{
    berm_test_agent_says("a", "done");
    EXPECT_FAILED(berm_test_call("delegate_to_all", "{\"agents\": [], \"task\": \"go\"}"),
                  "`agents` are 1 to 8, got 0");
    EXPECT_FAILED(berm_test_call("delegate_to_all",
                                 "{\"agents\": [\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\"], \"task\": \"go\"}"),
                  "`agents` are 1 to 8, got 9");
    EXPECT_FAILED(berm_test_call("delegate_to_all", "{\"agents\": [\"a\", \" a\"], \"task\": \"go\"}"),
                  "`agents` has ` a` twice");
    EXPECT_FAILED(berm_test_call("delegate", "{\"agent\": \"a\", \"task\": \" \"}"),
                  "`task` has 1 to 65536 bytes, got 0");
    EXPECT_TEXT(berm_test_sent(), "");
}

BERM_TEST(a_long_answer_is_cut_between_characters)
{
    static char text[70002];
    for (size_t i = 0; i < 70000; i += 2) {
        text[i + 1] = (char)0xc3;
        text[i + 2] = (char)0xbc;
    }
    text[0] = 'a';
    text[70001] = 0;
    berm_test_agent_says("a", text);
    berm_outcome got = berm_test_call("delegate", "{\"agent\": \"a\", \"task\": \"go\"}");
    EXPECT(!got.failed);
    EXPECT_CONTAINS(got.text, "ü\n[4466 more bytes]\n");
}
