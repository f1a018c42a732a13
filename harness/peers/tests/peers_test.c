#include <berm/test.h>

BERM_TEST(peers_are_listed_with_the_first_line_of_what_they_say)
{
    berm_test_peer("reviewer", "Reads changes.\n\nStyle first, then substance.");
    berm_test_peer("writer", "\n  Writes prose.  ");
    berm_test_peer("quiet", "");
    EXPECT_DONE(berm_test_call("list_peers", ""), "reviewer: Reads changes. …\nwriter: Writes prose.\nquiet\n");
}

BERM_TEST(nobody_is_there)
{
    berm_test_peers();
    EXPECT_DONE(berm_test_call("list_peers", ""), "no other agents\n");
}

BERM_TEST(a_long_line_is_cut_between_characters)
{
    char text[256], wanted[256];
    berm_out given, line;
    berm_out_fixed(&given, text, sizeof text);
    berm_putc(&given, 'a');
    for (int i = 0; i < 100; i++)
        berm_puts(&given, "ü");
    berm_putc(&given, 0);
    berm_test_peer("long", text);
    berm_out_fixed(&line, wanted, sizeof wanted);
    berm_printf(&line, "long: %.*s …\n%c", 159, text, 0);
    EXPECT_DONE(berm_test_call("list_peers", ""), wanted);
}

BERM_TEST(a_peer_is_described_in_full)
{
    berm_test_peer("reviewer", "Reads changes.\n\nStyle first, then substance.\n");
    berm_test_peer("quiet", " ");
    EXPECT_DONE(berm_test_call("describe_peer", "{\"name\": \" reviewer \"}"),
                "Reads changes.\n\nStyle first, then substance.\n");
    EXPECT_DONE(berm_test_call("describe_peer", "{\"name\": \"quiet\"}"), "[it has no description]\n");
}

BERM_TEST(an_agent_that_is_not_shown_is_not_described)
{
    berm_test_peer("reviewer", "Reads changes.");
    EXPECT_FAILED(berm_test_call("describe_peer", "{\"name\": \"root\"}"), "no agent `root`; list_peers shows them");
}
