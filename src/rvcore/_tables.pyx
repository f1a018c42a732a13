# cython: language_level=3
"""Symbol and relocation tables, read in bulk: one pass over each, no Python object per entry.

Owns the layout of Elf64_Sym and Elf64_Rela and the rules on what a symbol or a relocation must say. The
caller has checked that the tables lie inside the file. Sets of code addresses are held as one bit per
halfword, so that results come out sorted and unique without sorting, whatever a hostile table holds.
"""

cimport cython
from cpython.array cimport array, clone
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from rvcore._errors import LoadError

cdef enum:
    STB_LOCAL = 0
    STB_GLOBAL = 1
    STB_WEAK = 2
    STT_NOTYPE = 0
    STT_OBJECT = 1
    STT_FUNC = 2
    SHN_UNDEF = 0
    SHN_LORESERVE = 0xFF00
    LONGEST_NAME = 1 << 16        # bytes; mangled Rust and C++ names reach some KiB
    EXPORTS = 1 << 18             # global functions; large Rust images have some 10,000
    NAMED = 4 << 20               # symbols that addresses are named by; picked, not measured
    ALL_NAMES = 16 << 20          # bytes of the exported names together: they may share the string table

# Elf64_Rela types, from the RISC-V psABI.
cdef enum:
    R_32 = 1
    R_64 = 2
    R_RELATIVE = 3
    R_COPY = 4
    R_JUMP_SLOT = 5
    R_GOT_HI20 = 20
    R_PCREL_HI20 = 23
    R_HI20 = 26
    R_ADD8 = 33
    R_ADD64 = 36
    R_RVC_LUI = 46
    R_SET8 = 54
    R_SET32 = 56
    R_32_PCREL = 57
    R_IRELATIVE = 58

cdef packed struct Rela:
    uint64_t offset     # address of the place
    uint32_t type       # R_*
    uint32_t symbol     # index in the symbol table
    int64_t addend      # bytes

cdef array _QUADS = array("Q")


@cython.final
@cython.auto_pickle(False)
cdef class CodeMap:
    """The executable ranges of an image: which halfword slot an address has, and sets of slots."""

    def __cinit__(self, ranges):
        """Take (start, bytes) pairs, sorted and disjoint, each of an even start and length."""
        cdef Py_ssize_t index = 0
        self.count = len(ranges)
        self.starts = clone(_QUADS, self.count, False)
        self.ends = clone(_QUADS, self.count, False)
        self.bases = clone(_QUADS, self.count, False)
        self.slots = 0
        self.last = 0
        for start, data in ranges:
            self.starts.data.as_ulonglongs[index] = start
            self.ends.data.as_ulonglongs[index] = start + len(data)
            self.bases.data.as_ulonglongs[index] = self.slots
            self.slots += len(data) >> 1
            index += 1
        self.text = ranges[0][1] if self.count == 1 else b"".join([data for _, data in ranges])
        self.functions = bytearray((self.slots >> 3) + 1)
        self.targets = bytearray((self.slots >> 3) + 1)
        self.labels = bytearray((self.slots >> 3) + 1)
        self.walls = bytearray((self.slots >> 3) + 1)
        for index in range(self.count):
            put(self.walls, self.bases.data.as_ulonglongs[index])

    cdef int64_t slot(self, uint64_t address) noexcept:
        """Return the slot of an address, or -1 where it is odd or outside code."""
        cdef unsigned long long *starts = self.starts.data.as_ulonglongs
        cdef Py_ssize_t low = 0, high = self.count, middle
        if address & 1 or self.count == 0:
            return -1
        if not starts[self.last] <= address < self.ends.data.as_ulonglongs[self.last]:
            while low < high:
                middle = (low + high) >> 1
                if starts[middle] <= address:
                    low = middle + 1
                else:
                    high = middle
            if low == 0 or address >= self.ends.data.as_ulonglongs[low - 1]:
                return -1
            self.last = low - 1
        return self.bases.data.as_ulonglongs[self.last] + ((address - starts[self.last]) >> 1)

    cdef uint64_t address_of(self, int64_t slot) noexcept:
        """Return the address of a slot."""
        cdef unsigned long long *bases = self.bases.data.as_ulonglongs
        cdef Py_ssize_t low = 0, high = self.count, middle
        while low < high:
            middle = (low + high) >> 1
            if <int64_t>bases[middle] <= slot:
                low = middle + 1
            else:
                high = middle
        return self.starts.data.as_ulonglongs[low - 1] + ((slot - <int64_t>bases[low - 1]) << 1)

    def addresses(self, bytearray bits):
        """Return the addresses whose bits are set, ascending."""
        cdef const uint8_t *raw = bits
        cdef Py_ssize_t byte, count = 0, at = 0, index
        cdef int64_t slot
        for byte in range(len(bits)):
            count += _ones(raw[byte])
        cdef array found = clone(_QUADS, count, False)
        for index in range(self.count):
            slot = self.bases.data.as_ulonglongs[index]
            at = self._collect(raw, index, slot, found.data.as_ulonglongs, at)
        return found

    cdef Py_ssize_t _collect(
        self, const uint8_t *bits, Py_ssize_t index, int64_t slot, unsigned long long *out, Py_ssize_t at
    ) noexcept:
        """Write one range's addresses to out[at:] and return the next at."""
        cdef uint64_t address = self.starts.data.as_ulonglongs[index]
        cdef uint64_t end = self.ends.data.as_ulonglongs[index]
        while address < end:
            if slot & 7 == 0 and bits[slot >> 3] == 0:
                slot += 8
                address += 16
                continue
            if has(bits, slot):
                out[at] = address
                at += 1
            slot += 1
            address += 2
        return at


cdef inline int _ones(uint8_t byte) noexcept nogil:
    byte = byte - ((byte >> 1) & 0x55)
    byte = (byte & 0x33) + ((byte >> 2) & 0x33)
    return (byte + (byte >> 4)) & 0x0F


@cython.final
@cython.auto_pickle(False)
cdef class SymbolTable:
    """A symbol table inside a file: where it is, and the facts that one pass over it gives."""

    def __cinit__(
        self, bytes data, Py_ssize_t offset, Py_ssize_t count, Py_ssize_t strings, Py_ssize_t strings_size,
        Py_ssize_t sections,
    ):
        self.data = data
        self.offset = offset
        self.count = count
        self.strings = strings
        self.strings_size = strings_size
        self.sections = sections
        self.names_left = ALL_NAMES
        self.exports = {}
        self.global_pointer = None

    def __len__(self):
        return self.count

    cdef Sym entry(self, Py_ssize_t index) noexcept:
        cdef const uint8_t *raw = self.data
        cdef Sym symbol
        memcpy(&symbol, raw + self.offset + index * sizeof(Sym), sizeof(Sym))
        return symbol

    def read(self, CodeMap code):
        """Fill exports and global_pointer, and mark in code where functions start and end.

        Raises:
            LoadError: a symbol points outside the tables, or a global function is undefined, outside code
                or defined twice.
        """
        cdef Py_ssize_t index
        cdef Sym symbol
        cdef int kind, binding
        for index in range(self.count):
            symbol = self.entry(index)
            if symbol.name >= <uint64_t>self.strings_size and symbol.name != 0:
                raise self._malformed("st_name is outside the string table", index)
            if symbol.shndx >= self.sections and symbol.shndx < SHN_LORESERVE:
                problem = f"st_shndx is {symbol.shndx}, but there are {self.sections} sections"
                raise self._malformed(problem, index)
            kind = symbol.info & 15
            binding = symbol.info >> 4
            if kind == STT_FUNC:
                self._read_function(code, &symbol, index, binding)
            elif kind <= STT_OBJECT:
                self._read_label(code, &symbol, binding)

    cdef int _read_function(self, CodeMap code, Sym *symbol, Py_ssize_t index, int binding) except -1:
        cdef int64_t slot = -1
        if symbol.shndx != SHN_UNDEF:
            slot = code.slot(symbol.value)
        if slot >= 0:
            put(code.functions, slot)
            self._wall(code, symbol.value + symbol.size if symbol.size else symbol.value)
        if binding == STB_GLOBAL or binding == STB_WEAK:
            self._export(code, symbol, index, slot, binding)
        return 0

    cdef int _export(self, CodeMap code, Sym *symbol, Py_ssize_t index, int64_t slot, int binding) except -1:
        if slot < 0 and symbol.shndx == SHN_UNDEF and binding == STB_WEAK:
            return 0
        if slot < 0 and symbol.shndx != SHN_UNDEF and symbol.size == 0 and code.slot(symbol.value - 2) >= 0:
            # A function that is all __builtin_unreachable() has no code and may lie at the very end.
            return 0
        name = self.name(symbol.name, index)
        self.names_left -= len(name)
        if self.names_left < 0 or len(self.exports) >= EXPORTS:
            raise self._malformed(
                f"more than {EXPORTS} global functions, or {ALL_NAMES} bytes of their names", index
            )
        if slot < 0:
            raise LoadError(_function_problem(symbol), field="st_value", address=symbol.value, symbol=name)
        if self.exports.setdefault(name, symbol.value) != symbol.value:
            raise LoadError("a global function is defined twice", address=symbol.value, symbol=name)
        return 0

    cdef int _read_label(self, CodeMap code, Sym *symbol, int binding) except -1:
        """Mark where data in code starts, and find the global pointer."""
        if symbol.info & 15 == STT_OBJECT or self._starts_with(symbol.name, b"$d", 2):
            self._wall(code, symbol.value)
        elif binding != STB_LOCAL and symbol.shndx != SHN_UNDEF:
            if self._starts_with(symbol.name, b"__global_pointer$", 18):
                self.global_pointer = symbol.value
        return 0

    cdef bint _starts_with(self, uint64_t start, const char *text, Py_ssize_t size) noexcept:
        """Compare a name's first bytes, its end included when size counts it."""
        cdef const char *raw = self.data
        return (
            start + <uint64_t>size <= <uint64_t>self.strings_size
            and memcmp(raw + self.strings + start, text, size) == 0
        )

    cdef void _wall(self, CodeMap code, uint64_t address) noexcept:
        cdef int64_t slot = code.slot(address)
        if slot >= 0:
            put(code.walls, slot)

    cdef str name(self, uint64_t start, Py_ssize_t index):
        """Return the name that starts at an offset of the string table.

        Raises:
            LoadError: it has no end within bounds.
        """
        cdef const char *raw = self.data
        cdef Py_ssize_t room = self.strings_size - <Py_ssize_t>start
        cdef const char *text = raw + self.strings + start
        cdef const void *end
        if self.strings_size == 0:
            return ""
        room = min(room, <Py_ssize_t>LONGEST_NAME)
        end = memchr(text, 0, room)
        if end == NULL:
            raise self._malformed(f"st_name has no end within {room} bytes", index)
        return PyUnicode_DecodeUTF8(text, <const char *>end - text, "backslashreplace")

    cdef object _malformed(self, problem, Py_ssize_t index):
        offset = self.offset + index * <Py_ssize_t>sizeof(Sym)
        return LoadError(problem, field=f".symtab[{index}]", offset=offset)

    def value(self, Py_ssize_t index):
        """Return the value of one symbol."""
        if not 0 <= index < self.count:
            raise IndexError(index)
        return self.entry(index).value

    def globals_that_are_no_functions(self, accept):
        """Return [(name, address)] of the global symbols that accept(name) takes and that name no code.

        Raises:
            LoadError: a name has no end within bounds.
        """
        found = []
        cdef Py_ssize_t index, left = ALL_NAMES
        cdef Sym symbol
        for index in range(self.count):
            symbol = self.entry(index)
            if symbol.info >> 4 == STB_LOCAL or (symbol.info & 15 == STT_FUNC and symbol.shndx != SHN_UNDEF):
                continue
            name = self.name(symbol.name, index)
            left -= len(name)
            if left < 0:
                raise self._malformed(f"global names are longer than {ALL_NAMES} bytes together", index)
            if name and accept(name):
                found.append((name, symbol.value))
        return found

    def by_address(self, CodeMap code):
        """Return (start, size, name offset) arrays of the best symbol at each named address, ascending.

        A global function is better than a weak one, that than a local one, and a global label is worst; the
        longer is better among equals.
        """
        cdef Py_ssize_t index, count = min(self.count, <Py_ssize_t>NAMED), place
        cdef bytearray named = bytearray((code.slots >> 3) + 1)
        cdef uint8_t *bits = named
        cdef Sym symbol
        for index in range(count):
            symbol = self.entry(index)
            if _rank(&symbol) > 0 and code.slot(symbol.value) >= 0:
                put(bits, code.slot(symbol.value))
        cdef array starts = code.addresses(named)
        if not starts:
            return starts, starts, starts
        cdef array sizes = clone(_QUADS, len(starts), True)
        cdef array names = clone(_QUADS, len(starts), True)
        cdef array ranks = clone(_QUADS, len(starts), True)
        for index in range(count):
            symbol = self.entry(index)
            if _rank(&symbol) == 0 or code.slot(symbol.value) < 0:
                continue
            place = _position(starts, symbol.value)
            if _better(&symbol, ranks.data.as_ulonglongs[place], sizes.data.as_ulonglongs[place]):
                ranks.data.as_ulonglongs[place] = _rank(&symbol)
                sizes.data.as_ulonglongs[place] = symbol.size
                names.data.as_ulonglongs[place] = symbol.name
        return starts, sizes, names

    def name_at(self, Py_ssize_t start):
        """Return the name at an offset of the string table, cut where it is overlong.

        Raises:
            LoadError: it has no end within bounds.
        """
        if not 0 <= start < max(self.strings_size, 1):
            raise LoadError("st_name is outside the string table", field=".strtab")
        return self.name(start, 0)


cdef int _rank(Sym *symbol) noexcept:
    """Return how well a symbol names the code at its value, 0 for not at all."""
    cdef int binding = symbol.info >> 4
    if symbol.shndx == SHN_UNDEF:
        return 0
    if symbol.info & 15 == STT_FUNC:
        return 4 if binding == STB_GLOBAL else 3 if binding == STB_WEAK else 2
    return 1 if symbol.info & 15 == STT_NOTYPE and binding != STB_LOCAL else 0


cdef bint _better(Sym *symbol, uint64_t rank, uint64_t size) noexcept:
    return _rank(symbol) > <int>rank or (_rank(symbol) == <int>rank and symbol.size >= size)


cdef Py_ssize_t _position(array ascending, uint64_t value) noexcept:
    """Return the index of a value that is there."""
    cdef unsigned long long *values = ascending.data.as_ulonglongs
    cdef Py_ssize_t low = 0, high = len(ascending), middle
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


cdef str _function_problem(Sym *symbol):
    if symbol.shndx == SHN_UNDEF:
        return "a global function is undefined"
    return "a global function is misaligned" if symbol.value & 1 else "a global function is outside code"


cdef inline bint _holds_address(uint32_t kind) noexcept nogil:
    """Tell whether a relocation of this type puts S + A, or its distance from a place, into data."""
    return (
        kind == R_32 or kind == R_64 or R_ADD8 <= kind <= R_ADD64 or R_SET8 <= kind <= R_SET32
        or kind == R_32_PCREL
    )


cdef inline bint _forms_address(uint32_t kind) noexcept nogil:
    """Tell whether a relocation of this type is for an instruction that forms S + A."""
    return kind == R_GOT_HI20 or kind == R_PCREL_HI20 or kind == R_HI20 or kind == R_RVC_LUI


cdef inline bint _needs_loader(uint32_t kind) noexcept nogil:
    return R_RELATIVE <= kind <= R_JUMP_SLOT or kind == R_IRELATIVE


def read_relocations(
    CodeMap code, SymbolTable symbols, bytes data, Py_ssize_t offset, Py_ssize_t count, str name
):
    """Mark the indirect targets that a table of relocations names.

    Raises:
        LoadError: an entry names no symbol of the table, or would need a dynamic loader.
    """
    cdef const uint8_t *raw = data
    cdef Py_ssize_t index
    cdef int64_t slot
    cdef Rela entry
    cdef uint64_t value
    cdef uint8_t *targets = code.targets
    cdef uint8_t *labels = code.labels
    for index in range(count):
        memcpy(&entry, raw + offset + index * sizeof(Rela), sizeof(Rela))
        if entry.symbol >= <uint64_t>symbols.count and entry.symbol != 0:
            raise _bad_relocation(
                f"r_info names symbol {entry.symbol}, but there are {symbols.count}", name, index, offset
            )
        if _needs_loader(entry.type):
            raise _bad_relocation(f"relocation type {entry.type} needs a dynamic loader", name, index, offset)
        if not _holds_address(entry.type) and not _forms_address(entry.type):
            continue
        value = symbols.entry(entry.symbol).value if symbols.count else 0
        slot = code.slot(value + <uint64_t>entry.addend)
        if slot >= 0:
            put(targets, slot)
            if _holds_address(entry.type):
                put(labels, slot)


cdef object _bad_relocation(problem, name, Py_ssize_t index, Py_ssize_t offset):
    remedy = "link with -static -no-pie, without ifuncs" if "loader" in problem else None
    return LoadError(
        problem, field=f"{name}[{index}]", offset=offset + index * <Py_ssize_t>sizeof(Rela), remedy=remedy
    )
