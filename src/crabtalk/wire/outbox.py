"""What a connection has still to send: frames in order, and bounds that say when to stop adding to them."""

from collections import deque


class Outbox:
    """Frames that wait for the peer to read.

    Replies always go in, since each belongs to a request that was let in; `full` says that nobody should be
    let in any more, and that subscribers lose what comes.
    """

    def __init__(self, limit_bytes: int, limit_frames: int) -> None:
        """Be full at either limit."""
        self.limit_bytes = limit_bytes
        self.limit_frames = limit_frames
        self.size_bytes = 0
        self._frames: deque[bytes | memoryview] = deque()

    def __bool__(self) -> bool:
        return self.size_bytes > 0

    @property
    def full(self) -> bool:
        """Whether a limit is reached."""
        return self.size_bytes >= self.limit_bytes or len(self._frames) >= self.limit_frames

    @property
    def low(self) -> bool:
        """Whether less than half of either limit is taken: time to let others in again."""
        return self.size_bytes * 2 < self.limit_bytes and len(self._frames) * 2 < self.limit_frames

    def put(self, frame: bytes) -> None:
        """Add a frame."""
        self._frames.append(frame)
        self.size_bytes += len(frame)

    def take(self, limit_bytes: int = 1 << 18) -> bytes | memoryview:
        """Remove and return whole frames for one send: about `limit_bytes`, and at least one frame."""
        frames = self._frames
        taken: bytes | memoryview
        if len(frames) == 1:
            taken = frames.popleft()
        elif self.size_bytes <= limit_bytes:
            taken = b"".join(frames)
            frames.clear()
        else:
            some = [frames.popleft()]
            size = len(some[0])
            while frames and size + len(frames[0]) <= limit_bytes:
                size += len(frames[0])
                some.append(frames.popleft())
            taken = b"".join(some)
        self.size_bytes -= len(taken)
        return taken

    def put_back(self, rest: memoryview) -> None:
        """Return what could not be sent of what was taken; it goes first next time."""
        self._frames.appendleft(rest)
        self.size_bytes += len(rest)

    def clear(self) -> None:
        """Forget all frames: the peer is gone."""
        self._frames.clear()
        self.size_bytes = 0
