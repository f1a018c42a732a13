/* <strings.h> of a guest. */
#include <string.h>
