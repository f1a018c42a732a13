# cython: language_level=3
"""ElfImage + limits → Program: decoded code and the recipe of its arenas.

Immutable once made, shared by any number of machines and threads. Layout of guest memory (docs/abi.md):
`[ null pages … image … heap … guard ] [ stack ]`.
"""

cimport cython
from libc.stdint cimport uint64_t

from rvcore._blocks cimport Code
from rvcore._hart cimport PAGE_BITS, PAGE_SIZE, PERM_NONE, PERM_READ_ONLY
from rvcore._memory cimport ArenaPool, PoolBudget

from rvcore._errors import LoadError

# Bytes from the first to the last instruction. Picked: sixteen times the largest images that are expected; the jump
# map takes twice as many.
MAX_CODE_SPAN = 1 << 26
# Unmapped space between heap and stack. Picked: larger than the frames that compilers emit without probes.
GUARD_SIZE = 1 << 20


# Without tp_clear: machines that die in the same cycle still give their arenas back to the pool.
@cython.final
@cython.auto_pickle(False)
@cython.no_gc_clear
cdef class Program:
    """Code and memory layout of one image under one configuration."""

    def __cinit__(self, image, config, PoolBudget budget not None):
        """Lay out and decode.

        Raises:
            LoadError: The image does not fit the memory, or two segments share a page that one may write.
        """
        self.image = image
        self.exports = dict(image.exports)
        self.memory_size = config.memory_size
        self.stack_size = config.stack_size
        self.global_pointer = image.global_pointer or 0
        self.guard_start = config.memory_size - config.stack_size - min(GUARD_SIZE, config.memory_size // 16)
        self.heap_start = (image.image_end + PAGE_SIZE - 1) & ~<uint64_t>(PAGE_SIZE - 1)
        self.check_fit()
        self.heap_size = self.guard_start - self.heap_start
        self.pool = self.lay_out(budget)
        ranges = [(part.start, bytes(part.data)) for part in image.code]
        self.code = Code(ranges, image.function_addresses, image.indirect_targets, config.cfi)

    def check_fit(self):
        """Refuse an image that reaches into the null page or past the heap's end."""
        if self.image.image_start < PAGE_SIZE:
            raise LoadError(
                f"segment at {self.image.image_start:#x} covers the null page; link at 0x10000 or above"
            )
        span = max(part.end for part in self.image.code) - min(part.start for part in self.image.code)
        if span > MAX_CODE_SPAN:
            raise LoadError(
                f"code spans {span} bytes, more than {MAX_CODE_SPAN}", remedy="link executable sections together"
            )
        if self.image.image_end > self.guard_start:
            raise LoadError(
                f"image ends at {self.image.image_end:#x}, past {self.guard_start:#x} where a memory of "
                f"{self.memory_size} bytes has its stack; raise memory_size or link lower"
            )

    def lay_out(self, PoolBudget budget):
        """Return the pool whose arenas hold the image, zeroes and the guard."""
        first_page = self.image.image_start >> PAGE_BITS
        # Past every start and every byte from the file only one segment's zeroes are left, like heap.
        last = max(part.vaddr + (len(part.data) if part.writable else part.memsz) for part in self.image.segments)
        pages = max(0, ((last + PAGE_SIZE - 1) >> PAGE_BITS) - first_page)
        perms = bytearray([PERM_NONE]) * pages
        for part in self.image.segments:
            self.permit(part, perms, first_page)
        offset = first_page << PAGE_BITS
        pieces = [(part.vaddr - offset, bytes(part.data)) for part in self.image.segments if part.data]
        guard_pages = (self.memory_size - self.stack_size - self.guard_start) >> PAGE_BITS
        return ArenaPool(
            budget, self.memory_size, first_page, pieces, bytes(perms), self.guard_start >> PAGE_BITS, guard_pages
        )

    def permit(self, part, perms, first_page):
        """Enter one segment's pages into the permission table."""
        access = 0 if part.writable else PERM_READ_ONLY if part.readable or part.executable else PERM_NONE
        start = (part.vaddr >> PAGE_BITS) - first_page
        stop = ((part.vaddr + part.memsz + PAGE_SIZE - 1) >> PAGE_BITS) - first_page
        for page in (start, stop - 1):
            if page < len(perms) and part.memsz and perms[page] not in (PERM_NONE, access):
                address = (page + first_page) << PAGE_BITS
                raise LoadError(
                    f"segment at {part.vaddr:#x} shares the page at {address:#x} with one of other rights; "
                    "link with -z separate-code or -z max-page-size=4096"
                )
        stop = min(stop, len(perms))
        if start < stop:
            perms[start:stop] = bytes([access]) * (stop - start)

    @property
    def size_bytes(self):
        """Return the host bytes of decoded code and jump map."""
        return self.code.capacity * 20 + self.code.size * 2 + len(self.image.data)

    def close(self):
        """Unmap the free arenas; those lent out go when they come back."""
        self.pool.close()
