/* Names and contents in memory, in order of names: behind the files and the storage of tests. */
#ifndef BERM_NATIVE_TABLE_H
#define BERM_NATIVE_TABLE_H

#include <berm/str.h>

typedef struct entry {
    berm_str key;
    berm_str value;
} entry;

typedef struct table {
    entry *entries;
    size_t len;
} table;

/* Where the key stands, or where it would. */
size_t table_place(const table *t, berm_str key);
entry *table_find(const table *t, berm_str key);
void table_set(table *t, berm_str key, berm_str value);
bool table_remove(table *t, berm_str key);

#endif
