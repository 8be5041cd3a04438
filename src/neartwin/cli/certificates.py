"""`neartwin certificate`: a release's guarantee, signed by the ledger's owner. Anyone checks it without the ledger.

Exit codes of `verify`: 0 where every check holds, 4 where one does not.
"""

import json
import sys
from contextlib import nullcontext
from dataclasses import replace

import click

from neartwin.checks import writable
from neartwin.cli.options import json_option, together
from neartwin.cli.output import NOT_WHOLE, report_errors, stderr
from neartwin.errors import ParameterError
from neartwin.interactive import visible
from neartwin.ledger import Book, Head
from neartwin.releases.certificates import Certificate, OwnerKey, PublicKey, issue, read_certificate, released
from neartwin.releases.certificates.check import Flaw, check
from neartwin.releases.certificates.document import read_bytes


@click.group()
def certificate() -> None:
    """Show, export and verify signed certificates of releases."""


_KEY = click.option(
    "--signing-key", default=None, help="The owner's private key; by default LEDGER.key, made at first use."
)
_RELEASE = together(
    click.argument("ledger", type=click.Path()),
    click.argument("position", type=int),
    _KEY,
    click.option("--part", type=int, default=1, help="Of a series, which of its questions."),
)


@certificate.command()
@click.argument("ledger", type=click.Path())
@_KEY
@report_errors
def key(ledger: str, signing_key: str | None) -> None:
    """Print the public key of a ledger's owner, for those who check certificates."""
    with Book.existing(ledger) as book:
        owner = OwnerKey.beside(book.place) if signing_key is None else OwnerKey.at(signing_key)
        click.echo(owner.public.text)


@certificate.command()
@_RELEASE
@json_option
@report_errors
def show(*, ledger: str, position: int, signing_key: str | None, part: int, as_json: bool) -> None:
    """Show the certificate of the release that was paid for at a ledger POSITION (`neartwin ledger show` lists them)."""
    issued = _issued(ledger, position, signing_key, part)
    if as_json:
        click.echo(issued.to_json(), nl=False)
        return
    from neartwin.report.page import certificate_lines

    click.echo(visible("\n".join(certificate_lines(issued))))


@certificate.command()
@_RELEASE
@click.argument("out", type=click.Path(dir_okay=False))
@report_errors
def export(*, ledger: str, position: int, out: str, signing_key: str | None, part: int) -> None:
    """Write a certificate to a file: .json or .html."""
    issued, target = _issued(ledger, position, signing_key, part), writable(endings=(".json", ".html"), out=out)
    if target.suffix.lower() == ".json":
        issued.save(target)
    else:
        from neartwin.report.page import certificate_page

        target.write_text(certificate_page(issued), encoding="utf-8")
    stderr.print(f"wrote {target}", markup=False)


@certificate.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--key", "public", required=True, help="The owner's public key, or the file that holds it.")
@click.option("--newest", default=None, help="A head (position:hash) or a certificate known: an older one is stale.")
@click.option("--ledger", default=None, help="A ledger that must hold what was certified: finds its rollback.")
@click.option("--release", "values", default=None, help="The release's .json, which must be the one certified.")
@click.option("--recompute", "again", is_flag=True, help="Recompute (epsilon, delta) from the listed mechanisms.")
@json_option
@report_errors
def verify(
    *, file: str, public: str, newest: str | None, ledger: str | None, values: str | None, again: bool, as_json: bool
) -> None:
    """Check a certificate's FILE against its owner's public key: no network, no ledger, no data. Exit code 4 if not valid."""
    owner_key = PublicKey.parse(public)
    head = None if newest is None else _head(newest, owner_key)
    text = read_bytes(file)
    document = None if values is None else read_bytes(values)
    with nullcontext() if ledger is None else Book.existing(ledger) as book:
        verdict = check(text, owner_key, newest=head, ledger=book, release=document)
    opinion: list[str] = []
    if again and verdict.certificate is not None:
        opinion, wrong = _second_opinion(verdict.certificate)
        verdict = replace(verdict, flaws=(*verdict.flaws, *wrong))
    flaws = [{"kind": flaw.kind, "message": flaw.message} for flaw in verdict.flaws]
    if as_json:
        head_text = None if verdict.certificate is None else str(verdict.certificate.head)
        click.echo(json.dumps({"valid": verdict.valid, "flaws": flaws, "head": head_text, "recomputed": opinion}))
    elif verdict.certificate is not None and verdict.valid:
        body = verdict.certificate.body
        click.echo(
            f"valid: {verdict.certificate.guarantee}, of {body['population']!r}, at head {verdict.certificate.head}"
        )
    else:
        click.echo("\n".join(f"not valid, {flaw['kind']}: {flaw['message']}" for flaw in flaws))
    if not as_json:
        click.echo("".join(f"{line}\n" for line in opinion), nl=False)
    if not verdict.valid:
        sys.exit(NOT_WHOLE)


def _second_opinion(certificate: Certificate) -> tuple[list[str], list[Flaw]]:
    """The recomputation in lines, and the claims that do not agree with it."""
    from neartwin.releases.certificates import recompute

    try:
        opinion = recompute.recompute(certificate.body)
    except recompute.UnknownError as fault:
        return [], [Flaw("recompute", f"it cannot be recomputed: {fault}")]
    wrong = [
        Flaw("recompute", f"{one.name} is {one.stated}, and more is lost") for one in opinion.claims if not one.agrees
    ]
    return opinion.lines(), wrong


def _issued(ledger: str, position: int, signing_key: str | None, part: int) -> Certificate:
    with Book.existing(ledger) as book:
        return issue.certify(released(book, position, part), book, key=signing_key)


def _head(text: str, known: PublicKey) -> Head:
    """A head from its text, or from a certificate's file, which must be the same owner's."""
    if text.partition(":")[0].isdigit():
        return Head.parse(text)
    newer = read_certificate(text)
    if not check(newer.to_json(), known).valid:
        raise ParameterError("newest", text, "must be a valid certificate of the same owner")
    return newer.head
