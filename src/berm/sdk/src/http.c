/* berm.http.*: the wrappers of http.h. */
#include "wrap.h"

#include <berm/http.h>

berm_reply berm_http_try_fetch(berm_str method, berm_str url, berm_str body, const berm_pair *headers,
                               size_t header_count)
{
    berm_str fields[] = {method, url, body};
    return berm_capability_pairs("berm.http.fetch", fields, 3, headers, header_count);
}

berm_response berm_http_response(berm_str framed)
{
    berm_response response;
    response.status = wrap_integer(&framed);
    response.headers = wrap_field(&framed);
    response.body = wrap_field(&framed);
    return response;
}

berm_response berm_http_fetch(berm_str method, berm_str url, berm_str body, const berm_pair *headers,
                              size_t header_count)
{
    return berm_http_response(berm_must(berm_http_try_fetch(method, url, body, headers, header_count)));
}

berm_response berm_http_get(berm_str url)
{
    return berm_http_fetch(BERM_STR("GET"), url, BERM_STR(""), NULL, 0);
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static bool same_name(berm_str a, berm_str b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        if (lower(a.ptr[i]) != lower(b.ptr[i]))
            return false;
    return true;
}

bool berm_http_header(const berm_response *response, const char *name, berm_str *value)
{
    berm_str rest = response->headers;
    berm_str line, key, text;
    while (berm_next_line(&rest, &line)) {
        if (!berm_cut(line, BERM_STR(":"), &key, &text) || !same_name(berm_trim(key), berm_str_of(name)))
            continue;
        *value = berm_trim(text);
        return true;
    }
    return false;
}

berm_reply berm_http_try_start(berm_str method, berm_str url, berm_str body, const berm_pair *headers,
                               size_t header_count)
{
    berm_str fields[] = {method, url, body};
    return berm_capability_pairs("berm.http.start", fields, 3, headers, header_count);
}

berm_str berm_http_start(berm_str method, berm_str url, berm_str body, const berm_pair *headers,
                         size_t header_count)
{
    return berm_must(berm_http_try_start(method, url, body, headers, header_count));
}

berm_collected berm_http_collect(berm_str id)
{
    berm_collected collected;
    berm_str rest = berm_must(berm_capability("berm.http.collect", &id, 1));
    collected.id = wrap_field(&rest);
    collected.response = berm_http_response(rest);
    return collected;
}
