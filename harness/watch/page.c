/* Fetching a page and comparing it with what it was. */
#include "page.h"

#define VALIDATOR_MOST 1024 /* a longer one is not kept: it would only grow the record */

page page_none(void)
{
    page none = {0, 0, BERM_STR(""), BERM_STR(""), BERM_STR("")};
    return none;
}

static berm_str validator(const berm_response *response, const char *name)
{
    berm_str value;
    if (!berm_http_header(response, name, &value) || value.len > VALIDATOR_MOST || !berm_utf8_valid(value))
        return BERM_STR("");
    return value;
}

static berm_str digest_of(const berm_response *response)
{
    berm_out out;
    berm_str location = BERM_STR("");
    berm_out_init(&out, 64);
    if (response->status >= 300 && response->status < 400)
        berm_http_header(response, "location", &location);
    berm_printf(&out, "%016llx", (unsigned long long)berm_hash(response->body));
    if (location.len)
        berm_printf(&out, "%016llx", (unsigned long long)berm_hash(location));
    return berm_out_str(&out);
}

static bool says_nothing(int64_t status)
{
    return status == 408 || status == 425 || status == 429 || status >= 500;
}

page page_fetch(berm_str url, const page *known)
{
    berm_pair headers[2];
    size_t count = 0;
    if (known->etag.len)
        headers[count++] = (berm_pair){BERM_STR("If-None-Match"), known->etag};
    if (known->modified.len)
        headers[count++] = (berm_pair){BERM_STR("If-Modified-Since"), known->modified};
    berm_response response = berm_http_fetch(BERM_STR("GET"), url, BERM_STR(""), headers, count);
    if (response.status == 304 && count)
        return *known;
    if (says_nothing(response.status))
        berm_fail("the server answered with status %lld", (long long)response.status);
    page now = {response.status, (int64_t)response.body.len, digest_of(&response), validator(&response, "etag"),
                validator(&response, "last-modified")};
    return now;
}

bool page_same(const page *a, const page *b)
{
    return a->status == b->status && a->size == b->size && berm_equal(a->digest, b->digest);
}

void page_write(berm_json_writer *json, const page *p)
{
    berm_json_open_object(json);
    berm_json_key(json, "status");
    berm_json_write_int(json, p->status);
    berm_json_key(json, "size");
    berm_json_write_int(json, p->size);
    berm_json_key(json, "digest");
    berm_json_write_string(json, p->digest);
    berm_json_key(json, "etag");
    berm_json_write_string(json, p->etag);
    berm_json_key(json, "modified");
    berm_json_write_string(json, p->modified);
    berm_json_close(json);
}

bool page_read(berm_json object, page *p)
{
    return berm_json_int(berm_json_get(object, "status"), &p->status) &&
           berm_json_int(berm_json_get(object, "size"), &p->size) &&
           berm_json_string(berm_json_get(object, "digest"), &p->digest) &&
           berm_json_string(berm_json_get(object, "etag"), &p->etag) &&
           berm_json_string(berm_json_get(object, "modified"), &p->modified);
}
