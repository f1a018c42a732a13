# cython: language_level=3
"""The C structures of the machine: one decoded op, one hart, and why a run stopped.

Nothing here executes or allocates. Units: guest addresses are uint64_t, host addresses are pointers,
displacements between ops are bytes (16 an op).
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t

cdef extern from "_atomic.h" nogil:
    uint32_t rv_word_load(const uint32_t* word)
    void rv_word_store(uint32_t* word, uint32_t value)

cdef extern from "_wide.h" nogil:
    uint64_t rv_mulh(uint64_t a, uint64_t b)
    uint64_t rv_mulhu(uint64_t a, uint64_t b)
    uint64_t rv_mulhsu(uint64_t a, uint64_t b)
    bint unlikely "rv_unlikely"(bint x)


cdef extern from "_constants.h" nogil:
    const uint64_t EXIT_PC "RV_EXIT_PC"       # the value of ra at entry
    const int64_t UNLIMITED "RV_UNLIMITED"    # fuel of a store without a limit


cdef enum:
    PAGE_BITS = 12
    PAGE_SIZE = 4096
    # The permission table lies this far below guest address 0: one byte for each page of 4 GiB.
    PERM_OFFSET = 1 << 20
    # Page permissions. 0 is an untouched read-write page: readable, its first store is logged.
    PERM_NONE = 1       # no access at all
    PERM_READ_ONLY = 2  # loads only
    PERM_DIRTY = 4      # stores go through: the page is in the dirty log
    PERM_RESIDENT = 8   # the page has been written since the arena was last trimmed

    FEW_DIRTY = 64      # written pages that an arena logs without touching a page of log
    CALL_RING = 16      # host calls remembered for a trap's report, a power of two
    QUANTUM = 10000     # instructions between looks at the interrupt word and the clock: about 10 µs
    DIRTY_COST = 512    # a page's first store counts as this many instructions towards QUANTUM (it may fault)


cdef enum:
    # Flags in the low bits of a jump map entry.
    MAP_TARGET = 1  # an indirect jump or call may land here
    MAP_RETURN = 2  # a return may land here
    MAP_LABEL = 4   # a jump table of the same function may lead here
    MAP_SHIFT = 3   # the op index stands above the flags


cdef enum:
    EXIT_SLICE = 0         # internal: the budget of this slice is used up, or a host call is to be made again
    EXIT_RETURNED = 1      # results in x[10], x[11]
    EXIT_HOST_CALL = 2     # a deferred host call: call_index, call_number; the pc is past the ecall
    EXIT_OUT_OF_FUEL = 3
    EXIT_INTERRUPTED = 4
    EXIT_DEADLINE = 5
    EXIT_TRAP = 6          # trap_code and fault_* say why; the pc is at the instruction


cdef enum:
    # Why a run trapped; _traps.TrapCode names them for people (see _machine.pyx).
    TRAP_NONE = 0
    TRAP_ILLEGAL_INSTRUCTION = 1
    TRAP_BREAKPOINT = 2
    TRAP_LOAD_FAULT = 3
    TRAP_STORE_FAULT = 4
    TRAP_MISALIGNED_ATOMIC = 5
    TRAP_BAD_JUMP = 6
    TRAP_BAD_RETURN = 7
    TRAP_FETCH_FAULT = 8
    TRAP_UNKNOWN_HOST_CALL = 9
    TRAP_HOST_ERROR = 10


cdef enum:
    # What a native host function returns.
    HOST_OK = 0
    HOST_DEFER = 1  # the run's owner answers the call
    HOST_FAULT = 2  # a trap at the call
    HOST_AGAIN = 3  # a part is done: look at the interrupt word and the clock, then make the same call again


ctypedef struct Op
ctypedef struct Hart
ctypedef int (*HandlerFn)(const Op* ip, Hart* h, uint64_t v, uintptr_t dl, uint8_t* mem) noexcept nogil
ctypedef const Op* (*StepFn)(const Op* ip, Hart* h) noexcept nogil
ctypedef int (*HostFn)(Hart* h, void* data) noexcept nogil

ctypedef struct Op:
    HandlerFn fn    # what the fast loop runs for this slot (perhaps fused with the next)
    uint8_t rd      # 0..31, or 32 for a write to x0
    uint8_t rs1     # 0..31
    uint8_t rs2     # 0..31; for jalr the MAP_* flags that its target must have
    uint8_t code    # CODE_*: the instruction itself, never the fusion
    int32_t imm     # immediate; for direct branches and jumps the displacement in bytes of ops

ctypedef struct Extent:
    uint32_t first  # op index of a function's first op
    uint32_t count  # its ops

ctypedef struct HostEntry:
    uint64_t number  # of the call
    HostFn fn        # native function, or NULL for a deferred call
    int32_t index    # position in the table's list of names; -1 marks a free slot

ctypedef struct Arena:
    uint8_t* mem         # host address of guest address 0; owned by the mapping
    uint8_t* mapping     # start of the reservation
    size_t mapping_size  # bytes reserved
    uint32_t* dirty      # page numbers written since the last reset: `few`, or when that is full `many`
    uint32_t* many       # room for every page; inside the mapping
    uint32_t few[FEW_DIRTY]
    uint32_t dirty_count
    uint32_t resident    # pages with PERM_RESIDENT
    Arena* next          # next free arena of the pool

ctypedef struct Hart:
    uint64_t x[33]          # integer registers; x[32] swallows writes to x0
    uint64_t mask1          # address bits that send a 1-byte access to the slow path: outside memory
    uint64_t mask2          # ... of 2 bytes: outside memory or misaligned
    uint64_t mask4
    uint64_t mask8
    uint64_t code_start     # guest address of the jump map's first halfword
    uint64_t code_size      # bytes covered by the jump map
    const uint32_t* map     # (op index << MAP_SHIFT | MAP_* flags) for each halfword of code; borrowed likewise
    const Op* ops           # first op; borrowed from the program
    const Extent* extents   # by the imm of a jr: the function that it stands in; borrowed from the program
    uintptr_t pcs           # biased so that (pcs + (op address >> 2)) points to that op's guest address
    Arena* arena            # owned while entered, else NULL
    uint64_t memory_size    # bytes of guest memory, a power of two
    const Op* ip            # next op, valid between slices
    uintptr_t dl            # op address at which the slice's budget ends, valid between slices
    int64_t budget          # instructions this slice may use
    int64_t unchecked       # QUANTUM units used since the last look at the clock
    int64_t penalty         # QUANTUM units to charge for slow work since the last step
    uint64_t retired        # instructions since enter
    const HostEntry* calls  # open-addressed table of host calls; borrowed from the HostTable
    uint64_t calls_mask     # its size - 1
    void* host_data         # owner's pointer, passed to native host functions
    uint64_t call_number    # a7 of the last host call
    int32_t call_index      # its index in the host table
    uint32_t ring_count     # host calls since enter
    int32_t ring[16]        # indices of the last CALL_RING host calls
    bint again              # the hart stands at a host call that has returned HOST_AGAIN
    uint64_t reservation    # address of the load reservation
    uint32_t reserved       # its size in bytes, 0 for none
    uint32_t interrupt      # written by other threads, see _atomic.h
    int exit                # EXIT_* set by the step that ended a slice
    int trap_code           # TRAP_*
    int fault_store         # 1 for a store
    uint64_t fault_address
    uint64_t fault_size     # bytes
    uint64_t* counts        # executions of each op when profiling, else NULL; owned by the machine


cdef inline bint stays(const Hart* h) noexcept nogil:
    """Tell whether the step that left the loop did not retire its op: the pc stays there."""
    return h.exit == EXIT_TRAP or h.exit == EXIT_SLICE


cdef inline uint32_t pc_of(const Hart* h, const Op* ip) noexcept nogil:
    return (<const uint32_t*>(h.pcs + (<uintptr_t>ip >> 2)))[0]
