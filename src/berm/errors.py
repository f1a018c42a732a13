"""Every error of berm that a caller can see, each a `rvcore.Error`; facts are attributes.

`Refused` is the one exception that is not: a capability raises it towards its guest, and no caller meets it.
"""

from rvcore._errors import Error, printable

BermError = Error


class ManifestError(Error):
    """An image's manifest is missing, is not JSON, or is not of the shape that the ABI asks for."""

    def __init__(self, reason: str, place: str = "") -> None:
        """Keep `reason`, and `place`: a path such as `tools[0].parameters` inside the manifest."""
        self.reason = reason
        self.place = place
        super().__init__(f"manifest: {reason} - at `{place}`" if place else f"manifest: {reason}")


class DigestError(Error):
    """The image's bytes are not those that were pinned."""

    def __init__(self, expected: str, found: str) -> None:
        """Keep both digests, as lower-case hex."""
        self.expected = expected
        self.found = found
        super().__init__(f"image has sha256 {found}, expected {expected}")


class NoSuchTool(Error):  # noqa: N818 - the name says what it is
    """The image has no tool of that name."""

    def __init__(self, name: str, tools: tuple[str, ...] = ()) -> None:
        """Keep the name asked for and the tools that there are."""
        self.name = name
        self.tools = tools
        known = f": it has {', '.join(tools)}" if tools else ""
        super().__init__(f"no tool `{printable(name, 80)}` in this image{known}")


class NoSuchEntry(Error):  # noqa: N818 - as NoSuchTool
    """The image exports no `on_wake` or no `on_notify`."""

    def __init__(self, name: str) -> None:
        """Keep the name of the missing function."""
        self.name = name
        super().__init__(f"image exports no `{name}`")


class AsyncCapabilityError(Error):
    """A synchronous call met a capability that has to be awaited."""

    def __init__(self, capability: str) -> None:
        """Keep the capability's name."""
        self.capability = capability
        super().__init__(f"capability `{capability}` is async, so this tool needs `berm.aio.call`")


class WireError(Error):
    """Bytes that are not a sequence of fields, or fields that are not what a capability takes."""


class Refused(Exception):  # noqa: N818 - what a capability says, not a failure of ours
    """Raise it in a capability to tell the guest that nothing ran."""
