"""Skills: folders that are found, read again when they change, and left out when they are broken."""

import os
import threading

import pytest

from crabtalk.errors import NotFound
from crabtalk.skills import FRESH_MS, MAX_FILE_BYTES, Skill, SkillService
from crabtalk.store.interfaces.skills import SkillRecord, Skills
from crabtalk.store.memory import MemoryEngine


class World:
    """Folders of skills, and a clock that stands still."""

    def __init__(self, root, store):
        self.root = root
        self.store = store
        self.now_ms = 1_000_000
        self.folders = [root / "home"]
        self.service = SkillService(store, lambda: self.now_ms, lambda: self.folders)

    def write(self, name, description="Does it.", body="Do it.", folder="home", **keys):
        place = self.root / folder / name
        place.mkdir(parents=True, exist_ok=True)
        more = "".join(f"{key}: {value}\n" for key, value in keys.items())
        text = f"---\nname: {keys.pop('name', name)}\ndescription: {description}\n{more}---\n{body}\n"
        (place / "SKILL.md").write_text(text)
        return place

    def later(self):
        self.now_ms += FRESH_MS
        return self.names()

    def names(self):
        return [one.name for one in self.service.all()]


@pytest.fixture
def world(tmp_path):
    store = MemoryEngine()
    yield World(tmp_path, store)
    store.close()


def test_skills_are_found_by_their_folders(world):
    place = world.write("cook", "How to cook.", "# Cook\n\nFirst.", license="MIT")
    world.write("bake")
    assert world.names() == ["bake", "cook"]
    assert world.service.get("cook") == Skill("cook", "How to cook.", "# Cook\n\nFirst.", place)
    with pytest.raises(NotFound, match="there is no skill `sail`"):
        world.service.get("sail")


def test_no_folder_is_no_skills(world):
    assert world.names() == []


def test_changes_are_seen_after_a_moment(world):
    place = world.write("cook", body="old")
    assert world.service.get("cook").body == "old"
    world.write("cook", body="newer")
    assert world.service.get("cook").body == "old"  # looked a moment ago
    world.later()
    assert world.service.get("cook").body == "newer"
    world.write("bake")
    (place / "SKILL.md").unlink()
    assert world.later() == ["bake"]


def test_a_clock_that_is_set_back_keeps_nothing_from_being_seen(world):
    assert world.names() == []
    world.write("cook")
    world.now_ms -= 3_600_000
    assert world.names() == ["cook"]


def test_what_has_not_changed_is_not_read_again(world):
    world.write("cook")
    first = world.service.get("cook")
    world.later()
    assert world.service.get("cook") is first


def test_a_file_that_was_replaced_within_its_second_is_read_again(world):
    place = world.write("cook", body="old")
    assert world.names() == ["cook"]
    status = (place / "SKILL.md").stat()
    other = place / "other"
    other.write_text((place / "SKILL.md").read_text().replace("old", "new"))
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(place / "SKILL.md")
    world.later()
    assert world.service.get("cook").body == "new"


def test_the_first_folder_wins_and_then_the_store(world, caplog):
    world.folders.append(world.root / "more")
    world.write("cook", body="home")
    world.write("cook", body="more", folder="more")
    world.write("bake", body="more", folder="more")
    for name in ("bake", "sail"):
        world.store.apply(Skills(world.store).save(SkillRecord(name, "Stored.", "store", 1)))
    bodies = {one.name: one.body for one in world.service.all()}
    assert bodies == {"cook": "home", "bake": "more", "sail": "store"}
    hidden = f"skill `cook` of {world.root}/more/cook is hidden by {world.root}/home/cook"
    assert caplog.messages == [hidden]
    world.later()
    assert caplog.messages == [hidden]  # said once


def test_folders_may_change_at_once(world):
    world.write("bake", folder="more")
    assert world.names() == []
    world.folders = [world.root / "more"]
    assert world.names() == ["bake"]


def test_what_is_visible_is_in_every_list(world):
    for name in ("bake", "cook", "sail"):
        world.write(name)

    def visible(*allowed):
        return [one.name for one in world.service.visible(*allowed)]

    assert visible() == visible(()) == visible(("*",)) == ["bake", "cook", "sail"]
    assert visible(("cook", "nothing")) == ["cook"]
    assert visible(("cook", "sail"), ("bake", "sail")) == ["sail"]
    assert visible(("*",), ("bake",)) == ["bake"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no head", "line 1: expected `---` before the keys"),
        ("---\nname: cook\n---\n", "`description` must say when to use the skill"),
        ("---\nname: cook\ndescription: ''\n---\n", "`description` must say when to use the skill"),
        ("---\nname: cook\ndescription: [a]\n---\n", "`description` must say when to use the skill"),
        (
            f"---\nname: cook\ndescription: {'x' * 1025}\n---\n",
            "`description` is longer than 1024 characters",
        ),
        ("---\ndescription: x\n---\n", "`name` must be 1 to 64 of a-z, 0-9 and single hyphens"),
        ("---\nname: Cook\ndescription: x\n---\n", "`name` must be 1 to 64 of a-z, 0-9 and single hyphens"),
        ("---\nname: co--ok\ndescription: x\n---\n", "`name` must be 1 to 64 of a-z, 0-9 and single hyphens"),
        (
            "---\nname: bake\ndescription: x\n---\n",
            "`name` is `bake`, and the folder is called `cook`: they must agree",
        ),
        (b"---\nname: cook\ndescription: \xff\n---\n", "is not UTF-8"),
        (b"---\n" + b"x" * MAX_FILE_BYTES, f"is larger than {MAX_FILE_BYTES} bytes"),
    ],
)
def test_a_broken_skill_is_left_out_and_the_log_says_why_once(world, caplog, text, why):
    world.write("sail")
    place = world.write("cook")
    (place / "SKILL.md").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert world.names() == ["sail"]
    assert world.later() == ["sail"]
    assert caplog.messages == [f"{place}/SKILL.md: {why}"]
    world.write("cook")
    assert world.later() == ["cook", "sail"]


def test_what_is_no_file_is_not_waited_for(world, caplog):
    place = world.write("cook")
    (place / "SKILL.md").unlink()
    os.mkfifo(place / "SKILL.md")
    directory = world.write("bake")
    (directory / "SKILL.md").unlink()
    (directory / "SKILL.md").mkdir()
    world.write(".hidden")
    assert world.names() == []
    assert sorted(message.rpartition(": ")[2] for message in caplog.messages) == [
        "is a directory", "is no regular file",
    ]  # fmt: skip


def test_a_folder_that_cannot_be_read_is_said(world, caplog):
    (world.root / "home").write_text("no folder")
    assert world.names() == []
    assert caplog.messages == [f"skills of {world.root}/home cannot be read: not a directory"]


def test_any_thread_may_ask(world):
    for number in range(20):
        world.write(f"skill-{number}")
    found = []

    def look():
        for _ in range(50):
            world.now_ms += FRESH_MS
            found.append(len(world.names()))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [20] * 200
