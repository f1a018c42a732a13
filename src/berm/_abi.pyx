# cython: language_level=3
"""The seven calls that every guest has, as native functions: no GIL, no Python object.

Each reads its arguments from the argument registers and guest memory through the checked accessors, and answers
in a0. What they keep of a guest is copied and bounded: nothing here points into an arena. A long copy goes in
pieces: after each but the last the call asks to be made again, with the same arguments, and the machine looks at its
interrupt word and the clock first. What a capability is, this file does not know.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from rvcore._hart cimport HOST_AGAIN, HOST_FAULT, HOST_OK, PAGE_BITS, Hart
from rvcore._machine cimport HostTable
from rvcore._memory cimport guest_read, guest_write, is_readable, is_writable

from berm.fnv import call_number

cdef enum:
    A0 = 10
    A1 = 11
    PIECE = 256 << 10 # bytes copied at a time: below half a millisecond where every page of it is fresh
    LINE_HEADER = 8   # sizeof(uint64_t): the size that stands before each kept line
    LINE_COST = 16    # what a line counts against the bound beside its bytes: empty lines are not free
    KEEP_LOG = 1024   # bytes of log buffer that a finished invocation leaves for the next


cdef inline int check_range(Hart* h, uint64_t addr, uint64_t size) noexcept nogil:
    """Return HOST_FAULT, with the fault recorded, unless the guest could read all of a range that is then cut."""
    h.penalty += <int64_t>(size >> PAGE_BITS)
    if not is_readable(h, addr, size):
        guest_read(h, addr, NULL, size)  # records the fault: it checks before it copies
        return HOST_FAULT
    return HOST_OK


cdef inline int take(Hart* h, Session* s, uint8_t* to, uint64_t size) noexcept nogil:
    """Copy the next piece of `size` guest bytes at a0; HOST_AGAIN when it was not the last."""
    cdef uint64_t piece = min(<uint64_t>PIECE, size - s.copied)
    if guest_read(h, h.x[A0] + s.copied, to + s.copied, piece) != 0:
        return HOST_FAULT
    return copied(s, piece, size)


cdef inline int copied(Session* s, uint64_t piece, uint64_t size) noexcept nogil:
    s.copied += piece
    if s.copied < size:
        return HOST_AGAIN
    s.copied = 0
    return HOST_OK


cdef int call_log(Hart* h, void* data) noexcept nogil:
    """berm.log(ptr, len) -> 0."""
    cdef Session* s = <Session*>data
    cdef uint64_t size = h.x[A1]
    cdef uint64_t kept = size
    cdef uint8_t* at
    cdef int status
    if s.copied == 0 and check_range(h, h.x[A0], size) != HOST_OK:
        return HOST_FAULT
    if s.log_left < LINE_COST:
        s.log_dropped += 1
        h.x[A0] = 0
        return HOST_OK
    if kept > s.log_left - LINE_COST:
        kept = s.log_left - LINE_COST
    at = log_room(s, kept)
    if at == NULL:
        s.log_dropped += 1
        h.x[A0] = 0
        return HOST_OK
    status = take(h, s, at + LINE_HEADER, kept)
    if status != HOST_OK:
        return status
    memcpy(at, &kept, LINE_HEADER)
    s.log_size += LINE_HEADER + kept
    s.log_left -= LINE_COST + kept
    if kept < size:
        s.log_left = 0
        s.log_dropped += 1
    h.x[A0] = 0
    return HOST_OK


cdef uint8_t* log_room(Session* s, uint64_t size) noexcept nogil:
    """Make room for one more line and return where it starts, or NULL without memory."""
    cdef uint64_t needed = s.log_size + LINE_HEADER + size
    cdef uint64_t capacity = s.log_capacity if s.log_capacity else 256
    cdef uint8_t* grown
    while capacity < needed:
        capacity *= 2
    if capacity != s.log_capacity:
        grown = <uint8_t*>realloc(s.log, capacity)
        if grown == NULL:
            return NULL
        s.log = grown
        s.log_capacity = capacity
    return s.log + s.log_size


cdef int call_args_len(Hart* h, void* data) noexcept nogil:
    """berm.args.len() -> len."""
    h.x[A0] = (<Session*>data).args_size
    return HOST_OK


cdef int call_args_read(Hart* h, void* data) noexcept nogil:
    """berm.args.read(ptr, cap) -> full len."""
    cdef Session* s = <Session*>data
    return hand_over(h, s, s.args, s.args_size)


cdef int call_result_read(Hart* h, void* data) noexcept nogil:
    """berm.result.read(ptr, cap) -> full len."""
    cdef Session* s = <Session*>data
    return hand_over(h, s, s.reply, s.reply_size)


cdef inline int hand_over(Hart* h, Session* s, const uint8_t* source, uint64_t size) noexcept nogil:
    """Write the next piece of what fits the guest's buffer; HOST_AGAIN when it was not the last."""
    cdef uint64_t wanted = min(size, h.x[A1])
    cdef uint64_t piece = min(<uint64_t>PIECE, wanted - s.copied)
    cdef int status
    if s.copied == 0 and piece < wanted:
        # As with one piece, nothing is written where not all of it may be.
        h.penalty += <int64_t>(wanted >> PAGE_BITS)
        if not is_writable(h, h.x[A0], wanted):
            piece = wanted
    if guest_write(h, h.x[A0] + s.copied, source + s.copied, piece) != 0:
        return HOST_FAULT
    status = copied(s, piece, wanted)
    if status == HOST_OK:
        h.x[A0] = size
    return status


cdef int call_fail(Hart* h, void* data) noexcept nogil:
    """berm.fail(ptr, len) -> 0; a second message replaces the first."""
    cdef Session* s = <Session*>data
    cdef uint64_t size = h.x[A1]
    cdef uint64_t kept = min(size, s.output)
    cdef int status
    if s.copied == 0 and check_range(h, h.x[A0], size) != HOST_OK:
        return HOST_FAULT
    if kept > s.message_room and not make_message_room(s, kept):
        kept = 0
    status = take(h, s, s.message, kept)
    if status != HOST_OK:
        return status
    s.message_size = kept
    s.message_cut = size - kept
    s.failed = True
    h.x[A0] = 0
    return HOST_OK


cdef bint make_message_room(Session* s, uint64_t size) noexcept nogil:
    free(s.message)
    s.message = <uint8_t*>malloc(size)
    s.message_room = size if s.message != NULL else 0
    return s.message != NULL


cdef int call_heap_start(Hart* h, void* data) noexcept nogil:
    """berm.heap.start() -> address."""
    h.x[A0] = (<Session*>data).heap_start
    return HOST_OK


cdef int call_heap_size(Hart* h, void* data) noexcept nogil:
    """berm.heap.size() -> bytes."""
    h.x[A0] = (<Session*>data).heap_size
    return HOST_OK


cdef void add_always_present(HostTable table):
    """Register the seven calls."""
    table.add_native(call_number("berm.log"), call_log, "berm.log")
    table.add_native(call_number("berm.args.len"), call_args_len, "berm.args.len")
    table.add_native(call_number("berm.args.read"), call_args_read, "berm.args.read")
    table.add_native(call_number("berm.fail"), call_fail, "berm.fail")
    table.add_native(call_number("berm.result.read"), call_result_read, "berm.result.read")
    table.add_native(call_number("berm.heap.start"), call_heap_start, "berm.heap.start")
    table.add_native(call_number("berm.heap.size"), call_heap_size, "berm.heap.size")


cdef void session_clear(Session* s) noexcept nogil:
    """Forget everything of one invocation but the heap's bounds."""
    s.args = NULL
    s.args_size = 0
    s.reply = NULL
    s.reply_size = 0
    s.copied = 0
    s.failed = False
    if s.message != NULL:
        free(s.message)
        s.message = NULL
    s.message_room = 0
    s.message_size = 0
    s.message_cut = 0
    s.log_size = 0
    s.log_left = 0
    s.log_dropped = 0
    if s.log_capacity > KEEP_LOG:
        free(s.log)
        s.log = NULL
        s.log_capacity = 0


cdef void session_free(Session* s) noexcept nogil:
    """Give back what the session owns."""
    session_clear(s)
    free(s.log)
    s.log = NULL
    s.log_capacity = 0


cdef list session_take_log(Session* s):
    """Take the lines that were logged since the last time."""
    cdef list lines = []
    cdef uint64_t at = 0
    cdef uint64_t size
    while at < s.log_size:
        memcpy(&size, s.log + at, LINE_HEADER)
        at += LINE_HEADER
        lines.append((<char*>s.log)[at:at + size].decode("utf-8", "replace"))
        at += size
    s.log_size = 0
    return lines


cdef str session_message(Session* s):
    """Return the failure's message, and how much of it was cut."""
    cdef str message = (<char*>s.message)[:s.message_size].decode("utf-8", "replace") if s.message_size else ""
    if s.message_cut:
        message += f"… ({s.message_cut} bytes cut)"
    return message
