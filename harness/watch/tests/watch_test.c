/* Watches, on a web server, wakes, events, storage and a clock of the test's own. */
#include <berm/test.h>

#define NOW INT64_C(1796000000000) /* Monday 2026-11-30 00:53:20 UTC */
#define MINUTE INT64_C(60000)
#define URL "https://x.org/a"
#define WATCH "{\"url\": \"" URL "\", \"every\": \"5m\"}"

/* ---- the server ---- */

static struct {
    const char *status; /* NULL: it cannot be reached */
    const char *headers;
    const char *body;
} server;
static int fetches;
static char validators[256]; /* what the last request had beside method, address and body */

static void fetch(berm_request *request, berm_answer *answer)
{
    berm_out out;
    berm_str field;
    EXPECT_TEXT(berm_request_field(request), "GET");
    EXPECT_TEXT(berm_request_field(request), URL);
    EXPECT_TEXT(berm_request_field(request), "");
    berm_out_fixed(&out, validators, sizeof validators - 1);
    while (berm_next_field(&request->rest, &field))
        berm_printf(&out, "%.*s;", BERM_ARG(field));
    validators[out.len] = 0;
    fetches++;
    if (!server.status) {
        berm_answer_error(answer, "no route to host");
        return;
    }
    berm_answer_field(answer, berm_str_of(server.status));
    berm_answer_field(answer, berm_str_of(server.headers));
    berm_answer_field(answer, berm_str_of(server.body));
}

static void serve(const char *status, const char *headers, const char *body)
{
    server.status = status;
    server.headers = headers;
    server.body = body;
}

static void begin(void)
{
    berm_test_clock(NOW, 3600, "Europe/Berlin");
    berm_test_zone("Europe/Berlin", "CET-1CEST,M3.5.0,M10.5.0/3");
    berm_test_storage();
    berm_test_wakes();
    berm_test_events();
    berm_test_stand_in("berm.http.fetch", fetch);
    serve("200", "", "one");
}

/* Watch, and return the id. */
static berm_str watch(void)
{
    berm_str id, rest;
    berm_outcome got = berm_test_call("watch", WATCH);
    EXPECT(!got.failed);
    EXPECT(berm_cut(got.text, BERM_STR(": "), &id, &rest));
    EXPECT_TEXT(rest, "status 200, 3 bytes, @every 5m\n");
    return id;
}

static berm_outcome call(const char *tool, berm_str id)
{
    char memory[256];
    berm_out args;
    berm_out_fixed(&args, memory, sizeof memory);
    berm_printf(&args, "{\"id\": \"%.*s\"}", BERM_ARG(id));
    return berm_test_call_bytes(tool, berm_out_str(&args));
}

static size_t events(void)
{
    berm_str text = berm_test_published();
    berm_str line;
    size_t count = 0;
    while (berm_next_line(&text, &line))
        count++;
    return count;
}

/* ---- tests ---- */

BERM_TEST(a_change_is_published_once)
{
    begin();
    watch();
    EXPECT_DONE(berm_test_wake(), "unchanged: status 200, 3 bytes\n");
    EXPECT(events() == 0);
    serve("200", "", "three");
    EXPECT_DONE(berm_test_wake(), "changed: status 200, 5 bytes\n");
    EXPECT_DONE(berm_test_wake(), "unchanged: status 200, 5 bytes\n");
    EXPECT(events() == 1);
    EXPECT(fetches == 4);
    EXPECT_CONTAINS(berm_test_published(), "watch:changed {\"id\":\"");
    EXPECT_CONTAINS(berm_test_published(), "\"url\":\"" URL "\",\"before\":{\"status\":200,\"size\":3,");
    EXPECT_CONTAINS(berm_test_published(), "\"now\":{\"status\":200,\"size\":5,");
}

BERM_TEST(it_looks_as_often_as_told)
{
    begin();
    watch();
    for (int64_t n = 1; n <= 3; n++) {
        berm_test_wake();
        EXPECT(berm_test_pending() == 1);
        EXPECT_CONTAINS(berm_test_call("list_watches", "").text, "@every 5m, next 2026-11-30 0");
    }
    EXPECT_CONTAINS(berm_test_call("list_watches", "").text, "next 2026-11-30 02:13 Europe/Berlin\n");
}

BERM_TEST(the_same_length_with_other_bytes_is_a_change)
{
    begin();
    watch();
    serve("200", "", "eno");
    EXPECT_DONE(berm_test_wake(), "changed: status 200, 3 bytes\n");
}

BERM_TEST(a_page_that_is_gone_has_changed)
{
    begin();
    watch();
    serve("404", "", "gone");
    EXPECT_DONE(berm_test_wake(), "changed: status 404, 4 bytes\n");
}

BERM_TEST(a_redirect_that_points_elsewhere_is_a_change)
{
    begin();
    serve("302", "location: /b\n", "");
    berm_test_call("watch", WATCH);
    EXPECT_DONE(berm_test_wake(), "unchanged: status 302, 0 bytes\n");
    serve("302", "location: /c\n", "");
    EXPECT_DONE(berm_test_wake(), "changed: status 302, 0 bytes\n");
}

BERM_TEST(the_server_s_validators_save_transfers)
{
    begin();
    serve("200", "ETag: \"v1\"\nLast-Modified: Mon, 30 Nov 2026 00:00:00 GMT\n", "one");
    watch();
    EXPECT(validators[0] == 0);
    serve("304", "", "");
    EXPECT_DONE(berm_test_wake(), "unchanged: status 200, 3 bytes\n");
    EXPECT_TEXT(berm_str_of(validators),
                "If-None-Match;\"v1\";If-Modified-Since;Mon, 30 Nov 2026 00:00:00 GMT;");
    serve("200", "etag: \"v2\"\n", "one");
    EXPECT_DONE(berm_test_wake(), "unchanged: status 200, 3 bytes\n");
    serve("200", "etag: \"v3\"\n", "two!");
    EXPECT_DONE(berm_test_wake(), "changed: status 200, 4 bytes\n");
    EXPECT_TEXT(berm_str_of(validators), "If-None-Match;\"v2\";");
}

BERM_TEST(failures_back_off_and_are_told_once)
{
    begin();
    watch();
    serve(NULL, "", "");
    berm_test_wake(); /* after 5 minutes; then 1, 2, 4, 8 */
    int64_t last = NOW + 5 * MINUTE;
    static const int DELAYS[] = {1, 2, 4, 8, 16, 32, 60, 60};
    for (size_t i = 0; i < sizeof DELAYS / sizeof *DELAYS; i++) {
        EXPECT(events() == (i >= 2));
        EXPECT_FAILED(berm_test_wake(), "no route to host");
        last += DELAYS[i] * MINUTE;
    }
    EXPECT_CONTAINS(berm_test_published(), "watch:failing {");
    EXPECT_CONTAINS(berm_test_published(), "\"reason\":\"no route to host\"}");
    serve("200", "", "one");
    EXPECT_DONE(berm_test_wake(), "unchanged: status 200, 3 bytes\n");
    EXPECT(events() == 2);
    EXPECT_CONTAINS(berm_test_published(), "watch:recovered {");
    EXPECT_DONE(berm_test_wake(), "unchanged: status 200, 3 bytes\n");
    EXPECT(events() == 2);
}

BERM_TEST(a_server_in_trouble_is_a_failure_and_no_change)
{
    begin();
    watch();
    static const char *const TROUBLE[] = {"500", "503", "429", "408"};
    for (size_t i = 0; i < sizeof TROUBLE / sizeof *TROUBLE; i++) {
        char text[64];
        berm_out out;
        serve(TROUBLE[i], "", "busy");
        berm_out_fixed(&out, text, sizeof text);
        berm_printf(&out, "the server answered with status %s%c", TROUBLE[i], 0);
        EXPECT_FAILED(berm_test_wake(), text);
    }
    serve("200", "", "one");
    EXPECT_DONE(berm_test_wake(), "unchanged: status 200, 3 bytes\n");
}

BERM_TEST(an_address_that_cannot_be_fetched_is_not_watched)
{
    begin();
    serve(NULL, "", "");
    EXPECT_FAILED(berm_test_call("watch", WATCH), "no route to host");
    EXPECT(berm_test_pending() == 0);
    EXPECT_DONE(berm_test_call("list_watches", ""), "no watches\n");
}

BERM_TEST(watching_again_changes_how_often)
{
    begin();
    watch();
    serve("200", "", "other");
    berm_outcome got = berm_test_call("watch", "{\"url\": \"" URL "\", \"every\": \"0 8 * * mon-fri\"}");
    EXPECT_CONTAINS(got.text, ": status 200, 3 bytes, 0 8 * * mon-fri\n");
    EXPECT(berm_test_pending() == 1);
    EXPECT_CONTAINS(berm_test_call("list_watches", "").text, "next 2026-11-30 08:00 Europe/Berlin\n");
    EXPECT_DONE(berm_test_wake(), "changed: status 200, 5 bytes\n");
}

BERM_TEST(it_can_be_checked_now)
{
    begin();
    berm_str id = watch();
    EXPECT_DONE(call("check_watch", id), "unchanged: status 200, 3 bytes\n");
    serve("200", "", "other");
    EXPECT_DONE(call("check_watch", id), "changed: status 200, 5 bytes\n");
    EXPECT(events() == 1);
    EXPECT_FAILED(call("check_watch", BERM_STR("nosuch")), "no watch `nosuch`; list_watches shows them");
}

BERM_TEST(a_watch_ends)
{
    begin();
    berm_str id = watch();
    EXPECT_DONE(call("unwatch", id), "no longer watched: " URL "\n");
    EXPECT(berm_test_pending() == 0);
    EXPECT_DONE(berm_test_call("list_watches", ""), "no watches\n");
    EXPECT_CONTAINS(call("unwatch", id).text, "; list_watches shows them");
}

static void refuse(berm_request *request, berm_answer *answer)
{
    (void)request;
    berm_answer_error(answer, "the queue is full");
}

BERM_TEST(a_change_that_could_not_be_told_is_told_later)
{
    begin();
    watch();
    serve("200", "", "three");
    berm_test_stand_in("crabtalk.event.publish", refuse);
    EXPECT_FAILED(berm_test_wake(), "the queue is full");
    berm_test_events();
    EXPECT_DONE(berm_test_wake(), "changed: status 200, 5 bytes\n");
    EXPECT(events() == 1);
}

BERM_TEST(without_a_wake_there_is_no_record)
{
    begin();
    berm_test_stand_in("crabtalk.wake.schedule", refuse);
    EXPECT_FAILED(berm_test_call("watch", WATCH), "the queue is full");
    EXPECT_DONE(berm_test_call("list_watches", ""), "no watches\n");
}

BERM_TEST(a_wrong_rule_is_said)
{
    begin();
    EXPECT_FAILED(berm_test_call("watch", "{\"url\": \"" URL "\", \"every\": \"often\"}"),
                  "the rule `often` is wrong: expected a minute from 0 to 59 - at byte 0");
    EXPECT(fetches == 0);
}
