/* <assert.h> of a guest: a failed assertion is a panic that names its place. */
#include <berm/abi.h>

#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) \
    ((condition) ? (void)0 : berm_panic("%s:%d: assertion failed: %s", __FILE__, __LINE__, #condition))
#endif

#if !defined(__cplusplus) && !defined(static_assert)
#define static_assert _Static_assert
#endif
