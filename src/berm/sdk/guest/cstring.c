/* The rest of <string.h> for a guest, over mem.c. */
#include <berm/alloc.h>
#include <ctype.h>
#include <string.h>

size_t strnlen(const char *text, size_t most)
{
    const char *end = (const char *)memchr(text, 0, most);
    return end ? (size_t)(end - text) : most;
}

int strcmp(const char *a, const char *b)
{
    for (; *a && *a == *b; b++)
        a++;
    return (unsigned char)*a - (unsigned char)*b;
}

int strncmp(const char *a, const char *b, size_t n)
{
    for (; n && *a && *a == *b; n--, b++)
        a++;
    return n ? (unsigned char)*a - (unsigned char)*b : 0;
}

int strncasecmp(const char *a, const char *b, size_t n)
{
    for (; n && *a && tolower((unsigned char)*a) == tolower((unsigned char)*b); n--, b++)
        a++;
    return n ? tolower((unsigned char)*a) - tolower((unsigned char)*b) : 0;
}

int strcasecmp(const char *a, const char *b)
{
    return strncasecmp(a, b, SIZE_MAX);
}

char *strcpy(char *restrict to, const char *restrict from)
{
    memcpy(to, from, strlen(from) + 1);
    return to;
}

char *strncpy(char *restrict to, const char *restrict from, size_t n)
{
    size_t len = strnlen(from, n);
    memcpy(to, from, len);
    memset(to + len, 0, n - len);
    return to;
}

char *strcat(char *restrict to, const char *restrict from)
{
    strcpy(to + strlen(to), from);
    return to;
}

char *strncat(char *restrict to, const char *restrict from, size_t n)
{
    size_t len = strnlen(from, n);
    char *end = to + strlen(to);
    memcpy(end, from, len);
    end[len] = 0;
    return to;
}

char *strchr(const char *text, int byte)
{
    return (char *)memchr(text, byte, strlen(text) + 1);
}

char *strrchr(const char *text, int byte)
{
    for (const char *p = text + strlen(text); p >= text; p--)
        if (*p == (char)byte)
            return (char *)p;
    return NULL;
}

char *strstr(const char *text, const char *needle)
{
    size_t len = strlen(needle);
    if (!len)
        return (char *)text;
    for (; (text = strchr(text, *needle)); text++)
        if (strncmp(text, needle, len) == 0)
            return (char *)text;
    return NULL;
}

size_t strcspn(const char *text, const char *set)
{
    size_t n = 0;
    while (text[n] && !strchr(set, text[n]))
        n++;
    return n;
}

size_t strspn(const char *text, const char *set)
{
    size_t n = 0;
    while (text[n] && strchr(set, text[n]))
        n++;
    return n;
}

char *strpbrk(const char *text, const char *set)
{
    text += strcspn(text, set);
    return *text ? (char *)text : NULL;
}

char *strtok_r(char *restrict text, const char *restrict set, char **restrict state)
{
    char *start = text ? text : *state;
    start += strspn(start, set);
    char *end = start + strcspn(start, set);
    *state = *end ? end + 1 : end;
    *end = 0;
    return end > start ? start : NULL;
}

char *strndup(const char *text, size_t most)
{
    size_t len = strnlen(text, most);
    char *copy = (char *)berm_heap_alloc(len + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, len);
    copy[len] = 0;
    return copy;
}

char *strdup(const char *text)
{
    return strndup(text, SIZE_MAX);
}
