"""A module is what an image says before anything runs."""

import pytest

import rvcore
from asm import assemble
from elfs import STB_LOCAL, Symbol, build_elf

from .guests import BASE, SMALL, link

pytestmark = pytest.mark.core

TEXT = "f: addi a0, a0, 1; c.addi a0, 2; ret; g: j f; _data: .word 0; h: c.jr ra"


@pytest.fixture
def module():
    return rvcore.Module(rvcore.Engine(SMALL), link(TEXT)[0])


def test_exports_are_the_global_functions(module):
    labels = assemble(TEXT)[1]
    assert dict(module.exports) == {name: labels[name] for name in "fgh"}
    with pytest.raises(TypeError):
        module.exports["x"] = 1


def test_local_functions_are_no_exports():
    code, _ = assemble("f: ret; g: ret")
    symbols = [Symbol("f", BASE, 4), Symbol("g", BASE + 4, 4, bind=STB_LOCAL)]
    module = rvcore.Module(rvcore.Engine(SMALL), build_elf(code, symbols=symbols))
    assert dict(module.exports) == {"f": BASE}


def test_disassembly_shows_each_instruction_with_its_bytes(module):
    shown = list(module.disassemble())
    assert [address for address, _, _ in shown] == sorted({address for address, _, _ in shown})
    assert shown[0] == (BASE, bytes.fromhex("13051500"), "addi a0, a0, 1")
    assert [len(raw) for _, raw, _ in shown[:4]] == [4, 2, 4, 4]
    assert b"".join(raw for _, raw, _ in shown) == assemble(TEXT)[0]


def test_disassembly_of_one_function_stops_at_its_end():
    code, labels = assemble(TEXT)
    sizes = {"f": (BASE, 10), "g": (labels["g"], 4), "h": (labels["h"], 2)}
    module = rvcore.Module(rvcore.Engine(SMALL), build_elf(code, symbols=sizes))
    assert [address - BASE for address, _, _ in module.disassemble("f")] == [0, 4, 6]
    assert [address for address, _, _ in module.disassemble("h")] == [labels["h"]]
    with pytest.raises(KeyError):
        list(module.disassemble("nothing"))


def test_disassembly_of_many_code_ranges_takes_time_in_proportion(core_clock):
    count = 3000
    code = assemble("nop; ret; .word 0, 0; " * count)[0]
    pieces = [(BASE + 16 * i, 8) for i in range(count)]
    elf = build_elf(code, symbols={"f": (BASE, 8)}, code_sections=pieces)
    module = rvcore.Module(rvcore.Engine(SMALL), elf)
    with core_clock(3):
        assert len(list(module.disassemble())) == 2 * count


def test_a_module_comes_from_a_file(tmp_path, module):
    path = tmp_path / "x.elf"
    path.write_bytes(module.image.data)
    again = rvcore.Module.from_file(module.engine, path)
    assert again.sha256 == module.sha256
    with pytest.raises(FileNotFoundError):
        rvcore.Module.from_file(module.engine, tmp_path / "y.elf")


@pytest.mark.parametrize("elf", ["text", 5, None])
def test_what_is_no_bytes_is_a_type_error(elf):
    with pytest.raises(TypeError):
        rvcore.Module(rvcore.Engine(SMALL), elf)


def test_an_image_without_relocations_needs_cfi_off():
    elf, _ = link("f: ret")
    code, labels = assemble("f: ret")
    bare = build_elf(code, symbols={"f": (labels["f"], 4)}, relocations=None)
    with pytest.raises(rvcore.LoadError, match="--emit-relocs"):
        rvcore.Module(rvcore.Engine(SMALL), bare)
    open_config = rvcore.Config(memory_size=1 << 20, stack_size=65536, cfi=False)
    rvcore.Module(rvcore.Engine(open_config), bare)
    rvcore.Module(rvcore.Engine(open_config), elf)
