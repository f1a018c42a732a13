"""`crabtalk config`: what config.toml says. Needs no daemon."""

import argparse
import os
import sys
from typing import Any

from berm.cli.arguments import add_json
from berm.cli.exits import DONE
from berm.cli.output import escape_line, print_json
from crabtalk.cli.actions import Action


def _path(args: argparse.Namespace) -> int:
    """Print where the file is, or would be."""
    from crabtalk.home import find_home

    print(find_home(args.home).config_file)
    return DONE


def _check(args: argparse.Namespace) -> int:
    """Read the file and say that it will do; every mistake ends the command."""
    from crabtalk.config import load_config
    from crabtalk.home import find_home
    from crabtalk.service import service_environment

    home = find_home(args.home)
    file = home.config_file
    # launchd has no such file.
    added = {} if sys.platform == "darwin" else service_environment(home.root)  # untested
    load_config(file, os.environ | added)
    state = "is fine" if file.exists() else "is not there: the defaults hold"
    print(f"{file} {state}", file=sys.stderr)
    return DONE


def _show(args: argparse.Namespace) -> int:
    """Print every key with the value that holds, secrets blanked."""
    from crabtalk.cli.toml import written_value
    from crabtalk.config import keys, load_config
    from crabtalk.home import find_home
    from crabtalk.model_config import helps as model_helps

    config: dict[str, Any] = load_config(find_home(args.home).config_file).redacted()
    if args.json:
        print_json(config)
        return DONE
    helps = {(key.section, key.name): key.help for key in keys()}
    tables = {
        f'models."{name}"' if "." in name else f"models.{name}": config["models"].pop(name)
        for name in list(config["models"])
        if name != "default"
    }
    helps |= {(table, key): text for table in tables for key, text in model_helps().items()}
    config |= tables
    for number, (section, values) in enumerate(config.items()):
        print(f"{chr(10) if number else ''}[{section}]")
        for name, value in values.items():
            about = helps.get((section, name))
            line = f"{name} = {written_value(value)}"
            print(escape_line(f"{line:<28}# {about}" if about else line))
    return DONE


ACTIONS = {
    "check": Action("read config.toml and say what is wrong with it", lambda _parser: None, _check),
    "show": Action("print every key, the value that holds, and what it means", add_json, _show),
    "path": Action("print where config.toml belongs", lambda _parser: None, _path),
}
