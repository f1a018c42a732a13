"""Adjacent instructions worth one handler, chosen by profile over bench/guests/tuning.

Each row is (first, second, link): link is "f" when the second's rs1 is the first's result, "k" when both read
the same rs1, "l" otherwise.
"""

from __future__ import annotations

PAIRS: tuple[tuple[str, str, str], ...] = ()
