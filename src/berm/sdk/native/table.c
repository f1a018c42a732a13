/* A sorted array: tests hold a few entries. */
#include "table.h"

#include "native.h"

#include <stdlib.h>
#include <string.h>

size_t table_place(const table *t, berm_str key)
{
    size_t i = 0;
    while (i < t->len && berm_compare(t->entries[i].key, key) < 0)
        i++;
    return i;
}

entry *table_find(const table *t, berm_str key)
{
    size_t i = table_place(t, key);
    return i < t->len && berm_equal(t->entries[i].key, key) ? &t->entries[i] : NULL;
}

void table_set(table *t, berm_str key, berm_str value)
{
    entry *found = table_find(t, key);
    size_t i = table_place(t, key);
    char *copy = native_copy(value);
    if (found) {
        free((void *)found->value.ptr);
        found->value = berm_str_make(copy, value.len);
        return;
    }
    t->entries = (entry *)realloc(t->entries, (t->len + 1) * sizeof *t->entries);
    if (!t->entries)
        abort();
    memmove(t->entries + i + 1, t->entries + i, (t->len - i) * sizeof *t->entries);
    t->entries[i].key = berm_str_make(native_copy(key), key.len);
    t->entries[i].value = berm_str_make(copy, value.len);
    t->len++;
}

bool table_remove(table *t, berm_str key)
{
    entry *found = table_find(t, key);
    if (!found)
        return false;
    free((void *)found->key.ptr);
    free((void *)found->value.ptr);
    size_t i = (size_t)(found - t->entries);
    t->len--;
    memmove(found, found + 1, (t->len - i) * sizeof *found);
    return true;
}
