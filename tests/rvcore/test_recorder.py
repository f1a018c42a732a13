"""A run that is watched ends like one that is not, and what was seen adds up."""

from collections import Counter

import pytest

import rvcore
from asm import assemble
from elfs import build_elf
from rvcore._recorder import Recorder

NUMBER = 77
# main calls fib(a0) and then finish, by a tail call; finish calls the host.
PROGRAM = f"""
main:   addi sp, sp, -16
        sd ra, 8(sp)
        jal ra, fib
        ld ra, 8(sp)
        addi sp, sp, 16
        j finish
fib:    addi a1, zero, 2
        bltu a0, a1, out
        addi sp, sp, -32
        sd ra, 24(sp)
        sd a0, 16(sp)
        addi a0, a0, -1
        jal ra, fib
        sd a0, 8(sp)
        ld a0, 16(sp)
        addi a0, a0, -2
        jal ra, fib
        ld a1, 8(sp)
        add a0, a0, a1
        ld ra, 24(sp)
        addi sp, sp, 32
out:    ret
finish: addi a7, zero, {NUMBER}
        ecall
        addi a0, a0, 1
        ret
"""


class Watched:
    """A program in a store, with or without a recorder."""

    def __init__(self, text, *, functions, watch=True, max_events=1 << 20):
        code, self.labels = assemble(text)
        ends = sorted([*(self.labels[name] for name in functions), 0x10000 + len(code)])
        symbols = {
            name: (self.labels[name], ends[ends.index(self.labels[name]) + 1] - self.labels[name])
            for name in functions
        }
        engine = rvcore.Engine(rvcore.Config(memory_size=1 << 20, stack_size=64 << 10))
        linker = rvcore.Linker(engine)
        linker.define_func(NUMBER, lambda _caller, a0, *_: a0 * 10, name="test.ten")
        self.store = rvcore.Store(engine)
        module = rvcore.Module(engine, build_elf(code, symbols=symbols))
        self.instance = linker.instantiate(self.store, module)
        self.recorder = Recorder(self.store.machine.program, max_events=max_events)
        if watch:
            self.store.machine.hook = self.recorder
        self.names = {self.labels[name]: name for name in functions}

    def call(self, name, *args):
        return self.instance.exports(self.store)[name](self.store, *args)

    def stacks(self):
        return {
            ";".join(self.names[entry] for entry in stack): count for stack, count in self.recorder.stacks()
        }


def fib_program(**options):
    return Watched(PROGRAM, functions=("main", "fib", "finish"), **options)


@pytest.mark.core
def test_watching_changes_nothing():
    plain, watched = fib_program(watch=False), fib_program()
    for program in (plain, watched):
        program.store.set_fuel(1_000_000)
    assert watched.call("main", 12) == plain.call("main", 12) == 144 * 10 + 1
    assert watched.store.get_fuel() == plain.store.get_fuel()


@pytest.mark.core
def test_instructions_add_up_in_every_view():
    program = fib_program()
    program.store.set_fuel(1_000_000)
    program.call("main", 10)
    used = 1_000_000 - program.store.get_fuel()
    recorder = program.recorder
    assert recorder.instructions == used
    assert sum(recorder.counts().values()) == used
    assert sum(count for _, count in recorder.stacks()) == used
    assert sum(size for _, size in recorder.events() if isinstance(size, int)) == used


def test_counts_say_how_often_each_instruction_ran():
    program = fib_program()
    program.call("main", 10)
    counts = program.recorder.counts()
    assert counts[program.labels["fib"]] == 177  # calls of fib(10)
    assert counts[program.labels["main"]] == 1
    assert counts[program.labels["finish"] + 4] == 1


def test_stacks_follow_calls_returns_and_tail_calls():
    program = fib_program()
    program.call("main", 2)
    assert program.stacks() == {"main": 6, "main;fib": 16, "main;fib;fib": 2 * 3, "main;finish": 4}


def test_recursion_deeper_than_is_followed_is_charged_to_the_deepest():
    text = """
    main:  beqz a0, out
           addi sp, sp, -16
           sd ra, 8(sp)
           addi a0, a0, -1
           jal ra, main
           ld ra, 8(sp)
           addi sp, sp, 16
    out:   ret
    """
    program = Watched(text, functions=("main",))
    program.call("main", 2000)
    stacks = program.stacks()
    assert sum(stacks.values()) == 2000 * 8 + 2
    assert max(name.count(";") for name in stacks) == 512
    assert stacks["main"] == 8
    assert stacks["main;main"] == 8


def test_a_jump_back_to_the_functions_start_is_a_loop_and_no_call():
    program = Watched("main: addi a0, a0, -1\n bnez a0, main\n ret", functions=("main",))
    program.call("main", 5)
    assert program.stacks() == {"main": 11}


def test_longjmp_drops_what_it_leaves():
    text = """
    main:   addi sp, sp, -16
            sd ra, 8(sp)
            jal ra, save
            bnez a0, again
            jal ra, outer
    again:  ld ra, 8(sp)
            addi sp, sp, 16
            ret
    save:   mv s0, ra
            mv s1, sp
            addi a0, zero, 0
            ret
    outer:  addi sp, sp, -16
            jal ra, inner
    inner:  addi sp, sp, -16
            mv ra, s0
            mv sp, s1
            addi a0, zero, 1
            ret
    """
    program = Watched(text, functions=("main", "save", "outer", "inner"))
    program.call("main")
    assert program.stacks() == {"main": 9, "main;save": 4, "main;outer": 2, "main;outer;inner": 5}


def test_millicode_returns_through_t0():
    text = """
    main:  jal t0, save
           addi a0, zero, 3
           ld ra, 8(sp)
           addi sp, sp, 16
           ret
    save:  addi sp, sp, -16
           sd ra, 8(sp)
           jr t0
    """
    program = Watched(text, functions=("main", "save"))
    assert program.call("main") == 3
    assert program.stacks() == {"main": 5, "main;save": 3}


def test_events_are_blocks_and_host_calls_in_order():
    program = fib_program()
    program.call("main", 0)
    at = program.labels
    assert list(program.recorder.events()) == [
        (at["main"], 3),
        (at["fib"], 2),
        (at["out"], 1),
        (at["main"] + 12, 3),
        (at["finish"], 2),
        (at["finish"] + 4, "test.ten"),
        (at["finish"] + 8, 2),
    ]


def test_events_past_the_limit_are_counted():
    program = fib_program(max_events=4)
    program.call("main", 0)
    assert len(list(program.recorder.events())) == 4
    assert program.recorder.events_dropped == 3


def test_no_events_are_kept_when_none_are_wanted():
    program = fib_program(max_events=0)
    program.call("main", 5)
    assert list(program.recorder.events()) == []
    assert program.recorder.instructions == sum(program.recorder.counts().values())


def test_a_trap_leaves_what_ran_before_it():
    program = Watched("main: addi a0, zero, 1\n ld a0, 0(zero)\n ret", functions=("main",))
    with pytest.raises(rvcore.Trap) as caught:
        program.call("main")
    assert caught.value.code is rvcore.TrapCode.LOAD_FAULT
    assert program.recorder.counts() == {program.labels["main"]: 1}
    assert list(program.recorder.events()) == [(program.labels["main"], 1)]


def test_fuel_and_interrupts_stop_a_watched_loop():
    program = Watched("main: j main", functions=("main",))
    program.store.set_fuel(1000)
    with pytest.raises(rvcore.Trap) as caught:
        program.call("main")
    assert caught.value.code is rvcore.TrapCode.OUT_OF_FUEL
    assert program.recorder.instructions == 1000


def test_memory_is_what_was_written():
    text = """
    main:  lui a1, 0x40
           sd a0, 0(a1)
           addi sp, sp, -2032
           sd a0, 0(sp)
           addi sp, sp, 2032
           ret
    """
    program = Watched(text, functions=("main",))
    program.call("main", 1)
    machine = program.store.machine.program
    assert machine.heap_start < 0x40000
    assert program.recorder.stack_bytes == 2032
    assert program.recorder.heap_bytes == 0x41000 - machine.heap_start
    assert program.recorder.touched_bytes == 2 * 4096


def test_a_machine_of_another_program_is_run_and_not_watched():
    first, second = fib_program(), fib_program(watch=False)
    second.store.machine.hook = first.recorder
    assert second.call("main", 5) == 51
    assert first.recorder.instructions == 0


def test_programs_of_random_arithmetic_are_counted_exactly():
    lines = [f"addi a{i % 8}, a{(i * 3) % 8}, {i}" for i in range(100)]
    program = Watched("main: " + "\n".join([*lines, "ret"]), functions=("main",))
    program.call("main")
    assert Counter(program.recorder.counts().values()) == {1: 101}


def test_a_negative_number_of_events_is_refused():
    program = fib_program(watch=False)
    with pytest.raises(ValueError, match="max_events: expected 0 or more, got -1"):
        Recorder(program.store.machine.program, max_events=-1)
