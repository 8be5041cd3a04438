"""`nt.connect(url, token)`: a service's data sets with the verbs and values of the local face. Needs no extra."""

from neartwin.client.service import ServedAccount, ServedProposal, Service, connect

__all__ = ["ServedAccount", "ServedProposal", "Service", "connect"]
