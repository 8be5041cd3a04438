"""Export to the OpenDP deployments registry: one YAML entry, valid against the schema that this room ships.

The certificate fills what the system knows. Names, purposes and places only people know: they come in as `about`, and
what is missing is asked for by name. Extra `certificates` (packages PyYAML and jsonschema).
"""

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from neartwin.checks import needed
from neartwin.errors import ParameterError
from neartwin.releases.certificates import Certificate
from neartwin.releases.certificates.document import NONE

WANTED = ("name", "data_curators", "description", "intended_use", "data_product_region", "registry_authors")
OPTIONAL = ("data_product_type", "data_product_sector", "tier", "sources", "notes")
DELTA = "1e-6"  # at which epsilon is told where the promise is not pure


def schema() -> dict[str, Any]:
    """The registry's schema as JSON Schema (draft 2020-12), written from its public description of July 2026."""
    text = files("neartwin.report").joinpath("schemas/deployments-registry.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


def registry_entry(certificate: Certificate, about: Mapping[str, Any]) -> dict[str, Any]:
    """The entry as data, checked.

    Args:
        certificate: The certificate.
        about: The parts that only people know, see `WANTED` and `OPTIONAL`.

    Returns:
        The entry.

    Raises:
        ParameterError: A part is missing, unknown, or does not fit the schema.
    """
    for name in WANTED:
        if not about.get(name):
            raise ParameterError("about", name, "is missing", remedy="a registry entry needs " + ", ".join(WANTED))
    for name in about:
        if name not in WANTED + OPTIONAL:
            raise ParameterError("about", name, "is unknown", remedy="known are " + ", ".join(WANTED + OPTIONAL))
    body = certificate.body
    entry = {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", about["name"].lower()).strip("-") or "release",
        "status": "Draft",
        "tier": about.get("tier", 1),
        "deployment": {
            "basic": _basic(body, about),
            "dp_variant": _variant(body),
            "privacy_loss": _loss(body),
            "deployment_model": _model(body),
            "accounting": _accounting(body),
            "implementation": _implementation(body),
            "administrative": _administrative(certificate, about),
        },
    }
    check_entry(entry)
    return entry


def check_entry(entry: object) -> None:
    """Check an entry against the registry's schema.

    Args:
        entry: The entry.

    Raises:
        ParameterError: A part of the entry does not fit the schema.
    """
    (jsonschema,) = needed("certificates", "jsonschema")
    validator = jsonschema.Draft202012Validator(schema())
    for fault in sorted(validator.iter_errors(entry), key=lambda fault: list(map(str, fault.absolute_path))):
        place = ".".join(map(str, fault.absolute_path)) or "entry"
        raise ParameterError(place, fault.instance, f"is not as the registry's schema wants it: {fault.message}")


def registry_yaml(certificate: Certificate, about: Mapping[str, Any]) -> str:
    """The entry as YAML text.

    Args:
        certificate: The certificate.
        about: The parts that only people know, see `WANTED` and `OPTIONAL`.

    Returns:
        The text.

    Raises:
        ParameterError: A part is missing, unknown, or does not fit the schema.
    """
    (yaml,) = needed("certificates", "yaml")
    return str(yaml.safe_dump(registry_entry(certificate, about), sort_keys=False, allow_unicode=True, width=110))


def _basic(body: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, Any]:
    entry = {
        "name": about["name"],
        "data_curators": _list(about["data_curators"]),
        "description": about["description"],
        "intended_use": about["intended_use"],
        "data_product_type": about.get("data_product_type", "Summary statistics"),
        "data_product_region": about["data_product_region"],
        "publication_date": body["release"]["made"][:10],
    }
    return entry | ({"data_product_sector": about["data_product_sector"]} if "data_product_sector" in about else {})


def _variant(body: Mapping[str, Any]) -> dict[str, Any]:
    promise = body["guarantee"]["promise"]
    names = {"zcdp": "Zero-concentrated DP", "rdp": "Renyi DP"}
    plain = "Approximate DP" if promise.get("delta", "0") != "0" else "Pure DP"
    relation = "adding or removing" if body["neighbours"] == "add_remove" else "replacing"
    return {
        "variant_name": plain if "kind" not in promise else names.get(promise["kind"], "Custom"),
        "data_domain": f"tables of rows; neighbours differ by {relation} one {body['unit']}",
        "unprotected_quantities": "column names and types, declared bounds and public keys",
    }


def _loss(body: Mapping[str, Any]) -> dict[str, Any]:
    currencies = body["guarantee"]["currencies"]
    at = next(part for part in currencies["approximate"] if part["delta"] == DELTA)
    if currencies["pure"] != NONE:
        parameters = {"epsilon": float(currencies["pure"]), "delta": 0.0}
    elif at["epsilon"] != NONE:
        parameters = {"epsilon": float(at["epsilon"]), "delta": float(DELTA)}
    else:
        parameters = {}
    if currencies["zcdp"]["rho"] != NONE and currencies["zcdp"]["delta"] == "0":
        parameters["rho"] = float(currencies["zcdp"]["rho"])
    curve = ", ".join(f"({point['alpha']}, {point['beta']})" for point in body["guarantee"]["curve"])
    return {
        "privacy_unit": body["unit"],
        "privacy_unit_details": "; ".join(f"{bound['what']} = {bound['value']}" for bound in body["bounds"]),
        "privacy_parameters": parameters,
        "privacy_parameters_details": (
            f"Promise: {body['guarantee']['says']}. GDP: mu {currencies['gdp']['mu']} with delta {currencies['gdp']['delta']}. "
            f"Trade-off curve (false alarms, least missed detections): {curve or NONE}. Of this release; the account "
            f"promises {body['ledger']['whole_promise']} for all its releases."
        ),
    }


def _model(body: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "model_name": "Central",
        "model_name_details": "the machine, the data's owner and the engine are trusted; anyone who sees releases is not",
        "actors": "data owner, analysts, readers of the release",
        "release_type": "Many releases",
        "release_type_details": f"one ledger account, {body['ledger']['account']}, pays for all releases of these people",
        "data_source_type": "Static",
        "data_source_type_details": f"snapshot {body['snapshot']}",
        "access_type": "Interactive",
        "access_type_details": f"one budget for all analysts by the rule {body['ledger']['rule']}, which holds if they collude",
    }


def _accounting(body: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "post_processing": "ratios and error bars are computed from noisy values; nothing else was changed",
        "composition": (
            f"fully adaptive composition by the filter {body['ledger']['rule']}; this release cost "
            f"{_amounts(body['ledger']['price'])} of {_amounts(body['ledger']['cap'])}"
        ),
    }


def _implementation(body: Mapping[str, Any]) -> dict[str, Any]:
    tuned = [
        bound["what"] for bound in body["bounds"] if bound["origin"].startswith(("chosen", "tuned"))
    ]  # "tuned" in old certificates
    laws = "; ".join(
        f"{part['for']}: {part['law']} ({', '.join(f'{k} {v}' for k, v in part['parameters'].items())})"
        for part in body["mechanisms"]
    )
    return {
        "preprocessing_and_hyperparameter_tuning": (
            f"chosen privately and paid for: {', '.join(tuned)}"
            if tuned
            else "bounds are public or declared; none was chosen on the data"
        ),
        "mechanisms": (
            f"{body['code']['library']} {body['code']['version']}. {laws}. Noise {body['noise']}; exact integer arithmetic. "
            "Query time is not protected. Access by the ledger's owner and its service."
        ),
        "justification": "noise calibrated exactly to the spend; price rounded up to the ledger's units",
    }


def _administrative(certificate: Certificate, about: Mapping[str, Any]) -> dict[str, Any]:
    proof = f"Certificate signed by {certificate.signer.text}, ledger head {certificate.head}."
    return {
        "sources": about.get("sources", "a neartwin certificate"),
        "notes": f"{about['notes']} {proof}" if "notes" in about else proof,
        "registry_authors": _list(about["registry_authors"]),
    }


def _list(value: Any) -> list[Any]:
    return [value] if isinstance(value, str) else list(value)


def _amounts(amounts: Mapping[str, str]) -> str:
    return ", ".join(f"{pool} {amount}" for pool, amount in amounts.items())
