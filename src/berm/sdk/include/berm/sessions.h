/* What was said in sessions of this agent: crabtalk.sessions.search. */
#ifndef BERM_SESSIONS_H
#define BERM_SESSIONS_H

#include <berm/capability.h>

BERM_BEGIN

/* One message around a hit, or the hit itself. */
typedef struct berm_said {
    berm_str role;      /* "user", "assistant", "tool" */
    int64_t index;      /* within its session */
    berm_str snippet;   /* empty for a tool's result */
    bool truncated;     /* the message goes on */
    berm_str tool_name; /* of a tool's result, or of the tools that were called; else empty */
} berm_said;

typedef struct berm_hit {
    berm_str session;
    berm_str title;
    int64_t index; /* of the message that matched; it is one of the window */
    double score;  /* larger is better; compares hits of one search only */
    berm_said *window;
    size_t window_len;
} berm_hit;

typedef struct berm_hits {
    berm_hit *items; /* the best first */
    size_t len;
} berm_hits;

/* Search for words, "phrases" and beginnings*. At most `limit` hits (20 at most), each with so many messages
 * before and after (20 at most). */
berm_hits berm_sessions_search(berm_str query, int64_t limit, int64_t before, int64_t after);

BERM_END

#endif
