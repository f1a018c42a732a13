"""The part of an image that no author writes: `_start` and the manifest, as one assembly source."""

import json

from berm.build.declarations import Declarations

_PER_LINE = 32


def glue_source(found: Declarations) -> str:
    """Compose the assembly. `_start` refers to every export, so that the linker keeps them."""
    manifest = json.dumps(found.manifest(), ensure_ascii=False, separators=(",", ":")).encode()
    calls = "".join(f"    call {symbol}\n" for symbol in found.symbols())
    rows = (manifest[at : at + _PER_LINE] for at in range(0, len(manifest), _PER_LINE))
    content = "".join(f"    .byte {','.join(map(str, row))}\n" for row in rows)
    return (
        '    .section .text._start,"ax",@progbits\n'
        "    .globl _start\n"
        "    .type _start, @function\n"
        f"_start:\n{calls}    ebreak\n"
        "    .size _start, . - _start\n"
        f'    .section .berm.abi,"",@progbits\n{content}'
    )
