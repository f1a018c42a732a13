"""What can go wrong while building: one exception, whose text a person can act on."""


class BuildError(Exception):
    """A harness that could not be built.

    `output` is what the compiler or linker printed, which points at the author's lines; it is empty
    where the message says everything.
    """

    def __init__(self, message: str, output: str = "") -> None:
        """Keep the message and the tool's output apart."""
        super().__init__(message)
        self.message = message
        self.output = output
