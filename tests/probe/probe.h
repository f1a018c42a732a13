/* What the probe's files share. */
#ifndef PROBE_H
#define PROBE_H

#include "../../src/berm/sdk/native/native.h"

void probe_heap(berm_str request, berm_out *out);
void probe_libc(berm_str request, berm_out *out);

#endif
