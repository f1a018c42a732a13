/* printf into a berm_out. Integers and text here; floating point through exact decimals. */
#include "decimal.h"

#include <berm/out.h>
#include <string.h>

#define PRECISION_MOST 1000
#define WIDTH_MOST 100000

typedef struct spec {
    bool left, plus, space, alternate, zero;
    int width;
    int precision; /* -1 when not given */
    char conversion;
} spec;

static void pad(berm_out *out, char with, int count)
{
    while (count-- > 0)
        berm_putc(out, with);
}

/* Sign or prefix, zeros, body; padded to the width. */
static void put_field(berm_out *out, const spec *s, berm_str prefix, int zeros, berm_str body)
{
    int len = (int)prefix.len + (int)body.len + zeros;
    int gap = s->width > len ? s->width - len : 0;
    if (s->zero && !s->left) {
        zeros += gap;
        gap = 0;
    }
    if (!s->left)
        pad(out, ' ', gap);
    berm_put(out, prefix);
    pad(out, '0', zeros);
    berm_put(out, body);
    if (s->left)
        pad(out, ' ', gap);
}

static berm_str digits_of(uint64_t value, unsigned base, bool upper, char buffer[24])
{
    const char *alphabet = upper ? "0123456789ABCDEF" : "0123456789abcdef";
    char *at = buffer + 24;
    if (value >> 32 == 0 && base == 10) {
        uint32_t small = (uint32_t)value;
        for (; small; small /= 10)
            *--at = (char)('0' + small % 10);
    } else {
        for (; value; value /= base)
            *--at = alphabet[value % base];
    }
    return berm_str_make(at, (size_t)(buffer + 24 - at));
}

static berm_str sign_of(const spec *s, bool negative)
{
    return negative ? BERM_STR("-") : s->plus ? BERM_STR("+") : s->space ? BERM_STR(" ") : BERM_STR("");
}

static void put_integer(berm_out *out, spec s, uint64_t value, bool negative, bool is_signed)
{
    char buffer[24];
    unsigned base = s.conversion == 'o' ? 8 : s.conversion == 'x' || s.conversion == 'X' ? 16 : 10;
    berm_str body = digits_of(value, base, s.conversion == 'X', buffer);
    berm_str prefix = is_signed ? sign_of(&s, negative) : BERM_STR("");
    int least = s.precision < 0 ? 1 : s.precision;
    int zeros = least > (int)body.len ? least - (int)body.len : 0;
    if (s.alternate && base == 16 && value)
        prefix = s.conversion == 'X' ? BERM_STR("0X") : BERM_STR("0x");
    if (s.alternate && base == 8 && zeros == 0)
        zeros = 1;
    if (s.precision >= 0)
        s.zero = false;
    put_field(out, &s, prefix, zeros, body);
}

/* The digit of weight 10^weight. */
static char digit_at(const decimal *d, int weight)
{
    int index = d->point - 1 - weight;
    return (char)('0' + (index >= 0 && index < d->count ? d->digit[index] : 0));
}

static void put_fixed(berm_out *out, const decimal *d, int precision, bool dot)
{
    for (int weight = d->point > 0 ? d->point - 1 : 0; weight >= 0; weight--)
        berm_putc(out, digit_at(d, weight));
    if (precision > 0 || dot)
        berm_putc(out, '.');
    for (int weight = -1; weight >= -precision; weight--)
        berm_putc(out, digit_at(d, weight));
}

static void put_scientific(berm_out *out, const decimal *d, int precision, bool dot, char letter)
{
    char buffer[24];
    int exponent = d->count ? d->point - 1 : 0;
    berm_putc(out, digit_at(d, exponent));
    if (precision > 0 || dot)
        berm_putc(out, '.');
    for (int i = 1; i <= precision; i++)
        berm_putc(out, digit_at(d, exponent - i));
    berm_putc(out, letter);
    berm_putc(out, exponent < 0 ? '-' : '+');
    berm_str digits = digits_of((uint64_t)(exponent < 0 ? -exponent : exponent), 10, false, buffer);
    pad(out, '0', 2 - (int)digits.len);
    berm_put(out, digits);
}

/* %g: scientific for small and large exponents, without trailing zeros unless '#'. */
static void put_general(berm_out *out, decimal *d, int precision, bool alternate, char letter)
{
    if (precision == 0)
        precision = 1;
    decimal_round(d, precision);
    int exponent = d->count ? d->point - 1 : 0;
    int shown = alternate ? precision : d->count ? d->count : 1;
    if (exponent < -4 || exponent >= precision)
        put_scientific(out, d, shown - 1, alternate, letter);
    else
        put_fixed(out, d, shown - 1 - exponent > 0 ? shown - 1 - exponent : 0, alternate);
}

static void put_float(berm_out *out, spec s, double value)
{
    static const char *const NAMES[] = {"inf", "nan", "INF", "NAN"};
    char memory[PRECISION_MOST + 350];
    berm_out text;
    berm_out_fixed(&text, memory, sizeof memory);
    bool upper = s.conversion >= 'A' && s.conversion <= 'Z';
    int precision = s.precision < 0 ? 6 : s.precision;
    decimal d;
    if (value != value || value - value != 0) {
        berm_puts(&text, NAMES[(upper ? 2 : 0) + (value != value)]);
        s.zero = false;
        put_field(out, &s, sign_of(&s, value < 0), 0, berm_out_str(&text));
        return;
    }
    decimal_of_double(&d, value);
    char kind = (char)(upper ? s.conversion + ('a' - 'A') : s.conversion);
    if (kind == 'f') {
        decimal_round(&d, d.point + precision);
        put_fixed(&text, &d, precision, s.alternate);
    } else if (kind == 'e') {
        decimal_round(&d, precision + 1);
        put_scientific(&text, &d, precision, s.alternate, upper ? 'E' : 'e');
    } else {
        put_general(&text, &d, precision, s.alternate, upper ? 'E' : 'e');
    }
    put_field(out, &s, sign_of(&s, d.negative), 0, berm_out_str(&text));
}

void berm_put_double(berm_out *out, double value)
{
    spec s = {false, false, false, false, false, 0, -1, 'g'};
    decimal d;
    if (value != value || value - value != 0) {
        put_float(out, s, value);
        return;
    }
    decimal_shortest(&d, value);
    if (d.negative)
        berm_putc(out, '-');
    int exponent = d.count ? d.point - 1 : 0;
    if (exponent < -5 || exponent > 15)
        put_scientific(out, &d, d.count > 1 ? d.count - 1 : 0, false, 'e');
    else
        put_fixed(out, &d, d.count > d.point ? d.count - d.point : 1, false);
}

static const char *parse_flags(spec *s, const char *p)
{
    for (;; p++) {
        switch (*p) {
        case '-': s->left = true; break;
        case '+': s->plus = true; break;
        case ' ': s->space = true; break;
        case '#': s->alternate = true; break;
        case '0': s->zero = true; break;
        default: return p;
        }
    }
}

static const char *parse_number(const char *p, int *value)
{
    for (*value = 0; *p >= '0' && *p <= '9'; p++)
        if (*value < WIDTH_MOST)
            *value = *value * 10 + (*p - '0');
    return p;
}

/* va_list by pointer, so that a callee's va_arg moves the caller's. */
typedef struct arguments {
    va_list list;
} arguments;

static const char *parse_spec(spec *s, const char *p, arguments *a)
{
    memset(s, 0, sizeof *s);
    s->precision = -1;
    p = parse_flags(s, p);
    if (*p == '*') {
        s->width = va_arg(a->list, int);
        p++;
    } else {
        p = parse_number(p, &s->width);
    }
    if (s->width < 0) {
        s->left = true;
        s->width = s->width < -WIDTH_MOST ? WIDTH_MOST : -s->width;
    }
    if (s->width > WIDTH_MOST)
        s->width = WIDTH_MOST;
    if (*p == '.') {
        if (*++p == '*') {
            s->precision = va_arg(a->list, int);
            p++;
        } else {
            p = parse_number(p, &s->precision);
        }
    }
    return p;
}

/* The length modifier, as the size in bytes of the integer that was passed. */
static const char *parse_size(const char *p, size_t *size)
{
    *size = sizeof(int);
    switch (*p) {
    case 'h':
        *size = p[1] == 'h' ? 1 : 2;
        return p + (p[1] == 'h' ? 2 : 1);
    case 'l':
        *size = p[1] == 'l' ? sizeof(long long) : sizeof(long);
        return p + (p[1] == 'l' ? 2 : 1);
    case 'z':
    case 't':
    case 'j':
        *size = 8;
        return p + 1;
    case 'L':
        return p + 1;
    default:
        return p;
    }
}

static int64_t take_signed(arguments *a, size_t size)
{
    switch (size) {
    case 1: return (signed char)va_arg(a->list, int);
    case 2: return (short)va_arg(a->list, int);
    case 8: return va_arg(a->list, int64_t);
    default: return va_arg(a->list, int);
    }
}

static uint64_t take_unsigned(arguments *a, size_t size)
{
    switch (size) {
    case 1: return (unsigned char)va_arg(a->list, int);
    case 2: return (unsigned short)va_arg(a->list, int);
    case 8: return va_arg(a->list, uint64_t);
    default: return va_arg(a->list, unsigned);
    }
}

static void put_text(berm_out *out, spec s, const char *text)
{
    size_t len = 0;
    if (!text)
        text = "(null)";
    while ((s.precision < 0 || len < (size_t)s.precision) && text[len])
        len++;
    s.zero = false;
    if (len > WIDTH_MOST)
        s.width = 0; /* longer than any width, and put_field counts in int */
    if (s.width == 0)
        berm_put_bytes(out, text, len);
    else
        put_field(out, &s, BERM_STR(""), 0, berm_str_make(text, len));
}

static void put_conversion(berm_out *out, spec s, size_t size, arguments *a)
{
    if (s.conversion != 's' && s.precision > PRECISION_MOST)
        s.precision = PRECISION_MOST;
    switch (s.conversion) {
    case 'd':
    case 'i': {
        int64_t value = take_signed(a, size);
        put_integer(out, s, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0, true);
        break;
    }
    case 'u':
    case 'o':
    case 'x':
    case 'X':
        put_integer(out, s, take_unsigned(a, size), false, false);
        break;
    case 'p':
        s.conversion = 'x';
        s.alternate = true;
        put_integer(out, s, (uintptr_t)va_arg(a->list, void *), false, false);
        break;
    case 'c': {
        char byte = (char)va_arg(a->list, int);
        s.zero = false;
        put_field(out, &s, BERM_STR(""), 0, berm_str_make(&byte, 1));
        break;
    }
    case 's':
        put_text(out, s, va_arg(a->list, const char *));
        break;
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G':
        put_float(out, s, va_arg(a->list, double));
        break;
    default:
        berm_panic("printf: unknown conversion %%%c", s.conversion);
    }
}

void berm_vprintf(berm_out *out, const char *format, va_list list)
{
    arguments a;
    va_copy(a.list, list);
    for (const char *p = format; *p;) {
        const char *start = p;
        while (*p && *p != '%')
            p++;
        berm_put_bytes(out, start, (size_t)(p - start));
        if (!*p)
            break;
        if (*++p == '%') {
            berm_putc(out, *p++);
            continue;
        }
        spec s;
        size_t size;
        p = parse_size(parse_spec(&s, p, &a), &size);
        s.conversion = *p;
        if (*p)
            p++;
        put_conversion(out, s, size, &a);
    }
    va_end(a.list);
}

void berm_printf(berm_out *out, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    berm_vprintf(out, format, list);
    va_end(list);
}
