/* A JSON scanner driven by a state table that re-indents what it reads. */
#include "../kernel.h"

static const char source[] =
    "{\"id\":48213,\"name\":\"harbour \\\"north\\\" light\",\"open\":true,\"tags\":[\"sea\",\"signal\",\"\\u00e9t\\u00e9\"],"
    "\"position\":{\"lat\":-54.80191,\"lon\":6.830333e1,\"height\":null},\"log\":[{\"at\":1700000000,\"event\":\"lamp on\"},"
    "{\"at\":1700003600,\"event\":\"lamp off\",\"ok\":false},[],{},[1,2,3,[4,5,[6,7,[8]]]]],\"note\":\"line one\\nline two\\ttab\"}";
static char output[4096];

enum class_of { SPACE, QUOTE, OPEN, CLOSE, COMMA, COLON, WORD, BACKSLASH };
static uint8_t classes[256];

struct printer {
    char *out;
    size_t length;
    int depth;
    uint64_t digest;
};

static void classify(void) {
    memset(classes, WORD, sizeof classes);
    for (const char *p = " \t\r\n"; *p; p++) classes[(uint8_t)*p] = SPACE;
    classes['"'] = QUOTE;
    classes['{'] = classes['['] = OPEN;
    classes['}'] = classes[']'] = CLOSE;
    classes[','] = COMMA;
    classes[':'] = COLON;
    classes['\\'] = BACKSLASH;
}

static inline void put(struct printer *p, char c) {
    if (p->length < sizeof output) p->out[p->length++] = c;
}

static NOINLINE void indent(struct printer *p) {
    put(p, '\n');
    for (int i = 0; i < p->depth * 2; i++) put(p, ' ');
}

static size_t string(struct printer *p, const char *s, size_t at) {
    put(p, '"');
    for (at++; classes[(uint8_t)s[at]] != QUOTE; at++) {
        if (classes[(uint8_t)s[at]] == BACKSLASH) put(p, s[at++]);
        put(p, s[at]);
    }
    put(p, '"');
    return at + 1;
}

static size_t word(struct printer *p, const char *s, size_t at) {
    int64_t number = 0;
    for (; s[at] && classes[(uint8_t)s[at]] == WORD; at++) {
        if (s[at] >= '0' && s[at] <= '9') number = number * 10 + (s[at] - '0');
        put(p, s[at]);
    }
    p->digest = mix(p->digest, (uint64_t)number);
    return at;
}

static NOINLINE void print(struct printer *p, const char *s) {
    for (size_t at = 0; s[at];) {
        switch (classes[(uint8_t)s[at]]) {
        case SPACE: at++; break;
        case QUOTE: at = string(p, s, at); break;
        case OPEN:
            put(p, s[at++]);
            p->depth++;
            if (classes[(uint8_t)s[at]] != CLOSE) indent(p);
            break;
        case CLOSE:
            p->depth--;
            if (classes[(uint8_t)s[at - 1]] != OPEN) indent(p);
            put(p, s[at++]);
            break;
        case COMMA: put(p, s[at++]); indent(p); break;
        case COLON: put(p, s[at++]); put(p, ' '); break;
        default: at = word(p, s, at);
        }
    }
}

uint64_t kernel(uint64_t n) {
    uint64_t sum = 0;
    classify();
    for (uint64_t round = 0; round < n; round++) {
        struct printer p = {output, 0, 0, round};
        print(&p, source);
        sum = mix(sum, p.digest ^ p.length);
        for (size_t i = 0; i < p.length; i += 61) sum = mix(sum, (uint8_t)output[i]);
    }
    return sum;
}
