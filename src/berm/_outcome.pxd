# cython: language_level=3
"""The values that go into an invocation and come out of it. See _outcome.pyx."""

from libc.stdint cimport int64_t, uint64_t


cdef class Limits:
    cdef readonly uint64_t fuel        # instructions
    cdef readonly double deadline      # seconds
    cdef readonly Py_ssize_t output    # bytes of a result, a message or a staged reply
    cdef readonly Py_ssize_t log       # bytes of log lines in one invocation
    cdef int64_t deadline_ns           # the same as `deadline`


cdef class Done:
    cdef readonly bytes data
    cdef readonly int64_t duration_ns      # from entry to outcome, suspensions included
    cdef readonly uint64_t instructions    # retired by this guest, callees not included


cdef class Failed:
    cdef readonly str message
    cdef readonly int64_t duration_ns      # as Done
    cdef readonly uint64_t instructions    # as Done


cdef Done done(bytes data, int64_t duration_ns, uint64_t instructions)
cdef Failed failed(str message, int64_t duration_ns, uint64_t instructions)
