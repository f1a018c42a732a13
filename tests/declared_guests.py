"""Images for tests of declarations: one raw C guest, with whatever manifest a test wants.

The guest knows no capability by itself: `ask` makes any host call that its arguments name, so that one image
finds out what is bound and what is not. No SDK, so nothing is compiled again when that changes.
"""

import functools
import hashlib
import json
import struct

from berm.fnv import call_number
from berm.wire import pack_fields
from zigimages import compile_image

TOOLS = ("ask", "count", "crash", "echo", "heap", "no", "noise", "say", "spin")

_SOURCE = """
typedef unsigned char u8;
typedef unsigned long u64;
typedef struct { const void *at; u64 size; } Result;

static u64 call(u64 number, u64 a, u64 b) {
    register u64 a0 __asm__("a0") = a;
    register u64 a1 __asm__("a1") = b;
    register u64 a7 __asm__("a7") = number;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a7) : "memory");
    return a0;
}

static u8 args[1 << 16], reply[1 << 16];
static u64 read_args(void) { return call(ARGS_READ, (u64)args, sizeof args); }

/* Eight bytes of a call's number, then the request; gives ok, error or refused, and what was replied. */
Result berm_tool_ask(void) {
    u64 size = read_args(), number = 0;
    for (int i = 0; i < 8; i++) number |= (u64)args[i] << 8 * i;
    u64 length = call(number, (u64)(args + 8), size - 8);
    reply[0] = length >> 63 ? (length >> 62 & 1 ? 'r' : 'e') : 'o';
    length &= ~(3ul << 62);
    call(RESULT_READ, (u64)(reply + 1), sizeof reply - 1);
    return (Result){reply, length + 1};
}

Result berm_tool_echo(void) { return (Result){args, read_args()}; }
Result berm_tool_no(void) { call(FAIL, (u64)"no such thing", 13); return (Result){0, 0}; }
Result berm_tool_say(void) { call(LOG, (u64)args, read_args()); return (Result){args, 0}; }
Result berm_tool_noise(void) { return (Result){"\\xff\\xfe", 2}; }
Result berm_tool_crash(void) { return (Result){(void *)*(volatile u64 *)8, 1}; }
Result berm_tool_spin(void) { for (;;) __asm__ volatile(""); }

/* The heap's size in MiB, as so many bytes. */
Result berm_tool_heap(void) {
    u64 size = call(HEAP_SIZE, 0, 0) >> 20;
    for (u64 i = 0; i < size && i < sizeof reply; i++) reply[i] = '#';
    return (Result){reply, size};
}

/* As many rounds of two or three instructions as the arguments have bytes, times ten thousand. */
Result berm_tool_count(void) {
    for (u64 left = read_args() * 10000; left; left--) __asm__ volatile("" : "+r"(left));
    return (Result){"counted", 7};
}

Result on_wake(void) { return (Result){args, read_args()}; }
Result on_notify(void) { return (Result){args, read_args()}; }
"""


@functools.cache
def guest(
    tools: tuple[str, ...] = TOOLS,
    *,
    usage: str = "",
    requests: tuple[str, ...] = (),
    wake: bool = False,
    notify: bool = False,
    describe: str = "for tests",
) -> bytes:
    """Return the image that advertises `tools` and exports the entries that are asked for."""
    manifest = {
        "abi_version": 0,
        "tools": [
            {"name": name, "description": describe, "parameters": {"type": "object"}} for name in tools
        ],
        "usage": usage,
        "capabilities": list(requests),
    }
    entries = [f"berm_tool_{name}" for name in tools]
    entries += [name for name, wanted in (("on_wake", wake), ("on_notify", notify)) if wanted]
    source = _SOURCE
    for name, wanted in (("on_wake", wake), ("on_notify", notify)):
        source = source if wanted else source.replace(f"Result {name}(void)", f"static Result {name}_(void)")
    assembly = [
        '.section .berm.abi,"",%progbits',
        f".ascii {json.dumps(json.dumps(manifest))}",
        *(".text", ".globl _start", ".type _start, @function", "_start:"),
        *(f"call {name}" for name in entries),  # keeps them
        "unimp",
    ]
    head = "".join(
        f"#define {name} {call_number(call):#x}ul\n"
        for name, call in {
            "ARGS_READ": "berm.args.read",
            "RESULT_READ": "berm.result.read",
            "HEAP_SIZE": "berm.heap.size",
            "FAIL": "berm.fail",
            "LOG": "berm.log",
        }.items()
    )
    lines = "".join(f"{json.dumps(line + chr(10))}\n" for line in assembly)
    return compile_image(f"{head}{source}\n__asm__({lines});\n")


def sha256_of(elf: bytes) -> str:
    return hashlib.sha256(elf).hexdigest()


def request(name: str, *fields: bytes | str) -> bytes:
    """Return the arguments with which `ask` calls the capability `name`."""
    packed = pack_fields(field if isinstance(field, bytes) else field.encode() for field in fields)
    return struct.pack("<Q", call_number(name)) + packed
