# cython: language_level=3
"""Packing and cutting of fields: a little-endian `u32` length and that many bytes, repeated.

Every length is compared with what is left before it is used; nothing is copied that was not checked.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy

from berm.errors import WireError

cdef enum:
    HEADER = 4  # bytes of a field's length


cdef inline uint32_t _load(const uint8_t* at) noexcept nogil:
    return at[0] | (<uint32_t>at[1] << 8) | (<uint32_t>at[2] << 16) | (<uint32_t>at[3] << 24)


cdef inline void _store(uint8_t* at, uint32_t value) noexcept nogil:
    at[0] = value & 0xFF
    at[1] = (value >> 8) & 0xFF
    at[2] = (value >> 16) & 0xFF
    at[3] = value >> 24


def unpack_fields(bytes data not None):
    """Cut `data` into its fields.

    Raises:
        WireError: if a length runs past the end, or less than a length is left.
    """
    cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
    cdef Py_ssize_t at = 0
    cdef uint32_t length
    cdef list fields = []
    while at < size:
        if size - at < HEADER:
            raise WireError(f"field {len(fields)} at byte {at}: {size - at} bytes left, expected a u32 length")
        length = _load(start + at)
        at += HEADER
        if length > size - at:
            raise WireError(f"field {len(fields)} at byte {at}: length {length}, but {size - at} bytes are left")
        fields.append(PyBytes_FromStringAndSize(<const char*>start + at, length))
        at += length
    return fields


def pack_fields(fields):
    """Join `fields`, each after its length.

    Raises:
        WireError: if a field is 4 GiB long or longer.
        TypeError: if a field is not bytes.
    """
    cdef list parts = list(fields)
    cdef Py_ssize_t total = 0
    cdef Py_ssize_t size
    for part in parts:
        if type(part) is not bytes:
            raise TypeError(f"expected bytes, got {type(part).__name__}")
        size = PyBytes_GET_SIZE(part)
        if size > 0xFFFFFFFF:
            raise WireError(f"field of {size} bytes does not fit a u32 length")
        total += HEADER + size
    cdef bytes packed = PyBytes_FromStringAndSize(NULL, total)
    cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(packed)
    for part in parts:
        size = PyBytes_GET_SIZE(part)
        _store(at, <uint32_t>size)
        memcpy(at + HEADER, PyBytes_AS_STRING(part), size)
        at += HEADER + size
    return packed
