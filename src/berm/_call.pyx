# cython: language_level=3
"""What a capability call is made of: the facts that its function gets, and the call that waits for its driver.

These outlive the invocation where somebody keeps them, so nothing here points into a guest.
"""

cimport cython

from rvcore._interp cimport monotonic_ns

from berm._chain cimport Chain


@cython.final
@cython.auto_pickle(False)
cdef class Interruption:
    """Says that an invocation is to end; shared with the calls that it made."""


@cython.final
@cython.auto_pickle(False)
cdef class Call:
    """What a capability may know of the invocation that calls it. Immutable, and it may outlive the invocation."""

    def __init__(self):
        raise TypeError("a Call is made by an invocation")

    @property
    def chain(self):
        """The budget of everything that started this invocation and that it starts."""
        if self._chain is None:
            self._chain = Chain()
        return self._chain

    @property
    def deadline_left(self):
        """Seconds until the invocation's deadline, 0.0 when it has passed."""
        return max(0, self.deadline_ns - monotonic_ns()) / 1e9

    @property
    def cancelled(self):
        """Whether the invocation was interrupted; a blocking capability may look and end early."""
        return self.interruption is not None and self.interruption.requested

    @property
    def tasks(self):
        """The driver's task group for work that outlives one capability call, None under a synchronous driver."""
        return self._tasks

    def __repr__(self):
        return f"<Call {self.invocation_id}, depth {self.depth}>"


@cython.final
@cython.auto_pickle(False)
cdef class HostCall:
    """A capability that the driver has to run: call its function, then `reply` or `reply_error`."""

    def __init__(self):
        raise TypeError("a HostCall is made by an invocation")

    def __repr__(self):
        return f"<HostCall {self.capability.name}, {len(self.request)} bytes>"


@cython.final
@cython.auto_pickle(False)
cdef class Bound:
    """A capability as one image has it."""

    def __init__(self, capability, bint refusable):
        self.capability = capability
        self.function = capability.function
        self.name = capability.name
        self.is_async = capability.is_async
        self.blocking = capability.blocking
        self.refusable = refusable
