# cython: language_level=3
"""Line tables: DWARF 2 to 5 line programs, walked in C, one pass for any number of addresses.

Owns the state machine of the specification's section 6.2 and the file names in a unit's header. The
section is hostile: the walk keeps no rows, reads nothing outside the section, and its time is linear in
the section's size; a unit that makes no sense ends or is skipped. Nothing here raises for what a file
says. What pyelftools offers for this keeps every row and follows counts that no byte backs, so it serves
as the reference in the tests and gives the names of the opcodes and forms.
"""

from libc.stdint cimport int64_t, int8_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcpy

from elftools.dwarf.constants import DW_LNE, DW_LNS
from elftools.dwarf.enums import ENUM_DW_FORM, ENUM_DW_LNCT

MAX_ADDRESSES = 64          # of one pass: the frames of a trap
LONGEST_NAME = 1024         # bytes of a file name that are shown

cdef enum:
    ADDRESSES = 64
    FILE_ENTRIES = 1 << 16  # entries of a header's table that are read; picked, not measured
    ENTRY_FIELDS = 8        # fields of an entry; compilers write four at most
    MAX_LINE = 0x7FFFFFFF

cdef int LNS_COPY = DW_LNS.copy
cdef int LNS_ADVANCE_PC = DW_LNS.advance_pc
cdef int LNS_ADVANCE_LINE = DW_LNS.advance_line
cdef int LNS_SET_FILE = DW_LNS.set_file
cdef int LNS_CONST_ADD_PC = DW_LNS.const_add_pc
cdef int LNS_FIXED_ADVANCE_PC = DW_LNS.fixed_advance_pc
cdef int LNE_END_SEQUENCE = DW_LNE.end_sequence
cdef int LNE_SET_ADDRESS = DW_LNE.set_address

cdef int CONTENT_PATH = ENUM_DW_LNCT["DW_LNCT_path"]
cdef int CONTENT_DIRECTORY = ENUM_DW_LNCT["DW_LNCT_directory_index"]
cdef dict FIXED_FORMS = {
    ENUM_DW_FORM["DW_FORM_data1"]: 1,
    ENUM_DW_FORM["DW_FORM_data2"]: 2,
    ENUM_DW_FORM["DW_FORM_data4"]: 4,
    ENUM_DW_FORM["DW_FORM_data8"]: 8,
    ENUM_DW_FORM["DW_FORM_data16"]: 16,
}
cdef int FORM_STRING = ENUM_DW_FORM["DW_FORM_string"]
cdef int FORM_STRP = ENUM_DW_FORM["DW_FORM_strp"]
cdef int FORM_LINE_STRP = ENUM_DW_FORM["DW_FORM_line_strp"]
cdef int FORM_UDATA = ENUM_DW_FORM["DW_FORM_udata"]
cdef int FORM_BLOCK = ENUM_DW_FORM["DW_FORM_block"]

cdef struct Reader:
    const uint8_t *at       # next byte
    const uint8_t *end      # first byte past what may be read
    bint short_of           # a read went past the end, or a number had no end

cdef struct Unit:
    uint64_t offset         # of the unit in the section
    uint64_t tables         # of the directory and file tables
    const uint8_t *program  # first byte of the program
    const uint8_t *end      # first byte past the unit
    int version
    int offset_size         # 4 or 8
    int instruction_bytes   # minimum_instruction_length
    int line_base
    int line_range
    int opcode_base
    const uint8_t *lengths  # operands of each standard opcode

cdef struct Row:
    uint64_t address
    uint64_t file
    uint64_t line           # wraps, where a file makes it

cdef struct Query:
    uint64_t address        # to be found
    uint64_t unit           # offset of the unit that has it
    uint64_t file           # index in the unit's file table
    uint64_t line           # 0: not found

cdef struct Queries:
    int count
    uint64_t lowest
    uint64_t highest
    Query items[64]


cdef inline uint64_t number(Reader *reader, int size) noexcept nogil:
    """Read a little-endian number of 1, 2, 4 or 8 bytes."""
    cdef uint64_t value = 0
    if reader.end - reader.at < size:
        reader.short_of = True
        reader.at = reader.end
        return 0
    memcpy(&value, reader.at, size)
    reader.at += size
    return value


cdef inline uint64_t uleb(Reader *reader) noexcept nogil:
    """Read an unsigned LEB128; bits past the 64th are dropped."""
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while reader.at < reader.end:
        byte = reader.at[0]
        reader.at += 1
        if shift < 64:
            value |= <uint64_t>(byte & 0x7F) << shift
        shift = min(shift + 7, 70)
        if byte < 0x80:
            return value
    reader.short_of = True
    return 0


cdef inline int64_t sleb(Reader *reader) noexcept nogil:
    """Read a signed LEB128; bits past the 64th are dropped."""
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while reader.at < reader.end:
        byte = reader.at[0]
        reader.at += 1
        if shift < 64:
            value |= <uint64_t>(byte & 0x7F) << shift
        shift = min(shift + 7, 70)
        if byte < 0x80:
            if byte & 0x40 and shift < 64:
                value |= ~<uint64_t>0 << shift
            return <int64_t>value
    reader.short_of = True
    return 0


cdef bint read_unit(Reader *section, const uint8_t *start, Unit *unit) noexcept nogil:
    """Read one unit's header and move section past the unit; return whether it can be walked."""
    cdef Reader reader = section[0]
    cdef uint64_t length, header
    unit.offset = reader.at - start
    unit.offset_size = 4
    length = number(&reader, 4)
    if length == 0xFFFFFFFFU:
        unit.offset_size = 8
        length = number(&reader, 8)
    if reader.short_of or length > <uint64_t>(reader.end - reader.at):
        section.at = section.end
        return False
    reader.end = reader.at + length
    unit.end = reader.end
    section.at = reader.end
    unit.version = number(&reader, 2)
    if not 2 <= unit.version <= 5:
        return False
    if unit.version >= 5 and (number(&reader, 1) != 8 or number(&reader, 1) != 0):
        return False
    header = number(&reader, unit.offset_size)
    if reader.short_of or header > <uint64_t>(reader.end - reader.at):
        return False
    unit.program = reader.at + header
    unit.instruction_bytes = number(&reader, 1)
    if unit.version >= 4:
        number(&reader, 1)
    number(&reader, 1)
    unit.line_base = <int8_t>number(&reader, 1)
    unit.line_range = number(&reader, 1)
    unit.opcode_base = number(&reader, 1)
    unit.lengths = reader.at
    if unit.opcode_base == 0 or unit.opcode_base - 1 > reader.end - reader.at or unit.line_range == 0:
        return False
    unit.tables = unit.lengths + unit.opcode_base - 1 - start
    return not reader.short_of


cdef void answer(Queries *queries, Unit *unit, Row *row, uint64_t until) noexcept nogil:
    """Give a row to each question that lies between it and the next row; the first answer stands."""
    cdef int index
    if row.line == 0 or row.line > MAX_LINE or until <= queries.lowest or row.address > queries.highest:
        return
    for index in range(queries.count):
        if queries.items[index].line == 0 and row.address <= queries.items[index].address < until:
            queries.items[index].unit = unit.offset
            queries.items[index].file = row.file
            queries.items[index].line = row.line


cdef void walk(Unit *unit, Queries *queries) noexcept nogil:
    """Run one unit's program."""
    cdef Reader reader = Reader(unit.program, unit.end, False)
    cdef Row state = Row(0, 1, 1)
    cdef Row row = state        # the last one emitted of this sequence
    cdef bint emitted = False
    cdef int opcode, index
    while reader.at < reader.end and not reader.short_of:
        opcode = reader.at[0]
        reader.at += 1
        if opcode >= unit.opcode_base:
            opcode -= unit.opcode_base
            state.address += <uint64_t>(opcode // unit.line_range * unit.instruction_bytes)
            state.line += <uint64_t><int64_t>(unit.line_base + opcode % unit.line_range)
        elif opcode == 0:
            if extended(&reader, &state):
                if emitted:
                    answer(queries, unit, &row, state.address)
                emitted = False
                state = Row(0, 1, 1)
            continue
        elif opcode != LNS_COPY:
            if LNS_ADVANCE_PC <= opcode <= LNS_SET_FILE or opcode == LNS_CONST_ADD_PC \
                    or opcode == LNS_FIXED_ADVANCE_PC:
                standard(&reader, unit, &state, opcode)
            else:
                for index in range(unit.lengths[opcode - 1]):
                    uleb(&reader)
            continue
        if emitted:
            answer(queries, unit, &row, state.address)
        row = state
        emitted = True


cdef void standard(Reader *reader, Unit *unit, Row *state, int opcode) noexcept nogil:
    """Run a standard opcode that changes the state."""
    if opcode == LNS_ADVANCE_PC:
        state.address += uleb(reader) * unit.instruction_bytes
    elif opcode == LNS_ADVANCE_LINE:
        state.line += <uint64_t>sleb(reader)
    elif opcode == LNS_SET_FILE:
        state.file = uleb(reader)
    elif opcode == LNS_CONST_ADD_PC:
        state.address += <uint64_t>((255 - unit.opcode_base) // unit.line_range * unit.instruction_bytes)
    else:
        state.address += number(reader, 2)


cdef bint extended(Reader *reader, Row *state) noexcept nogil:
    """Run an extended opcode; return whether it ends the sequence."""
    cdef uint64_t length = uleb(reader)
    cdef const uint8_t *following
    cdef int opcode
    if reader.short_of or length == 0 or length > <uint64_t>(reader.end - reader.at):
        reader.short_of = True
        return False
    following = reader.at + length
    opcode = reader.at[0]
    reader.at += 1
    if opcode == LNE_SET_ADDRESS and length == 9:
        state.address = number(reader, 8)
    reader.at = following
    return opcode == LNE_END_SEQUENCE


def find_lines(bytes section, addresses):
    """Return {address: (unit offset, file index, line)} of those addresses that the line table knows."""
    cdef Queries queries
    cdef const uint8_t *start = section
    cdef Reader reader = Reader(start, start + len(section), False)
    cdef Unit unit
    cdef int index
    wanted = sorted(set(addresses))[:MAX_ADDRESSES]
    if not wanted:
        return {}
    queries.count = len(wanted)
    queries.lowest = wanted[0]
    queries.highest = max(wanted)
    for index in range(queries.count):
        queries.items[index] = Query(wanted[index], 0, 0, 0)
    with nogil:
        while reader.at < reader.end:
            if read_unit(&reader, start, &unit):
                walk(&unit, &queries)
    return {
        queries.items[index].address: (
            queries.items[index].unit, queries.items[index].file, queries.items[index].line
        )
        for index in range(queries.count)
        if queries.items[index].line
    }


def file_name(bytes section, uint64_t offset, uint64_t index, bytes line_strings, bytes strings):
    """Return the name of a file of the unit at an offset, with its directory unless that is the unit's own.

    None where the header does not say.
    """
    cdef const uint8_t *start = section
    cdef Reader reader
    cdef Unit unit
    if offset >= <uint64_t>len(section):  # before it is added to anything
        return None
    reader = Reader(start + offset, start + len(section), False)
    if not read_unit(&reader, start, &unit):
        return None
    reader = Reader(start + unit.tables, unit.program, False)
    if unit.version >= 5:
        found = _file_of_5(&reader, unit.offset_size, index, line_strings, strings)
    else:
        found = _file_of_2(&reader, index)
    if found is None or not found[1]:
        return None
    directory, name = found
    text = name if not directory or name.startswith(b"/") else directory + b"/" + name
    return text[:LONGEST_NAME].decode("utf-8", "backslashreplace")


cdef bytes _text(Reader *reader):
    """Read a string that a zero ends."""
    cdef const void *end = memchr(reader.at, 0, reader.end - reader.at) if reader.at < reader.end else NULL
    cdef const uint8_t *start = reader.at
    if end == NULL:
        reader.short_of = True
        return b""
    reader.at = <const uint8_t *>end + 1
    return start[: min(<const uint8_t *>end - start, <Py_ssize_t>1024)]


cdef tuple _file_of_2(Reader *reader, uint64_t index):
    """Return (directory, name) of a file, counted from 1, in the tables of DWARF 2 to 4."""
    cdef int count
    cdef uint64_t directory
    directories = [b""]
    for count in range(FILE_ENTRIES):
        name = _text(reader)
        if not name or reader.short_of:
            break
        directories.append(name)
    for count in range(1, FILE_ENTRIES):
        name = _text(reader)
        if not name or reader.short_of:
            return None
        directory = uleb(reader)
        uleb(reader)
        uleb(reader)
        if <uint64_t>count == index:
            return directories[directory] if directory < <uint64_t>len(directories) else b"", name
    return None


cdef tuple _file_of_5(Reader *reader, int offset_size, uint64_t index, bytes line_strings, bytes strings):
    """Return (directory, name) of a file, counted from 0, in the tables of DWARF 5."""
    directories = _entries(reader, offset_size, FILE_ENTRIES, line_strings, strings)
    if index >= FILE_ENTRIES or reader.short_of:
        return None
    files = _entries(reader, offset_size, index + 1, line_strings, strings)
    if <uint64_t>len(files) <= index:
        return None
    directory, name = files[index]
    # Directory 0 is the one the compiler ran in: its name says nothing about the source.
    known = 0 < directory < len(directories)
    return directories[directory][1] if known else b"", name


cdef list _entries(Reader *reader, int offset_size, uint64_t limit, bytes line_strings, bytes strings):
    """Read up to limit entries of a table: [(directory index, name)]."""
    cdef uint64_t count, index
    cdef int fields = number(reader, 1), field
    formats = [(uleb(reader), uleb(reader)) for field in range(fields)]
    count = uleb(reader)
    found = []
    if fields > ENTRY_FIELDS or count > FILE_ENTRIES:
        reader.short_of = True
        return found
    for index in range(count):
        # An entry of no bytes would let a count of any size pass.
        before = <size_t>reader.at
        directory, name = 0, b""
        for content, form in formats:
            value = _form(reader, form, offset_size, line_strings, strings)
            if content == CONTENT_PATH and isinstance(value, bytes):
                name = value
            elif content == CONTENT_DIRECTORY and isinstance(value, int):
                directory = value
        if reader.short_of or <size_t>reader.at == before:
            return found
        if <uint64_t>len(found) < limit:
            found.append((directory, name))
    return found


cdef object _form(Reader *reader, uint64_t form, int offset_size, bytes line_strings, bytes strings):
    """Read one value; an unknown form ends the table."""
    cdef uint64_t size
    if form == <uint64_t>FORM_STRING:
        return _text(reader)
    if form == <uint64_t>FORM_LINE_STRP:
        return _string_at(line_strings, number(reader, offset_size))
    if form == <uint64_t>FORM_STRP:
        return _string_at(strings, number(reader, offset_size))
    if form == <uint64_t>FORM_UDATA:
        return uleb(reader)
    fixed = FIXED_FORMS.get(form)
    size = uleb(reader) if form == <uint64_t>FORM_BLOCK else fixed or 0
    if size == 0 or size > <uint64_t>(reader.end - reader.at):
        reader.short_of = True
        return None
    if fixed is not None and size <= 8:
        return number(reader, <int>size)
    reader.at += size
    return None


cdef bytes _string_at(bytes strings, uint64_t offset):
    if offset >= <uint64_t>len(strings):
        return b""
    end = strings.find(b"\0", offset, offset + LONGEST_NAME)
    return strings[offset : end if end >= 0 else offset]
