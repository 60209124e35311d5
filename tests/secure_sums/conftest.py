"""Members of a secure sum with certificates of one authority, and the steps that an honest coordinator takes."""

import datetime
import functools

import numpy as np
import pytest
from cryptography import x509

from tffapps.secure_sums.agreement import Agreement
from tffapps.secure_sums.collector import Collector
from tffapps.secure_sums.identity import Identity
from tffapps.secure_sums.member import Member
from tffapps.site import certs
from tffapps.wire import certificate_checks

NAMES = ("a", "b", "c", "d")
BITS = 50
LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)


class Federation:
    """Identities by name, and the verdict on their certificates."""

    def __init__(self, folder) -> None:
        certs.write(folder, NAMES)
        self.identities = {
            name: Identity.from_pem(name, (folder / f"{name}.pem").read_bytes(), (folder / f"{name}.key").read_bytes())
            for name in (*NAMES, certs.COORDINATOR)
        }
        authorities = x509.load_pem_x509_certificates((folder / "ca.pem").read_bytes())
        self.verdict = lambda chain, name: certificate_checks.why_not(chain, authorities, "site", name)


@pytest.fixture(scope="session")
def federation(tmp_path_factory):
    return Federation(tmp_path_factory.mktemp("sums") / "certificates")


class Sum:
    """One secure sum up to some step, by honest members and an honest coordinator."""

    def __init__(self, federation, size=5, number=1, names=NAMES) -> None:
        self.agreement = Agreement("0" * 32, number, names, size, BITS)
        self.collector = Collector(self.agreement, federation.verdict)
        self.members = {name: Member(federation.identities[name], self.agreement, federation.verdict) for name in names}

    @functools.cached_property
    def adverts(self):
        return self.collector.adverts({name: member.advertise() for name, member in self.members.items()})

    @functools.cached_property
    def deals(self):
        return {name: member.deal(self.adverts) for name, member in self.members.items()}

    @functools.cached_property
    def told(self):
        return self.collector.dealt(self.deals)

    def masked(self, values, dropped=()):
        sent = [name for name in values if name not in dropped]
        return {name: self.members[name].mask(self.told[name], values[name]) for name in sent}

    def confirmed(self, masked):
        survivors = self.collector.survivors(list(masked))
        return self.collector.confirmed({name: self.members[name].confirm(survivors) for name in survivors})

    def shares(self, signatures):
        return {name: self.members[name].unmask(signatures) for name in signatures}

    def total(self, masked, shares):
        return sum(masked.values()) + self.collector.correction(shares)


def drawn(seed, size, names=NAMES):
    rng = np.random.default_rng(seed)
    return {name: rng.integers(0, 1 << BITS, size) for name in names}
