/* The tree to a program over bytes, and the program to a table that is filled while matching.
 *
 * A program step takes one byte of a range, splits, or asks where it stands. A state of the table is the
 * set of steps that wait for the next byte, with what lies just behind; states are made when first
 * reached and forgotten all at once when there are too many, so memory is bounded and each byte of
 * text costs at most one walk over the program.
 */
#include "regex.h"

#include "regex_parse.h"

#include <string.h>

#define PATTERN_MOST 4096
#define STEPS_MOST 20000
#define STATES_MOST 512
#define BUCKETS 1024
#define UNKNOWN UINT16_MAX
#define LINE_STOP 256 /* the "byte" after the last */

typedef enum step_kind { STEP_BYTE, STEP_SPLIT, STEP_JUMP, STEP_ASSERT, STEP_MATCH } step_kind;

typedef struct step {
    step_kind kind;
    uint8_t low, high;   /* BYTE */
    uint8_t assertion;   /* ASSERT */
    uint32_t next, other; /* SPLIT: both; else next alone */
} step;

typedef struct state {
    uint32_t *steps; /* sorted by time of reaching; each once */
    size_t count;
    bool line_start, after_word;
    bool known_end, matches_at_end;
    struct state *chain; /* same bucket */
    uint16_t *next;      /* per byte class; UNKNOWN, or a state's index, or MATCHED */
} state;

#define MATCHED (UNKNOWN - 1)

struct regex {
    step *steps;
    uint32_t count, cap;
    uint8_t class_of[256];
    unsigned classes;
    state *states;
    size_t state_count;
    state *buckets[BUCKETS];
    uint32_t *list; /* scratch: the closure, then the steps after a byte */
    uint32_t *seen; /* per step: the round it was last reached in */
    uint32_t *stack;
    uint32_t round;
};

/* ---- compiling ---- */

static uint32_t emit(regex *re, step_kind kind, uint32_t next, uint32_t other)
{
    if (re->count == STEPS_MOST)
        berm_fail("pattern: too large; use fewer or smaller repeats");
    if (re->count == re->cap) {
        re->cap = re->cap ? re->cap * 2 : 64;
        re->steps = (step *)berm_realloc(re->steps, re->cap, sizeof *re->steps);
    }
    step *s = &re->steps[re->count];
    memset(s, 0, sizeof *s);
    s->kind = kind;
    s->next = next;
    s->other = other;
    return re->count++;
}

/* Code is emitted back to front: each function gets the step that follows and returns its first. */
static uint32_t emit_node(regex *re, const node *n, uint32_t next);

static uint32_t emit_byte(regex *re, uint8_t low, uint8_t high, uint32_t next)
{
    uint32_t at = emit(re, STEP_BYTE, next, 0);
    re->steps[at].low = low;
    re->steps[at].high = high;
    return at;
}

static uint32_t emit_either(regex *re, uint32_t a, uint32_t b)
{
    return a == UINT32_MAX ? b : emit(re, STEP_SPLIT, a, b);
}

/* A range whose ends have encodings of one length, equal up to some byte and then spanning all: split
 * until that holds (as in RE2). */
static uint32_t emit_range(regex *re, uint32_t low, uint32_t high, uint32_t next, uint32_t before)
{
    static const uint32_t LENGTH_ENDS[] = {0x7f, 0x7ff, 0xffff};
    for (int i = 0; i < 3; i++)
        if (low <= LENGTH_ENDS[i] && high > LENGTH_ENDS[i]) {
            before = emit_range(re, low, LENGTH_ENDS[i], next, before);
            return emit_range(re, LENGTH_ENDS[i] + 1, high, next, before);
        }
    for (int bits = 6; bits <= 18 && high > 0x7f; bits += 6) {
        uint32_t mask = (UINT32_C(1) << bits) - 1;
        if ((low & ~mask) == (high & ~mask))
            break;
        if (low & mask) {
            before = emit_range(re, low, low | mask, next, before);
            return emit_range(re, (low | mask) + 1, high, next, before);
        }
        if ((high & mask) != mask) {
            before = emit_range(re, low, (high & ~mask) - 1, next, before);
            return emit_range(re, high & ~mask, high, next, before);
        }
    }
    char from[4], to[4];
    size_t len = berm_utf8_encode(low, from);
    berm_utf8_encode(high, to);
    uint32_t at = next;
    for (size_t i = len; i-- > 0;)
        at = emit_byte(re, (uint8_t)from[i], (uint8_t)to[i], at);
    return emit_either(re, before, at);
}

static uint32_t emit_set(regex *re, const node *n, uint32_t next)
{
    uint32_t first = UINT32_MAX;
    for (size_t i = 0; i < n->count; i++) {
        uint32_t low = n->ranges[i].low, high = n->ranges[i].high;
        /* UTF-8 has no surrogates. */
        if (low < 0xd800)
            first = emit_range(re, low, high < 0xd800 ? high : 0xd7ff, next, first);
        if (high > 0xdfff)
            first = emit_range(re, low > 0xdfff ? low : 0xe000, high, next, first);
    }
    return first == UINT32_MAX ? emit_byte(re, 1, 0, next) : first; /* an empty set matches nothing */
}

static uint32_t emit_repeat(regex *re, const node *n, uint32_t next)
{
    uint32_t at = next;
    if (n->most == UNBOUNDED) {
        at = emit(re, STEP_SPLIT, 0, next);
        uint32_t again = emit_node(re, n->left, at);
        re->steps[at].next = again;
    }
    for (int i = n->least; n->most != UNBOUNDED && i < n->most; i++)
        at = emit(re, STEP_SPLIT, emit_node(re, n->left, at), next);
    for (int i = 0; i < n->least; i++)
        at = emit_node(re, n->left, at);
    return at;
}

static uint32_t emit_node(regex *re, const node *n, uint32_t next)
{
    switch (n->kind) {
    case NODE_SET: return emit_set(re, n, next);
    case NODE_THEN: return emit_node(re, n->left, emit_node(re, n->right, next));
    case NODE_EITHER: {
        uint32_t left = emit_node(re, n->left, next);
        return emit(re, STEP_SPLIT, left, emit_node(re, n->right, next));
    }
    case NODE_REPEAT: return emit_repeat(re, n, next);
    case NODE_ASSERT: {
        uint32_t at = emit(re, STEP_ASSERT, next, 0);
        re->steps[at].assertion = (uint8_t)n->assertion;
        return at;
    }
    default: return emit(re, STEP_JUMP, next, 0);
    }
}

static bool is_word(unsigned byte)
{
    return byte == '_' || (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z' && byte < 128);
}

/* Bytes that no step tells apart share a column of the table. */
static void make_classes(regex *re)
{
    bool starts[257] = {false};
    for (uint32_t i = 0; i < re->count; i++)
        if (re->steps[i].kind == STEP_BYTE && re->steps[i].low <= re->steps[i].high)
            starts[re->steps[i].low] = starts[re->steps[i].high + 1] = true;
    for (unsigned byte = 1; byte < 256; byte++)
        starts[byte] = starts[byte] || is_word(byte) != is_word(byte - 1);
    unsigned class_ = 0;
    for (unsigned byte = 0; byte < 256; byte++) {
        class_ += byte && starts[byte];
        re->class_of[byte] = (uint8_t)class_;
    }
    re->classes = class_ + 1;
}

/* ---- matching ---- */

static bool holds(const state *s, unsigned assertion, unsigned byte)
{
    bool edge = s->after_word != (byte != LINE_STOP && is_word(byte));
    switch (assertion) {
    case LINE_START: return s->line_start;
    case LINE_END: return byte == LINE_STOP;
    case WORD_EDGE: return edge;
    default: return !edge;
    }
}

/* Follow everything that takes no byte, from `first` on, knowing the byte ahead. True on a match. */
static bool close_over(regex *re, const state *s, uint32_t first, unsigned byte, size_t *count)
{
    size_t depth = 0;
    re->stack[depth++] = first;
    while (depth) {
        uint32_t at = re->stack[--depth];
        if (re->seen[at] == re->round)
            continue;
        re->seen[at] = re->round;
        const step *here = &re->steps[at];
        switch (here->kind) {
        case STEP_MATCH: return true;
        case STEP_BYTE: re->list[(*count)++] = at; break;
        case STEP_SPLIT:
            re->stack[depth++] = here->other;
            re->stack[depth++] = here->next;
            break;
        case STEP_JUMP: re->stack[depth++] = here->next; break;
        case STEP_ASSERT:
            if (holds(s, here->assertion, byte))
                re->stack[depth++] = here->next;
        }
    }
    return false;
}

/* The steps that wait for this byte; true when the pattern has matched before it. */
static bool closure(regex *re, const state *s, unsigned byte, size_t *count)
{
    *count = 0;
    re->round++;
    for (size_t i = 0; i < s->count; i++)
        if (close_over(re, s, s->steps[i], byte, count))
            return true;
    return false;
}

static uint16_t find_state(regex *re, const uint32_t *steps, size_t count, bool line_start, bool after_word)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) + line_start * 2u + after_word;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ steps[i]) * UINT64_C(0x100000001b3);
    state **bucket = &re->buckets[(hash ^ hash >> 32) % BUCKETS];
    for (state *s = *bucket; s; s = s->chain)
        if (s->count == count && s->line_start == line_start && s->after_word == after_word &&
            memcmp(s->steps, steps, count * sizeof *steps) == 0)
            return (uint16_t)(s - re->states);
    if (re->state_count == STATES_MOST)
        return UNKNOWN;
    state *s = &re->states[re->state_count];
    memset(s, 0, sizeof *s);
    s->steps = (uint32_t *)berm_alloc(count * sizeof *steps);
    memcpy(s->steps, steps, count * sizeof *steps);
    s->count = count;
    s->line_start = line_start;
    s->after_word = after_word;
    s->next = (uint16_t *)berm_alloc(re->classes * sizeof *s->next);
    memset(s->next, 0xff, re->classes * sizeof *s->next);
    s->chain = *bucket;
    *bucket = s;
    return (uint16_t)re->state_count++;
}

static void forget_states(regex *re)
{
    for (size_t i = 0; i < re->state_count; i++) {
        berm_free(re->states[i].steps);
        berm_free(re->states[i].next);
    }
    re->state_count = 0;
    memset(re->buckets, 0, sizeof re->buckets);
}

static uint16_t start_state(regex *re)
{
    uint32_t first = 1; /* step 0 is the match, step 1 the jump to the pattern */
    return find_state(re, &first, 1, true, false);
}

/* Take one byte from a state. The steps after it go into re->list behind the closure, in place. */
static uint16_t advance(regex *re, uint16_t from, unsigned char byte)
{
    state *s = &re->states[from];
    size_t waiting, after = 0;
    if (closure(re, s, byte, &waiting))
        return s->next[re->class_of[byte]] = MATCHED;
    re->round++;
    for (size_t i = 0; i < waiting; i++) {
        const step *here = &re->steps[re->list[i]];
        if (byte < here->low || byte > here->high || re->seen[here->next] == re->round)
            continue;
        re->seen[here->next] = re->round;
        re->list[after++] = here->next;
    }
    if (re->seen[1] != re->round)
        re->list[after++] = 1; /* a match may start at the next byte, too */
    uint16_t to = find_state(re, re->list, after, false, is_word(byte));
    if (to != UNKNOWN)
        return s->next[re->class_of[byte]] = to;
    forget_states(re);
    return find_state(re, re->list, after, false, is_word(byte));
}

static bool matches_at_end(regex *re, uint16_t at)
{
    state *s = &re->states[at];
    size_t waiting;
    if (!s->known_end) {
        s->matches_at_end = closure(re, s, LINE_STOP, &waiting);
        s->known_end = true;
    }
    return s->matches_at_end;
}

bool regex_matches(regex *re, berm_str line)
{
    if (re->state_count == STATES_MOST)
        forget_states(re);
    uint16_t at = start_state(re);
    for (size_t i = 0; i < line.len; i++) {
        unsigned char byte = (unsigned char)line.ptr[i];
        uint16_t to = re->states[at].next[re->class_of[byte]];
        at = to == UNKNOWN ? advance(re, at, byte) : to;
        if (at == MATCHED)
            return true;
    }
    return matches_at_end(re, at);
}

regex *regex_compile(berm_str pattern, bool ignore_case)
{
    if (pattern.len > PATTERN_MOST)
        berm_fail("pattern: longer than %d bytes", PATTERN_MOST);
    regex *re = BERM_NEW(regex);
    node *tree = regex_parse(pattern, ignore_case);
    uint32_t match = emit(re, STEP_MATCH, 0, 0);
    uint32_t start = emit(re, STEP_JUMP, 0, 0);
    uint32_t first = emit_node(re, tree, match);
    re->steps[start].next = first;
    make_classes(re);
    re->states = BERM_NEW_ARRAY(state, STATES_MOST);
    re->list = BERM_NEW_ARRAY(uint32_t, re->count + 1);
    re->seen = BERM_NEW_ARRAY(uint32_t, re->count);
    re->stack = BERM_NEW_ARRAY(uint32_t, (size_t)re->count * 2 + 2);
    return re;
}
