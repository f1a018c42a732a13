/* File name patterns: `*` and `?` within one name, `[a-z]` `[!a-z]`, `{a,b}`, and `**` for any number of
 * directories. A wildcard does not match a dot at the start of a name; a pattern that begins with a dot
 * does.
 */
#ifndef OS_GLOB_H
#define OS_GLOB_H

#include <berm/berm.h>

typedef struct glob_pattern glob_pattern;

/* Read a pattern; fails the call when it makes no sense. */
glob_pattern *glob_compile(berm_str pattern);

/* Whether a path (parts between single slashes) matches. */
bool glob_matches(const glob_pattern *pattern, berm_str path);

/* Whether something below this directory could match: no need to look into the others. */
bool glob_may_match_below(const glob_pattern *pattern, berm_str directory);

/* Whether the pattern names files in any directory, having no slash. */
bool glob_is_name_only(const glob_pattern *pattern);

#endif
