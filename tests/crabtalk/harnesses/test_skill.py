"""harness/skill in the daemon: skills in folders, as they are when they are asked for."""

import pytest

pytestmark = pytest.mark.trio


@pytest.fixture
def write(daemon):
    def write(name, description, body):
        folder = daemon.home.skills / name
        folder.mkdir(exist_ok=True)
        text = f"---\nname: {name}\ndescription: {description}\n---\n{body}"
        (folder / "SKILL.md").write_text(text, encoding="utf-8")

    return write


async def test_skills_are_listed_and_read(keeper, write):
    write("release", "Use to make a release.", "# Release\n\n1. Täg it.\n")
    write("review", "Use to read a change.", "Tests first.\n")
    skill = keeper("skill")
    await skill.declare(skills=["*"])
    assert await skill.done("list_skills") == (
        "release: Use to make a release.\nreview: Use to read a change.\n"
    )
    assert (await skill.done("read_skill", name="release")).strip() == "# Release\n\n1. Täg it."
    outcome = await skill.call("read_skill", name="../release")
    assert outcome.failed == "no skill `../release`; list_skills shows them"


async def test_a_skill_that_was_not_granted_is_not_there(keeper, write):
    write("release", "Use to make a release.", "Tag it.")
    write("review", "Use to read a change.", "Tests first.")
    skill = keeper("skill")
    await skill.declare(skills=["review"])
    assert await skill.done("list_skills") == "review: Use to read a change.\n"
    outcome = await skill.call("read_skill", name="release")
    assert outcome.failed == "no skill `release`; list_skills shows them"


async def test_skills_that_come_change_and_go_do_so_without_a_restart(keeper, clock, write, daemon):
    skill = keeper("skill")
    await skill.declare(skills=["*"])
    assert await skill.done("list_skills") == "no skills\n"
    write("review", "Old.", "Old words.")
    clock.moved_ms += 2000
    assert await skill.done("list_skills") == "review: Old.\n"
    write("review", "New one.", "New words.")
    clock.moved_ms += 2000
    assert (await skill.done("read_skill", name="review")).strip() == "New words."
    (daemon.home.skills / "review" / "SKILL.md").unlink()
    clock.moved_ms += 2000
    assert await skill.done("list_skills") == "no skills\n"
