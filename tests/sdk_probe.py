"""The SDK's C code as a program of this machine that answers requests (probe/*.c), under sanitizers."""

import functools
import hashlib
import subprocess
from pathlib import Path

from berm.build.image import SDK
from berm.build.native import HostCompiler, find_host_compiler

PROBE = Path(__file__).parent / "probe"
KEPT = Path(__file__).parent.parent / "build" / "probe"
RENAMED = [f"-D{name}=guest_{name}" for name in ("memcpy", "memmove", "memset", "memcmp", "memchr", "strlen")]


def _sources() -> list[Path]:
    native = [path for path in sorted((SDK / "native").glob("*.c")) if path.name != "runner.c"]
    return [*sorted(PROBE.glob("*.c")), *sorted((SDK / "src").glob("*.c")), *native]


def _compile(compiler: HostCompiler, directory: Path) -> None:
    objects = []
    for source in _sources():
        objects.append(directory / f"{source.parent.name}-{source.name}.o")
        compiler.compile(source, objects[-1])
    # A word at a time reads past the end of a text on purpose, and the guest's machine has no alignment.
    plain = ["-fno-sanitize=all", "-fno-builtin", "-U_FORTIFY_SOURCE", *RENAMED]
    if "Free Software Foundation" in compiler.version:
        plain.append("-fno-tree-loop-distribute-patterns")
    objects.append(directory / "mem.o")
    compiler.compile(SDK / "guest" / "mem.c", objects[-1], plain)
    compiler.link(objects, directory / "probe", cxx=False)


@functools.cache
def build_probe() -> Path:
    compiler = find_host_compiler()
    digest = hashlib.sha256(repr(compiler).encode())
    for path in sorted([*SDK.rglob("*.[ch]"), *PROBE.glob("*.[ch]")]):
        digest.update(path.read_bytes())
    directory = KEPT / digest.hexdigest()[:24]
    if not (directory / "probe").exists():
        directory.mkdir(parents=True, exist_ok=True)
        _compile(compiler, directory)
    return directory / "probe"


class Probe:
    """One running probe. `ask` raises AssertionError with what it said when it died."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes]:
        if self.process is None or self.process.poll() is not None:
            self.close()
            self.process = subprocess.Popen(
                [build_probe()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={"ASAN_OPTIONS": "detect_leaks=0"},
            )
        return self.process

    def ask(self, what: str, data: bytes) -> bytes:
        process = self.start()
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        request = what.encode() + data
        try:
            process.stdin.write(len(request).to_bytes(4, "little") + request)
            process.stdin.flush()
            head = process.stdout.read(4)
        except BrokenPipeError:
            head = b""
        if len(head) < 4:
            raise AssertionError(f"the probe died on {request!r}:\n{process.stderr.read().decode()}")
        return process.stdout.read(int.from_bytes(head, "little"))

    def close(self) -> None:
        if self.process is None:
            return
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                if pipe:
                    pipe.close()
            except BrokenPipeError:
                continue
        self.process.wait(10)
        self.process = None
