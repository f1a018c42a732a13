/* Tests of @NAME@, run on this machine by `berm test`. */
#include <berm/test.h>

BERM_TEST(greets_by_name)
{
    berm_outcome got = berm_test_call("@TOOL@", "{\"who\": \"Ada\"}");
    EXPECT_DONE(got, "Hello, Ada!\n");
}

BERM_TEST(greets_as_often_as_asked)
{
    berm_outcome got = berm_test_call("@TOOL@", "{\"who\": \"Ada\", \"times\": 2}");
    EXPECT_DONE(got, "Hello, Ada!\nHello, Ada!\n");
}

BERM_TEST(needs_somebody_to_greet)
{
    EXPECT_FAILED(berm_test_call("@TOOL@", "{}"), "missing parameter `who`");
    EXPECT_FAILED(berm_test_call("@TOOL@", "{\"who\": \"\"}"), "`who` is empty: whom shall I greet?");
}
