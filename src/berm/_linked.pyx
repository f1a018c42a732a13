# cython: language_level=3
"""An image that can be called: its entries by name, and the ways to run one.

`Linked.call` runs an entry to its end; no Invocation is made in the common case that the first slice is all. The
other ways return the Invocation to whoever drives it.
"""

cimport cython
from libc.stdint cimport uint64_t

from rvcore._machine cimport EXIT_RETURNED, HostTable
from rvcore._program cimport Program

from berm._abi cimport add_always_present
from berm._call cimport Bound
from berm._chain cimport Chain
from berm._guest cimport HELD_SLICE, Guest, GuestPool
from berm._invocation cimport Invocation, invocation_of
from berm._outcome cimport Done, Failed, Limits

from berm.errors import NoSuchEntry, NoSuchTool
from berm.fnv import call_number
from berm.manifest import ON_NOTIFY, ON_WAKE

cdef Limits DEFAULT_LIMITS = Limits()


@cython.auto_pickle(False)
cdef class Linked:
    """An image with its capabilities bound.

    The base of `berm.Harness`, which loads and checks.
    """

    def __cinit__(self, Program program not None, HostTable table not None, dict entries not None,
                  tuple bound not None, log):
        self.exports = program.exports
        self.entries = entries
        self.pool = GuestPool(program, table, bound, log)

    def __contains__(self, tool):
        return tool in self.entries

    @property
    def has_wake(self):
        """Whether the image exports `on_wake`."""
        return ON_WAKE in self.exports

    @property
    def has_notify(self):
        """Whether the image exports `on_notify`."""
        return ON_NOTIFY in self.exports

    def call(self, tool, args, *, limits=None, context=None, bint raw=False, chain=None, int depth=0):
        """Call a tool and wait for its outcome on this thread.

        `raw` admits a result that is not UTF-8; `context` reaches capabilities as `call.context`; `chain` and
        `depth` say what the call is part of. Blocking capabilities run here too.

        Raises:
            NoSuchTool: The image has no such tool.
            Trap: The guest died, or ran into its fuel or deadline.
            AsyncCapabilityError: The guest called a capability that has to be awaited.
        """
        return self.call_entry(tool, self.entry(tool), args, limits, context, raw, chain, depth)

    def wake(self, payload, *, limits=None, context=None, bint raw=False, chain=None, int depth=0):
        """Call `on_wake`, as `call` calls a tool.

        Raises:
            NoSuchEntry: The image has no `on_wake`.
            Trap: As call.
            AsyncCapabilityError: As call.
        """
        return self.call_entry(ON_WAKE, self.export(ON_WAKE), payload, limits, context, raw, chain, depth)

    def notify(self, payload, *, limits=None, context=None, bint raw=False, chain=None, int depth=0):
        """Call `on_notify`, as `call` calls a tool.

        Raises:
            NoSuchEntry: The image has no `on_notify`.
            Trap: As call.
            AsyncCapabilityError: As call.
        """
        return self.call_entry(ON_NOTIFY, self.export(ON_NOTIFY), payload, limits, context, raw, chain, depth)

    def start(self, tool, args, *, limits=None, context=None, bint raw=False, chain=None, int depth=0):
        """Return an Invocation of a tool that has not run yet.

        Raises:
            NoSuchTool: The image has no such tool.
        """
        return invocation_of(self.prepare(tool, self.entry(tool), args, limits, context, raw, chain, depth))

    def begin(self, tool, args, *, limits=None, context=None, bint raw=False, chain=None, int depth=0):
        """Run a tool's first slice, about 20 µs: return its Done or Failed, else the Invocation to go on with.

        As `start` and one `advance`, for drivers whose tools mostly end at once. The trap of a guest that died is
        raised by the Invocation's `advance`.

        Raises:
            NoSuchTool: The image has no such tool.
        """
        return self.first_slice(self.prepare(tool, self.entry(tool), args, limits, context, raw, chain, depth))

    def start_wake(self, payload, *, limits=None, context=None, bint raw=False, chain=None, int depth=0):
        """Return an Invocation of `on_wake` that has not run yet.

        Raises:
            NoSuchEntry: The image has no `on_wake`.
        """
        pc = self.export(ON_WAKE)
        return invocation_of(self.prepare(ON_WAKE, pc, payload, limits, context, raw, chain, depth))

    def start_notify(self, payload, *, limits=None, context=None, bint raw=False, chain=None, int depth=0):
        """Return an Invocation of `on_notify` that has not run yet.

        Raises:
            NoSuchEntry: The image has no `on_notify`.
        """
        pc = self.export(ON_NOTIFY)
        return invocation_of(self.prepare(ON_NOTIFY, pc, payload, limits, context, raw, chain, depth))

    cdef uint64_t entry(self, tool) except? 0:
        if type(tool) is not str:
            raise TypeError(f"tool: expected str, got {type(tool).__name__}")
        pc = self.entries.get(tool)
        if pc is None:
            raise NoSuchTool(tool, tuple(self.entries))
        return pc

    cdef uint64_t export(self, str name) except? 0:
        pc = self.exports.get(name)
        if pc is None:
            raise NoSuchEntry(name)
        return pc

    cdef object call_entry(self, str label, uint64_t pc, args, limits, context, bint raw, chain, int depth):
        """Run an entry to its end on this thread.

        Raises:
            Trap: The guest died or ran into a limit.
            AsyncCapabilityError: It called a capability that has to be awaited.
        """
        cdef object ended = self.first_slice(self.prepare(label, pc, args, limits, context, raw, chain, depth))
        return (<Invocation>ended).run() if type(ended) is Invocation else ended

    cdef object first_slice(self, Guest guest):
        """Run what does not release the GIL: return the Done or Failed, else an Invocation that goes on."""
        cdef object outcome
        if guest.run(HELD_SLICE) != EXIT_RETURNED or guest.session.log_size or guest.session.log_dropped:
            return invocation_of(guest)
        outcome = guest.outcome()
        if type(outcome) is Done or type(outcome) is Failed:
            self.pool.give_back(guest)
            return outcome
        guest.verdict = outcome
        return invocation_of(guest)

    cdef Guest prepare(self, str label, uint64_t pc, args, limits, context, bint raw, chain, int depth):
        """Take a guest and stand it at an entry."""
        cdef Guest guest = self.pool.take()
        try:
            guest.begin(self.pool, label, pc, args, DEFAULT_LIMITS if limits is None else <Limits?>limits, raw)
            guest.context = context
            guest.depth = depth
            if chain is not None:
                if type(chain) is not Chain:
                    raise TypeError(f"chain: expected a Chain, got {type(chain).__name__}")
                guest.chain = <Chain>chain
                guest.deadline_ns = min(guest.deadline_ns, guest.chain.deadline_ns)
        except:
            self.pool.give_back(guest)
            raise
        return guest


def link_table(entries):
    """Make the table of host calls and the capabilities by index, out of (name, capability, refusable)."""
    cdef HostTable table = HostTable()
    add_always_present(table)
    bound = [None] * len(table.names)
    for name, capability, refusable in entries:
        table.add_deferred(call_number(name), name)
        bound.append(Bound(capability, refusable))
    return table, tuple(bound)
