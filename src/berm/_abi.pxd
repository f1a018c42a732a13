# cython: language_level=3
"""What the seven always-present calls work on: one struct per invocation, reached through `hart.host_data`."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from rvcore._hart cimport Hart
from rvcore._machine cimport HostTable


ctypedef struct Session:
    const uint8_t* args      # argument blob; borrowed from a bytes object that the guest's owner holds
    uint64_t args_size       # bytes
    const uint8_t* reply     # staged reply of the last capability; borrowed likewise
    uint64_t reply_size      # bytes
    uint64_t heap_start      # guest address, page aligned
    uint64_t heap_size       # bytes
    uint64_t output          # most bytes of a failure's message
    uint64_t copied          # bytes that the call at which the guest stands has copied so far; 0 between calls
    bint failed              # berm.fail was called
    uint8_t* message         # its last message; owned
    uint64_t message_room    # bytes allocated
    uint64_t message_size    # bytes kept
    uint64_t message_cut     # bytes beyond `output`, not kept
    uint8_t* log             # lines not yet delivered, each a uint64_t size and its bytes; owned
    uint64_t log_size        # bytes used of `log`
    uint64_t log_capacity    # bytes allocated
    uint64_t log_left        # bytes of lines that this invocation may still log
    uint64_t log_dropped     # lines dropped since the bound was reached


cdef void session_clear(Session* s) noexcept nogil
cdef void session_free(Session* s) noexcept nogil
cdef void add_always_present(HostTable table)
cdef list session_take_log(Session* s)
cdef str session_message(Session* s)
