from collections.abc import Iterable

MAX_ADDRESSES: int
LONGEST_NAME: int

def find_lines(section: bytes, addresses: Iterable[int]) -> dict[int, tuple[int, int, int]]: ...
def file_name(section: bytes, offset: int, index: int, line_strings: bytes, strings: bytes) -> str | None: ...
