/* What an address gave: enough to see whether it gives something else now. */
#ifndef WATCH_PAGE_H
#define WATCH_PAGE_H

#include <berm/berm.h>

typedef struct page {
    int64_t status;
    int64_t size;      /* bytes of the body */
    berm_str digest;   /* of the body, and of where a redirect points */
    berm_str etag;     /* the server's validators; empty when it sent none */
    berm_str modified;
} page;

/* What was seen before anything was seen. */
page page_none(void);

/* Fetch an address; the server may say that it is still as `known`. Fails the call when there is no response,
 * or one that says nothing about the page: 408, 425, 429 and 500 to 599. Any other status is what the page is
 * now: a page that is gone has changed. */
page page_fetch(berm_str url, const page *known);

/* Whether both are the same; validators are not compared. */
bool page_same(const page *a, const page *b);

void page_write(berm_json_writer *json, const page *p);
bool page_read(berm_json object, page *p);

#endif
