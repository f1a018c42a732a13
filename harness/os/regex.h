/* Regular expressions that run in time bounded by text × pattern, whatever both are.
 *
 * Literals, `.`, classes `[a-z]` `[^…]` `\d \w \s \D \W \S`, anchors `^ $ \b \B`, groups `(…)` `(?:…)`, `|`,
 * `* + ? {m} {m,} {m,n}`, escapes `\t \n \r \f \v \xHH \x{H…} \uHHHH`, and `(?i)` in front to ignore ASCII
 * case. Characters are code points. Back-references and look-around do not exist: no engine can bound
 * them. There are only answers yes and no, so lazy repeats (`*?`) mean the same as greedy ones.
 */
#ifndef OS_REGEX_H
#define OS_REGEX_H

#include <berm/berm.h>

typedef struct regex regex;

/* Compile; fails the call with a message that names the place in the pattern. */
regex *regex_compile(berm_str pattern, bool ignore_case);

/* Whether the pattern matches anywhere in a line (text without line breaks). */
bool regex_matches(regex *re, berm_str line);

#endif
