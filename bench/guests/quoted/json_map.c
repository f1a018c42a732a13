/* Tokenize JSON by recursive descent and count keys, strings and numbers in a chained hash map. */
#include "../kernel.h"

enum { TEXT = 8192, BUCKETS = 256, ENTRIES = 2048, NAMES = 32768 };

struct entry {
    uint32_t hash, count, name, length;
    int32_t next;
};
static char text[TEXT + 64], names[NAMES];
static int32_t buckets[BUCKETS];
static struct entry entries[ENTRIES];
static uint32_t entry_count, name_bytes;
static const char *at;
static uint64_t digest;
static int failed;

static void count(const char *name, uint32_t length) {
    uint32_t hash = 5381;
    for (uint32_t i = 0; i < length; i++) hash = hash * 33 ^ (uint8_t)name[i];
    for (int32_t e = buckets[hash % BUCKETS]; e >= 0; e = entries[e].next) {
        if (entries[e].hash != hash || entries[e].length != length) continue;
        uint32_t i = 0;
        while (i < length && names[entries[e].name + i] == name[i]) i++;
        if (i == length) {
            entries[e].count++;
            return;
        }
    }
    if (entry_count == ENTRIES || name_bytes + length > NAMES) return;
    entries[entry_count] = (struct entry){hash, 1, name_bytes, length, buckets[hash % BUCKETS]};
    buckets[hash % BUCKETS] = (int32_t)entry_count++;
    for (uint32_t i = 0; i < length; i++) names[name_bytes++] = name[i];
}

static void skip_space(void) {
    while (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r') at++;
}

static void string(void) {
    const char *start = ++at;
    while (*at && *at != '"') {
        if (*at == '\\') at++;
        at++;
    }
    count(start, (uint32_t)(at - start));
    if (*at == '"') at++;
    else failed = 1;
}

static void number(void) {
    int64_t value = 0;
    int negative = *at == '-', places = 0, seen_point = 0;
    for (at += negative; (*at >= '0' && *at <= '9') || *at == '.'; at++) {
        if (*at == '.') {
            seen_point = 1;
            continue;
        }
        value = value * 10 + (*at - '0');
        places += seen_point;
    }
    digest = mix(digest, (uint64_t)(negative ? -value : value) * 16 + (uint64_t)places);
}

static void word(const char *expected) {
    for (; *expected; expected++, at++)
        if (*at != *expected) {
            failed = 1;
            return;
        }
}

static NOINLINE void value(int depth) {
    skip_space();
    if (depth > 40 || failed) {
        failed = 1;
        return;
    }
    switch (*at) {
    case '{':
    case '[': {
        char close = *at == '{' ? '}' : ']';
        for (at++;; at++) {
            skip_space();
            if (*at == close) break;
            if (close == '}') {
                string();
                skip_space();
                if (*at++ != ':') failed = 1;
            }
            value(depth + 1);
            skip_space();
            if (*at != ',' || failed) break;
        }
        if (*at == close) at++;
        else failed = 1;
        digest = mix(digest, (uint64_t)depth);
        return;
    }
    case '"': string(); return;
    case 't': word("true"); return;
    case 'f': word("false"); return;
    case 'n': word("null"); return;
    default: number();
    }
}

static char *put(char *out, const char *piece) {
    while (*piece) *out++ = *piece++;
    return out;
}

static char *put_number(char *out, uint32_t v) {
    char digits[12];
    int n = 0;
    do digits[n++] = (char)('0' + v % 10);
    while (v /= 10);
    while (n) *out++ = digits[--n];
    return out;
}

static void generate(uint32_t seed) {
    static const char *const keys[] = {"\"id\": ", "\"name\": ", "\"price\": ", "\"tags\": ", "\"in_stock\": ", "\"note\": "};
    static const char *const strings[] = {"\"rope\"", "\"brass \\\"bell\\\"\"", "\"oar\"", "\"lamp oil, 2 l\"", "\"\""};
    char *out = text;
    *out++ = '[';
    while (out < text + TEXT - 400) {
        out = put(out, "{\n  ");
        for (int i = 0; i < 6; i++) {
            uint32_t r = next_random(&seed);
            out = put(out, keys[i]);
            if (i == 0) out = put_number(out, r % 500);
            else if (i == 2) out = put(put_number(put(put_number(out, r % 1000), "."), r >> 10 & 63), "");
            else if (i == 3) out = put(put(put(put(put(out, "["), strings[r % 5]), ", "), strings[(r >> 8) % 5]), "]");
            else if (i == 4) out = put(out, r & 1 ? "true" : r & 2 ? "false" : "null");
            else out = put(put_number(put(out, "\"item-"), r % 700), "\"");
            out = put(out, i < 5 ? ", " : "\n}, ");
        }
    }
    out = put(out, "-17.25]");
    *out = 0;
}

uint64_t kernel(uint64_t n) {
    digest = 0;
    for (uint64_t round = 0; round < n; round++) {
        if (round % 16 == 0) generate((uint32_t)round + 1);
        for (int i = 0; i < BUCKETS; i++) buckets[i] = -1;
        entry_count = name_bytes = 0;
        failed = 0;
        at = text;
        value(0);
        for (uint32_t i = 0; i < entry_count; i += 3) digest = mix(digest, entries[i].count * 1000 + entries[i].length);
        digest = mix(digest, (uint64_t)failed);
    }
    return digest;
}
