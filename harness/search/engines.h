/* The engines: how each is asked, and what its page looks like. */
#ifndef SEARCH_ENGINES_H
#define SEARCH_ENGINES_H

#include <berm/berm.h>

#define RESULTS_MOST 20 /* of one engine */

typedef struct result {
    berm_str url;
    berm_str title;
    berm_str snippet;
} result;

typedef struct results {
    result items[RESULTS_MOST]; /* the best first */
    size_t len;
} results;

typedef struct engine engine;

/* All of them, in order, up to a NULL. */
extern const engine *const ENGINES[];

const char *engine_name(const engine *e);

/* Where it is asked unless told otherwise; empty when it has no place of its own. */
berm_str engine_base(const engine *e);

/* What kind of document it gives, for the header Accept. */
berm_str engine_accept(const engine *e);

/* The address to fetch for a query. */
berm_str engine_address(const engine *e, berm_str base, berm_str query);

/* Read its answer. None is found in a page of another shape. */
void engine_read(const engine *e, berm_str base, berm_str body, results *found);

#endif
