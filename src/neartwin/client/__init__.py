"""`nt.connect(url, token)`: a service's data sets, with the verbs and values of a local account. It needs no extra."""

from neartwin.client.service import ServedAccount, ServedProposal, Service, connect

__all__ = ["ServedAccount", "ServedProposal", "Service", "connect"]
