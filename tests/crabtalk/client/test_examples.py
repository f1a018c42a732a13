"""The example clients against the real daemon, each where its tool exists; by unix socket and by TCP."""

import hashlib
import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from berm.build.image import build_harness
from daemons import running_daemon

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="module")
def elf(tmp_path_factory):
    source = shutil.copytree(ROOT / "harness" / "echo", tmp_path_factory.mktemp("harness") / "echo")
    build_harness(source)
    return (source / "echo.elf").read_bytes()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


@pytest.fixture(scope="module", params=["unix", "tcp"])
def home(request, elf):
    """A home with an agent that has `echo`; for TCP, as if there were no unix sockets."""
    config = f"[tcp]\nenabled = true\nport = {free_port()}\n" if request.param == "tcp" else ""
    with running_daemon(config) as daemon:
        with daemon.client() as client:
            client.put_harness(name="echo", elf=elf, sha256=hashlib.sha256(elf).hexdigest())
            client.create_agent(name="ann", config=json.dumps({"harnesses": [{"name": "echo"}]}))
        if request.param == "tcp":
            daemon.home.socket.rename(daemon.home.socket.with_name("hidden"))
        yield daemon.home.root
        assert daemon.stop() == 0


@pytest.fixture(scope="module")
def c_client(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    program = tmp_path_factory.mktemp("c") / "client"
    source = EXAMPLES / "c" / "client.c"
    subprocess.run([compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", program, source], check=True)
    return [program]


@pytest.fixture(scope="module")
def node_client():
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node")
    return [node, EXAMPLES / "node" / "client.mjs"]


@pytest.fixture(scope="module")
def python_client(tmp_path_factory):
    """With the messages beside it, as protoc puts them, and without crabtalk."""
    directory = tmp_path_factory.mktemp("python")
    shutil.copy(EXAMPLES / "python" / "client.py", directory)
    shutil.copy(ROOT / "src" / "crabtalk" / "wire" / "pb" / "crabtalk_pb2.py", directory)
    assert "import crabtalk\n" not in (directory / "client.py").read_text()
    return [sys.executable, "-W", "error", directory / "client.py"]


@pytest.fixture(params=["c_client", "node_client", "python_client"])
def client(request):
    return request.getfixturevalue(request.param)


def run(client, *arguments):
    return subprocess.run([*client, *arguments], capture_output=True, text=True, timeout=30, check=False)


def test_a_tool_is_called(client, home):
    text = "grüße, " + "x" * 1000
    done = run(client, home, "ann", "echo", "echo", json.dumps({"text": text}))
    assert (done.returncode, done.stdout, done.stderr) == (0, text + "\n", "")


def test_an_error_is_told_with_its_code(client, home):
    done = run(client, home, "nobody", "echo", "echo", "{}")
    assert done.returncode == 1
    assert done.stderr.startswith("error 404: ")


def test_a_tool_that_says_no_is_told(client, home):
    done = run(client, home, "ann", "echo", "echo", "{}")
    assert done.returncode == 1
    assert done.stderr.startswith("failed: ")


def test_the_python_client_says_what_it_takes(python_client):
    done = run(python_client)
    assert (done.returncode, done.stderr) == (1, "usage: client.py HOME AGENT HARNESS TOOL ARGS\n")


def test_the_python_client_says_that_no_daemon_runs(python_client, tmp_path):
    done = run(python_client, tmp_path, "ann", "echo", "echo", "{}")
    assert (done.returncode, done.stderr) == (1, f"no daemon runs in {tmp_path}\n")
