"""What the programs of the control plane are told, as their manifests say it."""

from __future__ import annotations

import re

import pytest

from .loader import STATES

COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


def flags(component: str) -> dict[str, str]:
    """Return the flags of a component; what a template makes of a value is left as it is."""
    text = (STATES / f"metalk8s/{component}/files/manifest.yaml.j2").read_text(encoding="utf-8")
    return dict(re.findall(r"(?m)^ +- --([a-z-]+)=(.+)$", text))


@pytest.mark.parametrize("component", COMPONENTS)
def test_nobody_profiles(component: str) -> None:
    """What is in memory, Secrets among it, is nobody's to read over the network."""
    assert flags(component)["profiling"] == "false"


@pytest.mark.parametrize("component", COMPONENTS)
def test_flags_are_sorted(component: str) -> None:
    assert list(flags(component)) == sorted(flags(component))


def test_only_authenticators_that_somebody_uses() -> None:
    """Certificates, the front proxy, accounts of pods; machines do not join by bootstrap tokens."""
    found = flags("kube-apiserver")
    authenticators = {
        name
        for name in found
        if re.match("client-ca|requestheader-client|service-account-key|.*token|oidc|basic", name)
    }
    assert authenticators == {
        "client-ca-file",
        "requestheader-client-ca-file",
        "service-account-key-file",
    }
    controllers = flags("kube-controller-manager")["controllers"].split(",")
    assert controllers[0] == "*", "no keepers of such tokens, which `*` leaves out"
    assert all(name.startswith("-") for name in controllers[1:])
