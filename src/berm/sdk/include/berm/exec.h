/* Commands: berm.exec.run. */
#ifndef BERM_EXEC_H
#define BERM_EXEC_H

#include <berm/capability.h>

BERM_BEGIN

typedef struct berm_run {
    berm_str out; /* what is kept of it: head and tail */
    berm_str err;
    int64_t exit_code;   /* -1 after a signal */
    int64_t out_dropped; /* bytes that are missing in the middle */
    int64_t err_dropped;
} berm_run;

/* Run a shell command in cwd (empty: the root). An exit code is not an error; fails the call only when
 * nothing could be run or the time was up. */
berm_run berm_exec(berm_str command, berm_str cwd);

berm_run berm_exec_env(berm_str command, berm_str cwd, const berm_pair *env, size_t env_count);

/* The same without failing the call; berm_exec_result reads the data of an OK reply. */
berm_reply berm_exec_try(berm_str command, berm_str cwd, const berm_pair *env, size_t env_count);
berm_run berm_exec_result(berm_str json);

BERM_END

#endif
