/* Calling a tool of another harness: berm.call. */
#ifndef BERM_CALL_H
#define BERM_CALL_H

#include <berm/capability.h>

BERM_BEGIN

/* The other tool's result; fails this call when it failed or was refused. */
berm_str berm_call(berm_str harness, berm_str tool, berm_str args);

/* BERM_ERROR: the tool failed, and data is its message. BERM_REFUSED: it never ran. */
berm_reply berm_try_call(berm_str harness, berm_str tool, berm_str args);

BERM_END

#endif
