#include <berm/test.h>

BERM_TEST(skills_are_listed_a_line_each)
{
    berm_test_skill("pdf-forms", "Fill in forms.\nUse it for PDF files.\n", "");
    berm_test_skill("release", "Make a release.", "");
    EXPECT_DONE(berm_test_call("list_skills", ""),
                "pdf-forms: Fill in forms. Use it for PDF files.\nrelease: Make a release.\n");
}

BERM_TEST(there_are_none)
{
    berm_test_skills();
    EXPECT_DONE(berm_test_call("list_skills", ""), "no skills\n");
}

BERM_TEST(a_skill_is_read_as_it_is)
{
    berm_test_skill("release", "Make a release.", "# Release\n\n1. Tag it.\n");
    EXPECT_DONE(berm_test_call("read_skill", "{\"name\": \" release\"}"), "# Release\n\n1. Tag it.\n");
}

BERM_TEST(a_skill_that_is_not_there_is_said)
{
    berm_test_skill("release", "Make a release.", "");
    EXPECT_FAILED(berm_test_call("read_skill", "{\"name\": \"../etc\"}"), "no skill `../etc`; list_skills shows them");
}

static void broken(berm_request *request, berm_answer *answer)
{
    EXPECT_TEXT(berm_request_field(request), "release");
    berm_answer_error(answer, "the disk is on fire");
}

BERM_TEST(what_else_goes_wrong_is_the_host_s_to_say)
{
    berm_test_skill("release", "Make a release.", "");
    berm_test_stand_in("crabtalk.skills.get", broken);
    EXPECT_FAILED(berm_test_call("read_skill", "{\"name\": \"release\"}"), "the disk is on fire");
}
