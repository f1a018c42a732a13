/* <setjmp.h> of a guest. */
#ifndef BERM_LIBC_SETJMP_H
#define BERM_LIBC_SETJMP_H

#ifdef __cplusplus
extern "C" {
#endif

typedef unsigned long jmp_buf[14]; /* ra, sp, s0 to s11 */

__attribute__((returns_twice)) int setjmp(jmp_buf state);
__attribute__((noreturn)) void longjmp(jmp_buf state, int value);

#ifdef __cplusplus
}
#endif

#endif
