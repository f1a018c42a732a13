/* A backtracking matcher (literals, dot, classes, star, plus, optional, anchors) over log lines. */
#include "../kernel.h"

static const char *const lines[] = {
    "2024-03-01T12:00:07 worker-3 INFO accepted connection from 10.0.3.17 port 51234",
    "2024-03-01T12:00:09 worker-1 WARN retry 3 of 5 for job 77812, backing off",
    "2024-03-01T12:00:11 worker-3 ERROR cannot open /var/lib/data/chunk_0091.bin: missing",
    "aaaaaaaaaaaaaaaaaaaaaaab", "user=kim@example.org action=login result=ok took=12ms",
    "    at parse (module.c:214) in frame 7",
};
static const char *const patterns[] = {
    "^[0-9]+-[0-9]+-[0-9]+T", "ERROR .*: missing$", "a*a*b", "[a-z]+@[a-z]+[.]org", "took=[0-9]+ms", "port 5?1?2+",
    "[(][a-z]+[.]c:[0-9]+[)]", "w.*r.*E.*c", "[^a-z ]+$",
};

static int in_class(const char *set, const char *end, char c) {
    int negate = *set == '^', found = 0;
    for (set += negate; set < end; set++) {
        if (set + 2 < end && set[1] == '-') {
            found |= c >= set[0] && c <= set[2];
            set += 2;
        } else {
            found |= c == *set;
        }
    }
    return found != negate;
}

static const char *atom_end(const char *pattern) {
    if (*pattern != '[') return pattern + 1;
    const char *p = pattern + 1 + (pattern[1] == '^');
    for (p++; *p != ']'; p++) {}
    return p + 1;
}

static int one(const char *pattern, const char *end, const char *text) {
    if (!*text) return 0;
    if (*pattern == '.') return 1;
    if (*pattern == '[') return in_class(pattern + 1, end - 1, *text);
    return *pattern == *text;
}

static NOINLINE const char *match_here(const char *pattern, const char *text) {
    while (*pattern) {
        if (*pattern == '$' && !pattern[1]) return *text ? NULL : text;
        const char *end = atom_end(pattern);
        if (*end == '*' || *end == '+' || *end == '?') {
            int least = *end == '+', most = *end == '?' ? 1 : 1 << 20, count = 0;
            while (count < most && one(pattern, end, text + count)) count++;
            for (; count >= least; count--) {
                const char *rest = match_here(end + 1, text + count);
                if (rest) return rest;
            }
            return NULL;
        }
        if (!one(pattern, end, text)) return NULL;
        pattern = end;
        text++;
    }
    return text;
}

static const char *search(const char *pattern, const char *text) {
    if (*pattern == '^') return match_here(pattern + 1, text);
    for (;; text++) {
        const char *end = match_here(pattern, text);
        if (end || !*text) return end;
    }
}

uint64_t kernel(uint64_t n) {
    uint64_t sum = 0;
    for (uint64_t round = 0; round < n; round++)
        for (size_t i = 0; i < COUNT(lines); i++)
            for (size_t j = 0; j < COUNT(patterns); j++) {
                const char *end = search(patterns[j], lines[i]);
                sum = mix(sum, end ? (uint64_t)(end - lines[i]) + 1 : 0);
            }
    return sum;
}
