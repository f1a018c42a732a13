/* The tree that a pattern is parsed into. Internal to the regex files. */
#ifndef OS_REGEX_PARSE_H
#define OS_REGEX_PARSE_H

#include <berm/berm.h>

#define REPEAT_MOST 1000
#define UNBOUNDED (-1)

typedef enum node_kind { NODE_EMPTY, NODE_SET, NODE_THEN, NODE_EITHER, NODE_REPEAT, NODE_ASSERT } node_kind;
typedef enum assertion { LINE_START, LINE_END, WORD_EDGE, NO_WORD_EDGE } assertion;

typedef struct range {
    uint32_t low, high;
} range;

typedef struct node {
    node_kind kind;
    struct node *left, *right; /* THEN and EITHER; left alone: REPEAT */
    int least, most;           /* REPEAT; most may be UNBOUNDED */
    assertion assertion;
    range *ranges; /* SET: code points, sorted, apart */
    size_t count;
} node;

node *regex_parse(berm_str pattern, bool ignore_case);

#endif
