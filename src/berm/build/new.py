"""`berm new`: a project that builds, with a test that passes, to start from."""

import argparse
import re
import sys
from pathlib import Path

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_TEMPLATE = Path(__file__).resolve().parent.parent / "sdk" / "template"
# File in the template: where it goes. NAME is the project's, tool the same as a C identifier.
_FILES = {
    "harness.c": "{name}.c",
    "test.c": "tests/{name}_test.c",
    "README.md": "README.md",
    "gitignore": ".gitignore",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("name", metavar="NAME", help="the project; a directory of this name is made")


def tool_name(name: str) -> str:
    """Turn a project's name into a C identifier."""
    tool = name.replace("-", "_")
    return f"tool_{tool}" if tool[0].isdigit() else tool


def new_project(name: str, parent: Path) -> Path:
    """Write the project NAME below `parent` and return its directory.

    Raises: ValueError for a name that cannot be one; FileExistsError when it is there.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"a name has lower-case letters, digits, `-` and `_`, got `{name}`")
    project = parent / name
    project.mkdir()
    tool = tool_name(name)
    for source, target in _FILES.items():
        text = (_TEMPLATE / source).read_text(encoding="utf-8")
        path = project / target.format(name=name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace("@NAME@", name).replace("@TOOL@", tool), encoding="utf-8")
    return project


def run(args: argparse.Namespace) -> int:
    """Write the project and say what to do next."""
    try:
        project = new_project(args.name, Path.cwd())
    except FileExistsError:
        print(f"berm: `{args.name}` is there already", file=sys.stderr)
        return 1
    except ValueError as error:
        print(f"berm: {error}", file=sys.stderr)
        return 64  # usage
    except OSError as error:
        print(f"berm: {error}", file=sys.stderr)
        return 1
    files = sorted(str(path.relative_to(project.parent)) for path in project.rglob("*") if path.is_file())
    print("\n".join(files))
    print(f"\nnext:\n  berm test {args.name}\n  berm build {args.name}")
    print(f"""  berm run {args.name}/{args.name}.elf {tool_name(args.name)} '{{"who":"you"}}'""")
    return 0
