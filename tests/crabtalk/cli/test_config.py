"""`crabtalk config`: needs no daemon, and says everything that is wrong at once."""

import json
import sys

import pytest

from berm.cli.exits import DONE, HOST_ERROR
from crabtalk.cli import main
from crabtalk.service import service_environment


@pytest.fixture
def config_file(home):
    home.mkdir()
    return home / "config.toml"


@pytest.fixture
def run(capfd):
    def run(*arguments):
        status = main(arguments)
        printed = capfd.readouterr()
        return status, printed.out, printed.err

    return run


def test_path_says_where_the_file_belongs(run, home):
    assert run("config", "path") == (DONE, f"{home}/config.toml\n", "")


def test_a_home_may_be_named(run, tmp_path):
    assert run("config", "path", "--home", str(tmp_path / "x")) == (DONE, f"{tmp_path}/x/config.toml\n", "")


def test_a_missing_file_is_the_defaults(run, home):
    assert run("config", "check") == (DONE, "", f"{home}/config.toml is not there: the defaults hold\n")


def test_a_file_that_will_do_is_fine(run, config_file):
    config_file.write_text("tcp = true\n")
    assert run("config", "check") == (DONE, "", f"{config_file} is fine\n")


def test_each_mistake_is_a_line(run, config_file):
    config_file.write_text('tpc = true\n[log]\nlevel = "loud"\n')
    status, out, err = run("config", "check")
    assert (status, out) == (HOST_ERROR, "")
    first, second = err.splitlines()
    assert first.startswith(f"crabtalk: {config_file}: unknown key `tpc`; did you mean `tcp`?")
    assert second.startswith(f"crabtalk: {config_file}: log.level: expected one of ")


def test_show_prints_what_holds_with_secrets_blanked(run, config_file, monkeypatch):
    monkeypatch.setenv("CLI_TEST_KEY", "hunter2")
    config_file.write_text('[executor]\nqueue = 5\n[secrets]\nweather = "${CLI_TEST_KEY}"\n')
    status, out, err = run("config", "show")
    assert (status, err) == (DONE, "")
    assert "\nqueue = 5 " in out
    assert '\nweather = {"$secret" = "set"}\n' in out
    assert "hunter2" not in out


def test_show_as_json_is_one_object(run, config_file):
    config_file.write_text("[executor]\nqueue = 5\n")
    status, out, _ = run("config", "show", "--json")
    assert (status, json.loads(out)["executor"]["queue"]) == (DONE, 5)


@pytest.mark.skipif(sys.platform == "darwin", reason="launchd has no file for the environment")
def test_check_reads_the_environment_of_the_service(run, config_file):
    config_file.write_text('[secrets]\nkey = "${OF_THE_SERVICE}"\nother = "${QUOTED}"\n')
    status, _, err = run("config", "check")
    assert status == HOST_ERROR
    assert "OF_THE_SERVICE" in err
    environment = config_file.parent / "environment"
    environment.write_text("# a remark\n\nOF_THE_SERVICE=a=b\nQUOTED='c d'\n")
    assert run("config", "check") == (DONE, "", f"{config_file} is fine\n")
    assert service_environment(config_file.parent) == {"OF_THE_SERVICE": "a=b", "QUOTED": "c d"}
    environment.write_text("OF_THE_SERVICE=1\nexport QUOTED=2\n")
    status, _, err = run("config", "check")
    assert (status, err) == (HOST_ERROR, f"crabtalk: {environment}: line 2 is not NAME=value\n")
