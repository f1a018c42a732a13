"""How a capability tells its guest that it did not work."""


class Failure(Exception):  # noqa: N818 - what a capability says to its guest, not an error of ours
    """Raise it in a capability: its text is the error reply that the guest reads."""
