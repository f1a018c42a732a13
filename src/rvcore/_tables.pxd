# cython: language_level=3
"""Addresses in code and sets of them, which the code scanner shares; the symbol table's fields."""

from cpython.array cimport array
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef packed struct Sym:
    uint32_t name       # offset in the string table
    uint8_t info        # binding << 4 | type
    uint8_t other       # visibility, not looked at
    uint16_t shndx      # section index, or a reserved one
    uint64_t value      # address
    uint64_t size       # bytes


cdef class CodeMap:
    cdef readonly Py_ssize_t slots      # halfwords in all ranges together
    cdef readonly bytes text            # the bytes of all ranges, one after the other
    cdef readonly bytearray functions   # one bit per slot: a function starts here
    cdef readonly bytearray targets     # one bit per slot: a legal indirect target
    cdef readonly bytearray labels      # one bit per slot: data holds this address, as a jump table does
    cdef readonly bytearray walls       # one bit per slot: falling through into here is leaving a function
    cdef Py_ssize_t count               # number of ranges
    cdef Py_ssize_t last                # the range that the last lookup hit
    cdef array starts                   # first address of each range, ascending
    cdef array ends                     # first address past each range
    cdef array bases                    # slot of each range's first halfword

    cdef int64_t slot(self, uint64_t address) noexcept
    cdef uint64_t address_of(self, int64_t slot) noexcept
    cdef Py_ssize_t _collect(
        self, const uint8_t *bits, Py_ssize_t index, int64_t slot, unsigned long long *out, Py_ssize_t at
    ) noexcept


cdef class SymbolTable:
    cdef readonly dict exports          # name: address, of each function that is global or weak
    cdef readonly object global_pointer  # value of __global_pointer$, or None
    cdef bytes data                     # the file
    cdef Py_ssize_t offset              # of the first entry in the file
    cdef Py_ssize_t count               # entries
    cdef Py_ssize_t strings             # offset of the string table in the file
    cdef Py_ssize_t strings_size        # bytes
    cdef Py_ssize_t sections            # number of sections, the bound of st_shndx
    cdef Py_ssize_t names_left          # bytes of exported names that may still be read

    cdef Sym entry(self, Py_ssize_t index) noexcept
    cdef int _read_function(self, CodeMap code, Sym *symbol, Py_ssize_t index, int binding) except -1
    cdef int _export(self, CodeMap code, Sym *symbol, Py_ssize_t index, int64_t slot, int binding) except -1
    cdef int _read_label(self, CodeMap code, Sym *symbol, int binding) except -1
    cdef bint _starts_with(self, uint64_t start, const char *text, Py_ssize_t size) noexcept
    cdef void _wall(self, CodeMap code, uint64_t address) noexcept
    cdef str name(self, uint64_t start, Py_ssize_t index)
    cdef object _malformed(self, problem, Py_ssize_t index)


cdef inline bint has(const uint8_t *bits, int64_t slot) noexcept nogil:
    return (bits[slot >> 3] >> (slot & 7)) & 1


cdef inline void put(uint8_t *bits, int64_t slot) noexcept nogil:
    bits[slot >> 3] |= <uint8_t>(1 << (slot & 7))
