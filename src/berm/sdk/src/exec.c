/* berm.exec.run: the wrappers of exec.h. */
#include "wrap.h"

#include <berm/exec.h>

berm_reply berm_exec_try(berm_str command, berm_str cwd, const berm_pair *env, size_t env_count)
{
    berm_str fields[] = {command, cwd};
    return berm_capability_pairs("berm.exec.run", fields, 2, env, env_count);
}

berm_run berm_exec_result(berm_str json)
{
    berm_json object = wrap_json(json);
    berm_run run;
    run.out = wrap_text(object, "stdout");
    run.err = wrap_text(object, "stderr");
    run.exit_code = wrap_number(object, "exit_code");
    run.out_dropped = wrap_number(object, "stdout_dropped");
    run.err_dropped = wrap_number(object, "stderr_dropped");
    return run;
}

berm_run berm_exec_env(berm_str command, berm_str cwd, const berm_pair *env, size_t env_count)
{
    return berm_exec_result(berm_must(berm_exec_try(command, cwd, env, env_count)));
}

berm_run berm_exec(berm_str command, berm_str cwd)
{
    return berm_exec_env(command, cwd, NULL, 0);
}
