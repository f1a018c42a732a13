/* <stdio.h> of a guest: formatting into memory. There are no streams; see berm/out.h and berm/fs.h. */
#ifndef BERM_LIBC_STDIO_H
#define BERM_LIBC_STDIO_H

#include <stdarg.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

int snprintf(char *__restrict to, size_t n, const char *__restrict format, ...)
    __attribute__((format(printf, 3, 4)));
int vsnprintf(char *__restrict to, size_t n, const char *__restrict format, va_list arguments)
    __attribute__((format(printf, 3, 0)));
int sprintf(char *__restrict to, const char *__restrict format, ...) __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif

#endif
