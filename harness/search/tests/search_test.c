/* The pages here were written by hand, each in the shape of its engine's; no page of an engine is in them. */
#include <berm/test.h>

#include <string.h>

#define TYPE "content-type: text/html; charset=utf-8\n"

#define DUCKDUCKGO "https://html.duckduckgo.com/html/?q=risc-v%20%22abi%22"
#define BING "https://www.bing.com/search?q=risc-v%20%22abi%22"
#define BRAVE "https://search.brave.com/search?source=web&q=risc-v%20%22abi%22"
#define MOJEEK "https://www.mojeek.com/search?q=risc-v%20%22abi%22"
#define WIKIPEDIA \
    "https://en.wikipedia.org/w/api.php?action=query&list=search&format=json&srlimit=10&srsearch=risc-v%20%22abi%22"

static const char DUCKDUCKGO_PAGE[] =
    "<!DOCTYPE html><html><head><title>x at DuckDuckGo</title><script>var a = '<div class=\"web-result\">';</script>"
    "</head><body><div id=\"links\" class=\"results\">\n"
    "<div class=\"result results_links results_links_deep result--ad\"><h2 class=\"result__title\">"
    "<a class=\"result__a\" href=\"https://duckduckgo.com/y.js?ad_domain=x\">Buy now</a></h2></div>\n"
    "<div class=\"result results_links results_links_deep web-result \"><div class=\"links_main links_deep "
    "result__body\">\n<h2 class=\"result__title\">\n"
    "<a rel=\"nofollow\" class=\"result__a\" "
    "href=\"//duckduckgo.com/l/?uddg=https%3A%2F%2Friscv.example%2Fabi%3Fa%3D1%26b%3D2&amp;rut=0a1b\">RISC&#x2D;V "
    "<b>ABI</b> &amp; more</a>\n</h2>\n<div class=\"result__extras\"><div class=\"result__extras__url\"><a "
    "class=\"result__url\" href=\"//duckduckgo.com/l/?uddg=x\">riscv.example</a></div></div>\n"
    "<a class=\"result__snippet\" href=\"//duckduckgo.com/l/?uddg=x\">The <b>calling</b>\n convention.</a>\n"
    "</div></div>\n"
    "<div class=\"result results_links results_links_deep web-result \"><h2 class=\"result__title\"><a "
    "class=\"result__a\" href=\"//duckduckgo.com/l/?uddg=https%3A%2F%2Fwww.both.example%2F&amp;rut=1\">Both</a></h2>"
    "</div></div></body></html>";

static const char BING_PAGE[] =
    "<html><body><ol id=\"b_results\">"
    "<li class=\"b_ad\"><ul><li><h2><a href=\"https://ads.example/\">Ad</a></h2></li></ul></li>"
    "<li class=\"b_algo\" data-id iid=SERP.1><div class=\"b_tpcn\"><a class=\"tilk\" href=\"https://icon.example/\">"
    "<img src=\"x\"></a></div><h2><a href=\"https://both.example#top\" h=\"ID=SERP,1.1\">Both of <strong>them</strong>"
    "</a></h2><div class=\"b_caption\"><p class=\"b_lineclamp2\"><span class=\"algoSlug_icon\" "
    "data-priority=\"2\">Web</span>Nov 30, 2026 "
    "&#0183; Known to both.</p></div></li>"
    "<li class=\"b_algo\"><h2><a target=\"_blank\" href=\"https://www.bing.com/ck/a?!&amp;&amp;p=00&amp;u=a1"
    "aHR0cHM6Ly9kZWVwLmV4YW1wbGUvP3E9w7w_Lw&amp;ntb=1\">Deep</a></h2><div class=\"b_caption\"><p>Behind a "
    "link that counts.</p></div></li>"
    "<li class=\"b_algo\"><h2>No link</h2></li>"
    "<li class=\"b_algo\"><h2><a href=\"javascript:alert(1)\">Trick</a></h2></li>"
    "<li class=\"b_pag\"><nav><p>1 2 3</p></nav></li></ol></body></html>";

static const char BRAVE_PAGE[] =
    "<div id=\"results\"><div class=\"snippet svelte-1\" data-type=\"ad\"><a href=\"https://ads.example/\"><div "
    "class=\"title\">Ad</div></a></div>"
    "<div class=\"snippet svelte-1\" data-pos=\"1\" data-type=\"web\"><div class=\"result-wrapper\"><a "
    "href=\"https://brave.example/page\" target=\"_self\" class=\"svelte-2 l1\"><div class=\"site-name-wrapper\">"
    "<cite class=\"snippet-url\">brave.example <span>› page</span></cite></div><div class=\"title search-snippet-title "
    "line-clamp-1 svelte-2\" title=\"Brave\">Brave page</div></a><div class=\"generic-snippet svelte-3\"><div "
    "class=\"content desktop-default-regular\"><!--[--><span class=\"t-secondary\">3 days ago -</span> Words.<!--]-->"
    "</div></div></div></div>"
    "<div class=\"snippet\" data-type=\"web\"><a href=\"https://old.example/\"><span class=\"title\">Old shape</span>"
    "</a><p class=\"snippet-description\">Older words.</p></div></div>";

static const char MOJEEK_PAGE[] =
    "<ul class=\"nav\"><li><a href=\"/about\">About</a></li></ul>"
    "<ul class=\"results-standard\"><!-- 1 --><li class=\"r1\"><a class=\"ob\" title=\"x\" "
    "href=\"https://mojeek.example/\"><p class=\"i\"><span class=\"url\">mojeek.example</span></p></a><h2><a "
    "class=\"title\" title=\"x\" href=\"https://mojeek.example/\">Mojeek &ndash; page</a></h2><p class=\"s\">Its "
    "<strong>own</strong> index.</p></li><li class=\"r2\"><h2><a class=\"title\" "
    "href=\"http://both.example/\">Both, too</a></h2><p class=\"s\"></p></li></ul>";

static const char WIKIPEDIA_ANSWER[] =
    "{\"batchcomplete\": \"\", \"query\": {\"searchinfo\": {\"totalhits\": 2}, \"search\": ["
    "{\"ns\": 0, \"title\": \"RISC-V\", \"pageid\": 1, \"snippet\": \"<span class=\\\"searchmatch\\\">RISC-V</span> is "
    "&quot;open&quot;\"}, {\"ns\": 0, \"title\": \"Zoë & Söhne?\", \"snippet\": \"\"}]}}";

static berm_outcome search(const char *rest)
{
    char memory[1024];
    berm_out args;
    berm_out_fixed(&args, memory, sizeof memory);
    berm_printf(&args, "{\"query\": \" risc-v \\\"abi\\\" \"%s}", rest);
    return berm_test_call_bytes("web_search", berm_out_str(&args));
}

BERM_TEST(duckduckgo_is_read)
{
    berm_test_page(DUCKDUCKGO, 200, TYPE, DUCKDUCKGO_PAGE);
    EXPECT_DONE(search(", \"engines\": [\"duckduckgo\"]"), "1. RISC-V ABI & more\n"
                                                            "   https://riscv.example/abi?a=1&b=2\n"
                                                            "   The calling convention.\n"
                                                            "   [duckduckgo 1]\n"
                                                            "2. Both\n"
                                                            "   https://www.both.example/\n"
                                                            "   [duckduckgo 2]\n");
    EXPECT_TEXT(berm_test_requested(), "GET " DUCKDUCKGO "\n");
}

BERM_TEST(bing_is_read)
{
    berm_test_page(BING, 200, TYPE, BING_PAGE);
    EXPECT_DONE(search(", \"engines\": [\"bing\"]"), "1. Both of them\n"
                                                      "   https://both.example#top\n"
                                                      "   Nov 30, 2026 · Known to both.\n"
                                                      "   [bing 1]\n"
                                                      "2. Deep\n"
                                                      "   https://deep.example/?q=ü?/\n"
                                                      "   Behind a link that counts.\n"
                                                      "   [bing 2]\n");
}

BERM_TEST(brave_is_read)
{
    berm_test_page(BRAVE, 200, TYPE, BRAVE_PAGE);
    EXPECT_DONE(search(", \"engines\": [\"brave\"]"), "1. Brave page\n"
                                                       "   https://brave.example/page\n"
                                                       "   3 days ago - Words.\n"
                                                       "   [brave 1]\n"
                                                       "2. Old shape\n"
                                                       "   https://old.example/\n"
                                                       "   Older words.\n"
                                                       "   [brave 2]\n");
}

BERM_TEST(mojeek_is_read)
{
    berm_test_page(MOJEEK, 200, TYPE, MOJEEK_PAGE);
    EXPECT_DONE(search(", \"engines\": [\"mojeek\"]"), "1. Mojeek – page\n"
                                                        "   https://mojeek.example/\n"
                                                        "   Its own index.\n"
                                                        "   [mojeek 1]\n"
                                                        "2. Both, too\n"
                                                        "   http://both.example/\n"
                                                        "   [mojeek 2]\n");
}

BERM_TEST(wikipedia_is_read)
{
    berm_test_page(WIKIPEDIA, 200, "content-type: application/json\n", WIKIPEDIA_ANSWER);
    EXPECT_DONE(search(", \"engines\": [\"wikipedia\"]"), "1. RISC-V\n"
                                                           "   https://en.wikipedia.org/wiki/RISC-V\n"
                                                           "   RISC-V is \"open\"\n"
                                                           "   [wikipedia 1]\n"
                                                           "2. Zoë & Söhne?\n"
                                                           "   https://en.wikipedia.org/wiki/Zo%C3%AB_%26_S%C3%B6hne%3F\n"
                                                           "   [wikipedia 2]\n");
}

BERM_TEST(an_instance_of_searxng_is_wherever_it_is)
{
    berm_test_page("http://10.0.0.7:8080/sx/search?format=json&q=risc-v%20%22abi%22", 200, "",
                   "{\"query\": \"x\", \"results\": [{\"url\": \"https://sx.example/\", \"title\": \"Found &amp; kept\", "
                   "\"content\": \"A <b>b</b>\", \"engine\": \"y\"}, {\"url\": \"ftp://sx.example/\", \"title\": \"t\"}, "
                   "{\"title\": \"no address\"}, 7]}");
    EXPECT_DONE(search(", \"engines\": [\"searxng=http://10.0.0.7:8080/sx/\"]"),
                "1. Found & kept\n   https://sx.example/\n   A b\n   [searxng 1]\n");
    EXPECT_FAILED(search(", \"engines\": [\"searxng\"]"),
                  "`searxng` is wherever you run it: write `searxng=https://…`");
}

BERM_TEST(what_several_have_is_one_result_and_comes_first)
{
    berm_test_page(DUCKDUCKGO, 200, TYPE, DUCKDUCKGO_PAGE);
    berm_test_page(BING, 200, TYPE, BING_PAGE);
    berm_test_page(MOJEEK, 200, TYPE, MOJEEK_PAGE);
    EXPECT_DONE(search(", \"limit\": 2"), "1. Both of them\n"
                                          "   https://both.example#top\n"
                                          "   Nov 30, 2026 · Known to both.\n"
                                          "   [duckduckgo 2, bing 1, mojeek 2]\n"
                                          "2. RISC-V ABI & more\n"
                                          "   https://riscv.example/abi?a=1&b=2\n"
                                          "   The calling convention.\n"
                                          "   [duckduckgo 1]\n");
}

BERM_TEST(who_has_no_results_is_said_and_who_was_not_granted_is_not)
{
    berm_test_page(DUCKDUCKGO, 202, TYPE, "<form id=\"challenge-form\">");
    berm_test_page(BING, 200, TYPE, BING_PAGE);
    berm_test_page(MOJEEK, 200, TYPE, "<html><body>Nothing here</body></html>");
    berm_test_page_fails(BRAVE, "the server did not answer in time");
    berm_outcome got = search(", \"limit\": 1");
    EXPECT_DONE(got, "1. Both of them\n"
                     "   https://both.example#top\n"
                     "   Nov 30, 2026 · Known to both.\n"
                     "   [bing 1]\n"
                     "[duckduckgo: it answered with status 202]\n"
                     "[brave: the server did not answer in time]\n"
                     "[mojeek: no results, or a page of another shape]\n");
    EXPECT_CONTAINS(search(", \"engines\": [\"bing\", \"wikipedia\"]").text,
                    "[wikipedia: host is not granted: `https://en.wikipedia.org`]\n");
}

BERM_TEST(when_nobody_has_results_the_call_fails_and_says_why)
{
    berm_test_page(BING, 429, TYPE, "slow down");
    EXPECT_FAILED(search(", \"engines\": [\"bing\", \"brave\"]"),
                  "no engine has results\n"
                  "[bing: it answered with status 429]\n"
                  "[brave: host is not granted: `https://search.brave.com`]\n");
    EXPECT_CONTAINS(search("").text, "[mojeek: host is not granted: `https://www.mojeek.com`]\n");
}

BERM_TEST(what_makes_no_sense_is_asked_of_nobody)
{
    berm_test_page(BING, 200, TYPE, BING_PAGE);
    EXPECT_FAILED(search(", \"engines\": [\"google\"]"),
                  "unknown engine `google` (known: `duckduckgo`, `bing`, `brave`, `mojeek`, `wikipedia`, `searxng`)");
    EXPECT_FAILED(search(", \"engines\": [\"bing=file:///etc\"]"),
                  "expected an address such as `https://search.example.org`, got `file:///etc`");
    EXPECT_FAILED(search(", \"engines\": [\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\"]"),
                  "at most 8 engines are asked at once, got 9");
    EXPECT_FAILED(berm_test_call("web_search", "{\"query\": \" \"}"), "`query` has 1 to 400 bytes, got 0");
    EXPECT_TEXT(berm_test_requested(), "");
}

BERM_TEST(many_results_and_long_ones_are_cut)
{
    static char page[200000];
    berm_out out;
    berm_out_fixed(&out, page, sizeof page);
    for (int i = 0; i < 150; i++) {
        berm_printf(&out, "<li class=b_algo><h2><a href=https://x.example/%d>", i);
        for (int k = 0; k < 150; k++)
            berm_puts(&out, "ü");
        berm_puts(&out, "</a></h2><p>");
        for (int k = 0; k < 260; k++)
            berm_puts(&out, "ä");
    }
    berm_putc(&out, 0);
    EXPECT(!berm_out_overflowed(&out));
    berm_test_page(BING, 200, TYPE, page);
    berm_outcome got = search(", \"limit\": 30");
    EXPECT_CONTAINS(got.text, "ü…\n   https://x.example/19\n");
    EXPECT_CONTAINS(got.text, "ä…\n   [bing 20]\n");
    EXPECT(berm_find(got.text, BERM_STR("x.example/20"), 0) == BERM_NOT_FOUND);
}

/* Each page, cut anywhere, is read without harm; the sanitizers watch. */
BERM_TEST(pages_that_break_off_are_read)
{
    static const char *const PAGES[][2] = {{DUCKDUCKGO, DUCKDUCKGO_PAGE},
                                           {BING, BING_PAGE},
                                           {BRAVE, BRAVE_PAGE},
                                           {MOJEEK, MOJEEK_PAGE},
                                           {WIKIPEDIA, WIKIPEDIA_ANSWER}};
    static char cut[8192];
    for (size_t i = 0; i < sizeof PAGES / sizeof *PAGES; i++)
        berm_test_page(PAGES[i][0], 200, TYPE, cut);
    for (size_t i = 0; i < sizeof PAGES / sizeof *PAGES; i++)
        for (size_t len = 1; len < strlen(PAGES[i][1]); len += 23) {
            memcpy(cut, PAGES[i][1], len);
            cut[len] = 0;
            EXPECT(search("").text.len > 0);
        }
}
