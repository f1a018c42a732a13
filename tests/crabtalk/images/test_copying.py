"""Copies that the kernel makes."""

import os

import pytest

from crabtalk.copying import copied


@pytest.mark.parametrize("size", [0, 1, 5_000_000])
def test_a_copy_is_as_long_as_what_it_is_of_and_the_same(size):
    data = os.urandom(size)
    found = copied(memoryview(b"x" + data + b"y")[1:-1])
    assert type(found) is bytes
    assert found == data


@pytest.mark.usefixtures("no_leaked_descriptors")
@pytest.mark.parametrize("failing", ["memfd_create", "pread"])
def test_where_the_kernel_does_not_do_it_it_is_done_here(monkeypatch, failing):
    def fail(*_arguments):
        raise OSError("no room")

    monkeypatch.setattr(os, failing, fail, raising=False)
    assert copied(memoryview(b"abc")) == b"abc"
