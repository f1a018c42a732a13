"""The SDK is heavy and an extra: what happens without it, and that nothing else imports it."""

import json
import subprocess
import sys
import time

import pytest

from crabtalk.wire.pb import crabtalk_pb2 as pb
from daemons import running_daemon
from mcp_servers import processes_with, raw

HEAVY = ("mcp", "mcp_types", "pydantic", "starlette", "uvicorn", "jsonschema")


def test_a_daemon_without_servers_and_clients_imports_no_sdk():
    program = (
        "import sys, crabtalk.daemon, crabtalk.cli.mcp, crabtalk.cli.bridging, berm.cli.mcp\n"
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


@pytest.fixture
def without_sdk(tmp_path):
    """Return an environment in which there is no package `mcp`."""
    (tmp_path / "mcp").mkdir()
    (tmp_path / "mcp" / "__init__.py").write_text("raise ModuleNotFoundError('no mcp', name='mcp')")
    (tmp_path / "mcp_types.py").write_text("raise ModuleNotFoundError('no mcp', name='mcp_types')")
    return {"PYTHONPATH": str(tmp_path)}


def test_without_the_sdk_a_server_says_what_is_missing(without_sdk):

    with running_daemon(environment=without_sdk) as daemon, daemon.client() as client:
        agent = client.create_agent(name="ann").id
        info = client.upsert_mcp(agent=agent, config=json.dumps(raw("plain")))
        assert info.status == pb.FAILED
        assert info.error == "MCP needs the extra `mcp`; run: pip install 'crabtalk[mcp]'"
        command = [sys.executable, "-m", "crabtalk", "mcp", "serve", "--agent", "ann"]
        ended = subprocess.run(
            [*command, "--home", str(daemon.home.root)], capture_output=True, text=True, input="", check=False
        )
        assert (ended.returncode, ended.stdout) == (1, "")
        assert "pip install 'crabtalk[mcp]'" in ended.stderr


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_no_server_outlives_its_daemon(how):

    with running_daemon() as daemon:
        with daemon.client() as client:
            agent = client.create_agent(name="ann").id
            info = client.upsert_mcp(agent=agent, config=json.dumps(raw("stubborn")))
            assert info.status == pb.CONNECTED
        assert processes_with("stubborn")
        getattr(daemon, how)()
        ends = time.monotonic() + 10
        while processes_with("stubborn") and time.monotonic() < ends:
            time.sleep(0.05)
        assert processes_with("stubborn") == []


def test_servers_are_connected_again_after_a_restart():

    with running_daemon() as daemon:
        with daemon.client() as client:
            agent = client.create_agent(name="ann", config=json.dumps({"mcps": [raw("plain")]})).id
        daemon.stop()
        daemon.start()
        with daemon.client() as client:
            ends = time.monotonic() + 30
            while client.list_mcps(agent=agent).mcps[0].status != pb.CONNECTED and time.monotonic() < ends:
                time.sleep(0.05)
            outcome = client.call_tool(agent=agent, harness="raw", tool="echo", args=b'{"n": 1}')
            assert outcome.done == b'{"n": 1}'
