#include "../html.h"

#include <berm/test.h>

static berm_str text(const char *page)
{
    return html_text(berm_str_of(page), NULL);
}

BERM_TEST(text_is_read_as_it_is_shown)
{
    EXPECT_TEXT(text("  a\n <b>b</b>c<br>d<p>e</p> f\t"), "a bc d e f");
    EXPECT_TEXT(text("R&amp;D &lt;x&gt; &#252;&#xFC; &nbsp;&hellip;"), "R&D <x> üü …");
    EXPECT_TEXT(text("a & b &unknown; &amp &#; &#x;"), "a & b &unknown; &amp &#; &#x;");
    EXPECT_TEXT(text("&#1114112; &#xD800;"), "\xef\xbf\xbd \xef\xbf\xbd");
    EXPECT_TEXT(text("1 < 2 <3 </ >"), "1 < 2 <3 </ >");
    EXPECT_TEXT(text("a<script>if (a</b>) \"</p>\"</script>b<!-- <i> -->c<style>x</style>"), "a bc");
    EXPECT_TEXT(text("\xff<i"), "\xef\xbf\xbd");
    EXPECT_TEXT(text(""), "");
}

static const html_select ICON = {"span", "icon", NULL, NULL};

BERM_TEST(what_is_hidden_is_left_out)
{
    EXPECT_TEXT(html_text(BERM_STR("a<span class='x icon'>b<span>c</span></span>d<span>e</span>"), &ICON), "ade");
    EXPECT_TEXT(html_text(BERM_STR("a<span class=icon>b"), &ICON), "a");
}

BERM_TEST(tags_have_attributes_in_every_way_of_writing_them)
{
    html_tag tag;
    berm_str value;
    size_t at = 0;
    berm_str page = BERM_STR("<A HREF='x>y' class = \"one  two\" data=z>q checked empty=\"\" t=a&amp;b/>");
    EXPECT(html_next(page, &at, &tag));
    EXPECT(html_attribute(&tag, "href", &value));
    EXPECT_TEXT(value, "x>y");
    EXPECT(html_attribute(&tag, "class", &value));
    EXPECT_TEXT(value, "one  two");
    EXPECT(html_attribute(&tag, "data", &value));
    EXPECT_TEXT(value, "z");
    EXPECT(!html_attribute(&tag, "checked", &value));
    EXPECT(!html_next(page, &at, &tag));
    page = BERM_STR("<input checked empty=\"\" t=a&amp;b />");
    at = 0;
    EXPECT(html_next(page, &at, &tag));
    EXPECT(html_attribute(&tag, "checked", &value) && value.len == 0);
    EXPECT(html_attribute(&tag, "empty", &value) && value.len == 0);
    EXPECT(html_attribute(&tag, "t", &value));
    EXPECT_TEXT(value, "a&b");
    EXPECT(!html_attribute(&tag, "other", &value));
}

BERM_TEST(a_class_is_a_whole_word)
{
    html_tag tag;
    size_t at = 0;
    html_select result = {"div", "result", NULL, NULL};
    berm_str page = BERM_STR("<div class='results result__a'><span class=result></span><div class=' x\n result '>");
    EXPECT(html_find(page, &at, &result, &tag));
    EXPECT(at == page.len);
    html_select web = {NULL, NULL, "data-type", "web"};
    at = 0;
    EXPECT(!html_find(page, &at, &web, &tag));
}

BERM_TEST(what_is_inside_goes_to_the_tag_that_closes_it)
{
    html_tag tag;
    size_t at = 0;
    html_select any = {NULL, NULL, NULL, NULL};
    html_select item = {"li", NULL, NULL, NULL};
    berm_str page = BERM_STR("<div>a<div>b</div>c</div>d");
    EXPECT(html_find(page, &at, &any, &tag));
    EXPECT_TEXT(html_inner(page, &tag, NULL), "a<div>b</div>c");
    page = BERM_STR("<li>a<li>b</ul>");
    at = 0;
    EXPECT(html_find(page, &at, &item, &tag));
    EXPECT_TEXT(html_inner(page, &tag, &item), "a");
    EXPECT(html_find(page, &at, &item, &tag));
    EXPECT_TEXT(html_inner(page, &tag, &item), "b</ul>");
    page = BERM_STR("<br>a");
    at = 0;
    EXPECT(html_find(page, &at, &any, &tag));
    EXPECT_TEXT(html_inner(page, &tag, NULL), "");
}

BERM_TEST(what_never_ends_is_read_to_the_end)
{
    static const char *const PAGES[] = {"<",       "<a",     "<a ",    "<a href",    "<a href=",     "<a href='x",
                                        "<!--",    "<!-",    "<!",     "</",         "</a",          "<script>",
                                        "<script", "<?",     "<a =",   "<a ===\"\"", "<a/////",      "&",
                                        "&#",      "&amp",   "a<",     "<>",         "<script></sc", "<a href=\"\"\""};
    for (size_t i = 0; i < sizeof PAGES / sizeof *PAGES; i++) {
        html_tag tag;
        berm_str value;
        berm_str page = berm_str_of(PAGES[i]);
        for (size_t at = 0; html_next(page, &at, &tag);) {
            EXPECT(at <= page.len && tag.stop <= page.len);
            html_attribute(&tag, "href", &value);
            html_inner(page, &tag, NULL);
        }
        html_text(page, &ICON);
    }
}

BERM_TEST(random_pages_are_read)
{
    static const char *const PARTS[] = {"<", ">", "/", "a", " ", "=", "\"", "'", "!--", "-->", "script", "&", "#", ";",
                                        "x", "1", "li", "\xc3", "\xbc", "<li class=x>", "</li>", "class"};
    uint64_t state = 1;
    html_select item = {"li", "x", NULL, NULL};
    for (int run = 0; run < 20000; run++) {
        char memory[256];
        berm_out page;
        html_tag tag;
        size_t at = 0;
        berm_out_fixed(&page, memory, sizeof memory);
        for (int i = 0; i < 20; i++) {
            state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
            berm_puts(&page, PARTS[(state >> 33) % (sizeof PARTS / sizeof *PARTS)]);
        }
        while (html_find(berm_out_str(&page), &at, &item, &tag))
            html_inner(berm_out_str(&page), &tag, &item);
        berm_str text = html_text(berm_out_str(&page), &item);
        EXPECT(berm_utf8_valid(text));
        berm_free((void *)text.ptr);
    }
}
