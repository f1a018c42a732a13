# cython: language_level=3
"""Guest memory: checked accesses, the dirty log, and pools of clean arenas.

An arena is one lazy reservation: `[dirty log][permission table][guest memory]`. The permission table has one
byte a page at a fixed distance below guest address 0, so the fast path finds it without a load. A zero byte
means an untouched read-write page: that state costs nothing to set up, whatever the memory's size. The first
store to a page takes the slow path, which logs the page; giving an arena back undoes the logged pages only.

This module knows nothing of ELF files or instructions.
"""

import mmap
import os
import sys

cimport cython

from libc.errno cimport errno
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset
from posix.unistd cimport close as close_fd

from rvcore._hart cimport (
    DIRTY_COST, FEW_DIRTY, PAGE_BITS, PAGE_SIZE, PERM_DIRTY, PERM_NONE, PERM_OFFSET, PERM_READ_ONLY, PERM_RESIDENT,
    TRAP_LOAD_FAULT, TRAP_STORE_FAULT, Arena, Hart, unlikely,
)

cdef extern from "_debug.h" nogil:
    const bint RV_DEBUG

cdef extern from "_mapping.h" nogil:
    void* rv_reserve(size_t size)
    int rv_map_private(void* at, size_t size, int fd)
    void* rv_map_pristine(size_t size, int fd)
    void rv_unmap(void* at, size_t size)

# Pages an arena may have resident and be kept; past it, it is unmapped: that also frees its dirty log, its
# permission table and its page tables, which nothing else bounds. Picked: clearing 512 warm pages costs about
# 25 µs, faulting them in again about 1 ms, mapping an arena about 10 µs.
cdef enum:
    KEEP_PAGES = 512
    HELD_PAGES = 64  # cleared without releasing the GIL: about 3 µs

cdef bint check_clean = RV_DEBUG or os.environ.get("RVCORE_CHECK_ARENAS") == "1"


def check_arenas(bint wanted):
    """Say whether each arena is compared with a pristine one when it comes back; return what held before.

    Debug builds and RVCORE_CHECK_ARENAS=1 start with it on.
    """
    global check_clean
    before = check_clean
    check_clean = wanted
    return before


cdef inline uint8_t* perm_of(uint8_t* mem, uint64_t page) noexcept nogil:
    return mem - PERM_OFFSET + page


cdef int fault(Hart* h, uint64_t addr, uint64_t size, bint store) noexcept nogil:
    h.trap_code = TRAP_STORE_FAULT if store else TRAP_LOAD_FAULT
    h.fault_address = addr
    h.fault_size = size
    h.fault_store = store
    return -1


cdef inline bint outside(Hart* h, uint64_t addr, uint64_t size) noexcept nogil:
    """Tell whether [addr, addr + size) leaves memory; no sum that could wrap is formed."""
    return size > h.memory_size or addr > h.memory_size - size


cdef inline bint allows(Hart* h, uint64_t addr, uint64_t size, uint8_t forbidden) noexcept nogil:
    cdef uint64_t page
    if size == 0:
        return True
    if outside(h, addr, size):
        return False
    for page in range(addr >> PAGE_BITS, ((addr + size - 1) >> PAGE_BITS) + 1):
        if perm_of(h.arena.mem, page)[0] & forbidden:
            return False
    return True


cdef bint is_readable(Hart* h, uint64_t addr, uint64_t size) noexcept nogil:
    """Tell whether the guest may read all of a range; an empty one is readable anywhere."""
    return allows(h, addr, size, PERM_NONE)


cdef bint is_writable(Hart* h, uint64_t addr, uint64_t size) noexcept nogil:
    """Tell whether the guest may write all of a range; an empty one is writable anywhere."""
    return allows(h, addr, size, PERM_NONE | PERM_READ_ONLY)


cdef int load_slow(Hart* h, uint64_t addr, void* dst, uint64_t size) noexcept nogil:
    """Copy `size` > 0 bytes out of guest memory; -1 with the fault recorded when any page forbids it."""
    if not is_readable(h, addr, size):
        return fault(h, addr, size, False)
    memcpy(dst, h.arena.mem + addr, size)
    return 0


cdef inline void log_dirty(Hart* h, Arena* arena, uint64_t page, uint8_t* perm) noexcept nogil:
    if arena.dirty_count == FEW_DIRTY:
        memcpy(arena.many, arena.few, sizeof(arena.few))
        arena.dirty = arena.many
    arena.dirty[arena.dirty_count] = <uint32_t>page
    arena.dirty_count += 1
    if not perm[0] & PERM_RESIDENT:
        arena.resident += 1
        h.penalty += DIRTY_COST
    perm[0] |= PERM_DIRTY | PERM_RESIDENT


cdef int store_slow(Hart* h, uint64_t addr, const void* src, uint64_t size) noexcept nogil:
    """Copy `size` > 0 bytes into guest memory; all pages are checked before the first byte is written."""
    cdef Arena* arena = h.arena
    cdef uint64_t page
    cdef uint8_t* perm
    if not is_writable(h, addr, size):
        return fault(h, addr, size, True)
    for page in range(addr >> PAGE_BITS, ((addr + size - 1) >> PAGE_BITS) + 1):
        perm = perm_of(arena.mem, page)
        if not perm[0] & PERM_DIRTY:
            log_dirty(h, arena, page, perm)
    memcpy(arena.mem + addr, src, size)
    return 0


cdef int guest_read(Hart* h, uint64_t addr, void* dst, uint64_t size) noexcept nogil:
    """Copy guest bytes for the host; an empty range is valid at any address."""
    h.penalty += <int64_t>(size >> 5)
    return 0 if size == 0 else load_slow(h, addr, dst, size)


cdef int guest_write(Hart* h, uint64_t addr, const void* src, uint64_t size) noexcept nogil:
    """Copy host bytes into guest memory through the dirty log; an empty range is valid at any address."""
    h.penalty += <int64_t>(size >> 5)
    return 0 if size == 0 else store_slow(h, addr, src, size)


@cython.final
@cython.auto_pickle(False)
cdef class PoolBudget:
    """What free arenas may keep, shared by all pools of one engine."""

    def __cinit__(self, uint64_t max_bytes, uint64_t max_arenas):
        self.max_bytes = max_bytes
        self.max_arenas = max_arenas


@cython.final
@cython.auto_pickle(False)
@cython.no_gc_clear
cdef class ArenaPool:
    """Arenas of one program: lent clean, taken back, cleaned by their dirty log.

    Every method needs the GIL, which is what makes the free list safe.
    """

    def __cinit__(self, PoolBudget budget, uint64_t memory_size, uint64_t first_page, list pieces, bytes perms,
                  uint64_t guard_page, uint64_t guard_pages):
        """Describe the arenas.

        Args:
            budget: What free arenas may keep.
            memory_size: Bytes of guest memory, a power of two.
            first_page: First page of the image; pages below it are never accessible.
            pieces: (offset from the first page, bytes) of the image; what no piece covers is zero.
            perms: One initial permission for each page of the image.
            guard_page: First page that is never accessible below the stack.
            guard_pages: How many there are.
        """
        self.fd = -1
        self.budget = budget
        self.memory_size = memory_size
        self.first_page = first_page
        self.image_pages = len(perms)
        self.perms = perms
        self.perms_at = <const uint8_t*><const char*>perms
        self.guard_page = guard_page
        self.guard_pages = guard_pages
        self.hold_image(pieces)

    cdef int hold_image(self, list pieces) except -1:
        """Keep the pristine image where arenas can share its pages, or as a copy where the system cannot."""
        cdef void* at
        cdef size_t size = self.image_pages << PAGE_BITS
        if self.image_pages == 0:
            return 0
        # Where the host's pages are larger than the guest's, the image's pages cannot be mapped one by one.
        if sys.platform == "linux" and mmap.PAGESIZE == PAGE_SIZE:
            self.fd = sealed_memfd(size, pieces)
            at = rv_map_pristine(size, self.fd)
            if at == NULL:
                raise MemoryError(f"cannot map an image of {size} bytes: {os.strerror(errno)}")
            self.pristine = <const uint8_t*>at
        else:
            image = bytearray(size)
            for offset, piece in pieces:
                image[offset:offset + len(piece)] = piece
            self.pristine_copy = bytes(image)
            self.pristine = <const uint8_t*><const char*>self.pristine_copy
        return 0

    def __dealloc__(self):
        self.close()
        if self.fd >= 0:
            if self.pristine != NULL:
                rv_unmap(<void*>self.pristine, self.image_pages << PAGE_BITS)
            close_fd(self.fd)

    cdef Arena* acquire(self) except NULL:
        """Lend a clean arena.

        Raises:
            MemoryError: The address space cannot be reserved.
        """
        cdef Arena* arena = self.free
        if arena == NULL:
            arena = self.map_arena()
        else:
            self.free = arena.next
            arena.next = NULL
            self.budget.held_arenas -= 1
            self.budget.held_bytes -= <uint64_t>arena.resident << PAGE_BITS
        self.budget.live_arenas += 1
        return arena

    cdef Arena* map_arena(self) except NULL:
        cdef uint64_t pages = self.memory_size >> PAGE_BITS
        cdef size_t log_size = (pages * sizeof(uint32_t) + PAGE_SIZE - 1) & ~<size_t>(PAGE_SIZE - 1)
        cdef Arena* arena = <Arena*>calloc(1, sizeof(Arena))
        if arena == NULL:
            raise MemoryError
        arena.mapping_size = log_size + PERM_OFFSET + self.memory_size
        arena.mapping = <uint8_t*>rv_reserve(arena.mapping_size)
        if arena.mapping == NULL:
            free(arena)
            raise MemoryError(f"cannot reserve {self.memory_size} bytes of guest memory: {os.strerror(errno)}")
        arena.many = <uint32_t*>arena.mapping
        arena.dirty = arena.few
        arena.mem = arena.mapping + log_size + PERM_OFFSET
        try:
            self.map_image(arena)
        except:
            unmap(arena)
            raise
        memset(perm_of(arena.mem, 0), PERM_NONE, self.first_page)
        memcpy(perm_of(arena.mem, self.first_page), self.perms_at, self.image_pages)
        memset(perm_of(arena.mem, self.guard_page), PERM_NONE, self.guard_pages)
        self.budget.created += 1
        return arena

    cdef int map_image(self, Arena* arena) except -1:
        cdef uint8_t* at = arena.mem + (self.first_page << PAGE_BITS)
        cdef size_t size = self.image_pages << PAGE_BITS
        if size == 0:
            return 0
        if self.fd < 0:
            memcpy(at, self.pristine, size)
        elif rv_map_private(at, size, self.fd) != 0:
            raise MemoryError(f"cannot map an image of {size} bytes: {os.strerror(errno)}")
        return 0

    cdef void release(self, Arena* arena) noexcept:
        """Take an arena back: clean it and keep it, or unmap it when the budget is used up."""
        self.budget.live_arenas -= 1
        if self.may_keep(arena):
            if arena.dirty_count > HELD_PAGES:
                with nogil:
                    self.undo(arena)
            else:
                self.undo(arena)
            if check_clean and not self.is_pristine(arena):
                with nogil:
                    unmap(arena)
                # A broken invariant: such an arena must never be lent again.
                raise SystemError("an arena was not clean after its release, please report")
            # Asked again, as others may have come in while the GIL was released.
            if self.may_keep(arena):
                arena.next = self.free
                self.free = arena
                self.budget.held_arenas += 1
                self.budget.held_bytes += <uint64_t>arena.resident << PAGE_BITS
                return
        with nogil:
            unmap(arena)

    cdef bint may_keep(self, Arena* arena) noexcept:
        cdef uint64_t bytes_kept = <uint64_t>arena.resident << PAGE_BITS
        return (not self.closed and arena.resident <= KEEP_PAGES
                and self.budget.held_arenas < self.budget.max_arenas
                and self.budget.held_bytes + bytes_kept <= self.budget.max_bytes)

    cdef void undo(self, Arena* arena) noexcept nogil:
        """Make every written page pristine again."""
        cdef uint32_t i
        cdef uint64_t page, offset
        cdef uint8_t* at
        for i in range(arena.dirty_count):
            page = arena.dirty[i]
            at = arena.mem + (page << PAGE_BITS)
            offset = page - self.first_page
            if page >= self.first_page and offset < self.image_pages:
                memcpy(at, self.pristine + (offset << PAGE_BITS), PAGE_SIZE)
            else:
                memset(at, 0, PAGE_SIZE)
            perm_of(arena.mem, page)[0] = PERM_RESIDENT
        arena.dirty = arena.few
        arena.dirty_count = 0

    cdef bint is_pristine(self, Arena* arena) noexcept nogil:
        """Compare the whole arena, permissions included, with a fresh one."""
        cdef uint64_t page, offset
        cdef uint8_t want, have
        cdef const uint8_t* at
        for page in range(self.memory_size >> PAGE_BITS):
            at = arena.mem + (page << PAGE_BITS)
            have = perm_of(arena.mem, page)[0] & ~PERM_RESIDENT
            want = 0
            offset = page - self.first_page
            if page < self.first_page or (self.guard_page <= page < self.guard_page + self.guard_pages):
                want = PERM_NONE
            elif offset < self.image_pages:
                want = self.perms_at[offset]
                if memcmp(at, self.pristine + (offset << PAGE_BITS), PAGE_SIZE) != 0:
                    return False
            elif at[0] != 0 or memcmp(at, at + 1, PAGE_SIZE - 1) != 0:
                return False
            if want != have:
                return False
        return True

    cdef void close(self) noexcept:
        """Unmap the free arenas; those lent out are unmapped when they come back."""
        cdef Arena* arena = self.free
        cdef Arena* following
        self.closed = True
        self.free = NULL
        while arena != NULL:
            following = arena.next
            self.budget.held_arenas -= 1
            self.budget.held_bytes -= <uint64_t>arena.resident << PAGE_BITS
            unmap(arena)
            arena = following


cdef void unmap(Arena* arena) noexcept nogil:
    rv_unmap(arena.mapping, arena.mapping_size)
    free(arena)


def sealed_memfd(size, list pieces):
    """Return a memfd of `size` bytes that holds the pieces and that nobody can write any more."""
    import fcntl

    fd = os.memfd_create("rvcore-image", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, size)
        for offset, piece in pieces:
            view = memoryview(piece)
            while view:
                written = os.pwrite(fd, view, offset)
                view = view[written:]
                offset += written
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    except BaseException:
        os.close(fd)
        raise
    return fd
