"""Building harness images: `build_image`, `build_harness`, and what `berm build`, `new` and `test` run.

Needs a compiler (`pip install 'crabtalk[build]'` brings one) and nothing of the running machine.
"""

from berm.build.errors import BuildError
from berm.build.image import Built, build_harness, build_image

__all__ = ["BuildError", "Built", "build_harness", "build_image"]
