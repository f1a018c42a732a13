# cython: language_level=3
"""What an image's code says of itself: instructions that no function may reach, and addresses it forms.

Owns two walks over the code, each linear in its size whatever the code is. `find_foreign` follows every
function from its start, along branches and jump tables and never past its end, so that `unimp` and
constants beside the code are not mistaken for instructions. `mark_formed` finds functions whose address
is put together by auipc or lui and addi, for images that were assembled without linker relaxation and so
carry no relocation there. Neither is part of the boundary: what is missed here traps when it runs.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from rvcore._tables cimport CodeMap, has, put

cdef enum:
    PENDING = 1 << 18   # branch targets waiting; a walk that has more drops some and sees less
    ASKED = 1 << 12     # doubtful encodings that the disassembler is asked about; picked, not measured

# Where control goes after an instruction.
cdef enum Flow:
    NEXT        # to the one behind it
    STOP        # nowhere that can be told, or it is no instruction
    BRANCH      # to the target or the one behind it
    JUMP        # to the target
    FOREIGN     # outside RV64IMAC, perhaps of a known extension

cdef struct Step:
    Flow flow
    int size            # bytes
    int64_t target      # halfwords from this instruction, for BRANCH and JUMP


cdef inline uint32_t half_at(const uint8_t *text, int64_t slot) noexcept nogil:
    cdef uint16_t half
    memcpy(&half, text + 2 * slot, 2)
    return half


cdef inline uint32_t bits(uint32_t word, int high, int low) noexcept nogil:
    return (word >> low) & ((<uint32_t>1 << (high - low + 1)) - 1)


cdef Flow flow_of_compressed(uint32_t half) noexcept nogil:
    """Classify a 16-bit encoding; the order is that of the C chapter's three quadrants."""
    cdef uint32_t kind = (half & 3) << 3 | half >> 13
    cdef uint32_t register_field = bits(half, 11, 7)
    if kind == 0o00:                                     # c.addi4spn, and the all-zero unimp
        return NEXT if bits(half, 12, 5) else STOP
    if kind == 0o01 or kind == 0o05 or kind == 0o21 or kind == 0o25:    # c.fld, c.fsd and the sp forms
        return FOREIGN
    if kind == 0o04:                                     # reserved; Zcb
        return FOREIGN
    if kind == 0o11:                                     # c.addiw
        return NEXT if register_field else STOP
    if kind == 0o13:                                     # c.lui, c.addi16sp
        return NEXT if half & 0x107C else FOREIGN
    if kind == 0o14:                                     # c.srli … c.addw
        return FOREIGN if half & 0x1C40 == 0x1C40 else NEXT
    if kind == 0o15:                                     # c.j
        return JUMP
    if kind == 0o16 or kind == 0o17:                     # c.beqz, c.bnez
        return BRANCH
    if kind == 0o22 or kind == 0o23:                     # c.lwsp, c.ldsp
        return NEXT if register_field else STOP
    if kind == 0o24 and bits(half, 6, 2) == 0:           # c.jr, c.jalr, c.ebreak
        return NEXT if half & 0x1000 and register_field else STOP
    return NEXT


cdef Flow flow_of_arithmetic(uint32_t word, bint narrow) noexcept nogil:
    """Classify OP and OP-32."""
    cdef uint32_t kind = bits(word, 14, 12)
    cdef uint32_t group = word >> 25
    cdef bint shift_or_add = kind == 0 or kind == 5
    if group == 0x20:
        return NEXT if shift_or_add else FOREIGN
    if group == 0:
        return NEXT if not narrow or shift_or_add or kind == 1 else FOREIGN
    if group == 1:
        return NEXT if not narrow or kind == 0 or kind >= 4 else FOREIGN
    return FOREIGN


cdef Flow flow_of_immediate(uint32_t word, bint narrow) noexcept nogil:
    """Classify OP-IMM and OP-IMM-32."""
    cdef uint32_t kind = bits(word, 14, 12)
    cdef uint32_t group = word >> 25 if narrow else (word >> 26) << 1
    if kind == 1:
        return NEXT if group == 0 else FOREIGN
    if kind == 5:
        return NEXT if group == 0 or group == 0x20 else FOREIGN
    return NEXT if kind == 0 or not narrow else STOP


cdef Flow flow_of_system(uint32_t word) noexcept nogil:
    if word == 0x00000073:                               # ecall
        return NEXT
    if bits(word, 14, 12) == 0 or word == 0xC0001073U:    # ebreak, privileged; the 32-bit unimp
        return STOP
    return FOREIGN


cdef bint is_atomic(uint32_t word) noexcept nogil:
    cdef uint32_t group = word >> 27
    if bits(word, 14, 12) != 2 and bits(word, 14, 12) != 3:
        return False
    if group == 2:
        return bits(word, 24, 20) == 0                   # lr
    return group == 1 or group == 3 or group & 3 == 0


cdef Flow flow_of_word(uint32_t word) noexcept nogil:
    """Classify a 32-bit encoding by its major opcode."""
    cdef uint32_t opcode = word & 0x7F
    cdef uint32_t kind = bits(word, 14, 12)
    if opcode == 0x03:
        return NEXT if kind != 7 else STOP
    if opcode == 0x0F:
        return NEXT if kind <= 1 else FOREIGN
    if opcode == 0x13 or opcode == 0x1B:
        return flow_of_immediate(word, opcode == 0x1B)
    if opcode == 0x17 or opcode == 0x37:
        return NEXT
    if opcode == 0x23:
        return NEXT if kind <= 3 else STOP
    if opcode == 0x2F:
        return NEXT if is_atomic(word) else FOREIGN
    if opcode == 0x33 or opcode == 0x3B:
        return flow_of_arithmetic(word, opcode == 0x3B)
    if opcode == 0x63:
        return BRANCH if kind != 2 and kind != 3 else STOP
    if opcode == 0x67:
        return STOP if kind or bits(word, 11, 7) == 0 else NEXT
    if opcode == 0x6F:
        return JUMP if bits(word, 11, 7) == 0 else BRANCH
    if opcode == 0x73:
        return flow_of_system(word)
    # LOAD-FP, STORE-FP, MADD, MSUB, NMSUB, NMADD, OP-FP, OP-V, OP-VE
    if opcode == 0x07 or opcode == 0x27 or 0x43 <= opcode <= 0x57 or opcode == 0x77:
        return FOREIGN
    return STOP


cdef int64_t target_of_compressed(uint32_t half) noexcept nogil:
    """Return the displacement of c.j, c.beqz or c.bnez in bytes."""
    cdef int32_t offset
    if half >> 13 == 5:
        offset = (
            bits(half, 12, 12) << 11 | bits(half, 11, 11) << 4 | bits(half, 10, 9) << 8
            | bits(half, 8, 8) << 10 | bits(half, 7, 7) << 6 | bits(half, 6, 6) << 7
            | bits(half, 5, 3) << 1 | bits(half, 2, 2) << 5
        )
        return offset - 0x1000 if offset & 0x800 else offset
    offset = (
        bits(half, 12, 12) << 8 | bits(half, 11, 10) << 3 | bits(half, 6, 5) << 6 | bits(half, 4, 3) << 1
        | bits(half, 2, 2) << 5
    )
    return offset - 0x200 if offset & 0x100 else offset


cdef int64_t target_of_word(uint32_t word) noexcept nogil:
    """Return the displacement of jal or a branch in bytes."""
    cdef int32_t offset
    if word & 0x7F == 0x6F:
        offset = (
            bits(word, 31, 31) << 20 | bits(word, 19, 12) << 12 | bits(word, 20, 20) << 11
            | bits(word, 30, 21) << 1
        )
        return offset - 0x200000 if offset & 0x100000 else offset
    offset = (
        bits(word, 31, 31) << 12 | bits(word, 7, 7) << 11 | bits(word, 30, 25) << 5 | bits(word, 11, 8) << 1
    )
    return offset - 0x2000 if offset & 0x1000 else offset


cdef Step step_at(const uint8_t *text, int64_t slots, const uint8_t *walls, int64_t slot) noexcept nogil:
    """Decode what control flow needs of the instruction at a slot."""
    cdef Step step
    cdef uint32_t word = half_at(text, slot)
    step.size = 2
    step.target = 0
    if word & 3 != 3:
        step.flow = flow_of_compressed(word)
        if step.flow == BRANCH or step.flow == JUMP:
            step.target = target_of_compressed(word) >> 1
        return step
    step.size = 4
    if slot + 1 >= slots or has(walls, slot + 1):
        step.flow = STOP
        return step
    word |= half_at(text, slot + 1) << 16
    step.flow = flow_of_word(word)
    if step.flow == BRANCH or step.flow == JUMP:
        step.target = target_of_word(word) >> 1
    return step


@cython.final
@cython.auto_pickle(False)
cdef class _Walk:
    """One walk over everything that functions reach."""

    cdef CodeMap code
    cdef object extension_of    # word -> the name of the extension it belongs to, or None
    cdef bytearray seen         # one bit per slot: walked
    cdef int64_t *pending       # targets still to walk, owned
    cdef Py_ssize_t waiting     # how many
    cdef int asked              # questions put to extension_of

    def __cinit__(self, CodeMap code, extension_of):
        self.code = code
        self.extension_of = extension_of
        self.seen = bytearray((code.slots >> 3) + 1)
        self.pending = <int64_t *>malloc(PENDING * sizeof(int64_t))
        if self.pending == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.pending)

    cdef int64_t from_root(self, int64_t root) except -2:
        """Walk what a root reaches; return the slot of a foreign instruction, or -1."""
        cdef int64_t found
        self.pending[0] = root
        self.waiting = 1
        while self.waiting:
            self.waiting -= 1
            found = self._straight(self.pending[self.waiting])
            if found >= 0:
                return found
        return -1

    cdef int64_t _straight(self, int64_t slot) except -2:
        """Walk ahead from a slot until control cannot fall through."""
        cdef const uint8_t *text = self.code.text
        cdef const uint8_t *walls = self.code.walls
        cdef uint8_t *seen = self.seen
        cdef Step step
        while 0 <= slot < self.code.slots and not has(seen, slot):
            put(seen, slot)
            step = step_at(text, self.code.slots, walls, slot)
            if step.flow == FOREIGN:
                return slot if self._is_foreign(slot, step.size) else -1
            if step.flow == STOP:
                return -1
            if step.flow != NEXT and self.waiting < PENDING:
                self.pending[self.waiting] = slot + step.target
                self.waiting += 1
            slot += step.size >> 1
            if step.flow == JUMP or slot >= self.code.slots or has(walls, slot):
                return -1
        return -1

    cdef bint _is_foreign(self, int64_t slot, int size) except -1:
        if self.asked >= ASKED:
            return False
        self.asked += 1
        word = int.from_bytes(self.code.text[2 * slot : 2 * slot + size], "little")
        return self.extension_of(word) is not None


def find_foreign(CodeMap code, extension_of):
    """Return (address, bytes) of an instruction that a function reaches and RV64IMAC lacks, or None.

    Slots of different ranges are neighbours here; a branch that leaves its range is not followed rightly,
    which costs a diagnosis at most.
    """
    cdef _Walk walk = _Walk(code, extension_of)
    cdef const uint8_t *functions = code.functions
    cdef const uint8_t *labels = code.labels
    cdef const uint8_t *walls = code.walls
    cdef int64_t slot, found
    for slot in range(code.slots):
        # A wall under a label is data that data points to.
        if has(functions, slot) or (has(labels, slot) and not has(walls, slot)):
            found = walk.from_root(slot)
            if found >= 0:
                size = 4 if half_at(code.text, found) & 3 == 3 else 2
                return code.address_of(found), code.text[2 * found : 2 * found + size]
    return None


cdef struct Formed:
    uint64_t value[32]      # what auipc or lui, and addi behind it, put into the register
    uint32_t known          # one bit per register: value holds


cdef int written_by_compressed(uint32_t half) noexcept nogil:
    """Return the register that a 16-bit encoding writes, 0 for none."""
    cdef uint32_t kind = (half & 3) << 3 | half >> 13
    if kind == 0o00 or kind == 0o02 or kind == 0o03:
        return 8 + bits(half, 4, 2)
    if 0o10 <= kind <= 0o13 or kind == 0o20 or kind == 0o22 or kind == 0o23:
        return bits(half, 11, 7)
    if kind == 0o14:
        return 8 + bits(half, 9, 7)
    if kind == 0o24 and bits(half, 6, 2):
        return bits(half, 11, 7)
    return 0


cdef inline int64_t upper(uint32_t word) noexcept nogil:
    return <int64_t><int32_t>(word >> 12 << 12)


cdef int64_t form(Formed *formed, uint32_t word, uint64_t pc) noexcept nogil:
    """Carry register values over one 32-bit instruction; return 1 + the register that addi completed."""
    cdef uint32_t opcode = word & 0x7F
    cdef uint32_t rd = bits(word, 11, 7)
    cdef uint32_t rs1 = bits(word, 19, 15)
    cdef uint32_t bit = <uint32_t>1 << rd
    if opcode == 0x17 or opcode == 0x37:
        formed.value[rd] = <uint64_t>upper(word) + (pc if opcode == 0x17 else 0)
        formed.known |= bit
        return 0
    if opcode == 0x13 and bits(word, 14, 12) == 0 and (formed.known >> rs1) & 1:
        formed.value[rd] = formed.value[rs1] + <uint64_t><int64_t>(<int32_t>word >> 20)
        formed.known |= bit
        return 1 + rd
    if opcode != 0x23 and opcode != 0x63:
        formed.known &= ~bit
    return 0


cdef int64_t form_compressed(Formed *formed, uint32_t half) noexcept nogil:
    """Carry register values over one 16-bit instruction, as form does."""
    cdef uint32_t kind = (half & 3) << 3 | half >> 13
    cdef uint32_t rd = written_by_compressed(half)
    cdef int64_t small = bits(half, 6, 2)
    if half & 0x1000:
        small -= 32
    if kind == 0o13 and rd != 2:
        formed.value[rd] = <uint64_t>(small * 4096)
        formed.known |= <uint32_t>1 << rd
        return 0
    if kind == 0o10 and (formed.known >> rd) & 1:
        formed.value[rd] += <uint64_t>small
        return 1 + rd
    formed.known &= ~(<uint32_t>1 << rd)
    return 0


def mark_formed(CodeMap code):
    """Mark as indirect targets the functions whose address code forms in a register."""
    cdef const uint8_t *text = code.text
    cdef const uint8_t *functions = code.functions
    cdef uint8_t *targets = code.targets
    cdef Formed formed
    cdef Py_ssize_t index
    cdef int64_t slot, end, done, target
    cdef uint32_t word
    cdef uint64_t pc
    for index in range(code.count):
        slot = code.bases.data.as_ulonglongs[index]
        pc = code.starts.data.as_ulonglongs[index]
        end = slot + <int64_t>((code.ends.data.as_ulonglongs[index] - pc) >> 1)
        formed.known = 0
        while slot < end:
            if has(functions, slot):
                formed.known = 0
            word = half_at(text, slot)
            if word & 3 != 3:
                done = form_compressed(&formed, word)
                slot, pc = slot + 1, pc + 2
            elif slot + 1 < end and not has(functions, slot + 1):
                done = form(&formed, word | half_at(text, slot + 1) << 16, pc)
                slot, pc = slot + 2, pc + 4
            else:
                done = 0
                slot, pc = slot + 1, pc + 2
            if done:
                target = code.slot(formed.value[done - 1])
                if target >= 0 and has(functions, target):
                    put(targets, target)
