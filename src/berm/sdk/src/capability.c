/* Requests and replies of capabilities: u32 little-endian lengths and bytes. */
#include <berm/alloc.h>
#include <berm/capability.h>
#include <string.h>

static char *put_field(char *at, berm_str field)
{
    for (int shift = 0; shift < 32; shift += 8)
        *at++ = (char)(field.len >> shift);
    if (field.len)
        memcpy(at, field.ptr, field.len);
    return at + field.len;
}

static size_t framed_size(size_t sum, berm_str field)
{
    if (field.len > UINT32_MAX || __builtin_add_overflow(sum, field.len + 4, &sum))
        berm_fail("a request field of %zu bytes is too long", field.len);
    return sum;
}

static berm_reply read_reply(uint64_t staged)
{
    berm_reply reply;
    size_t len = staged & ~(BERM_REPLY_ERROR | BERM_REPLY_REFUSED);
    char *data = (char *)berm_alloc(len + 1);
    berm_host_result_read(data, len);
    data[len] = 0;
    reply.status = BERM_OK;
    if (staged & BERM_REPLY_ERROR)
        reply.status = staged & BERM_REPLY_REFUSED ? BERM_REFUSED : BERM_ERROR;
    reply.data = berm_str_make(data, len);
    return reply;
}

berm_reply berm_capability_pairs(const char *name, const berm_str *fields, size_t count,
                                 const berm_pair *pairs, size_t pair_count)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size = framed_size(size, fields[i]);
    for (size_t i = 0; i < pair_count; i++)
        size = framed_size(framed_size(size, pairs[i].key), pairs[i].value);
    char *request = (char *)berm_alloc(size);
    char *at = request;
    for (size_t i = 0; i < count; i++)
        at = put_field(at, fields[i]);
    for (size_t i = 0; i < pair_count; i++)
        at = put_field(put_field(at, pairs[i].key), pairs[i].value);
    uint64_t staged = berm_host_call(name, request, size);
    berm_free(request);
    return read_reply(staged);
}

berm_reply berm_capability(const char *name, const berm_str *fields, size_t count)
{
    return berm_capability_pairs(name, fields, count, NULL, 0);
}

berm_str berm_must(berm_reply reply)
{
    if (reply.status != BERM_OK)
        berm_fail("%.*s", BERM_ARG(reply.data));
    return reply.data;
}

bool berm_next_field(berm_str *rest, berm_str *field)
{
    if (rest->len == 0)
        return false;
    const unsigned char *p = (const unsigned char *)rest->ptr;
    size_t len = rest->len < 4 ? SIZE_MAX
                               : (size_t)p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
    if (rest->len < 4 || len > rest->len - 4)
        berm_panic("the reply of a capability is not framed as it should be");
    *field = berm_slice(*rest, 4, 4 + len);
    *rest = berm_slice(*rest, 4 + len, rest->len);
    return true;
}
