"""A follower's queue: in order, bounded, counting what did not fit, and left at the end."""

import pytest
import trio

from crabtalk.following import Following

pytestmark = pytest.mark.trio


async def test_what_does_not_fit_is_lost_and_counted():
    left = []
    with Following[int](3, left.append) as following:
        for number in range(5):
            following.take(number)
        assert [await anext(following) for _ in range(3)] == [0, 1, 2]
        assert following.lost == 2
        following.take(9)
        assert await anext(following) == 9
        assert left == []
    assert left == [following]


async def test_a_reader_that_is_cancelled_loses_nothing():
    with Following[int](3, lambda _one: None) as following:
        with trio.move_on_after(0.01) as scope:
            await anext(following)
        assert scope.cancelled_caught
        following.take(1)
        assert await anext(following) == 1


async def test_whoever_reads_when_it_is_left_ends():
    with Following[int](3, lambda _one: None) as following:
        following.take(1)
    with pytest.raises(trio.ClosedResourceError):
        await anext(following)
