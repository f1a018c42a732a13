/* <stdlib.h> of a guest. `abort` and `exit` end the call as a trap. */
#ifndef BERM_LIBC_STDLIB_H
#define BERM_LIBC_STDLIB_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

void *malloc(size_t n);
void *calloc(size_t count, size_t size);
void *realloc(void *memory, size_t n);
void *aligned_alloc(size_t alignment, size_t n);
void free(void *memory);

long strtol(const char *__restrict text, char **__restrict end, int base);
unsigned long strtoul(const char *__restrict text, char **__restrict end, int base);
long long strtoll(const char *__restrict text, char **__restrict end, int base);
unsigned long long strtoull(const char *__restrict text, char **__restrict end, int base);
double strtod(const char *__restrict text, char **__restrict end); /* decimal only */
int atoi(const char *text);
long atol(const char *text);
double atof(const char *text);

int abs(int value);
long labs(long value);
long long llabs(long long value);

typedef struct {
    int quot, rem;
} div_t;
div_t div(int a, int b);

void qsort(void *base, size_t count, size_t size, int (*compare)(const void *, const void *));
void *bsearch(const void *key, const void *base, size_t count, size_t size,
              int (*compare)(const void *, const void *));

__attribute__((noreturn)) void abort(void);
__attribute__((noreturn)) void exit(int code);

#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1

#ifdef __cplusplus
}
#endif

#endif
