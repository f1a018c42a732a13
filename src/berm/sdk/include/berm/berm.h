/* Everything a harness needs: #include <berm/berm.h> */
#ifndef BERM_BERM_H
#define BERM_BERM_H

#include <berm/abi.h>
#include <berm/agent.h>
#include <berm/alloc.h>
#include <berm/base64.h>
#include <berm/call.h>
#include <berm/capability.h>
#include <berm/clock.h>
#include <berm/event.h>
#include <berm/exec.h>
#include <berm/fs.h>
#include <berm/http.h>
#include <berm/json.h>
#include <berm/kv.h>
#include <berm/out.h>
#include <berm/peers.h>
#include <berm/recurring.h>
#include <berm/rule.h>
#include <berm/sessions.h>
#include <berm/skills.h>
#include <berm/str.h>
#include <berm/tool.h>
#include <berm/wake.h>

#endif
