"""What masters share: who gets it, and that nobody on the way can read it."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from .loader import load

SECRET = "-----BEGIN RSA PRIVATE KEY-----\nétrange\n"
ROLES = {"master": ["etcd", "master"], "worker": ["node"], "gone": []}


def module(folder: pathlib.Path, **known: Any) -> Any:
    """Load the module for a machine, with what its policies say."""

    def roles_of(minion: str) -> list[str]:
        if minion not in ROLES:
            raise LookupError("no node can have that name")
        return ROLES[minion]

    found = load("_modules/metalk8s_secrets", salt={"metalk8s_certificates.roles_of": roles_of})
    found.POLICIES = str(folder / f"policies-{len(list(folder.iterdir()))}.yaml")
    pathlib.Path(found.POLICIES).write_text(json.dumps(known), encoding="utf-8")
    return found


@pytest.fixture
def keeper(tmp_path: pathlib.Path) -> Any:
    """Return the machine that has the secrets."""
    (tmp_path / "sa.key").write_text(SECRET, encoding="utf-8")
    secrets = {
        "service_accounts": {"path": str(tmp_path / "sa.key"), "roles": ["master"]},
        "lost": {"path": str(tmp_path / "lost"), "roles": ["master"]},
    }
    return module(tmp_path, secrets=secrets)


def asking(folder: pathlib.Path, keeper: Any, minion: str, passed: list[Any]) -> Any:
    """Return a machine that asks the keeper, through a master that keeps what it passes on."""
    found = module(folder, signer="first")

    def publish(target: str, function: str, words: list[Any], timeout: int) -> dict[str, Any]:
        assert (target, function) == ("first", "metalk8s_secrets.hand_to_minion")
        assert timeout
        answer = keeper.hand_to_minion(*words, __pub_id=minion, __pub_jid="1")
        passed.extend((words, answer))
        return {"first": answer}

    found.__salt__["publish.publish"] = publish
    return found


def test_masters_get_it_and_nobody_reads_it_on_the_way(tmp_path: pathlib.Path, keeper: Any) -> None:
    passed: list[Any] = []
    master = asking(tmp_path, keeper, "master", passed)
    assert master.ask("service_accounts") == {"text": SECRET}
    assert master.ask("service_accounts") == {"text": SECRET}
    said = json.dumps(passed, ensure_ascii=False)
    assert SECRET not in said
    assert "étrange" not in said
    assert passed[1] != passed[3], "a key for each request"


@pytest.mark.parametrize(
    ("minion", "name", "why"),
    [
        ("worker", "service_accounts", "it is for the roles master, the machine's: node"),
        ("gone", "service_accounts", "it is for the roles master, the machine's: none"),
        ("../master", "service_accounts", "no node can have that name"),
        ("master", "everything", "there is no such secret"),
        ("master", "lost", "it cannot be read: No such file or directory"),
    ],
)
def test_others_get_a_sentence(
    tmp_path: pathlib.Path, keeper: Any, minion: str, name: str, why: str
) -> None:
    answer = asking(tmp_path, keeper, minion, []).ask(name)
    assert answer == {"refused": f"{minion} does not get the secret {name}: {why}"}


SHORT = """-----BEGIN PUBLIC KEY-----
MFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAKj34GkxFhD90vcNLYLInFEX6Ppy1tPf
9Cnzj4p4WGeKLs1Pt8QuKUpRKfFLfRYC9AIKjbJTWit+CqvjWYzvQwECAwEAAQ==
-----END PUBLIC KEY-----
"""


@pytest.mark.parametrize("key", ["", "/etc/kubernetes/pki/sa.key", SHORT, "é", 5, None, ["a"]])
def test_only_for_a_key_that_protects_it(keeper: Any, key: Any) -> None:
    answer = keeper.hand_to_minion("service_accounts", key, __pub_id="master")
    assert answer["refused"].endswith("what it sent is no public RSA key in PEM")


def test_the_master_says_who_asks(keeper: Any) -> None:
    """A minion cannot: what it sends along is refused, and without a publication nobody asks."""
    for wishes in (
        {"minion": "master", "__pub_id": "worker"},
        {"path": "/etc", "__pub_id": "master"},
    ):
        answer = keeper.hand_to_minion("service_accounts", SHORT, **wishes)
        assert answer["refused"].endswith("only its name and a key may be sent")
    assert "refused" in keeper.hand_to_minion("service_accounts", SHORT)


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ({}, "first did not hand over the secret service_accounts through the Salt master"),
        (None, "first did not hand over the secret service_accounts through the Salt master"),
        ({"first": "no such function"}, "service_accounts: no such function"),
        ({"first": {"key": "AAAA", "text": "x"}}, "cannot be decrypted"),
        ({"first": {}}, "cannot be decrypted"),
    ],
)
def test_answers_that_are_none(tmp_path: pathlib.Path, answers: Any, why: str) -> None:
    found = module(tmp_path, signer="first")
    found.__salt__["publish.publish"] = lambda *_, **__: answers
    assert why in found.ask("service_accounts")["refused"]


def test_the_keeper_asks_nobody(keeper: Any) -> None:
    assert keeper.ask("service_accounts")["refused"].endswith("it does not ask for it")
