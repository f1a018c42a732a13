"""Images: stored only when they are what was said and load; linked once, within a budget."""

import hashlib
import os

import pytest
import trio

from berm import Capability, Limits
from crabtalk import images as module
from crabtalk.clock import SystemClock
from crabtalk.errors import BadRequest, Conflict, NotFound, TooLarge
from crabtalk.image_cache import ImageCache, LinkedImage
from crabtalk.image_info import Difference, ImageInfo, diff, read_info
from crabtalk.images import Images, Unusable
from crabtalk.store.interfaces.harnesses import Harnesses
from declared_guests import TOOLS, guest, sha256_of

pytestmark = pytest.mark.trio
MIB = 1 << 20


@pytest.fixture
def images(store):
    images = Images(store, SystemClock())
    yield images
    images.close()


async def test_put_tells_what_the_image_is(images):
    elf = guest(usage="Use me.", requests=("berm.fs.read",), wake=True)
    info = await images.put("probe", elf, sha256_of(elf).upper())
    assert (info.sha256, info.size, info.error) == (sha256_of(elf), len(elf), "")
    assert [tool.name for tool in info.tools] == list(TOOLS)
    assert (info.usage, info.requested) == ("Use me.", ("berm.fs.read",))
    assert (info.exports_wake, info.exports_notify) == (True, False)
    assert await images.inspect(info.sha256) == info


async def test_what_was_put_survives_a_restart(images, store):
    elf = guest()
    await images.put("probe", elf, sha256_of(elf))
    again = Images(store, SystemClock())
    assert again.records() == images.records()
    assert [(record.name, record.size) for record in again.records()] == [("probe", len(elf))]
    assert (await again.inspect(sha256_of(elf))).tools == (await images.inspect(sha256_of(elf))).tools


@pytest.mark.parametrize(
    ("name", "elf", "digest", "error", "why"),
    [
        ("Probe", None, None, BadRequest, "harness: expected a name"),
        ("../probe", None, None, BadRequest, "harness: expected a name"),
        ("probe", None, "0" * 64, BadRequest, "expected 000"),
        ("probe", None, "", BadRequest, "expected 64 hexadecimal digits"),
        ("probe", None, "zz", BadRequest, "expected 64 hexadecimal digits"),
        ("probe", b"", None, BadRequest, "image does not load"),
        ("probe", b"\x7fELF" + bytes(100), None, BadRequest, "image does not load"),
        ("probe", bytes((16 << 20) + 1), None, TooLarge, "at most 16777216"),
    ],
)
async def test_what_is_refused_is_not_stored(images, store, name, elf, digest, error, why):
    elf = guest() if elf is None else elf
    with pytest.raises(error) as caught:
        await images.put(name, elf, sha256_of(elf) if digest is None else digest)
    assert why in caught.value.message
    assert images.records() == []
    assert Harnesses(store).digests() == []


async def test_a_tool_name_that_models_do_not_take_is_refused(images):
    elf = guest(("echo",)).replace(b'"echo"', b'"ec.o"')
    with pytest.raises(BadRequest, match=r"tool name `ec\.o` does not match"):
        await images.put("probe", elf, sha256_of(elf))


async def test_a_name_means_the_newest_bytes_and_unpinned_ones_go(images, store):
    old, new = guest(("echo",)), guest(("say",))
    await images.put("probe", old, sha256_of(old))
    await images.put("probe", new, sha256_of(new))
    assert images.newest("probe").sha256 == sha256_of(new)
    assert Harnesses(store).digests() == [sha256_of(new)]
    with pytest.raises(NotFound):
        await images.inspect(sha256_of(old))


async def test_pinned_bytes_stay(images, store):
    old, new = guest(("echo",)), guest(("say",))
    images.pinned = lambda sha256: ["agent/probe"] if sha256 == sha256_of(old) else []
    await images.put("probe", old, sha256_of(old))
    await images.put("probe", new, sha256_of(new))
    assert sorted(Harnesses(store).digests()) == sorted([sha256_of(old), sha256_of(new)])


async def test_bytes_with_two_names_go_with_the_last_one(images, store):
    elf = guest()
    for name in ("one", "two"):
        await images.put(name, elf, sha256_of(elf))
    await images.remove("one")
    assert Harnesses(store).digests() == [sha256_of(elf)]
    await images.remove("two")
    assert Harnesses(store).digests() == []
    with pytest.raises(NotFound, match="no harness named `two` is stored"):
        await images.remove("two")


async def test_a_declared_name_is_not_removed(images):
    elf = guest()
    await images.put("probe", elf, sha256_of(elf))
    images.declared = lambda name: ["tester/probe"] if name == "probe" else []
    with pytest.raises(Conflict, match="harness `probe` is declared by tester/probe"):
        await images.remove("probe")
    assert images.newest("probe").sha256 == sha256_of(elf)


# Files in a directory


async def test_files_are_added_and_what_is_wrong_is_said(images, tmp_path):
    (tmp_path / "good.elf").write_bytes(guest())
    (tmp_path / "Bad-Name.elf").write_bytes(guest())
    (tmp_path / "broken.elf").write_bytes(b"not an image")
    (tmp_path / "notes.txt").write_text("ignored")
    (tmp_path / "folder.elf").mkdir()
    found = {one.name: one for one in await images.scan_directory(tmp_path)}
    assert (found["good"].added, found["good"].sha256) == (True, sha256_of(guest()))
    assert found["Bad-Name"].error.startswith("harness: expected a name")
    assert found["broken"].error.startswith("image does not load")
    assert found["folder"].error == "not a regular file"
    assert [record.name for record in images.records()] == ["good"]
    again = {one.name: one for one in await images.scan_directory(tmp_path)}
    assert (again["good"].added, again["good"].error) == (False, "")


async def test_a_directory_that_is_not_there_holds_nothing(images, tmp_path):
    assert await images.scan_directory(tmp_path / "gone") == []


async def test_a_removed_file_removes_nothing(images, tmp_path):
    (tmp_path / "probe.elf").write_bytes(guest())
    await images.scan_directory(tmp_path)
    (tmp_path / "probe.elf").unlink()
    assert await images.scan_directory(tmp_path) == []
    assert images.newest("probe").sha256 == sha256_of(guest())


async def test_an_old_file_does_not_take_back_a_name(images, tmp_path):
    file = tmp_path / "probe.elf"
    file.write_bytes(guest(("echo",)))
    await images.scan_directory(tmp_path)
    newer = guest(("say",))
    await trio.sleep(0.005)
    await images.put("probe", newer, sha256_of(newer))
    await images.scan_directory(tmp_path)
    assert images.newest("probe").sha256 == sha256_of(newer)
    await trio.sleep(0.005)
    file.write_bytes(guest(("no",)))
    (one,) = await images.scan_directory(tmp_path)
    assert one.added
    assert images.newest("probe").sha256 == sha256_of(guest(("no",)))


async def test_a_file_that_is_too_large_is_not_read_whole(images, tmp_path):
    with (tmp_path / "huge.elf").open("wb") as file:
        os.truncate(file.fileno(), 1 << 40)
    (one,) = await images.scan_directory(tmp_path)
    assert one.error == "file is larger than 16777216 bytes"


# Linking


async def link(images, digest, *, elf=None, memory=64 * MIB, bind=lambda: ()):
    elf = guest() if elf is None else elf
    if not images.has(sha256_of(elf)):
        await images.put(f"p{sha256_of(elf)[:8]}", elf, sha256_of(elf))
    return await images.link(digest, sha256_of(elf), memory, bind)


async def test_an_image_is_linked_once_by_any_number_of_callers(images):
    await images.put("probe", guest(), sha256_of(guest()))
    made = []

    def bind():
        made.append(1)
        return (Capability("test.thing", lambda _call, request: request),)

    found = []

    async def one():
        found.append(await images.link("d", sha256_of(guest()), 64 * MIB, bind))

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(one)
    assert made == [1]
    assert {id(image) for image in found} == {id(images.linked("d"))}


async def test_a_cancelled_link_leaves_the_next_one_to_others(images):
    await images.put("probe", guest(), sha256_of(guest()))
    with trio.CancelScope() as scope:
        scope.cancel()
        await images.link("d", sha256_of(guest()), 64 * MIB, lambda: ())
    image = await images.link("d", sha256_of(guest()), 64 * MIB, lambda: ())
    assert images.linked("d") is image
    assert images.statistics().engines == 1


async def test_what_cannot_be_bound_is_said_and_tried_again(images):
    tries = []

    def bind():
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("no such directory")
        return ()

    with pytest.raises(Unusable) as caught:
        await link(images, "d", bind=bind)
    assert (caught.value.kind, str(caught.value)) == ("link", "no such directory")
    assert (await link(images, "d", bind=bind)).digest == "d"


async def test_bytes_that_are_gone_are_said(images):
    with pytest.raises(Unusable, match="no image with sha256 0000") as caught:
        await images.link("d", "0" * 64, 64 * MIB, lambda: ())
    assert caught.value.kind == "load"


async def test_bytes_that_do_not_fit_are_not_decoded_again(images, monkeypatch):
    with pytest.raises(Unusable) as first:
        await link(images, "d", memory=128 << 10)
    monkeypatch.setattr(module, "load", None)
    with pytest.raises(Unusable) as second:
        await link(images, "d", memory=128 << 10)
    assert (second.value.kind, str(second.value)) == ("load", str(first.value))
    assert images.statistics().engines == 0


async def test_one_engine_for_each_size_of_memory(images):
    for index, memory in enumerate((64 * MIB, 64 * MIB, 1 * MIB, 256 * MIB)):
        await link(images, str(index), memory=memory)
    assert images.statistics().engines == 3
    for digest in ("2", "3"):
        images.discard(digest)
    assert images.statistics().engines == 1
    assert images.statistics().linked == 2


async def test_the_least_recently_used_ones_are_given_up(store):
    images = Images(store, SystemClock(), budget_bytes=MIB)
    program = (await link(images, "0")).program_bytes
    fit = (MIB - program) // (16 << 10)
    for index in range(1, fit):
        await link(images, str(index))
    assert images.statistics().evictions == 0
    images.linked("0")
    for index in range(fit, fit + 10):
        await link(images, str(index))
    assert images.linked("0") is not None
    assert images.linked("1") is None
    assert images.statistics().evictions >= 9
    assert images.statistics().bytes <= MIB
    images.close()
    assert images.statistics().bytes == 0


async def test_what_runs_is_not_given_up(store):
    images = Images(store, SystemClock(), budget_bytes=1)
    running = await link(images, "running")
    running.running += 1
    for index in range(5):
        await link(images, str(index))
    assert images.linked("running") is running
    assert images.linked("3") is None
    running.running -= 1
    await link(images, "last")
    assert images.linked("running") is None


async def test_an_image_that_was_given_up_finishes_what_runs_on_it(store):
    images = Images(store, SystemClock(), budget_bytes=1)
    image = await link(images, "d", elf=guest(), memory=2 * MIB)
    invocation = image.harness.start("count", b"x" * 100, limits=Limits())
    assert invocation.advance(1000) is None
    images.discard("d")
    assert images.statistics().engines == 0
    assert invocation.run().data == b"counted"


def linked(cache, digest, program_bytes):
    cache.claim(64 * MIB)
    sha256 = hashlib.sha256(str(program_bytes).encode()).hexdigest()
    return LinkedImage(digest, sha256, 64 * MIB, None, program_bytes)


async def test_a_shared_program_is_counted_once():
    cache = ImageCache(10 * MIB)
    for digest in ("a", "b", "c"):
        cache.add(linked(cache, digest, MIB))
    assert cache.statistics().bytes == MIB + 3 * (16 << 10)
    for digest in ("a", "b"):
        cache.discard(digest)
    assert cache.statistics().bytes == MIB + (16 << 10)
    cache.close()
    assert (cache.statistics().bytes, cache.statistics().engines) == (0, 0)


# What is known of an image


async def test_a_difference_names_what_an_upgrade_changes():
    old = read_info(guest(("echo", "say", "no"), requests=("berm.get", "berm.call"), wake=True))
    new = read_info(
        guest(("echo", "spin"), requests=("berm.get", "berm.exec.run"), notify=True, usage="New.")
    )
    difference = diff(old, new)
    assert difference == Difference(
        tools_added=("spin",),
        tools_removed=("say", "no"),
        requests_added=("berm.exec.run",),
        requests_removed=("berm.call",),
        entries_added=("on_notify",),
        entries_removed=("on_wake",),
        usage_changed=True,
    )
    assert difference.lines()[0] == "newly requests: berm.exec.run"
    assert len(difference.lines()) == 7
    assert diff(old, old).lines() == []
    changed = diff(read_info(guest(("echo",))), read_info(guest(("echo",), describe="other")))
    assert changed.tools_changed == ("echo",)


async def test_an_image_that_does_not_load_is_known_by_its_error():
    info = read_info(b"nothing")
    assert (info.sha256, info.size, info.manifest) == (hashlib.sha256(b"nothing").hexdigest(), 7, None)
    assert info.error
    assert (info.tools, info.usage, info.requested) == ((), "", ())
    assert info.cost_bytes > 0


async def test_what_is_remembered_is_bounded(images, monkeypatch):
    monkeypatch.setattr(module, "_INFO_BYTES", 10_000)
    for index in range(50):
        images._remember(ImageInfo(f"{index:064}", 1, error="x" * 500))
    assert images._info_bytes <= 10_000
    assert images.known(f"{49:064}") is not None
    assert images.known(f"{0:064}") is None
