/* Base64, strict in what it takes. */
#include <berm/alloc.h>
#include <berm/base64.h>

static const char LETTERS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void berm_put_base64(berm_out *out, berm_str bytes)
{
    const unsigned char *p = (const unsigned char *)bytes.ptr;
    for (size_t at = 0; at < bytes.len; at += 3) {
        size_t left = bytes.len - at;
        uint32_t group = (uint32_t)p[at] << 16;
        group |= left > 1 ? (uint32_t)p[at + 1] << 8 : 0;
        group |= left > 2 ? p[at + 2] : 0;
        berm_putc(out, LETTERS[group >> 18]);
        berm_putc(out, LETTERS[group >> 12 & 63]);
        berm_putc(out, left > 1 ? LETTERS[group >> 6 & 63] : '=');
        berm_putc(out, left > 2 ? LETTERS[group & 63] : '=');
    }
}

/* The six bits of a letter, or -1. */
static int bits_of(char letter)
{
    if (letter >= 'A' && letter <= 'Z')
        return letter - 'A';
    if (letter >= 'a' && letter <= 'z')
        return letter - 'a' + 26;
    if (letter >= '0' && letter <= '9')
        return letter - '0' + 52;
    return letter == '+' ? 62 : letter == '/' ? 63 : -1;
}

bool berm_base64_decode(berm_str text, berm_str *bytes)
{
    if (text.len % 4)
        return false;
    size_t padding = berm_ends_with(text, BERM_STR("==")) ? 2 : berm_ends_with(text, BERM_STR("=")) ? 1 : 0;
    char *decoded = (char *)berm_alloc(text.len / 4 * 3 + 1);
    size_t len = 0;
    uint32_t group = 0;
    for (size_t at = 0; at < text.len - padding; at++) {
        int bits = bits_of(text.ptr[at]);
        if (bits < 0)
            return false;
        group = group << 6 | (uint32_t)bits;
        /* Of four letters the second, third and fourth complete a byte each. */
        if (at % 4)
            decoded[len++] = (char)(group >> (6 - at % 4 * 2));
    }
    if (padding && group & (padding == 1 ? 3 : 15))
        return false;
    decoded[len] = 0;
    *bytes = berm_str_make(decoded, len);
    return true;
}
