/* Tests of a harness, run on the author's own machine by `berm test`.
 *
 *     #include <berm/test.h>
 *
 *     BERM_TEST(greets_by_name)
 *     {
 *         berm_outcome got = berm_test_call("greet", "{\"name\": \"Ada\"}");
 *         EXPECT_DONE(got, "Hello, Ada!\n");
 *     }
 *
 * The sources are the same that make the image; the host's side is played by this file. Each test runs in
 * a process of its own, so it may crash, loop or change what it likes. Within one test, static
 * variables of the harness live on from call to call, unlike in the sandbox, where each call begins fresh.
 *
 * A capability is served by the stand-in that the test registered for it; without one the test fails and
 * names the capability.
 */
#ifndef BERM_TEST_H
#define BERM_TEST_H

#include <berm/berm.h>

#ifdef BERM_GUEST
#error "berm/test.h is for native tests: keep them in tests/, where `berm build` does not look"
#endif

BERM_BEGIN

typedef struct berm_outcome {
    bool failed;   /* the tool called berm_fail */
    berm_str text; /* its result, or its message */
} berm_outcome;

/* Call a tool (or "on_wake", "on_notify") with its arguments as JSON (or as they are). */
berm_outcome berm_test_call(const char *tool, const char *args);
berm_outcome berm_test_call_bytes(const char *tool, berm_str args);

/* What the harness has logged since the test began, a line each. */
berm_str berm_test_log(void);

/* ---- stand-ins ---- */

typedef struct berm_request {
    berm_str rest; /* fields not taken yet */
} berm_request;

typedef struct berm_answer {
    berm_out data;
    berm_status status;
} berm_answer;

typedef void berm_stand_in(berm_request *request, berm_answer *answer);

/* Serve a capability with a function for the rest of this test. */
void berm_test_stand_in(const char *capability, berm_stand_in *function);

/* Take the next field; the test fails when there is none. */
berm_str berm_request_field(berm_request *request);

/* Answer: bytes as they are (a reply of one field), framed fields, or an error. */
void berm_answer_bytes(berm_answer *answer, berm_str bytes);
void berm_answer_field(berm_answer *answer, berm_str field);
void berm_answer_printf(berm_answer *answer, const char *format, ...) BERM_PRINTF(2, 3);
void berm_answer_error(berm_answer *answer, const char *format, ...) BERM_PRINTF(2, 3);
void berm_answer_refused(berm_answer *answer, const char *format, ...) BERM_PRINTF(2, 3);

/* Files in memory, served as berm.fs.*; the first of these calls registers them. */
void berm_test_file(const char *path, const char *content);
void berm_test_file_bytes(const char *path, berm_str content);
bool berm_test_has_file(const char *path);
berm_str berm_test_file_content(const char *path); /* the test fails when there is none */

/* Storage in memory, served as berm.get, berm.set and berm.kv.*; empty at first. */
void berm_test_storage(void);

/* A clock that stands still, served as berm.clock.now; and how to move it. */
void berm_test_clock(int64_t unix_ms, int64_t offset_s, const char *zone);
void berm_test_clock_to(int64_t unix_ms);

/* A zone by its POSIX rule, "CET-1CEST,M3.5.0,M10.5.0/3", served as berm.clock.offset. When it is the zone of
 * the clock, the clock's offset follows it. */
void berm_test_zone(const char *name, const char *posix_rule);

/* Wakes in memory, served as crabtalk.wake.*; none at first. */
void berm_test_wakes(void);
size_t berm_test_pending(void);                /* how many */
int64_t berm_test_pending_at(const char *key); /* the instant of the wake with a key; -1: there is none */

/* Move the clock to the earliest pending wake, or so much later, and call `on_wake` with it. The test fails
 * when there is none. */
berm_outcome berm_test_wake(void);
berm_outcome berm_test_wake_late(int64_t late_ms);

/* Events in memory, served as crabtalk.event.*. */
void berm_test_events(void);
berm_str berm_test_published(void);               /* a line "source payload" for each, in order */
bool berm_test_subscribed(const char *source);
berm_outcome berm_test_notify(const char *source, const char *payload); /* calls `on_notify` */

/* Pages of the web in memory, by their whole address, served as berm.http.*; the host of any other address is
 * not granted. A page that fails gives no response. */
void berm_test_page(const char *url, int status, const char *headers, const char *body);
void berm_test_page_fails(const char *url, const char *message);
berm_str berm_test_requested(void); /* a line "method address" for each, in order */

/* Agents that are made up: who is shown by crabtalk.peers.list, and what crabtalk.agent.send gives. The texts
 * are the test's and not copied. */
void berm_test_peers(void); /* none at first */
void berm_test_peer(const char *name, const char *description);
void berm_test_agent_says(const char *name, const char *answer);
void berm_test_agent_fails(const char *name, const char *message);
berm_str berm_test_sent(void); /* a line "agent content" for each, in order */

/* Skills that are made up, served as crabtalk.skills.*; none at first. */
void berm_test_skills(void);
void berm_test_skill(const char *name, const char *description, const char *text);

/* Messages that are made up, served as crabtalk.sessions.search: one is found when each word of the query occurs
 * in it, the first one first. Of the role "tool", the text is the tool's name. */
void berm_test_sessions(void);
void berm_test_said(const char *session, const char *title, const char *role, const char *text);

/* ---- expectations: the first that does not hold ends the test ---- */

#define EXPECT(condition) \
    ((condition) ? (void)0 : berm_test_failed(__FILE__, __LINE__, "expected %s", #condition))
#define EXPECT_TEXT(got, wanted) berm_test_text(__FILE__, __LINE__, (got), (wanted))
#define EXPECT_CONTAINS(got, part) berm_test_contains(__FILE__, __LINE__, (got), (part))
#define EXPECT_DONE(outcome, text) berm_test_outcome(__FILE__, __LINE__, (outcome), false, (text))
#define EXPECT_FAILED(outcome, message) berm_test_outcome(__FILE__, __LINE__, (outcome), true, (message))

BERM_NORETURN void berm_test_failed(const char *file, int line, const char *format, ...) BERM_PRINTF(3, 4);
void berm_test_text(const char *file, int line, berm_str got, const char *wanted);
void berm_test_contains(const char *file, int line, berm_str got, const char *part);
void berm_test_outcome(const char *file, int line, berm_outcome got, bool failed, const char *text);

/* ---- how tests are found ---- */

void berm_test_register(const char *name, void (*function)(void));

#define BERM_TEST(name)                                                      \
    static void berm_case_##name(void);                                      \
    __attribute__((constructor)) static void berm_case_register_##name(void) \
    {                                                                        \
        berm_test_register(#name, berm_case_##name);                         \
    }                                                                        \
    static void berm_case_##name(void)

BERM_END

#endif
