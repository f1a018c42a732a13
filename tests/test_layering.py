"""Imports point one way: rvcore <- berm <- crabtalk, and each third-party package has its place.

Reads the import statements of every .py, .pyi, .pyx and .pxd file, also those inside functions.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent.parent / "src"

# What a module may import besides the standard library, by the longest prefix of its dotted name.
ALLOWED = {
    "rvcore": {"rvcore", "elftools", "cython", "libc", "cpython"},
    "rvcore._generate": {"_ops", "_pairs"},  # setup.py runs it, when the package cannot be imported yet
    "berm": {"berm", "rvcore", "cython", "libc", "cpython"},
    "berm.aio": {"berm", "rvcore", "anyio"},
    "berm.cli": {"berm", "rvcore", "anyio"},
    "berm.cli.mcp": {"berm", "anyio", "mcp"},
    "berm.mcp": {"berm", "anyio", "mcp", "mcp_types"},
    "berm.build": {"berm", "rvcore", "elftools", "ziglang"},
    "crabtalk": {"crabtalk", "berm", "trio"},
    "crabtalk.metrics": {"prometheus_client"},
    "crabtalk.metrics_server": {"crabtalk.errors", "trio", "h11"},
    "crabtalk.notify": set(),
    "crabtalk.scheduling": {"crabtalk", "trio", "sortedcontainers"},
    "crabtalk.events": {"crabtalk", "trio", "sortedcontainers"},
    "crabtalk.store": {"crabtalk", "trio", "sortedcontainers"},
    "crabtalk.transports": {"crabtalk", "trio"},
    # Bytes in, values out: no loop, no task, no clock.
    "crabtalk.wire": {"crabtalk.wire", "crabtalk.errors", "google"},
    "crabtalk.work_queue": {"crabtalk"},
    "crabtalk.scheduling.due_set": {"crabtalk", "sortedcontainers"},
    "crabtalk.events.matching": {"crabtalk"},
    "crabtalk.config": {
        "crabtalk.config_values",
        "crabtalk.errors",
        "crabtalk.model_config",
        "crabtalk.units",
    },
    "crabtalk.config_values": {"crabtalk.units"},
    "crabtalk.model_config": {"crabtalk.config_values", "crabtalk.units"},
    "crabtalk.home": {"crabtalk.errors"},
    "crabtalk.log_text": {"crabtalk.config_values"},
    "crabtalk.units": set(),
    "crabtalk.conversation": {"crabtalk", "trio"},
    # Values and what is made of them: no store, no clock, no task.
    "crabtalk.conversation.answer": {"crabtalk.conversation"},
    "crabtalk.conversation.history": {"crabtalk.conversation.messages"},
    "crabtalk.conversation.steps": {"crabtalk.conversation.messages"},
    "crabtalk.conversation.messages": set(),
    "crabtalk.conversation.model": {"crabtalk.conversation.messages", "crabtalk.errors", "crabtalk.tools"},
    # Dialects are bytes in, values out; only the transport has a client and a clock.
    "crabtalk.providers": {"crabtalk"},
    "crabtalk.providers.http": {"crabtalk", "trio", "httpx2"},
    "crabtalk.providers.scripted": {"crabtalk", "trio"},
    "crabtalk.providers.retrying": {"crabtalk", "trio"},
    # Those of its modules that import the SDK are imported by `loading` alone, see `test_loading.py`.
    "crabtalk.mcp": {
        "crabtalk",
        "berm.mcp",
        "trio",
        "anyio",
        "mcp",
        "mcp_types",
        "pydantic",
        "httpx2",
        "h11",
    },
    "crabtalk.errors": set(),
    "crabtalk.service": {"crabtalk"},
    "crabtalk.capabilities.schedule": {
        "crabtalk.capabilities",
        "crabtalk.scheduling",
        "crabtalk.errors",
        "berm",
    },
    "crabtalk.capabilities.sessions": {
        "crabtalk.capabilities",
        "crabtalk.search",
        "crabtalk.errors",
        "berm",
    },
    "crabtalk.capabilities.skills": {"crabtalk.capabilities", "crabtalk.skills", "berm"},
    "crabtalk.search.words": {"crabtalk.errors"},
    "crabtalk.search.excerpts": {"crabtalk.search"},
    "crabtalk.search.index": {"crabtalk.search", "crabtalk.errors", "crabtalk.store.interfaces"},
    "crabtalk.memory.ranking": set(),
    "crabtalk.frontmatter": set(),
    "crabtalk.capabilities.topics": {"crabtalk.capabilities", "crabtalk.events", "crabtalk.errors", "berm"},
    # What a client needs, and nothing of the daemon.
    "crabtalk.client": {
        "crabtalk.client",
        "crabtalk.wire",
        "crabtalk.errors",
        "crabtalk.home",
        "anyio",
        "google",
    },
    # The commands reach the daemon through a client, and start it; loops and messages are the client's.
    "crabtalk.cli": {"crabtalk", "berm"},
    "crabtalk.cli.chat": {"crabtalk", "berm", "anyio", "prompt_toolkit", "rich", "markdown_it"},
    "crabtalk.capabilities": {
        "crabtalk.capabilities",
        "crabtalk.chains",
        "crabtalk.errors",
        "crabtalk.tools",
        "crabtalk.work",
        "crabtalk.store.interfaces",
        "berm",
        "anyio",
        "h11",
        "certifi",
        "tzdata",
    },
}
# Inside a package: nothing of it may import these, except the module that is named.
INNERMOST = {
    "berm.cli": {"berm.__main__", "crabtalk.cli"},
    "berm.aio": {"berm.cli"},
    "crabtalk.cli": {"crabtalk.__main__"},
    "crabtalk.daemon": {"crabtalk.cli"},
    "crabtalk.handlers": {"crabtalk.daemon", "crabtalk.runtime"},
}
CYTHON_IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+c?import\s+(.+)|c?import\s+([\w., ]+))", re.MULTILINE)


def modules(root: Path) -> Iterator[tuple[str, Path]]:
    """List (dotted name, file) of every module under `root`."""
    for path in sorted(root.rglob("*")):
        if path.suffix in {".py", ".pyi", ".pyx", ".pxd"} and "sdk" not in path.parts:
            name = ".".join(path.relative_to(root).with_suffix("").parts)
            yield name.removesuffix(".__init__"), path


def python_imports(text: str, package: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, (base, node.module)))
            yield from (f"{module}.{alias.name}" for alias in node.names)


def cython_imports(text: str, package: str) -> Iterator[str]:
    for source, names, plain in CYTHON_IMPORT.findall(text):
        if plain:
            yield from (name.strip().split(" ")[0] for name in plain.split(","))
        elif source.startswith("."):
            yield package
        else:
            yield from (f"{source}.{name.strip(' ()').split(' ')[0]}" for name in names.split(","))


def imports(name: str, path: Path) -> set[str]:
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    read = python_imports if path.suffix in {".py", ".pyi"} else cython_imports
    return {target for target in read(path.read_text(encoding="utf-8"), package) if target}


def within(target: str, place: str) -> bool:
    return target == place or target.startswith(place + ".")


def violations(root: Path) -> list[str]:
    found = []
    for name, path in modules(root):
        place = max((p for p in ALLOWED if within(name, p)), key=len)
        for target in sorted(imports(name, path)):
            standard = target.partition(".")[0] in sys.stdlib_module_names
            standard |= path.suffix == ".pyi" and target.startswith("typing_extensions.")
            standard |= target.startswith("_typeshed.")  # for the type checker alone; it cannot be imported
            if not standard and not any(within(target, allowed) for allowed in ALLOWED[place]):
                found.append(f"{name} imports {target}")
            for inner, users in INNERMOST.items():
                if within(target, inner) and not any(within(name, ok) for ok in {inner, *users}):
                    found.append(f"{name} imports {target}")
    return found


def test_every_import_points_the_right_way():
    assert violations(SOURCES) == []


def test_the_tree_is_really_read():
    assert {"rvcore", "berm", "berm.cli"} <= {name for name, _ in modules(SOURCES)}


@pytest.mark.parametrize(
    ("file", "text", "violation"),
    [
        ("rvcore/_elf.py", "def f():\n    from berm import wire\n", "rvcore._elf imports berm.wire"),
        ("rvcore/_interp.pyx", "from berm._abi cimport Call, Log\n", "rvcore._interp imports berm._abi.Call"),
        ("berm/harness.py", "import crabtalk.store\n", "berm.harness imports crabtalk.store"),
        ("berm/harness.py", "import trio\n", "berm.harness imports trio"),
        ("berm/invocation.py", "from . import cli\n", "berm.invocation imports berm.cli"),
        ("berm/cli/run.py", "import crabtalk\n", "berm.cli.run imports crabtalk"),
        (
            "crabtalk/capabilities/web.py",
            "from crabtalk import store\n",
            "crabtalk.capabilities.web imports crabtalk.store",
        ),
    ],
)
def test_an_arrow_drawn_backwards_is_found(tmp_path, file, text, violation):
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert violation in violations(tmp_path)
