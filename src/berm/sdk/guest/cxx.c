/* What C++ code without exceptions and RTTI asks of its run time. Destructors of statics never run: the
 * memory of a call dies with it. */
#include <berm/alloc.h>

void *__dso_handle;

int __cxa_atexit(void (*destroy)(void *), void *object, void *dso);
void __cxa_pure_virtual(void);
void *operator_new(size_t n) __asm__("_Znwm");
void *operator_new_array(size_t n) __asm__("_Znam");
void *operator_new_aligned(size_t n, size_t alignment) __asm__("_ZnwmSt11align_val_t");
void *operator_new_array_aligned(size_t n, size_t alignment) __asm__("_ZnamSt11align_val_t");
void operator_delete(void *memory) __asm__("_ZdlPv");
void operator_delete_array(void *memory) __asm__("_ZdaPv");
void operator_delete_sized(void *memory, size_t n) __asm__("_ZdlPvm");
void operator_delete_array_sized(void *memory, size_t n) __asm__("_ZdaPvm");
void operator_delete_aligned(void *memory, size_t alignment) __asm__("_ZdlPvSt11align_val_t");
void operator_delete_array_aligned(void *memory, size_t alignment) __asm__("_ZdaPvSt11align_val_t");
void operator_delete_both(void *memory, size_t n, size_t alignment) __asm__("_ZdlPvmSt11align_val_t");
void operator_delete_array_both(void *memory, size_t n, size_t alignment) __asm__("_ZdaPvmSt11align_val_t");

int __cxa_atexit(void (*destroy)(void *), void *object, void *dso)
{
    (void)destroy, (void)object, (void)dso;
    return 0;
}

void __cxa_pure_virtual(void)
{
    berm_panic("a pure virtual function was called");
}

void *operator_new(size_t n)
{
    return berm_alloc(n);
}

void *operator_new_array(size_t n)
{
    return berm_alloc(n);
}

void *operator_new_aligned(size_t n, size_t alignment)
{
    void *memory = berm_heap_aligned(alignment, n);
    if (!memory)
        berm_fail("out of memory: no room for %zu bytes", n);
    return memory;
}

void *operator_new_array_aligned(size_t n, size_t alignment)
{
    return operator_new_aligned(n, alignment);
}

void operator_delete(void *memory)
{
    berm_free(memory);
}

void operator_delete_array(void *memory)
{
    berm_free(memory);
}

void operator_delete_sized(void *memory, size_t n)
{
    (void)n;
    berm_free(memory);
}

void operator_delete_array_sized(void *memory, size_t n)
{
    (void)n;
    berm_free(memory);
}

void operator_delete_aligned(void *memory, size_t alignment)
{
    (void)alignment;
    berm_free(memory);
}

void operator_delete_array_aligned(void *memory, size_t alignment)
{
    (void)alignment;
    berm_free(memory);
}

void operator_delete_both(void *memory, size_t n, size_t alignment)
{
    (void)n, (void)alignment;
    berm_free(memory);
}

void operator_delete_array_both(void *memory, size_t n, size_t alignment)
{
    (void)n, (void)alignment;
    berm_free(memory);
}
