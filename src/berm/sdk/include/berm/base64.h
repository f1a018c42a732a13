/* Base64 (RFC 4648 section 4, with padding): how bytes travel in JSON. */
#ifndef BERM_BASE64_H
#define BERM_BASE64_H

#include <berm/out.h>

BERM_BEGIN

void berm_put_base64(berm_out *out, berm_str bytes);

/* Decode all of text; what comes out is new and a NUL follows it. False, and *bytes untouched, when text is
 * not exactly what an encoder writes: wrong alphabet, wrong padding, bits left over. */
bool berm_base64_decode(berm_str text, berm_str *bytes);

BERM_END

#endif
