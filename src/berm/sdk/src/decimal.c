/* Exact conversion between decimal text and doubles, by shifting a decimal number by powers of two
 * ("simple decimal conversion"); short numbers take a path of one exact multiplication or division.
 * Slow for numbers with huge exponents, but small, exact, and bounded.
 */
#include "decimal.h"

#include <string.h>

#define SHIFT_MOST 59 /* digit << 59 plus a carry stays below 2^64 */
#define MANTISSA_BITS 52
#define BIAS 1023

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void trim(decimal *d)
{
    while (d->count && d->digit[d->count - 1] == 0)
        d->count--;
    if (d->count == 0)
        d->point = 0;
}

static void append(decimal *d, unsigned digit)
{
    if (d->count < DECIMAL_DIGITS)
        d->digit[d->count++] = (uint8_t)digit;
    else if (digit)
        d->truncated = true;
}

/* The exponent, held within bounds that are far past any double. */
static int parse_exponent(const char *p, const char *end)
{
    bool negative = p < end && *p == '-';
    int value = 0;
    if (p < end && (*p == '-' || *p == '+'))
        p++;
    for (; p < end; p++)
        if (value < 1000000)
            value = value * 10 + (*p - '0');
    return negative ? -value : value;
}

void decimal_parse(decimal *d, berm_str text)
{
    const char *p = text.ptr;
    const char *end = p + text.len;
    bool dot = false;
    int64_t point = 0;
    d->count = 0;
    d->truncated = false;
    d->negative = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+'))
        p++;
    for (; p < end && *p != 'e' && *p != 'E'; p++) {
        if (*p == '.') {
            dot = true;
            continue;
        }
        bool leading_zero = *p == '0' && d->count == 0;
        if (!leading_zero)
            append(d, (unsigned)(*p - '0'));
        if (!dot && !leading_zero)
            point++;
        else if (dot && leading_zero)
            point--;
    }
    if (p < end)
        point += parse_exponent(p + 1, end);
    d->point = point > 2000000 ? 2000000 : point < -2000000 ? -2000000 : (int)point;
    trim(d);
}

static void assign(decimal *d, uint64_t value)
{
    uint8_t reversed[20];
    int n = 0;
    for (; value; value /= 10)
        reversed[n++] = (uint8_t)(value % 10);
    d->count = d->point = n;
    for (int i = 0; i < n; i++)
        d->digit[i] = reversed[n - 1 - i];
    d->truncated = false;
    trim(d);
}

/* Divide by 2^k: long division from the first digit on. */
static void shift_right(decimal *d, int k)
{
    int read = 0, write = 0;
    uint64_t rest = 0;
    uint64_t mask = (UINT64_C(1) << k) - 1;
    for (; rest >> k == 0; read++) {
        if (read >= d->count && rest == 0) {
            d->count = 0;
            return;
        }
        rest = rest * 10 + (read < d->count ? d->digit[read] : 0);
    }
    d->point -= read - 1;
    for (; read < d->count; read++) {
        unsigned digit = (unsigned)(rest >> k);
        rest = (rest & mask) * 10 + d->digit[read];
        d->digit[write++] = (uint8_t)digit;
    }
    for (; rest; rest = (rest & mask) * 10) {
        unsigned digit = (unsigned)(rest >> k);
        if (write < DECIMAL_DIGITS)
            d->digit[write++] = (uint8_t)digit;
        else if (digit)
            d->truncated = true;
    }
    d->count = write;
    trim(d);
}

/* Multiply by 2^k from the last digit on; the carry becomes new digits in front. */
static void shift_left(decimal *d, int k)
{
    uint8_t front[20];
    int n = 0;
    uint64_t carry = 0;
    for (int i = d->count - 1; i >= 0; i--) {
        carry += (uint64_t)d->digit[i] << k;
        d->digit[i] = (uint8_t)(carry % 10);
        carry /= 10;
    }
    for (; carry; carry /= 10)
        front[n++] = (uint8_t)(carry % 10);
    int kept = d->count + n <= DECIMAL_DIGITS ? d->count : DECIMAL_DIGITS - n;
    for (int i = kept; i < d->count; i++)
        if (d->digit[i])
            d->truncated = true;
    memmove(d->digit + n, d->digit, (size_t)kept);
    for (int i = 0; i < n; i++)
        d->digit[i] = front[n - 1 - i];
    d->count = kept + n;
    d->point += n;
    trim(d);
}

static void shift(decimal *d, int k)
{
    for (; k > SHIFT_MOST && d->count; k -= SHIFT_MOST)
        shift_left(d, SHIFT_MOST);
    for (; k < -SHIFT_MOST && d->count; k += SHIFT_MOST)
        shift_right(d, SHIFT_MOST);
    if (d->count && k > 0)
        shift_left(d, k);
    if (d->count && k < 0)
        shift_right(d, -k);
}

static bool rounds_up(const decimal *d, int n)
{
    if (n < 0 || n >= d->count)
        return false;
    if (d->digit[n] == 5 && n + 1 == d->count && !d->truncated)
        return n > 0 && d->digit[n - 1] % 2 == 1;
    return d->digit[n] >= 5;
}

void decimal_round(decimal *d, int n)
{
    if (n >= d->count)
        return;
    bool up = rounds_up(d, n);
    d->truncated = false;
    if (!up) {
        d->count = n > 0 ? n : 0;
        trim(d);
        return;
    }
    int i = n - 1;
    while (i >= 0 && d->digit[i] == 9)
        i--;
    if (i < 0) {
        d->digit[0] = 1;
        d->count = 1;
        d->point++;
        return;
    }
    d->digit[i]++;
    d->count = i + 1;
}

/* The integer part, rounded half to even; for values below 10^19. */
static uint64_t rounded_integer(const decimal *d)
{
    uint64_t value = 0;
    int i = 0;
    for (; i < d->point && i < d->count; i++)
        value = value * 10 + d->digit[i];
    for (; i < d->point; i++)
        value *= 10;
    return value + rounds_up(d, d->point);
}

static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* Up to 2^53 times or over an exact power of ten: one operation, rounded once. */
static bool short_to_double(const decimal *d, double *value)
{
    int exponent = d->point - d->count;
    if (d->count > 15 || exponent < -22 || exponent > 22)
        return false;
    uint64_t mantissa = 0;
    for (int i = 0; i < d->count; i++)
        mantissa = mantissa * 10 + d->digit[i];
    double exact = (double)mantissa;
    *value = exponent < 0 ? exact / POWERS[-exponent] : exact * POWERS[exponent];
    return true;
}

/* Shift by powers of two until 0.5 <= value < 1; returns the binary exponent. */
static int normalise(decimal *d)
{
    /* Each entry: how many bits to shift for that many digits before the point, never too many. */
    static const uint8_t BITS[] = {0, 3, 6, 9, 13, 16, 19, 23, 26, 29, 33, 36, 39, 43, 46, 49, 53, 56, 59};
    const int most = (int)sizeof BITS - 1;
    int exponent = 0;
    while (d->point > 0) {
        int k = d->point > most ? SHIFT_MOST : BITS[d->point];
        shift(d, -k);
        exponent += k;
    }
    while (d->point < 0 || (d->point == 0 && d->digit[0] < 5)) {
        int k = -d->point > most ? SHIFT_MOST : d->point == 0 ? 1 : BITS[-d->point];
        shift(d, k);
        exponent -= k;
    }
    return exponent;
}

static double long_to_double(const decimal *source)
{
    decimal d = *source;
    if (d.point > 310)
        return double_of((uint64_t)(2 * BIAS + 1) << MANTISSA_BITS);
    if (d.point < -330)
        return 0;
    int exponent = normalise(&d) - 1; /* now 1 <= 2 * d < 2 */
    if (exponent < 1 - BIAS) {        /* subnormal: fewer bits of mantissa */
        shift(&d, exponent - (1 - BIAS));
        exponent = 1 - BIAS;
    }
    shift(&d, MANTISSA_BITS + 1);
    uint64_t mantissa = rounded_integer(&d);
    if (mantissa == UINT64_C(2) << MANTISSA_BITS) {
        mantissa >>= 1;
        exponent++;
    }
    if (exponent > BIAS)
        return double_of((uint64_t)(2 * BIAS + 1) << MANTISSA_BITS);
    if (mantissa >> MANTISSA_BITS == 0)
        return double_of(mantissa);
    uint64_t fraction = mantissa & ((UINT64_C(1) << MANTISSA_BITS) - 1);
    return double_of((uint64_t)(exponent + BIAS) << MANTISSA_BITS | fraction);
}

double decimal_to_double(const decimal *d)
{
    double value = 0;
    if (d->count && !short_to_double(d, &value))
        value = long_to_double(d);
    return d->negative ? -value : value;
}

void decimal_of_double(decimal *d, double value)
{
    uint64_t bits = bits_of(value);
    int exponent = (int)(bits >> MANTISSA_BITS & 0x7ff);
    uint64_t mantissa = bits & ((UINT64_C(1) << MANTISSA_BITS) - 1);
    if (exponent)
        mantissa |= UINT64_C(1) << MANTISSA_BITS;
    else
        exponent = 1;
    assign(d, mantissa);
    d->negative = bits >> 63;
    shift(d, exponent - BIAS - MANTISSA_BITS);
}

/* Round away from zero to n digits; d has more. */
static void round_up(decimal *d, int n)
{
    d->digit[n] = 9;
    d->count = n + 1;
    decimal_round(d, n);
}

void decimal_shortest(decimal *d, double value)
{
    /* Any 15 digits survive a double, except in the subnormals, which hold fewer. */
    bool subnormal = (bits_of(value) >> MANTISSA_BITS & 0x7ff) == 0;
    /* Below a power of two the doubles lie twice as close: there the farther neighbour may be the one. */
    bool power_of_two = bits_of(value) << (64 - MANTISSA_BITS) == 0;
    decimal exact;
    decimal_of_double(&exact, value);
    for (int digits = subnormal ? 1 : 15; digits <= 17; digits++) {
        *d = exact;
        decimal_round(d, digits);
        if (decimal_to_double(d) == value)
            return;
        if (!power_of_two || digits >= exact.count)
            continue;
        *d = exact;
        round_up(d, digits);
        if (decimal_to_double(d) == value)
            return;
    }
    *d = exact;
}
