"""The terminal, with the verbs of the Python interface. Data goes to stdout, messages to stderr.

Exit codes:

- 0: success.
- 1: an unexpected error in neartwin.
- 2: a wrong call, or a refused question.
- 3: the budget does not suffice.
- 4: a check found a fault.
"""

import click

import neartwin
from neartwin.cli.account import account
from neartwin.cli.ask import ask
from neartwin.cli.attack import attack
from neartwin.cli.certificates import certificate
from neartwin.cli.ledger import ledger
from neartwin.cli.query import plan, query, release
from neartwin.cli.risk import explain_risk
from neartwin.cli.service import register, serve, token
from neartwin.cli.tables import check, import_


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(neartwin.__version__, prog_name="neartwin")
def main() -> None:
    """Private statistics from tables about people.

    \b
    A first release:
      neartwin query --ledger budget.db --budget epsilon=1 --spend epsilon=0.5 \\
        --unit customer_id --bounds amount=0:200 --keys cds=1:5 \\
        --max-groups 2 --max-rows-per-group 5 purchases.parquet \\
        "SELECT cds, COUNT(*), AVG(amount) FROM purchases GROUP BY cds"

    \b
    Shell completion:
      eval "$(neartwin completion bash)"        (or zsh, fish)
    """  # noqa: D301 - click reads \b


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:  # pragma: no cover - the choices above are click's own
        raise click.UsageError(f"no completion for {shell}")
    click.echo(kind(main, {}, "neartwin", "_NEARTWIN_COMPLETE").source())


_COMMANDS = (query, plan, release, import_, check, ledger, certificate, account, attack, explain_risk)
for _command in (*_COMMANDS, serve, register, token, ask):
    main.add_command(_command)
