#!/bin/sh
# What `make demo` shows. Each command is printed, run, and must end as its line here says.
set -u
image=${TMPDIR:-/tmp}/berm-demo-$$.elf
work=$(mktemp -d)
CRABTALK_HOME=$(mktemp -d)
export CRABTALK_HOME
daemon=
tail=

clean_up() {
    for process in $tail $daemon; do
        kill "$process" 2> /dev/null
    done
    rm -rf "$image" "$work" "$CRABTALK_HOME"
}
trap clean_up EXIT

fail() {
    echo "demo: $1" >&2
    cat "$CRABTALK_HOME/log" >&2 2> /dev/null
    exit 1
}

# until_true WHAT COMMAND…: try for 20 seconds.
until_true() {
    what=$1
    shift
    tries=0
    until "$@" > /dev/null 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 200 ] || fail "$what"
        sleep 0.1
    done
}

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
    [ "$ended" = "$status" ] || fail "expected exit code $status, got $ended"
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

say 'A daemon decides when tools run, and keeps what they keep. Here it has a home of its own, a temporary one.'
cat > "$CRABTALK_HOME/config.toml" << TOML
[models.demo]
provider = "scripted"       # or "openai", "anthropic": see docs/models.md
script = "$PWD/docs/examples/conversation.toml"

TOML
echo '$ crabtalkd &'
crabtalkd 2> "$CRABTALK_HOME/log" &
daemon=$!
until_true 'the daemon does not answer' crabtalk status
expect 0 crabtalk status

say 'An image that is added is checked and stored, and reaches nothing yet.'
expect 0 crabtalk harness add harness/os/os.elf
expect 0 crabtalk harness add harness/reminders/reminders.elf

say 'An agent declares which of them it has, and what each may reach.'
cat > "$CRABTALK_HOME/agent.toml" << TOML
name = "ann"

[[harnesses]]
name = "os"
files = "$PWD"

[[harnesses]]
name = "reminders"
zone = "Europe/Berlin"
storage = "1MiB"
schedule = 100
topics = ["reminders:*"]
TOML
expect 0 cat "$CRABTALK_HOME/agent.toml"
expect 0 crabtalk agent add "$CRABTALK_HOME/agent.toml"

say 'A tool is called through the socket, by any client in any language.'
expect 0 crabtalk call ann os read '{"path":"README.md","limit":1}'

say 'A harness lets itself be woken; what it publishes then goes to whoever asked for it.'
crabtalk event tail -n 1 'reminders:*' > "$CRABTALK_HOME/events" &
tail=$!
expect 0 crabtalk call ann reminders remind '{"when":"in 4 seconds","text":"stand up"}'
expect 0 crabtalk wake ls
until_true 'no event came' grep -q 'stand up' "$CRABTALK_HOME/events"
wait "$tail"
tail=
echo "$ crabtalk event tail -n 1 'reminders:*'"
cat "$CRABTALK_HOME/events"

say 'An agent with a model can be talked to. This one has a shell in a directory, and a script for a model.'
cp docs/examples/ledger.c "$work"
cat > "$CRABTALK_HOME/coder.toml" << TOML
name = "coder"
description = "You mend programs."

[[harnesses]]
name = "os"
root = "$work"

[[harnesses]]
name = "reminders"
zone = "Europe/Berlin"
storage = "1MiB"
schedule = 100
topics = ["reminders:*"]
TOML
expect 0 cat "$CRABTALK_HOME/config.toml" "$CRABTALK_HOME/coder.toml"
expect 0 crabtalk agent add "$CRABTALK_HOME/coder.toml"
expect 0 crabtalk ask -v --session demo coder 'In ledger.c, the tool amount dies for age 3. Mend it.'
expect 1 diff docs/examples/ledger.c "$work/ledger.c"
expect 0 berm run "$work/ledger.elf" amount '{"age":3}'
expect 0 crabtalk ask -v --session demo coder 'Remind me in 2 hours to read the change.'

say 'What was said is kept, and found.'
expect 0 crabtalk sessions search oldest

say 'Everything that ran has left a row.'
expect 0 crabtalk audit

say 'Told to stop, it finishes what runs and ends in order.'
printf '$ kill %s; wait %s\n' "$daemon" "$daemon"
kill "$daemon"
wait "$daemon" || fail "the daemon ended with $?"
daemon=
tail -n 1 "$CRABTALK_HOME/log"
