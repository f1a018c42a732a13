# cython: language_level=3
"""One hart with its memory: enter, run, leave. The layer that stores and berm's invocations are built on.

A machine is used by one thread at a time; only `interrupt` may come from another.
"""

cimport cython

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport UINT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from rvcore._hart cimport (
    CALL_RING, EXIT_PC, EXIT_TRAP, TRAP_BAD_JUMP, TRAP_BAD_RETURN, TRAP_BREAKPOINT, TRAP_FETCH_FAULT,
    TRAP_HOST_ERROR, TRAP_ILLEGAL_INSTRUCTION, TRAP_LOAD_FAULT, TRAP_MISALIGNED_ATOMIC, TRAP_STORE_FAULT,
    TRAP_UNKNOWN_HOST_CALL, Arena, Hart, HostEntry, HostFn, Op, pc_of, rv_word_store,
)
from rvcore._handlers cimport CODE_off_code
from rvcore._interp cimport hart_run
from rvcore._memory cimport guest_write, is_readable

from rvcore._errors import LinkError
from rvcore._traps import Trap, TrapCode

TRAP_CODES = {
    TRAP_ILLEGAL_INSTRUCTION: TrapCode.ILLEGAL_INSTRUCTION,
    TRAP_BREAKPOINT: TrapCode.BREAKPOINT,
    TRAP_LOAD_FAULT: TrapCode.LOAD_FAULT,
    TRAP_STORE_FAULT: TrapCode.STORE_FAULT,
    TRAP_MISALIGNED_ATOMIC: TrapCode.MISALIGNED_ATOMIC,
    TRAP_BAD_JUMP: TrapCode.BAD_JUMP,
    TRAP_BAD_RETURN: TrapCode.BAD_RETURN,
    TRAP_FETCH_FAULT: TrapCode.FETCH_FAULT,
    TRAP_UNKNOWN_HOST_CALL: TrapCode.UNKNOWN_HOST_CALL,
    TRAP_HOST_ERROR: TrapCode.HOST_ERROR,
}
HAS_ADDRESS = frozenset({
    TRAP_LOAD_FAULT, TRAP_STORE_FAULT, TRAP_MISALIGNED_ATOMIC, TRAP_BAD_JUMP, TRAP_BAD_RETURN, TRAP_FETCH_FAULT,
})
ACCESS = {
    TRAP_LOAD_FAULT: "load", TRAP_STORE_FAULT: "store", TRAP_BAD_JUMP: "fetch", TRAP_BAD_RETURN: "fetch",
    TRAP_FETCH_FAULT: "fetch",
}

# Machines alive in this process. No module global: one may die when those are gone.
cdef long live = 0


def live_machines():
    """Return how many machines are alive in this process; the tests' leak check reads it."""
    return live


@cython.final
@cython.auto_pickle(False)
cdef class HostTable:
    """Numbers of host calls → native functions or deferred calls; fixed once a machine uses it."""

    def __cinit__(self):
        self.names = []
        self.known = {}
        self.mask = 15
        self.entries = new_entries(16)

    def __dealloc__(self):
        free(self.entries)

    cdef int add(self, uint64_t number, HostFn fn, str name) except -1:
        """Register a call and return its index.

        Raises:
            LinkError: The number is taken.
            ValueError: A machine uses this table already.
        """
        cdef uint64_t slot
        if self.frozen:
            raise ValueError("the host table is in use")
        slot = (number ^ (number >> 32)) & self.mask
        while self.entries[slot].index >= 0:
            if self.entries[slot].number == number:
                raise LinkError("a host call is defined twice", name=None if name == hex(number) else name, number=number)
            slot = (slot + 1) & self.mask
        if <uint64_t>len(self.names) * 2 >= self.mask:
            self.grow()
        self.names.append(name)
        self.insert(number, fn, len(self.names) - 1)
        return len(self.names) - 1

    cdef int grow(self) except -1:
        cdef HostEntry* old = self.entries
        cdef uint64_t count = self.mask + 1
        cdef uint64_t slot
        self.entries = new_entries(count * 2)
        self.mask = count * 2 - 1
        for slot in range(count):
            if old[slot].index >= 0:
                self.insert(old[slot].number, old[slot].fn, old[slot].index)
        free(old)
        return 0

    cdef void insert(self, uint64_t number, HostFn fn, int32_t index) noexcept:
        cdef uint64_t slot = (number ^ (number >> 32)) & self.mask
        while self.entries[slot].index >= 0:
            slot = (slot + 1) & self.mask
        self.entries[slot].number = number
        self.entries[slot].fn = fn
        self.entries[slot].index = index

    cdef int add_native(self, uint64_t number, HostFn fn, str name) except -1:
        """Register a native function."""
        return self.add(number, fn, name)

    cdef int add_deferred(self, uint64_t number, str name) except -1:
        """Register a call that leaves the run to its owner."""
        return self.add(number, NULL, name)

    def know(self, names):
        """Remember names of calls that are not registered, for the report of whoever calls them."""
        self.known.update(names)


cdef HostEntry* new_entries(uint64_t count) except NULL:
    cdef HostEntry* entries = <HostEntry*>calloc(count, sizeof(HostEntry))
    cdef uint64_t slot
    if entries == NULL:
        raise MemoryError
    for slot in range(count):
        entries[slot].index = -1
    return entries


@cython.auto_pickle(False)
cdef class RunHook:
    """Runs a machine in place of its own loop; a recorder is one."""

    cdef int run(self, Machine machine, int64_t fuel, int64_t deadline_ns) noexcept:
        """Run as `hart_run` would."""
        return hart_run(&machine.hart, machine.program.code.longest, fuel, deadline_ns)


# Without tp_clear: __dealloc__ gives the arena back to the program's pool, so both must still be there.
@cython.final
@cython.auto_pickle(False)
@cython.no_gc_clear
cdef class Machine:
    """A hart, an arena while it is entered, and the table of its host calls."""

    def __cinit__(self, Program program not None, HostTable host not None):
        global live
        cdef Hart* h = &self.hart
        cdef uint64_t outside = ~(program.memory_size - 1)
        live += 1
        self.program = program
        self.host = host
        host.frozen = True
        h.mask1 = outside
        h.mask2 = outside | 1
        h.mask4 = outside | 3
        h.mask8 = outside | 7
        h.code_start = program.code.start
        h.code_size = program.code.size
        h.map = program.code.map
        h.ops = program.code.ops
        h.ip = h.ops
        h.extents = program.code.extents
        h.pcs = <uintptr_t>program.code.pcs - (<uintptr_t>program.code.ops >> 2)
        h.memory_size = program.memory_size
        h.calls = host.entries
        h.calls_mask = host.mask

    def __dealloc__(self):
        global live
        live -= 1
        self.leave()
        free(self.hart.counts)

    cdef int acquire(self) except -1:
        """Take a clean arena.

        Raises:
            MemoryError: None can be had.
        """
        self.leave()
        self.hart.arena = self.program.pool.acquire()
        self.entered = True
        return 0

    cdef int begin(self, uint64_t pc) except -1:
        """Stand at `pc` as a caller whose return address ends the call; memory stays as it is.

        Raises:
            ValueError: No instruction starts at `pc`.
        """
        cdef Hart* h = &self.hart
        cdef uint64_t at = self.program.code.find(pc)
        if not at:
            raise ValueError(f"no instruction starts at {pc:#x}")
        memset(h.x, 0, sizeof(h.x))
        h.x[1] = EXIT_PC
        h.x[2] = self.program.memory_size
        h.x[3] = self.program.global_pointer
        h.ip = &self.program.code.ops[at]
        h.unchecked = 0
        h.penalty = 0
        h.retired = 0
        h.ring_count = 0
        h.again = False
        h.reserved = 0
        h.trap_code = 0
        rv_word_store(&h.interrupt, 0)
        return 0

    cdef int enter(self, uint64_t pc) except -1:
        """Take a clean arena and stand at `pc`.

        Raises:
            ValueError: No instruction starts at `pc`.
            MemoryError: No arena can be had.
        """
        self.acquire()
        return self.begin(pc)

    cdef int run(self, int64_t fuel, int64_t deadline_ns) noexcept nogil:
        """Run until an exit: EXIT_*. The machine must be entered and not have returned or trapped."""
        if self.hook is not None:
            with gil:
                return self.hook.run(self, fuel, deadline_ns)
        return hart_run(&self.hart, self.program.code.longest, fuel, deadline_ns)

    cdef void leave(self) noexcept:
        """Give the arena back. May be called at any time."""
        cdef Arena* arena = self.hart.arena
        if arena != NULL:
            self.hart.arena = NULL
            self.entered = False
            self.program.pool.release(arena)

    cdef uint64_t instructions(self) noexcept nogil:
        """Return the instructions retired since enter."""
        return self.hart.retired

    cdef uint64_t pc(self) noexcept nogil:
        """Return the guest address of the next instruction, also where no code is."""
        cdef const Op* ip = self.hart.ip
        return pc_of(&self.hart, ip) + (<uint64_t><int64_t>ip.imm if ip.code == CODE_off_code else 0)

    cdef void interrupt(self) noexcept nogil:
        """Stop the run within QUANTUM instructions; safe from any thread."""
        rv_word_store(&self.hart.interrupt, 1)

    def read_quietly(self, uint64_t addr, uint64_t size):
        """Return guest bytes, or None where the guest itself could not read them; changes no state."""
        if self.hart.arena == NULL or not is_readable(&self.hart, addr, size):
            return None
        return PyBytes_FromStringAndSize(<const char*>self.hart.arena.mem + addr, size) if size else b""

    def read(self, start, stop):
        """Return guest bytes [start, stop).

        Raises:
            ValueError: The guest itself could not read them, or no arena is held.
        """
        found = self.read_quietly(start, stop - start) if 0 <= start <= stop <= UINT64_MAX else None
        if found is None:
            raise ValueError(f"guest memory [{start:#x}, {stop:#x}) is not readable")
        return found

    def write(self, const uint8_t[::1] data not None, start):
        """Write guest bytes through the dirty log.

        Raises:
            ValueError: The guest itself could not write them, or no arena is held.
        """
        cdef uint64_t size = data.shape[0]
        cdef bint inside = self.hart.arena != NULL and 0 <= start <= UINT64_MAX
        if not inside or (size and guest_write(&self.hart, start, &data[0], size) != 0):
            raise ValueError(f"guest memory [{start:#x}, {start + size:#x}) is not writable")

    def host_calls(self):
        """Return the names of the last host calls, oldest first."""
        cdef uint32_t count = self.hart.ring_count
        cdef uint32_t place
        first = count - min(count, <uint32_t>CALL_RING)
        return tuple(self.host.names[self.hart.ring[place & (CALL_RING - 1)]] for place in range(first, count))

    cdef object trap(self):
        """Return the Trap that describes the last EXIT_TRAP."""
        cdef int code = self.hart.trap_code
        known = TRAP_CODES[code]
        # Not pc(): of a jump out of the code this names the jump, and the address says where to.
        pc = pc_of(&self.hart, self.hart.ip)
        if code == TRAP_STORE_FAULT and self.in_guard(self.hart.fault_address):
            known = TrapCode.STACK_OVERFLOW
        elif code == TRAP_LOAD_FAULT and self.in_guard(self.hart.fault_address):
            known = TrapCode.STACK_OVERFLOW
        facts = self.instruction_facts(pc) if code != TRAP_FETCH_FAULT else {}
        if code in HAS_ADDRESS:
            facts["address"] = self.hart.fault_address
            facts["access"] = ACCESS.get(code)
        if code == TRAP_LOAD_FAULT or code == TRAP_STORE_FAULT or code == TRAP_MISALIGNED_ATOMIC:
            facts["size"] = self.hart.fault_size
        if code == TRAP_UNKNOWN_HOST_CALL:
            facts["number"] = self.hart.call_number
            facts["detail"] = self.host.known.get(self.hart.call_number, "")
        return self.explain(known, pc, facts)

    def explain(self, code, pc, facts):
        """Return a Trap of any code at the place where the machine stands."""
        symbols = self.program.image.symbols
        registers = tuple(self.hart.x[i] for i in range(32))
        found = symbols.lookup(pc)
        line = symbols.line(pc)
        return Trap(
            code=code,
            pc=pc,
            registers=registers,
            symbol=found[0] if found else None,
            offset=found[1] if found else None,
            location=f"{line[0]}:{line[1]}" if line else None,
            frames=symbols.frames(pc, registers, self.read_quietly, self.program.code.is_return_site),
            host_calls=self.host_calls(),
            **facts,
        )

    def stopped(self, code):
        """Return a Trap that says why the owner ends this run: out of fuel, deadline, interrupted."""
        return self.explain(code, self.pc(), {})

    def instruction_facts(self, pc):
        """Return the bytes and the disassembly of the instruction at `pc`."""
        from rvcore._disasm import disassemble  # its tables cost a start-up that only a trap is worth

        raw = self.read_quietly(pc, 2) or b""
        if len(raw) == 2 and raw[0] & 3 == 3:
            raw = self.read_quietly(pc, 4) or raw
        if len(raw) < 2:
            return {}
        return {"bytes": raw, "disassembly": disassemble(int.from_bytes(raw, "little"), pc)}

    def in_guard(self, uint64_t addr):
        """Tell whether an address lies in the guard below the stack."""
        return self.program.guard_start <= addr < self.program.memory_size - self.program.stack_size

    def dirty_pages(self):
        """Return how many pages this run has written."""
        return self.hart.arena.dirty_count if self.hart.arena != NULL else 0

    def dirty_ranges(self):
        """Return the written pages as sorted (start, stop) guest addresses, joined where adjacent."""
        cdef uint32_t i
        if self.hart.arena == NULL:
            return []
        out = []
        first = stop = 0
        for page in sorted(self.hart.arena.dirty[i] for i in range(self.hart.arena.dirty_count)):
            start = page << 12
            if start == stop:
                stop += 4096
                continue
            if stop:
                out.append((first, stop))
            first, stop = start, start + 4096
        if stop:
            out.append((first, stop))
        return out

    def start_profile(self):
        """Count the executions of each instruction from now on; runs step, which is slower."""
        free(self.hart.counts)
        self.hart.counts = <uint64_t*>calloc(self.program.code.count, sizeof(uint64_t))
        if self.hart.counts == NULL:
            raise MemoryError

    def profile(self):
        """Return (guest address, executions) of each instruction that ran."""
        cdef uint64_t i
        if self.hart.counts == NULL:
            return []
        return [
            (self.program.code.pcs[i], self.hart.counts[i])
            for i in range(self.program.code.count) if self.hart.counts[i]
        ]
