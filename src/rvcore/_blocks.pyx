# cython: language_level=3
"""Guest code → ops, decoded once for each program.

Code becomes one array of ops in address order, so that falling through is the next slot. A linear sweep starts
afresh at every function and relocated code address, which keeps data between functions from hiding the code
after it. A direct branch into the middle of a swept instruction (legal RISC-V) gets its own run of ops, decoded
out of line and joined to the main line by a `resume`. The jump map says for each halfword which op starts
there and whether an indirect jump or a return may land on it.

Fuel: only backward and indirect edges compare the budget. `longest` is the largest number of instructions that
can retire between two comparisons, so a run can stop exactly by stepping its last `longest` instructions.
"""

from array import array
from bisect import bisect_right

cimport cython
from libc.stdint cimport UINT32_MAX, UINT64_MAX, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from rvcore._decode cimport decode, expand
from rvcore._handlers cimport (
    CODE_auipc_far, CODE_beq, CODE_bgeu, CODE_ebreak, CODE_ecall, CODE_illegal, CODE_j, CODE_jal, CODE_jalr,
    CODE_jalr_known, CODE_jr, CODE_li, CODE_liu, CODE_off_code, CODE_resume, CODE_ret, COMMUTES, HAS_RESULT, IS_JUMP,
    READS_RS1, choose_handlers, ends_run, is_fused, slow, variant_of,
)
from rvcore._hart cimport MAP_LABEL, MAP_RETURN, MAP_SHIFT, MAP_TARGET, Extent, Op

from rvcore._errors import LoadError
from rvcore._handlers import NAMES

# Ops of one program, 20 bytes each with their addresses. Picked: eight times what 4 MiB of compressed code need,
# and well inside 32-bit byte displacements.
MAX_OPS = 1 << 24

cdef enum:
    # What Code.hard says of a halfword where decoding starts afresh.
    PLACE = 1
    FUNCTION = 2
    # `longest` at most: an interrupt waits for so many instructions, and the end of the fuel is reached by so many
    # steps. Picked: three times what the largest functions of real images have.
    MOST_UNCHECKED = 1024


@cython.final
@cython.auto_pickle(False)
cdef class Code:
    """Ops, their guest addresses and the jump map of one program."""

    def __cinit__(self, list ranges, starts, targets, bint cfi, bint fuse=True):
        """Decode.

        Args:
            ranges: (address, bytes) of code, sorted, not overlapping. The caller bounds their span.
            starts: Addresses where an instruction is known to start.
            targets: Legal indirect targets.
            cfi: Whether indirect jumps are checked against them.
            fuse: Whether to fuse pairs; off, every op has its own handler.

        Raises:
            LoadError: The code needs too many ops.
        """
        cdef bytes code
        cdef uint64_t address
        self.cfi = cfi
        if ranges:
            self.start = ranges[0][0] & ~1
            address, code = ranges[len(ranges) - 1]
            self.size = (address + len(code) - self.start + 1) & ~<uint64_t>1
        self.map = <uint32_t*>calloc(self.size // 2 + 1, sizeof(uint32_t))
        self.hard = <uint8_t*>calloc(self.size // 2 + 1, 1)
        if self.map == NULL or self.hard == NULL:
            raise MemoryError
        self.starts = [begin for begin, _ in ranges]
        self.ranges = ranges
        self.capacity = min(MAX_OPS, sum([len(code) for _, code in ranges]) // 2 + len(ranges) + 64)
        self.grow()
        self.put_off_code(0, 0)
        self.mark_hard(targets, PLACE)
        self.mark_hard(starts, FUNCTION)
        for address, code in ranges:
            self.sweep(address, code, len(code))
        self.swept = self.count
        for address in targets:
            if not self.find(address):
                self.out_of_line(address)
        if not cfi:
            self.decode_everything()
        self.link()
        self.find_extents(starts)
        self.finish(targets, fuse)

    def __dealloc__(self):
        free(self.ops)
        free(self.pcs)
        free(self.map)
        free(self.extents)
        free(self.hard)

    cdef int grow(self) except -1:
        """Make room for `capacity` ops and the two that `choose` may read past the last."""
        cdef void* ops = realloc(self.ops, (self.capacity + 2) * sizeof(Op))
        if ops == NULL:
            raise MemoryError
        self.ops = <Op*>ops
        cdef void* pcs = realloc(self.pcs, (self.capacity + 2) * sizeof(uint32_t))
        if pcs == NULL:
            raise MemoryError
        self.pcs = <uint32_t*>pcs
        return 0

    cdef Op* append(self, uint64_t pc) except NULL:
        """Add an empty op that stands for guest address `pc`."""
        if self.count == self.capacity:
            if self.capacity >= MAX_OPS:
                raise LoadError(f"the code needs more than {MAX_OPS} decoded instructions", address=pc)
            self.capacity = min(MAX_OPS, self.capacity + self.capacity // 2)
            self.grow()
        cdef Op* op = &self.ops[self.count]
        memset(op, 0, sizeof(Op))
        self.pcs[self.count] = <uint32_t>pc
        self.count += 1
        return op

    cdef uint64_t find(self, uint64_t pc) noexcept nogil:
        """Return the index of the op at `pc`, 0 for none."""
        cdef uint64_t offset = pc - self.start
        return self.map[offset >> 1] >> MAP_SHIFT if offset < self.size and not offset & 1 else 0

    cdef int mark_hard(self, addresses, uint8_t kind) except -1:
        """Note addresses at which the sweep starts afresh, and of which kind they are."""
        cdef uint64_t address, offset
        for address in addresses:
            offset = address - self.start
            if offset < self.size and not offset & 1:
                self.hard[offset >> 1] = kind
        return 0

    cdef uint32_t decode_at(self, uint64_t pc, const uint8_t* code, uint64_t left, Op* op) noexcept nogil:
        """Decode one instruction; return its length. What is cut off or longer than 32 bits is illegal."""
        cdef uint16_t half = 0
        cdef uint32_t word = 0
        if left < 2:
            decode(0, pc, op)
            return 2
        memcpy(&half, code, 2)
        if half & 3 != 3:
            decode(expand(half), pc, op)
            return 2
        if half & 0x1C == 0x1C or left < 4:
            decode(0, pc, op)
            return 2
        memcpy(&word, code, 4)
        decode(word, pc, op)
        return 4

    cdef int sweep(self, uint64_t start, const uint8_t* code, uint64_t size) except -1:
        """Decode a range from its first byte to its last."""
        cdef uint64_t offset = start & 1
        cdef uint64_t at
        cdef uint32_t length
        cdef Op* op
        while offset < size:
            at = (start + offset - self.start) >> 1
            self.map[at] = <uint32_t>self.count << MAP_SHIFT
            op = self.append(start + offset)
            length = self.decode_at(start + offset, code + offset, size - offset, op)
            if length == 4 and self.hard[at + 1]:
                # Something known to be code starts inside: this was data.
                decode(0, start + offset, op)
                length = 2
            offset += length
        return self.put_off_code(start + size, 0)

    cdef int put_off_code(self, uint64_t pc, int64_t distance) except -1:
        """Add the op that traps when execution leaves the code at `pc` + `distance`."""
        cdef Op* op = self.append(pc)
        op.code = CODE_off_code
        op.rd = 32
        op.imm = <int32_t>distance
        return 0

    cdef int decode_everything(self) except -1:
        """Give every even address of code an op: without CFI an indirect jump may land on any."""
        cdef uint64_t address, begin, end
        for begin, code in self.ranges:
            end = begin + len(code)
            for address in range((begin + 1) & ~<uint64_t>1, end, 2):
                if not self.find(address):
                    self.out_of_line(address)
        return 0

    cdef int out_of_line(self, uint64_t pc) except -1:
        """Decode from `pc`, which the sweep passed over, until it meets known ops or cannot go on."""
        cdef bytes code
        cdef uint64_t begin, offset
        cdef uint32_t length
        cdef Op* op
        if pc - self.start >= self.size or pc & 1:
            return 0
        begin, code = self.ranges[bisect_right(self.starts, pc) - 1]
        if pc - begin >= <uint64_t>len(code):
            return 0
        while True:
            offset = pc - begin
            if offset >= <uint64_t>len(code):
                return self.put_off_code(pc, 0)
            if self.find(pc):
                op = self.append(pc)
                op.code = CODE_resume
                op.rd = 32
                return 0
            self.map[(pc - self.start) >> 1] = <uint32_t>self.count << MAP_SHIFT
            op = self.append(pc)
            length = self.decode_at(pc, <const uint8_t*><const char*>code + offset, len(code) - offset, op)
            if ends_run(op):
                return 0
            pc += length

    cdef int link(self) except -1:
        """Turn guest displacements into op displacements; decode targets that the sweep passed over."""
        cdef uint64_t index = 1
        while index < self.count:
            if IS_JUMP[self.ops[index].code] or self.ops[index].code == CODE_resume:
                self.link_op(index)
            index += 1
        return 0

    cdef int link_op(self, uint64_t index) except -1:
        cdef int64_t distance = self.ops[index].imm
        cdef uint64_t target = <uint64_t>(<int64_t>self.pcs[index] + distance)
        cdef uint64_t at = self.find(target)
        if not at:
            at = self.count
            self.out_of_line(target)
            if at == self.count:
                self.put_off_code(self.pcs[index], distance)
        self.ops[index].imm = <int32_t>((<int64_t>at - <int64_t>index) * <int64_t>sizeof(Op))
        return 0

    cdef int finish(self, targets, bint fuse) except -1:
        """Set the flags of the jump map, then choose handlers."""
        cdef uint64_t address, index
        with nogil:
            self.mark_returns()
            self.pair_constants()
        for address in targets:
            if self.find(address):
                self.map[(address - self.start) >> 1] |= self.flag_of(address)
        if not self.cfi:
            for index in range(self.size // 2):
                if self.map[index]:
                    self.map[index] |= MAP_TARGET | MAP_RETURN
            for index in range(self.count):
                if self.ops[index].code == CODE_jalr or self.ops[index].code == CODE_ret:
                    self.ops[index].rs2 = MAP_TARGET | MAP_RETURN
        memset(&self.ops[self.count], 0, 2 * sizeof(Op))
        with nogil:
            self.swap_operands()
        self.measure()
        self.choose(fuse)
        free(self.hard)
        self.hard = NULL
        self.ranges = self.starts = None
        return 0

    cdef int find_extents(self, starts) except -1:
        """Note which ops belong to which function, and in each jr the function that it stands in.

        A function reaches to the next one. Extent 0 is for code before the first: all of the code.
        """
        cdef uint64_t index, at
        cdef uint64_t functions = 0
        self.extents = <Extent*>malloc((len(starts) + 1) * sizeof(Extent))
        if self.extents == NULL:
            raise MemoryError
        self.extents[0].first = 0
        self.extents[0].count = UINT32_MAX
        functions_found = array("Q")
        for address in starts:
            at = self.find(address)
            if at:
                functions += 1
                functions_found.append(address)
                self.extents[functions].first = <uint32_t>at
                self.extents[functions].count = <uint32_t>(self.swept - at)
                if functions > 1:
                    self.extents[functions - 1].count = <uint32_t>at - self.extents[functions - 1].first
        for index in range(self.count):
            if self.ops[index].code == CODE_jr:
                self.ops[index].imm = <int32_t>bisect_right(functions_found, self.pcs[index])
        self.first_function = functions_found[0] if functions else UINT64_MAX
        return 0

    cdef uint32_t flag_of(self, uint64_t target) noexcept nogil:
        """Tell a function, which any jump may take, from a place inside of one, which a jump table leads to."""
        if self.hard[(target - self.start) >> 1] == FUNCTION or target < self.first_function:
            return MAP_TARGET
        return MAP_LABEL

    cdef void mark_returns(self) noexcept nogil:
        """The instruction after anything that links is a return site."""
        cdef uint64_t index, offset
        cdef Op* op
        for index in range(1, self.count - 1):
            op = &self.ops[index]
            if op.code == CODE_jal or (op.code == CODE_jalr and op.rd != 32):
                offset = self.pcs[index + 1] - self.start
                if offset < self.size and self.map[offset >> 1]:
                    self.map[offset >> 1] |= MAP_RETURN

    cdef void pair_constants(self) noexcept nogil:
        """Recognise `auipc rX; jalr rd, imm(rX)`, whose target is known and needs no indirect right."""
        cdef uint64_t index, base
        cdef int32_t distance
        cdef Op* op
        for index in range(1, self.count - 1):
            op = &self.ops[index]
            if (op.code != CODE_li and op.code != CODE_liu) or op[1].rs1 != op.rd:
                continue
            if op[1].code != CODE_jalr and op[1].code != CODE_jr:
                continue
            base = <uint64_t><int64_t>op.imm if op.code == CODE_li else <uint64_t><uint32_t>op.imm
            # A jr has no displacement: its imm is its function, which a known jump does not ask for.
            distance = 0 if op[1].code == CODE_jr else op[1].imm
            if self.find((base + <uint64_t><int64_t>distance) & ~<uint64_t>1):
                op[1].code = CODE_jalr_known
                op[1].imm = distance

    cdef void swap_operands(self) noexcept nogil:
        """Let a commutative op take the previous result as rs1, which can be forwarded."""
        cdef uint64_t index
        cdef Op* op
        for index in range(1, self.count - 1):
            op = &self.ops[index]
            if HAS_RESULT[op.code] and COMMUTES[op[1].code] and op[1].rs2 == op.rd and op[1].rs1 != op.rd:
                op[1].rs1, op[1].rs2 = op[1].rs2, op[1].rs1

    cdef void measure(self) except *:
        """Compute `longest` over the forward edges, from the last op to the first.

        Where it would grow past its bound, an op is made slow: that one compares the budget wherever it goes.
        """
        cdef uint32_t* reach = <uint32_t*>malloc((self.count + 1) * sizeof(uint32_t))
        cdef uint32_t most = 0, here
        cdef uint64_t index
        cdef int64_t target
        cdef Op* op
        if reach == NULL:
            raise MemoryError
        reach[self.count] = 0
        with nogil:
            for index in range(self.count - 1, 0, -1):
                op = &self.ops[index]
                here = 0
                if IS_JUMP[op.code] and op.imm > 0:
                    here = reach[index + op.imm // <int64_t>sizeof(Op)]
                if not (ends_run(op) or op.code == CODE_jal or op.code == CODE_jalr or op.code == CODE_jalr_known
                        or op.code == CODE_resume or op.code == CODE_off_code):
                    here = max(here, reach[index + 1])
                if here == MOST_UNCHECKED:
                    op.fn = slow
                    here = 0
                reach[index] = here + 1
                most = max(most, here + 1)
        free(reach)
        self.longest = most

    cdef void choose(self, bint fuse) except *:
        """Give every op its handler."""
        cdef uint32_t* cost = <uint32_t*>calloc(self.count + 2, sizeof(uint32_t))
        if cost == NULL:
            raise MemoryError
        with nogil:
            choose_handlers(self.ops, self.count, fuse, cost)
        free(cost)

    def entries(self):
        """Return (guest address, flags) of every halfword that starts an op; for tests and tools."""
        return [(self.start + 2 * i, self.map[i] & ((1 << MAP_SHIFT) - 1)) for i in range(self.size // 2) if self.map[i]]

    def is_return_site(self, uint64_t pc):
        """Tell whether a return may land on `pc`."""
        cdef uint64_t offset = pc - self.start
        return bool(offset < self.size and not offset & 1 and self.map[offset >> 1] & MAP_RETURN)

    def links(self):
        """Describe each op, in op order: (name, link to the next op, whether it runs fused with it).

        The link says where the next op's rs1 comes from: "f" this op's result, "k" this op's rs1, "l" the
        registers. For the profiler and tests.
        """
        cdef uint64_t i
        return [
            (
                NAMES[self.ops[i].code],
                "fkl"[variant_of(&self.ops[i], &self.ops[i + 1], False)],
                bool(is_fused(&self.ops[i])),
            )
            for i in range(self.count)
        ]

    def addresses(self):
        """Return the guest address of each op, in op order."""
        out = array("I", bytes(4 * self.count))
        cdef uint32_t[::1] view = out
        memcpy(&view[0], self.pcs, 4 * self.count)
        return out
