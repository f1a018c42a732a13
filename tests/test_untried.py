"""What runs only where no test has run says so where it stands."""

from pathlib import Path

SOURCES = Path(__file__).parent.parent / "src"


def test_what_only_macos_runs_is_marked_as_untested():
    unmarked = [
        f"{path.relative_to(SOURCES)}:{number}"
        for path in sorted(SOURCES.rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if '"darwin"' in line and "untested" not in line
    ]
    assert unmarked == []
