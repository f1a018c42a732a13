/* What the files of the native test build share. Internal. */
#ifndef BERM_NATIVE_H
#define BERM_NATIVE_H

#include <berm/test.h>

/* Free what the harness has allocated since the last time. */
void native_heap_clear(void);

/* The stand-in for a capability, or NULL. */
berm_stand_in *native_stand_in(const char *capability);

/* The clock that the stand-ins share. */
int64_t native_now_ms(void);

/* Answer with a field of decimal text. */
void native_answer_integer(berm_answer *answer, int64_t value);

/* Memory of the test, which outlives a call. */
char *native_copy(berm_str text);

#endif
