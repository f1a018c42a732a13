# cython: language_level=3
"""Run a hart: fast slices, exact fuel, the interrupt word and the clock.

The fast handlers compare their budget on backward and indirect edges only, so they may retire up to `longest`
instructions more than asked. The loop therefore gives them what is left minus `longest`, and steps the rest one
by one. That is also the whole loop of builds without tail calls, and of profiling.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t, uintptr_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from rvcore._handlers cimport CODE_resume, HAS_FAST, STEPS, start
from rvcore._hart cimport (
    EXIT_DEADLINE, EXIT_INTERRUPTED, EXIT_OUT_OF_FUEL, EXIT_SLICE, QUANTUM, Hart, Op, rv_word_load,
    rv_word_store, stays,
)


cdef enum:
    # Instructions between looks at the interrupt word. Found: a guest that reads a fresh page with every third
    # instruction takes 1.2 µs for each, and is to stop within a millisecond.
    SLICE = 2000


cdef int64_t monotonic_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t>now.tv_sec * 1000000000 + now.tv_nsec


cdef int run_fast(Hart* h, int64_t budget, int64_t* used) noexcept nogil:
    """Run at least `budget` instructions by the fast handlers, unless the run exits first."""
    cdef int reason
    h.budget = budget
    h.dl = <uintptr_t>h.ip + <uintptr_t>budget * sizeof(Op)
    reason = start(h)
    used[0] = h.budget - (<int64_t>(h.dl - <uintptr_t>h.ip) >> 4)
    return reason


cdef int run_steps(Hart* h, int64_t budget, int64_t* used) noexcept nogil:
    """Step `budget` instructions, fewer where slow work uses the quantum up, unless the run exits first."""
    cdef const Op* ip = h.ip
    cdef const Op* following
    used[0] = 0
    while used[0] < budget and h.unchecked < QUANTUM:
        following = STEPS[ip.code](ip, h)
        h.unchecked += h.penalty
        h.penalty = 0
        if ip.code != CODE_resume and (following != NULL or not stays(h)):
            used[0] += 1
            if h.counts != NULL:
                h.counts[ip - h.ops] += 1
        if following == NULL:
            h.ip = ip if stays(h) else ip + 1
            return h.exit
        ip = following
    h.ip = ip
    return EXIT_SLICE


cdef int hart_run(Hart* h, uint64_t longest, int64_t fuel, int64_t deadline_ns) noexcept nogil:
    """Run until an exit, `fuel` more instructions at most.

    The interrupt word is cleared when its exit is reported. The deadline is on CLOCK_MONOTONIC, 0 for none.
    """
    cdef int64_t left = fuel
    cdef int64_t span = <int64_t>longest
    cdef int64_t slice_, used
    cdef int reason
    cdef bint fast = HAS_FAST and h.counts == NULL
    while True:
        if rv_word_load(&h.interrupt):
            rv_word_store(&h.interrupt, 0)
            return EXIT_INTERRUPTED
        if h.unchecked >= QUANTUM:
            h.unchecked = 0
            if deadline_ns != 0 and monotonic_ns() >= deadline_ns:
                return EXIT_DEADLINE
        if left <= 0:
            return EXIT_OUT_OF_FUEL
        slice_ = min(SLICE, QUANTUM - h.unchecked)
        if fast and left > span:
            reason = run_fast(h, min(slice_, left - span), &used)
        else:
            reason = run_steps(h, min(slice_, left), &used)
        h.retired += <uint64_t>used
        h.unchecked += used
        left -= used
        if reason != EXIT_SLICE:
            return reason
