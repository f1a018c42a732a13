"""`berm mcp`, asked by the public SDK's client: in both eras, over real pipes."""

import sys
from types import SimpleNamespace

import pytest
import trio

from guest_images import image_path
from mcp_servers import cpu_seconds, processes_with

pytestmark = pytest.mark.trio

mcp = pytest.importorskip("mcp")

from mcp.client.client import Client  # noqa: E402 - where it is installed
from mcp.client.stdio import StdioServerParameters  # noqa: E402 - as above
from mcp.shared.exceptions import MCPError  # noqa: E402 - as above


def serving(*words):
    return StdioServerParameters(command=sys.executable, args=["-m", "berm", "mcp", *words])


@pytest.fixture(scope="module")
def alarm():
    return str(image_path("alarm"))


@pytest.fixture(params=["auto", "legacy"])
def mode(request):
    return request.param


def said(result):
    return result.is_error, result.content[0].text


async def ended_process(command):
    """Run a program to its end, with nothing on its stdin."""
    ended = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
    return SimpleNamespace(status=ended.returncode, out=ended.stdout.decode(), err=ended.stderr.decode())


async def test_the_tools_of_an_image_can_be_listed_and_called(alarm, mode):
    async with Client(serving(alarm), mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == ["say", "binary", "refuse", "crash", "spin"]
        assert tools["say"].description == "Say a text back."
        assert tools["say"].input_schema["required"] == ["text"]
        assert said(await client.call_tool("say", {"text": "grüß dich\n\0"})) == (False, "grüß dich\n\0")


async def test_what_goes_wrong_is_an_answer_and_the_server_goes_on(alarm, mode):
    async with Client(serving(alarm), mode=mode) as client:
        assert said(await client.call_tool("refuse", {"message": "not today"})) == (True, "not today")
        gave_none = (True, "the tool stopped with an error and gave no result")
        assert said(await client.call_tool("crash", {})) == gave_none
        assert said(await client.call_tool("binary", {})) == gave_none
        with pytest.raises(MCPError, match="there is no tool 'nothing'"):
            await client.call_tool("nothing", {})
        assert said(await client.call_tool("say", {"text": "still here"})) == (False, "still here")


async def test_a_usage_is_a_resource(alarm, mode):
    async with Client(serving(alarm), mode=mode) as client:
        [resource] = (await client.list_resources()).resources
        assert str(resource.uri) == f"harness://{resource.name.removesuffix(' usage')}/usage"
        [content] = (await client.read_resource(str(resource.uri))).contents
        assert content.text == "Rings."
        with pytest.raises(MCPError, match="there is no resource"):
            await client.read_resource("harness://other/usage")
        with pytest.raises(MCPError):
            await client.read_resource("file:///etc/passwd")


async def test_a_call_that_is_taken_back_stops_the_guest(alarm, mode):
    words = [alarm, "--deadline", "3000", "--fuel", "1000000000000000"]
    async with Client(serving(*words), mode=mode) as client:
        [server] = processes_with(words[-1])
        with trio.move_on_after(1):
            await client.call_tool("spin", {})
        assert said(await client.call_tool("say", {"text": "here"})) == (False, "here")
        before = cpu_seconds(server)
        await trio.sleep(1)
        assert cpu_seconds(server) - before < 0.3


async def test_guests_run_side_by_side(alarm):
    async with Client(serving(alarm, "--deadline", "3")) as client, trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "spin", {})
        await trio.sleep(0.3)
        with trio.fail_after(2):
            assert said(await client.call_tool("say", {"text": "me too"})) == (False, "me too")
        nursery.cancel_scope.cancel()


async def test_the_server_ends_with_its_client(alarm):
    async with Client(serving(alarm, "--fuel", "987654321")):
        assert len(processes_with("987654321")) == 1
    assert processes_with("987654321") == []


async def test_two_images_with_a_tool_of_one_name_are_refused(alarm, tmp_path):
    copy = tmp_path / "copy.elf"
    copy.write_bytes(image_path("alarm").read_bytes())
    command = [sys.executable, "-m", "berm", "mcp", alarm, str(copy)]
    ended = await ended_process(command)
    assert (ended.status, ended.out) == (1, "")
    assert "both have a tool say: serve one of them" in ended.err


async def test_without_the_sdk_the_command_says_what_is_missing(alarm, tmp_path):
    (tmp_path / "mcp.py").write_text("raise ModuleNotFoundError('no mcp', name='mcp')")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from berm.cli import main; sys.exit(main())"
    )
    command = [sys.executable, "-c", program, "mcp", alarm]
    ended = await ended_process(command)
    assert ended.status == 1
    assert "pip install 'crabtalk[mcp]'" in ended.err
