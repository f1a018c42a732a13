/* Pages as engines send them: tags are found, and text is read out. No tree is built, and no page is wrong.
 *
 * Each function reads a page once from front to back, whatever is in it.
 */
#ifndef SEARCH_HTML_H
#define SEARCH_HTML_H

#include <berm/berm.h>

typedef struct html_tag {
    berm_str name;       /* as it was written */
    berm_str attributes; /* all that stands between the name and `>` */
    size_t start, stop;  /* of the tag in the page */
    bool closing;
} html_tag;

/* What a tag has to have; NULL asks for nothing. */
typedef struct html_select {
    const char *name;
    const char *class_name; /* one of its classes */
    const char *key;        /* an attribute, and its value */
    const char *value;
} html_select;

/* The next tag from *at on, which is moved behind it. What stands in comments, scripts and styles is no tag. */
bool html_next(berm_str page, size_t *at, html_tag *tag);

bool html_matches(const html_tag *tag, const html_select *select);

/* The next opening tag that is selected, from *at on. */
bool html_find(berm_str page, size_t *at, const html_select *select, html_tag *tag);

/* What stands between a tag and the one that closes it, or an opening tag that `until` selects (NULL: none), or
 * the end of the page. */
berm_str html_inner(berm_str page, const html_tag *tag, const html_select *until);

/* The value of an attribute, its entities decoded. */
bool html_attribute(const html_tag *tag, const char *key, berm_str *value);

/* The text as it is read, on one line: without tags, entities decoded, white space made one space; and without
 * what stands in tags that `hidden` selects (NULL: none). */
berm_str html_text(berm_str inner, const html_select *hidden);

#endif
