import base64
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buildchain.core import reference
from buildchain.store import authentication
from buildchain.store.authentication import Authenticator, Challenge, challenges
from buildchain.store.credentials import Credentials
from buildchain.store.failure import TransferError
from buildchain.store.registry import Endpoint, Registry
from buildchain.store.transport import Transport
from tests.registries import faulty, image_set

BASIC = Challenge("basic", {"realm": "x"})


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", []),
        ("Basic", [Challenge("basic", {})]),
        ('Basic realm="x"', [BASIC]),
        (
            'Bearer realm="https://a.example/t?x=1,2",service="r",scope="repository:a/b:pull,push"',
            [
                Challenge(
                    "bearer",
                    {
                        "realm": "https://a.example/t?x=1,2",
                        "service": "r",
                        "scope": "repository:a/b:pull,push",
                    },
                )
            ],
        ),
        (
            'bearer Realm = "r" , service=s, Basic realm="x"',
            [Challenge("bearer", {"realm": "r", "service": "s"}), BASIC],
        ),
        (r'Basic realm="a \"q\" \\ b"', [Challenge("basic", {"realm": r'a "q" \ b'})]),
        ("Negotiate, Basic realm=x", [Challenge("negotiate", {}), BASIC]),
        ('Bearer realm="open', [Challenge("bearer", {})]),
    ],
)  # fmt: skip
def test_challenges(header, expected):
    assert challenges([header]) == expected


@given(st.text(max_size=60))
def test_challenges_never_hang_or_raise(text):
    assert isinstance(challenges([text, text]), list)


LAYER = b"layer" * 10


@pytest.fixture
def served():
    with faulty.serving() as registry:
        config = image_set.configuration("a", [])
        document = image_set.manifest(config, [(image_set.digest(LAYER), len(LAYER))])
        for name in ("team/a", "team/b"):
            registry.add(name, "1", document, {image_set.digest(LAYER): LAYER})
        yield registry


class Client:
    """A client with the logins of a file."""

    def __init__(self, served, tmp_path, auths: dict | None = None, address: str = "") -> None:
        self.address = address or served.address
        path = tmp_path / "auth.json"
        path.write_text(json.dumps({"auths": {served.address: auths or {}}}))
        self.transport = Transport(plain_http=[self.address])
        self.authenticator = Authenticator(self.transport, Credentials((path,)))
        self.registry = Registry(self.transport, self.authenticator)

    def pull(self, name: str = "team/a") -> str:
        place = reference.parse(f"{self.address}/{name}")
        return self.registry.manifest(Endpoint(f"http://{self.address}", place), "1").digest


@pytest.fixture
def client(served, tmp_path):
    made = []

    def make(auths: dict | None = None) -> Client:
        made.append(Client(served, tmp_path, auths))
        return made[-1]

    yield make
    for client in made:
        client.transport.close()


LOGIN = {"auth": base64.b64encode(b"user:pass").decode()}


def test_basic(served, client):
    served.scheme, served.login = "basic", "user:pass"
    one = client(LOGIN)
    one.pull()
    one.pull()
    assert [r.headers.get("authorization") for r in served.requests] == [
        None, f"Basic {LOGIN['auth']}", f"Basic {LOGIN['auth']}",
    ]  # fmt: skip


def test_a_token_for_each_repository_asked_for_once(served, client):
    served.scheme = "bearer"
    one = client()
    for name in ("team/a", "team/a", "team/b"):
        one.pull(name)
    assert [grant["scope"] for grant in served.granted] == [
        "repository:team/a:pull", "repository:team/b:pull",
    ]  # fmt: skip
    assert served.granted[0]["service"] == "test"
    # one refusal tells that tokens are wanted, for all repositories
    assert served.count("GET", "/manifests/") == 4


def test_the_login_buys_the_token_and_is_not_sent_elsewhere(served, client):
    served.scheme, served.login = "bearer", "user:pass"
    client(LOGIN).pull()
    for request in served.requests:
        sent = request.headers.get("authorization", "")
        assert sent.startswith("Basic ") == request.path.startswith("/token")


def test_identity_token(served, client):
    served.scheme, served.login = "bearer", "user:pass"
    client({"identitytoken": "identity"}).pull()
    assert served.granted[0]["grant_type"] == "refresh_token"


def test_an_identity_token_does_not_follow_a_redirection(served, client):
    served.scheme, served.login, served.elsewhere = "bearer", "user:pass", "http://127.0.0.1:1"
    served.fault = lambda request: "redirect" if request.method == "POST" else ""
    with pytest.raises(TransferError, match="redirects a request with a login to another host"):
        client({"identitytoken": "identity"}).pull()


def test_a_token_that_ended_is_replaced(served, client, monkeypatch):
    monkeypatch.setattr(authentication, "EARLY", 1000.0)
    served.scheme, served.lifetime = "bearer", 1
    one = client()
    one.pull()
    time.sleep(0.6)  # half of its life
    one.pull()
    assert len(served.granted) == 2
    assert served.count("GET", "/manifests/") == 3, "replaced before it was refused"


def test_a_token_that_the_registry_forgot_is_replaced(served, client):
    served.scheme = "bearer"
    one = client()
    one.pull()
    served.tokens.clear()
    served.tokens["other"] = ""
    one.pull()
    assert len(served.granted) == 2


@pytest.mark.parametrize(
    ("scheme", "login", "auths", "reason"),
    [
        ("basic", "user:pass", {}, r"wants a login and there is none \(team/a\)"),
        (
            "basic",
            "user:other",
            LOGIN,
            r"does not accept the login \(team/a\); log in with skopeo login, or point "
            "REGISTRY_AUTH_FILE",
        ),
        ("bearer", "user:other", LOGIN, r"gives no token for it \(team/a\)"),
        ("bearer", "user:other", {}, r"gives no token for it \(team/a\)"),
    ],
)
def test_denied(served, client, scheme, login, auths, reason):
    served.scheme, served.login = scheme, login
    with pytest.raises(TransferError, match=reason) as caught:
        client(auths).pull()
    assert not caught.value.passing
    assert "pass" not in caught.value.reason.replace("password", "")


def test_denied_without_a_challenge(served, client):
    served.fault = lambda _request: "403"
    with pytest.raises(TransferError, match="answers 403") as caught:
        client().pull()
    assert not caught.value.passing


def test_damaged_token(served, client, monkeypatch):
    served.scheme = "bearer"
    monkeypatch.setattr(
        faulty.Handler, "_token", lambda handler, _query: handler._send(200, b"[]", {})
    )
    with pytest.raises(TransferError, match="gave no token"):
        client().pull()
