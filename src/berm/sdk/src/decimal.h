/* Exact decimal numbers, for reading and printing doubles with correct rounding. Internal. */
#ifndef BERM_DECIMAL_H
#define BERM_DECIMAL_H

#include <berm/str.h>

/* 767 significant digits decide any rounding to a double; the rest only matters as "more than". */
#define DECIMAL_DIGITS 800

/* 0.d1 d2 d3 … times 10^point, without leading or trailing zero digits. */
typedef struct decimal {
    int count;                    /* digits in use; 0 is the number zero */
    int point;                    /* where the decimal point stands, from the first digit */
    bool negative;
    bool truncated;               /* nonzero digits were lost behind the last */
    uint8_t digit[DECIMAL_DIGITS];
} decimal;

/* Read "[-]digits[.digits][e[+-]digits]", checked before. */
void decimal_parse(decimal *d, berm_str text);

/* The exact value of a finite double. */
void decimal_of_double(decimal *d, double value);

/* Round half to even, exactly, to n significant digits (n may be <= 0). */
void decimal_round(decimal *d, int n);

/* The nearest double; infinity when it is too large. */
double decimal_to_double(const decimal *d);

/* Shortest digits that read back as value. */
void decimal_shortest(decimal *d, double value);

#endif
