/* <errno.h> of a guest: only what strtol and its kin say. */
#ifndef BERM_LIBC_ERRNO_H
#define BERM_LIBC_ERRNO_H

#ifdef __cplusplus
extern "C" {
#endif

extern int errno;

#ifdef __cplusplus
}
#endif

#define EDOM 33
#define ERANGE 34
#define EINVAL 22
#define ENOMEM 12

#endif
