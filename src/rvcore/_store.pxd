# cython: language_level=3
"""Stores and what they are linked with. See _store.pyx."""

from libc.stdint cimport int64_t

from rvcore._machine cimport HostTable, Machine


cdef class Linkage:
    cdef HostTable table
    cdef readonly list entries    # (number, callable or None or capsule, name, is native) in order of definition
    cdef list functions           # by call index: a Python callable, or None for a deferred or native call
    cdef dict known               # number → name of calls that are not bound


cdef class Store:
    cdef readonly object engine
    cdef public object data       # the embedder's own, given to host functions as caller.data
    cdef Machine _machine         # None until linked
    cdef Linkage linkage
    cdef int64_t fuel             # instructions left; UNLIMITED for no limit
    cdef readonly bint closed
    cdef long runner              # identity of the thread inside a run, 0 for none
    cdef object call              # the Call that stands in the machine, or None

    cdef Machine linked(self)
