# cython: language_level=3
"""A store: one guest's memory, its fuel and its link to the host. Used by one thread at a time."""

cimport cython
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from cpython.pythread cimport PyThread_get_thread_ident
from libc.stdint cimport int64_t, uint64_t

from rvcore._hart cimport UNLIMITED, HostFn
from rvcore._machine cimport HostTable, Machine
from rvcore._program cimport Program


@cython.final
@cython.auto_pickle(False)
cdef class Linkage:
    """The host calls of one linker at one moment."""

    def __cinit__(self):
        self.table = HostTable()
        self.entries = []
        self.functions = []
        self.known = {}

    def copy(self):
        """Return a linkage that can still be added to."""
        cdef Linkage other = Linkage()
        for number, func, name, native in self.entries:
            if native:
                other.add_native(number, func, name)
            else:
                other.add(number, func, name)
        other.know(self.known)
        return other

    def add(self, uint64_t number, func, str name):
        """Bind a Python callable, or None for a deferred call.

        Raises:
            LinkError: The number is bound already.
        """
        self.table.add_deferred(number, name or f"{number:#x}")
        self.functions.append(func)
        self.entries.append((number, func, name, False))

    def add_native(self, uint64_t number, capsule, str name):
        """Bind a C function.

        Raises:
            LinkError: The number is bound already.
            ValueError: The capsule holds no host function.
        """
        if not PyCapsule_IsValid(capsule, "rvcore.HostFn"):
            raise ValueError("expected a capsule named rvcore.HostFn")
        self.table.add_native(number, <HostFn>PyCapsule_GetPointer(capsule, "rvcore.HostFn"), name or f"{number:#x}")
        self.functions.append(None)
        self.entries.append((number, capsule, name, True))

    def know(self, names):
        """Remember names for the report of calls that are not bound."""
        self.known.update(names)
        self.table.know(names)


@cython.final
@cython.auto_pickle(False)
cdef class Memory:
    """A guest's memory as its host sees it: the same rights, and every write in the dirty log."""

    cdef Store store

    def __cinit__(self, Store store not None):
        self.store = store

    @property
    def size(self):
        """Bytes of the address space."""
        return self.store.linked().program.memory_size

    def read(self, Store store not None, start, stop):
        """Return the bytes [start, stop).

        Raises:
            ValueError: The guest itself could not read them, or the store is another one, closed or running.
        """
        return self.machine(store).read(start, stop)

    def write(self, Store store not None, data, start):
        """Write bytes at `start`.

        Raises:
            ValueError: The guest itself could not write them, or the store is another one, closed or running.
        """
        self.machine(store).write(data, start)

    cdef Machine machine(self, Store store):
        if store is not self.store:
            raise ValueError("the memory belongs to another store")
        return store.linked()


@cython.final
@cython.auto_pickle(False)
cdef class Store:
    """Memory, fuel and host data of one instance."""

    def __cinit__(self, engine, data=None):
        self.engine = engine
        self.data = data
        fuel = engine.config.fuel
        self.fuel = UNLIMITED if fuel is None else min(fuel, UNLIMITED)

    def link(self, Program program not None, Linkage linkage not None):
        """Take a fresh memory for a program; linkers call this.

        Raises:
            ValueError: The store is closed or has an instance.
            MemoryError: No memory can be had.
        """
        if self.closed:
            raise ValueError("store is closed")
        if self._machine is not None:
            raise ValueError("the store has an instance already")
        machine = Machine(program, linkage.table)
        (<Machine>machine).acquire()
        self._machine = machine
        self.linkage = linkage

    cdef Machine linked(self):
        """Return the machine, to the thread that may touch it."""
        if self.closed:
            raise ValueError("store is closed")
        if self.runner != 0 and self.runner != <long>PyThread_get_thread_ident():
            raise ValueError("store is in use by another thread")
        if self._machine is None:
            raise ValueError("the store has no instance yet")
        return self._machine

    @property
    def memory(self):
        """The guest's memory."""
        self.linked()
        return Memory(self)

    def get_fuel(self):
        """Return the instructions left, None for no limit."""
        return None if self.fuel == UNLIMITED else self.fuel

    def set_fuel(self, fuel):
        """Set the instructions left, None for no limit.

        Raises:
            ValueError: A negative count.
        """
        if fuel is not None and fuel < 0:
            raise ValueError(f"expected None or a count of instructions, got {fuel} - at `fuel`")
        self.fuel = UNLIMITED if fuel is None else min(fuel, UNLIMITED)

    def interrupt(self):
        """Stop the run within about 10,000 instructions; may be called from any thread."""
        cdef Machine machine = self._machine
        if machine is not None:
            machine.interrupt()

    def start_profile(self):
        """Count executions of each instruction in later runs, which are slower for it."""
        self.linked().start_profile()

    def profile(self):
        """Return (guest address, executions) of each instruction that ran."""
        return self.linked().profile()

    @property
    def machine(self):
        """The machine underneath, for tools that record runs."""
        return self.linked()

    def dirty_ranges(self):
        """Return what the guest and its host have written, as page-wise (start, stop)."""
        return self.linked().dirty_ranges()

    def close(self):
        """Give the memory back.

        Raises:
            ValueError: A run is going on, in another thread or in the one that serves its host call.
        """
        if self.runner != 0:
            raise ValueError("store is in use: close it when its run has ended")
        if self._machine is not None:
            self._machine.leave()
        self._machine = None
        self.call = None
        self.closed = True

    def __enter__(self):
        if self.closed:
            raise ValueError("store is closed")
        return self

    def __exit__(self, kind, error, trace):
        self.close()
