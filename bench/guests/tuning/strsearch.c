/* Substring search three ways: naive with memchr, Horspool, Knuth-Morris-Pratt. */
#include "../kernel.h"

enum { TEXT = 6000 };
static char text[TEXT + 1];
static const char *const needles[] = {"lantern", "the stone", "abababac", "q", "river bank at dawn"};
static const char *const words[] = {"the ",   "river ", "bank ",  "at ",    "dawn ", "stone ", "lan",
                                    "tern ",  "abab",   "abac ",  "quiet ", "hill ", "under ", "a ",
                                    "mirror", " of ",   "window "};

static size_t naive(const char *hay, size_t n, const char *needle, size_t m) {
    size_t hits = 0;
    for (size_t i = 0; i + m <= n; i++) {
        if (hay[i] != needle[0]) continue;
        size_t j = 1;
        while (j < m && hay[i + j] == needle[j]) j++;
        hits += j == m;
    }
    return hits;
}

static NOINLINE size_t horspool(const char *hay, size_t n, const char *needle, size_t m) {
    uint8_t skip[256];
    size_t hits = 0, at = 0;
    memset(skip, (int)m, sizeof skip);
    for (size_t i = 0; i + 1 < m; i++) skip[(uint8_t)needle[i]] = (uint8_t)(m - 1 - i);
    while (at + m <= n) {
        uint8_t last = (uint8_t)hay[at + m - 1];
        if (last == (uint8_t)needle[m - 1] && memcmp(hay + at, needle, m - 1) == 0) hits++;
        at += skip[last];
    }
    return hits;
}

static NOINLINE size_t kmp(const char *hay, size_t n, const char *needle, size_t m) {
    int16_t fail[32];
    size_t hits = 0;
    int k = fail[0] = -1;
    for (size_t i = 0; i < m;) {
        while (k >= 0 && needle[i] != needle[k]) k = fail[k];
        fail[++i] = (int16_t)++k;
    }
    k = 0;
    for (size_t i = 0; i < n; i++) {
        while (k >= 0 && (k == (int)m || hay[i] != needle[k])) k = fail[k];
        if (++k == (int)m) hits++;
    }
    return hits;
}

uint64_t kernel(uint64_t n) {
    uint64_t sum = 0;
    uint32_t seed = 521288629u;
    for (uint64_t round = 0; round < n; round++) {
        size_t length = 0;
        for (;;) {
            const char *word = words[next_random(&seed) % COUNT(words)];
            size_t w = text_length(word);
            if (length + w > TEXT) break;
            memcpy(text + length, word, w);
            length += w;
        }
        for (size_t i = 0; i < COUNT(needles); i++) {
            size_t m = text_length(needles[i]);
            sum = mix(sum, naive(text, length, needles[i], m));
            sum = mix(sum, horspool(text, length, needles[i], m) * 3);
            sum = mix(sum, kmp(text, length, needles[i], m) * 5);
        }
    }
    return sum;
}
