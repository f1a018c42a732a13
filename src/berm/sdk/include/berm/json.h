/* JSON: a value is a piece of checked text.
 *
 * `berm_json_parse` checks a whole document once, by RFC 8259 to the letter: UTF-8, escapes and
 * surrogate pairs, numbers, nesting up to BERM_JSON_DEPTH. A berm_json is then a kind and the text of
 * that value, so reading costs no memory, arrays and objects can be handed on as raw JSON, and numbers
 * stay exact until somebody asks for one form. A key given twice counts as its last value.
 */
#ifndef BERM_JSON_H
#define BERM_JSON_H

#include <berm/out.h>

BERM_BEGIN

#define BERM_JSON_DEPTH 128

typedef enum berm_json_kind {
    BERM_JSON_ABSENT, /* no such key, no such element */
    BERM_JSON_NULL,
    BERM_JSON_BOOLEAN,
    BERM_JSON_NUMBER,
    BERM_JSON_STRING,
    BERM_JSON_ARRAY,
    BERM_JSON_OBJECT,
} berm_json_kind;

typedef struct berm_json {
    berm_json_kind kind;
    berm_str text; /* the value as it was written, without white space around it */
} berm_json;

typedef struct berm_json_error {
    const char *reason; /* "expected a value" */
    size_t offset;      /* the byte at which */
} berm_json_error;

/* Check a document. On false *error says what is wrong and where; error may be NULL. */
bool berm_json_parse(berm_str text, berm_json *value, berm_json_error *error);

/* "null", "boolean", "number", "string", "array", "object", "nothing". */
const char *berm_json_kind_name(berm_json_kind kind);

/* The member with this key, or an ABSENT value; of an object only. */
berm_json berm_json_get(berm_json object, const char *key);
berm_json berm_json_get_str(berm_json object, berm_str key);

/* The element at an index, or an ABSENT value; of an array only. Walks: use an iterator for all. */
berm_json berm_json_at(berm_json array, size_t index);

/* How many elements or members; 0 for any other kind. */
size_t berm_json_count(berm_json value);

/* Walk an array or an object:
 *     berm_json_each each = berm_json_begin(value);
 *     while (berm_json_next(&each)) use(each.key, each.value);
 * `key` is a string value, to be read by berm_json_string; ABSENT in an array. */
typedef struct berm_json_each {
    berm_json key;
    berm_json value;
    const char *at;
    const char *end;
    bool keyed;
} berm_json_each;

berm_json_each berm_json_begin(berm_json value);
bool berm_json_next(berm_json_each *each);

/* Read one form. False, and *result untouched, when the value is of another kind or does not fit.
 * An integer may be written 3, 3.0 or 30e-1: what counts is the number. */
bool berm_json_int(berm_json value, int64_t *result);
bool berm_json_uint(berm_json value, uint64_t *result);
bool berm_json_double(berm_json value, double *result);
bool berm_json_bool(berm_json value, bool *result);

/* The decoded text; it points into the document where nothing had to be decoded, else it is new. */
bool berm_json_string(berm_json value, berm_str *result);

/* Whether a string value, decoded, is this text. */
bool berm_json_string_is(berm_json value, berm_str text);

/* Writing. Commas and colons place themselves; a key outside an object, a second value for a key and an
 * unbalanced end are bugs of the harness and panic. Text that is not UTF-8 is written with U+FFFD; a
 * number that JSON cannot say (NaN, infinity) as null. */
typedef struct berm_json_writer {
    berm_out *out;
    unsigned depth;
    bool comma;                           /* the next element needs one */
    bool keyed;                           /* a key waits for its value */
    unsigned char object[BERM_JSON_DEPTH]; /* per depth: 1 for an object */
} berm_json_writer;

void berm_json_write_to(berm_json_writer *writer, berm_out *out);
void berm_json_open_object(berm_json_writer *writer);
void berm_json_open_array(berm_json_writer *writer);
void berm_json_close(berm_json_writer *writer);
void berm_json_key(berm_json_writer *writer, const char *key);
void berm_json_key_str(berm_json_writer *writer, berm_str key);
void berm_json_write_string(berm_json_writer *writer, berm_str text);
void berm_json_write_int(berm_json_writer *writer, int64_t value);
void berm_json_write_uint(berm_json_writer *writer, uint64_t value);
void berm_json_write_double(berm_json_writer *writer, double value);
void berm_json_write_bool(berm_json_writer *writer, bool value);
void berm_json_write_null(berm_json_writer *writer);
void berm_json_write(berm_json_writer *writer, berm_json value); /* as it was written */

/* Write text as a JSON string, quotes included. */
void berm_put_json_string(berm_out *out, berm_str text);

BERM_END

#endif
