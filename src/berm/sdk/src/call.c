/* berm.call: the wrappers of call.h. */
#include <berm/call.h>

berm_reply berm_try_call(berm_str harness, berm_str tool, berm_str args)
{
    berm_str fields[] = {harness, tool, args};
    return berm_capability("berm.call", fields, 3);
}

berm_str berm_call(berm_str harness, berm_str tool, berm_str args)
{
    return berm_must(berm_try_call(harness, tool, args));
}
