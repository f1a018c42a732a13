# cython: language_level=3
"""Watch a run: executions of each instruction, the call stacks that spent them, blocks and host calls in order.

A recorder runs a machine one instruction at a time, through the same loop and with the same exits as a run that
is not watched; only the speed differs. It must not know what a host call means.

Call stacks follow `jal`, `jalr` and returns. A jump that lands on a function's first instruction is a tail call. A
return drops the activations whose callers' stack lies at or below the stack pointer, up to the one that it belongs
to, so that `longjmp` comes out right; a switch to another stack does not.
"""

cimport cython
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree, PyMem_RawMalloc, PyMem_RawRealloc
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from rvcore._handlers cimport (
    CODE_ecall, CODE_jal, CODE_jalr, CODE_jalr_known, CODE_jr, CODE_resume, CODE_ret, IS_JUMP,
)
from rvcore._hart cimport EXIT_HOST_CALL, EXIT_OUT_OF_FUEL, EXIT_RETURNED, Hart, Op, pc_of
from rvcore._interp cimport hart_run
from rvcore._machine cimport Machine, RunHook
from rvcore._program cimport Program

cdef enum:
    RA = 1
    SP = 2
    T0 = 5
    NO_RD = 32
    MAX_DEPTH = 512        # activations followed; deeper calls are charged to the last of them
    MAX_NODES = 1 << 18    # distinct call stacks; picked, not measured
    PAGE_SIZE = 4096


cdef inline bint ends_block(const Op* op) noexcept nogil:
    """Tell whether the op after this one starts a block; IS_JUMP covers the direct jumps."""
    if op.code in (CODE_jalr, CODE_jalr_known, CODE_jr, CODE_ret, CODE_ecall):
        return True
    return IS_JUMP[op.code]


@cython.final
@cython.auto_pickle(False)
cdef class Recorder(RunHook):
    """Watches one run of one program, from its entry on; give it to a machine as its `hook`."""

    def __cinit__(self, Program program not None, *, int64_t max_events=1 << 20):
        cdef uint64_t offset
        if max_events < 0:
            raise ValueError(f"max_events: expected 0 or more, got {max_events}")
        self.program = program
        self.max_events = max_events
        self.names = []
        self.dirty = []
        self.counts_ = <uint64_t*>PyMem_RawCalloc(program.code.count, sizeof(uint64_t))
        self.entries = <uint8_t*>PyMem_RawCalloc(program.code.size // 2 + 1, 1)
        self.nodes = <Node*>PyMem_RawMalloc(MAX_NODES * sizeof(Node))
        self.active = <Activation*>PyMem_RawMalloc(MAX_DEPTH * sizeof(Activation))
        if self.counts_ == NULL or self.entries == NULL or self.nodes == NULL or self.active == NULL:
            raise MemoryError
        for start in program.image.function_addresses:
            offset = start - program.code.start
            if offset < program.code.size:
                self.entries[offset >> 1] = 1

    def __dealloc__(self):
        PyMem_RawFree(self.counts_)
        PyMem_RawFree(self.entries)
        PyMem_RawFree(self.events_)
        PyMem_RawFree(self.nodes)
        PyMem_RawFree(self.active)

    cdef int run(self, Machine machine, int64_t fuel, int64_t deadline_ns) noexcept:
        """Run as the machine would, watching; a machine of another program is run and not watched."""
        cdef Hart* h = &machine.hart
        cdef int reason
        if machine.program is not self.program or fuel <= 0:
            return hart_run(h, machine.program.code.longest, fuel, deadline_ns)
        if not self.started:
            self.names = machine.host.names
            self.begin(h)
        with nogil:
            reason = self.record(h, fuel, deadline_ns)
        if reason != EXIT_HOST_CALL:
            self.dirty = machine.dirty_ranges()
        return reason

    cdef int begin(self, Hart* h) except -1:
        """Stand at the entry: the root of all call stacks."""
        cdef uint64_t pc = pc_of(h, h.ip)
        self.started = True
        self.block_pc = pc
        self.low_sp = h.x[SP]
        self.nodes[0].entry = pc
        self.nodes[0].own = 0
        self.nodes[0].parent = self.nodes[0].child = self.nodes[0].sibling = 0
        self.node_count = 1
        return 0

    cdef int record(self, Hart* h, int64_t fuel, int64_t deadline_ns) noexcept nogil:
        cdef uint64_t longest = self.program.code.longest
        cdef uint64_t before
        cdef const Op* op
        cdef int reason = EXIT_OUT_OF_FUEL
        while fuel > 0:
            op = h.ip
            while op.code == CODE_resume:
                op = <const Op*>(<const uint8_t*>op + op.imm)
            before = h.retired
            reason = hart_run(h, longest, 1, deadline_ns)
            if h.retired != before:
                fuel -= 1
                self.note(h, op, reason)
            if reason != EXIT_OUT_OF_FUEL:
                break
        return reason

    cdef void note(self, Hart* h, const Op* op, int reason) noexcept nogil:
        """Account for the instruction that has just run, and for where it went."""
        cdef uint64_t pc = pc_of(h, op)
        cdef uint64_t sp = h.x[SP]
        self.instructions += 1
        self.counts_[op - h.ops] += 1
        self.nodes[self.node].own += 1
        self.block_size += 1
        if self.program.guard_start < sp < self.low_sp:
            self.low_sp = sp
        if not ends_block(op):
            return
        self.add_event(self.block_pc, self.block_size)
        self.block_size = 0
        if reason == EXIT_RETURNED:
            return
        self.block_pc = pc_of(h, h.ip)
        if op.code == CODE_ecall:
            self.add_event(pc, -1 - h.call_index)
        else:
            self.follow(h, op, pc, self.block_pc)

    cdef void add_event(self, uint64_t pc, int64_t size) noexcept nogil:
        cdef int64_t room
        cdef void* grown
        if self.event_count == self.event_room:
            room = min(self.max_events, max(1024, 2 * self.event_room))
            grown = NULL
            if room > self.event_room:
                grown = PyMem_RawRealloc(self.events_, room * sizeof(Event))
            if grown == NULL:
                self.events_dropped += 1
                return
            self.events_ = <Event*>grown
            self.event_room = room
        self.events_[self.event_count].pc = pc
        self.events_[self.event_count].size = size
        self.event_count += 1

    cdef void follow(self, Hart* h, const Op* op, uint64_t pc, uint64_t target) noexcept nogil:
        """Keep the call stack after a jump from `pc` to `target`."""
        cdef bint indirect = op.code == CODE_jalr or op.code == CODE_jalr_known
        if (op.code == CODE_jal or indirect) and (op.rd == RA or op.rd == T0):
            if self.depth < MAX_DEPTH:
                self.active[self.depth].back = h.x[op.rd]
                self.active[self.depth].sp = h.x[SP]
                self.active[self.depth].node = self.node
                self.active[self.depth].link = op.rd
                self.depth += 1
                self.enter_function(self.node, target)
        elif op.code == CODE_ret or (op.code == CODE_jalr and op.rd == NO_RD and (op.rs1 == RA or op.rs1 == T0)):
            self.unwind(target, h.x[SP])
        elif self.starts_function(target) and self.nodes[self.node].entry != target:
            # A tail call takes its caller's place; a branch back to the function's own start is a loop.
            if self.depth < MAX_DEPTH:
                self.enter_function(self.nodes[self.node].parent, target)

    cdef void enter_function(self, int32_t caller, uint64_t entry) noexcept nogil:
        """Make the node of `entry` called by `caller` the running one."""
        cdef int32_t found = self.nodes[caller].child
        while found and self.nodes[found].entry != entry:
            found = self.nodes[found].sibling
        if not found and self.node_count < MAX_NODES:
            found = self.node_count
            self.node_count += 1
            self.nodes[found].entry = entry
            self.nodes[found].own = 0
            self.nodes[found].parent = caller
            self.nodes[found].child = 0
            self.nodes[found].sibling = self.nodes[caller].child
            self.nodes[caller].child = found
        if found:
            self.node = found

    cdef void unwind(self, uint64_t target, uint64_t sp) noexcept nogil:
        """Drop the activations that a return to `target` with `sp` has ended."""
        cdef Activation* top
        cdef bint matches
        while self.depth:
            top = &self.active[self.depth - 1]
            matches = top.back == target and (top.sp == sp or top.link == T0)
            if top.sp > sp and not matches:
                return  # what returned was deeper than is followed
            self.node = top.node
            self.depth -= 1
            if matches:
                return

    cdef bint starts_function(self, uint64_t pc) noexcept nogil:
        cdef uint64_t offset = pc - self.program.code.start
        return offset < self.program.code.size and self.entries[offset >> 1]

    def counts(self):
        """Return how often each instruction ran, by guest address; those that did not are absent."""
        cdef uint64_t index
        cdef dict found = {}
        for index in range(self.program.code.count):
            if self.counts_[index]:
                pc = self.program.code.pcs[index]
                found[pc] = found.get(pc, 0) + self.counts_[index]
        return found

    def stacks(self):
        """Return (stack, instructions) of each call stack; a stack is the functions' entries, outermost first."""
        cdef int32_t node, at
        found = []
        for node in range(self.node_count):
            if self.nodes[node].own:
                stack = [self.nodes[node].entry]
                at = node
                while at:
                    at = self.nodes[at].parent
                    stack.append(self.nodes[at].entry)
                found.append((tuple(reversed(stack)), self.nodes[node].own))
        return found

    def events(self):
        """Yield what ran, in order: (pc, instructions) for a block, (pc, name) for a host call made at `pc`."""
        cdef int64_t index
        for index in range(self.event_count):
            size = self.events_[index].size
            yield self.events_[index].pc, size if size >= 0 else self.names[-1 - size]
        if self.block_size and not self.events_dropped:
            yield self.block_pc, self.block_size

    @property
    def stack_bytes(self):
        """How far the stack reached down."""
        return self.program.memory_size - self.low_sp if self.started else 0

    @property
    def heap_bytes(self):
        """How far into the heap memory was written, to the page."""
        start, stop = self.program.heap_start, self.program.heap_start + self.program.heap_size
        return max((min(last, stop) - start for first, last in self.dirty if last > start and first < stop), default=0)

    @property
    def touched_bytes(self):
        """How much memory was written, in whole pages."""
        return sum(stop - start for start, stop in self.dirty)
