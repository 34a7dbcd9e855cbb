"""Whatever changed before, the records are those of the objects that there are."""

from __future__ import annotations

from ipaddress import IPv4Address

from hypothesis import given
from hypothesis import strategies as st
from metalk8s_dns import objects, records
from metalk8s_dns.catalog import Catalog
from test_records import clusters

DOMAIN, SERVER = "cluster.local.", IPv4Address("10.96.0.10")
REVERSE = ("96.10.in-addr.arpa.", "233.10.in-addr.arpa.")


def read(cluster):
    """Return the objects of a cluster by their names, as a watch would."""
    services, behind, pods = cluster
    key = "{namespace}/{name}".format_map
    found = (
        {key(one["metadata"]): objects.service(one) for one in services},
        {key(one["metadata"]): objects.endpoints(one) for one in behind},
        {str(number): objects.pod(one) for number, one in enumerate(pods)},
    )
    return [{name: one for name, one in some.items() if one is not None} for some in found]


def anew(services, behind, pods):
    found = {*records.of_domain(DOMAIN, SERVER)}
    for zone in REVERSE:
        found |= {*records.of_reverse_zone(zone, DOMAIN)}
    for name, one in services.items():
        found |= {*records.of_service(one, behind.get(name) or (), DOMAIN).records}
    for one in pods.values():
        found |= {*records.of_pod(one, DOMAIN)}
    return {
        zone: {record for record in found if record.owner.endswith((f".{zone}", zone))}
        for zone in (DOMAIN, *REVERSE)
    }


@given(st.lists(clusters(), min_size=1, max_size=4))
def test_after_any_changes(history):
    catalog = Catalog(DOMAIN, SERVER, REVERSE)
    for cluster in history:
        seen = read(cluster)
        assert catalog.update(*seen) == anew(*seen)
        rest = [{name: one for name, one in some.items() if len(name) % 2} for some in seen]
        assert catalog.update(*rest) == anew(*rest)
        assert catalog.update(*seen) == anew(*seen)
