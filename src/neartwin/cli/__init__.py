"""The terminal, with the verbs of the Python interface. Data goes to stdout, messages to stderr.

Exit codes:

- 0: success.
- 1: an unexpected error in neartwin.
- 2: a wrong call, or a refused question.
- 3: the budget does not suffice.
- 4: a check found a fault.
"""

from importlib import import_module

import click

import neartwin

_MODULES = {  # of the commands; a command imports its own alone, which saves a third of a second or more
    "query": "tables",
    "plan": "tables",
    "import": "tables",
    "check": "tables",
    "ledger": "ledger",
    "certificate": "certificates",
    "account": "account",
    "attack": "attack",
    "explain-risk": "attack",
    "serve": "service",
    "register": "service",
    "refresh": "service",
    "token": "service",
    "backup": "service",
    "restore": "service",
    "ask": "ask",
    "request": "ask",
    "mcp": "service",
}


class _Commands(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's own signature
        return sorted(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _MODULES:
            return None
        module = import_module(f"neartwin.cli.{_MODULES[cmd_name]}")
        commands = (value for value in vars(module).values() if isinstance(value, click.Command))
        return next(command for command in commands if command.name == cmd_name)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(neartwin.__version__, prog_name="neartwin")
def main() -> None:
    """Private statistics from tables about people.

    \b
    A first release:
      neartwin query --ledger budget.db --budget epsilon=1 --spend epsilon=0.5 \\
        --unit customer_id --bounds amount=0:200 --keys cds=1:5 purchases.parquet \\
        "SELECT cds, COUNT(*), AVG(amount) FROM purchases GROUP BY cds"

    \b
    Shell completion:
      eval "$(_NEARTWIN_COMPLETE=bash_source neartwin)"        (or zsh_source, fish_source)
    """  # noqa: D301 - click reads \b
