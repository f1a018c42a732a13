/* Constants wider than an int, which a Cython enum would cut. */
#ifndef RVCORE_CONSTANTS_H
#define RVCORE_CONSTANTS_H
#include <stdint.h>

/* The value of ra at entry: a return to it ends the call. No page can be mapped there. */
#define RV_EXIT_PC ((uint64_t)0xFFFFFFFFFFFFF000u)
/* Fuel of a store without a limit: centuries of instructions. */
#define RV_UNLIMITED ((int64_t)1 << 62)

#endif
