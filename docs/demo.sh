#!/bin/sh
# What `make demo` shows. Each command is printed, run, and must end as its line here says.
set -u
image=${TMPDIR:-/tmp}/berm-demo-$$.elf
trap 'rm -f "$image"' EXIT

say() {
    printf '\n# %s\n' "$1"
}

# expect STATUS COMMAND…: 0 done, 2 the tool failed, 1 a host error such as a trap.
expect() {
    status=$1
    shift
    printf '$'
    for word; do
        case $word in
            *[!A-Za-z0-9_./=-]*) printf " '%s'" "$word" ;;
            *) printf ' %s' "$word" ;;
        esac
    done
    echo
    "$@"
    ended=$?
    echo
    [ "$ended" = "$status" ] && return
    echo "demo: expected exit code $status, got $ended" >&2
    exit 1
}

say 'A tool is one ELF file. This one has a single tool, and reaches nothing.'
expect 0 berm run harness/echo/echo.elf echo '{"text":"hello from inside"}'

say 'This one works on files and runs commands: under the root that you give it.'
expect 0 berm run harness/os/os.elf read '{"path":"README.md","limit":3}' --root .
expect 0 berm run harness/os/os.elf bash '{"command":"wc -l README.md"}' --root .

say 'A path that leaves the root is refused.'
expect 2 berm run harness/os/os.elf read '{"path":"../etc/passwd"}' --root .

say 'Without --root there is no such call at all: it traps.'
expect 1 berm run harness/os/os.elf read '{"path":"README.md"}'

say 'A tool with a bug says where it died.'
expect 0 berm build -g docs/examples/ledger.c -o "$image"
expect 0 berm run "$image" amount '{"age":1}'
expect 1 berm run "$image" amount '{"age":3}'

say 'A tool that never ends is stopped.'
expect 1 berm run "$image" halve '{"number":0}' --deadline 0.2
