/* Stand-ins of the web: pages in memory, served as berm.http.*. */
#include "native.h"

#include <stdlib.h>

#define PAGES_MOST 64
#define FLIGHTS_MOST 16 /* as the daemon has it */

typedef struct page {
    const char *url;
    const char *headers;
    const char *body; /* or why there is no response */
    int status;       /* 0: there is none */
} page;

static page pages[PAGES_MOST];
static size_t page_count;
static struct {
    int64_t id;
    const page *page;
} flights[FLIGHTS_MOST]; /* started and not collected, in that order */
static size_t flight_count;
static int64_t flights_made;
static char *requested; /* all lines */
static size_t requested_len;

static void note_request(berm_str method, berm_str url)
{
    size_t len = method.len + url.len + 2;
    requested = (char *)realloc(requested, requested_len + len);
    if (!requested)
        abort();
    berm_out line;
    berm_out_fixed(&line, requested + requested_len, len);
    berm_printf(&line, "%.*s %.*s\n", BERM_ARG(method), BERM_ARG(url));
    requested_len += len;
}

/* The page that is asked for; NULL, and an error, when its host is not one of the test's. */
static const page *asked_for(berm_request *request, berm_answer *answer)
{
    berm_str scheme, rest, host, path;
    berm_str method = berm_request_field(request);
    berm_str url = berm_request_field(request);
    note_request(method, url);
    for (size_t i = page_count; i-- > 0;)
        if (berm_is(url, pages[i].url))
            return &pages[i];
    berm_cut(url, BERM_STR("://"), &scheme, &rest);
    berm_cut(rest, BERM_STR("/"), &host, &path);
    berm_answer_error(answer, "host is not granted: `%.*s://%.*s`", BERM_ARG(scheme), BERM_ARG(host));
    return NULL;
}

static void answer_page(berm_answer *answer, const page *p)
{
    native_answer_integer(answer, p->status);
    berm_answer_field(answer, berm_str_of(p->headers));
    berm_answer_field(answer, berm_str_of(p->body));
}

static void http_fetch(berm_request *request, berm_answer *answer)
{
    const page *p = asked_for(request, answer);
    if (p && p->status == 0)
        berm_answer_error(answer, "%s", p->body);
    else if (p)
        answer_page(answer, p);
}

static void http_start(berm_request *request, berm_answer *answer)
{
    const page *p = asked_for(request, answer);
    if (!p)
        return;
    if (flight_count == FLIGHTS_MOST) {
        berm_answer_error(answer, "%d requests are in flight: collect one first", FLIGHTS_MOST);
        return;
    }
    flights[flight_count].id = ++flights_made;
    flights[flight_count++].page = p;
    berm_answer_printf(answer, "%lld", (long long)flights_made);
}

/* The first that was started is the first that is done. */
static void http_collect(berm_request *request, berm_answer *answer)
{
    int64_t id;
    size_t i = 0;
    berm_str text = berm_request_field(request);
    if (text.len && !berm_parse_int(text, &id))
        berm_test_failed(NULL, 0, "expected the id of a request, got `%.*s`", BERM_ARG(text));
    while (text.len && i < flight_count && flights[i].id != id)
        i++;
    if (i == flight_count) {
        berm_answer_error(answer, text.len ? "no such request" : "no request is in flight");
        return;
    }
    native_answer_integer(answer, flights[i].id);
    answer_page(answer, flights[i].page);
    flight_count--;
    for (; i < flight_count; i++)
        flights[i] = flights[i + 1];
}

static void add_page(page one)
{
    berm_test_stand_in("berm.http.fetch", http_fetch);
    berm_test_stand_in("berm.http.start", http_start);
    berm_test_stand_in("berm.http.collect", http_collect);
    if (page_count == PAGES_MOST)
        berm_test_failed(NULL, 0, "more than %d pages", PAGES_MOST);
    pages[page_count++] = one;
}

void berm_test_page(const char *url, int status, const char *headers, const char *body)
{
    add_page((page){url, headers, body, status});
}

void berm_test_page_fails(const char *url, const char *message)
{
    add_page((page){url, "", message, 0});
}

berm_str berm_test_requested(void)
{
    return berm_str_make(requested ? requested : "", requested_len);
}
