/* The web, at the hosts that were bound: berm.http.*
 *
 * Redirects are not followed: a 3xx is a response like any other. A status of 400 or more is not an error
 * either; failing calls are those that got no response.
 */
#ifndef BERM_HTTP_H
#define BERM_HTTP_H

#include <berm/capability.h>

BERM_BEGIN

typedef struct berm_response {
    int64_t status;
    berm_str headers; /* lines "name: value\n" */
    berm_str body;
} berm_response;

berm_response berm_http_get(berm_str url);
berm_response berm_http_fetch(berm_str method, berm_str url, berm_str body, const berm_pair *headers,
                              size_t header_count);
berm_reply berm_http_try_fetch(berm_str method, berm_str url, berm_str body, const berm_pair *headers,
                               size_t header_count);
berm_response berm_http_response(berm_str framed); /* reads the data of an OK reply */

/* The value of a header, by name without regard to case; false when there is none. */
bool berm_http_header(const berm_response *response, const char *name, berm_str *value);

/* Several at once: start them, then collect each. Starting gives an id; it fails where the host is not granted. */
berm_str berm_http_start(berm_str method, berm_str url, berm_str body, const berm_pair *headers,
                         size_t header_count);
berm_reply berm_http_try_start(berm_str method, berm_str url, berm_str body, const berm_pair *headers,
                               size_t header_count);

typedef struct berm_collected {
    berm_str id;
    berm_response response; /* status 0: it failed, and the body says why */
} berm_collected;

/* Wait for one request, or with an empty id for the first that is done. */
berm_collected berm_http_collect(berm_str id);

BERM_END

#endif
