# cython: language_level=3
"""An image that can be called. See _linked.pyx."""

from libc.stdint cimport uint64_t

from berm._guest cimport Guest, GuestPool


cdef class Linked:
    cdef dict exports                  # name → guest address, of every function that the image exports
    cdef dict entries                  # tool → guest address
    cdef GuestPool pool

    cdef uint64_t entry(self, tool) except? 0
    cdef uint64_t export(self, str name) except? 0
    cdef object call_entry(self, str label, uint64_t pc, args, limits, context, bint raw, chain, int depth)
    cdef object first_slice(self, Guest guest)
    cdef Guest prepare(self, str label, uint64_t pc, args, limits, context, bint raw, chain, int depth)
