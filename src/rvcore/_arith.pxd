# cython: language_level=3
"""Division as the M extension defines it: no trap, -1 or the dividend for zero, the dividend on overflow."""

from libc.stdint cimport INT32_MIN, INT64_MIN, UINT64_MAX, int32_t, int64_t, uint32_t, uint64_t


cdef inline uint64_t div64(uint64_t a, uint64_t b) noexcept nogil:
    if b == 0:
        return UINT64_MAX
    if <int64_t>b == -1:
        return 0 - a
    return <uint64_t>(<int64_t>a // <int64_t>b)


cdef inline uint64_t divu64(uint64_t a, uint64_t b) noexcept nogil:
    return UINT64_MAX if b == 0 else a // b


cdef inline uint64_t rem64(uint64_t a, uint64_t b) noexcept nogil:
    if b == 0:
        return a
    if <int64_t>b == -1:
        return 0
    return <uint64_t>(<int64_t>a % <int64_t>b)


cdef inline uint64_t remu64(uint64_t a, uint64_t b) noexcept nogil:
    return a if b == 0 else a % b


cdef inline uint64_t div32(uint64_t a, uint64_t b) noexcept nogil:
    cdef int32_t x = <int32_t>a, y = <int32_t>b
    if y == 0:
        return UINT64_MAX
    if y == -1:
        return <uint64_t><int64_t><int32_t>(0 - <uint32_t>x)
    return <uint64_t><int64_t>(x // y)


cdef inline uint64_t divu32(uint64_t a, uint64_t b) noexcept nogil:
    cdef uint32_t x = <uint32_t>a, y = <uint32_t>b
    if y == 0:
        return UINT64_MAX
    return <uint64_t><int64_t><int32_t>(x // y)


cdef inline uint64_t rem32(uint64_t a, uint64_t b) noexcept nogil:
    cdef int32_t x = <int32_t>a, y = <int32_t>b
    if y == 0:
        return <uint64_t><int64_t>x
    if y == -1:
        return 0
    return <uint64_t><int64_t>(x % y)


cdef inline uint64_t remu32(uint64_t a, uint64_t b) noexcept nogil:
    cdef uint32_t x = <uint32_t>a, y = <uint32_t>b
    if y == 0:
        return <uint64_t><int64_t><int32_t>x
    return <uint64_t><int64_t><int32_t>(x % y)
