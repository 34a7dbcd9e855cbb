"""Where secrets travel: a login reaches its registry and the realm that this one named."""

import base64
import contextlib
import itertools
import json
import ssl
import subprocess

import pytest

from buildchain.core import reference
from buildchain.core.errors import ContentError
from buildchain.store import manifest
from buildchain.store.authentication import Authenticator
from buildchain.store.credentials import Credentials
from buildchain.store.failure import TransferError
from buildchain.store.registry import PAGES, Endpoint, Registry
from buildchain.store.transport import Transport
from tests.registries import image_set, web

CONFIG = image_set.configuration("a", [])
DOCUMENT = image_set.manifest(CONFIG, [])
KIND = {"Content-Type": json.loads(DOCUMENT)["mediaType"]}
PROXY_SECRET = "secret-of-the-proxy"


@pytest.fixture(scope="module")
def authority(tmp_path_factory, require):
    """A certificate of ``localhost`` and a server's context with it."""
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = folder / "key.pem", folder / "ca.crt"
    subprocess.run(
        [require("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt",
         "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", certificate,
         "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    return certificate, context


class Web:
    """Everybody there is, and what a client of theirs is made of."""

    def __init__(self, stack, folder, authority):
        certificate, context = authority
        names = ("registry", "mirror", "cdn", "realm", "evil", "proxy")
        self.places = {name: stack.enter_context(web.open_place(name)) for name in names}
        for name in ("secure registry", "secure realm"):
            self.places[name] = stack.enter_context(web.open_place(name, context))
        self.folder, self.plain = folder, [p.address for p in self.places.values()]
        self.certificates = folder / "certs.d"
        for place in self.places.values():
            (self.certificates / place.address).mkdir(parents=True)
            (self.certificates / place.address / "ca.crt").write_bytes(certificate.read_bytes())

    def __getitem__(self, name):
        return self.places[name]

    def forget(self):
        for place in self.places.values():
            place.said.clear()
            place.reply = lambda _said: (404, {}, b"")

    @contextlib.contextmanager
    def client(self, kind, *, proxied=False):
        """Provide a client with a login for each registry; ``kind`` of login."""
        with self.clients(kind, proxied=proxied) as make:
            yield make()

    @contextlib.contextmanager
    def clients(self, kind, *, proxied=False):
        """Provide a maker of clients that know nothing of each other but their connections."""
        auths = {}
        for name in ("registry", "secure registry", "mirror"):
            secret = f"secret-of-the-{name.replace(' ', '-')}"
            pair = base64.b64encode(f"user:{secret}".encode()).decode()
            login = {"auth": pair} if kind == "password" else {"identitytoken": secret}
            auths[self[name].address] = login
        path = self.folder / "auth.json"
        path.write_text(json.dumps({"auths": auths}))
        environ = {"http_proxy": f"http://user:{PROXY_SECRET}@{self['proxy'].address}"}
        transport = Transport(
            plain_http=self.plain, environ=environ if proxied else {},
            certificates=[self.certificates],
        )  # fmt: skip
        try:
            credentials = Credentials((path,))
            yield lambda: Registry(transport, Authenticator(transport, credentials))
        finally:
            transport.close()

    def endpoint(self, name):
        place = self[name]
        return Endpoint(place.url, reference.parse(f"{place.address}/team/app"))

    def heard(self, secret):
        """Return the names of those who heard a secret."""
        return {
            name for name, place in self.places.items()
            for said in place.said if secret in said.words
        }  # fmt: skip


@pytest.fixture(scope="module")
def everybody(tmp_path_factory, authority):
    with contextlib.ExitStack() as stack:
        yield Web(stack, tmp_path_factory.mktemp("web"), authority)


def asking(realm):
    """Refuse, with a way in: Basic, or Bearer of a realm."""
    challenge = f'Bearer realm="{realm}/token",service="x"' if realm else 'Basic realm="x"'
    return 401, {"WWW-Authenticate": challenge}, b""


def to(place):
    return lambda _said: (307, {"Location": f"{place.url}/v2/team/app/manifests/1"}, b"")


def granting(token):
    body = json.dumps({"token": token, "expires_in": 300}).encode()
    return lambda _said: (200, {}, body)


SERVED = (200, KIND, DOCUMENT)
LOGINS = ("password", "identity token")
WAYS = ("plain", "proxy", "tls")
SCHEMES = ("basic", "realm", "realm sends on", "realm asks", "downgrade", "the realm is evil")
TARGETS = ("here", "cdn", "cdn asks basic", "cdn names evil", "cdn names the realm", "back",
           "cdn sends to evil")  # fmt: skip


def behave(everybody, way, scheme, target, asks_first):
    """Tell everybody how to behave; return the registry's name, and its realm's."""
    registry = "secure registry" if way == "tls" else "registry"
    realm = "secure realm" if way == "tls" and scheme != "downgrade" else "realm"
    realm = "evil" if scheme == "the realm is evil" and way != "tls" else realm
    evil, cdn = everybody["evil"], everybody["cdn"]
    wanted = "" if scheme == "basic" else everybody[realm].url
    content = (lambda _said: SERVED) if target == "here" else to(cdn)

    def reply(said):
        admitted = said.authorization.startswith("Basic " if scheme == "basic" else "Bearer of-r")
        if admitted or (target != "here" and not asks_first):
            return content(said)
        return asking(wanted)

    everybody[registry].reply = reply
    everybody[realm].reply = {
        "realm sends on": to(evil),
        "realm asks": lambda _said: asking(evil.url),
    }.get(scheme, granting("of-r"))
    cdn.reply = {
        "cdn asks basic": lambda _said: asking(""),
        "cdn names evil": lambda _said: asking(evil.url),
        "cdn names the realm": lambda _said: asking(everybody[realm].url),
        "back": to(everybody[registry]),
        "cdn sends to evil": to(evil),
    }.get(target, lambda _said: SERVED)
    if realm != "evil":
        evil.reply = lambda said: (
            granting("of-evil")(said) if "/token" in said.path else asking(evil.url)
        )
    mirror = everybody["mirror"]
    # The mirror would like to have the registry's login, too.
    mirror.reply = lambda _said: asking(evil.url)
    everybody["proxy"].reply = web.forward
    return registry, realm


@pytest.mark.parametrize("login", LOGINS)
@pytest.mark.parametrize("way", WAYS)
def test_no_secret_goes_astray(everybody, login, way):
    leaks, pulled = [], 0
    with everybody.clients(login, proxied=way == "proxy") as make:
        for scheme, target, asks_first in itertools.product(SCHEMES, TARGETS, (True, False)):
            everybody.forget()
            registry, realm = behave(everybody, way, scheme, target, asks_first)
            client = make()
            for name in ("mirror", registry, registry):
                with contextlib.suppress(TransferError, ContentError):
                    client.manifest(everybody.endpoint(name), "1")
                    pulled += 1
            leaks += [
                (scheme, target, asks_first, secret, who)
                for secret, friends in friends_of(way, scheme, registry, realm).items()
                if (who := everybody.heard(secret) - friends)
            ]
    assert leaks == []
    assert pulled > 20, "some of these behave well"


def friends_of(way, scheme, registry, realm):
    """Return who may hear what."""
    # A proxy hears what is said in the clear.
    proxies = {"proxy"} if way == "proxy" else set()
    realms = set() if scheme == "basic" or (scheme, way) == ("downgrade", "tls") else {realm}
    return {
        f"secret-of-the-{registry.replace(' ', '-')}": {registry, *realms, *proxies},
        # One who is the realm of both grants both the same.
        "Bearer of-r": {registry, *proxies, *({"mirror"} if realm == "evil" else ())},
        "secret-of-the-mirror": {"mirror", "evil", *proxies},
        "Bearer of-evil": {"mirror", *proxies},
        PROXY_SECRET: proxies,
    }


@pytest.mark.parametrize("login", LOGINS)
@pytest.mark.parametrize("way", WAYS)
def test_who_behaves_well_is_pulled_from(everybody, login, way):
    everybody.forget()
    registry, realm = behave(everybody, way, "realm", "cdn", asks_first=True)
    with everybody.client(login, proxied=way == "proxy") as client:
        found = client.manifest(everybody.endpoint(registry), "1")
    assert found.digest == image_set.digest(DOCUMENT)
    assert realm in everybody.heard(f"secret-of-the-{registry.replace(' ', '-')}")
    assert (everybody.heard(PROXY_SECRET) == {"proxy"}) == (way == "proxy")


@pytest.mark.parametrize("target", ["cdn asks basic", "cdn names evil", "cdn names the realm"])
def test_a_challenge_from_elsewhere_is_an_answer_and_no_more(everybody, target):
    """The class of CVE-2020-15157."""
    everybody.forget()
    behave(everybody, "plain", "realm", target, asks_first=False)
    cdn = everybody["cdn"].address
    with (
        everybody.client("password") as client,
        pytest.raises(TransferError, match=f"^{cdn} answers 401") as caught,
    ):
        client.manifest(everybody.endpoint("registry"), "1")
    assert not caught.value.passing
    assert everybody["evil"].said == everybody["realm"].said == []


def test_a_realm_without_tls_is_refused_to_a_registry_with_it(everybody):
    everybody.forget()
    behave(everybody, "tls", "downgrade", "here", asks_first=True)
    with (
        everybody.client("password") as client,
        pytest.raises(TransferError, match=r"wants the login for it sent to http://.*without TLS"),
    ):
        client.manifest(everybody.endpoint("secure registry"), "1")
    assert everybody["realm"].said == []


@pytest.mark.parametrize("token", ["", 1, "a\r\nX-Injected: 1", "a b", "\u00fc"])
def test_a_token_that_is_none(everybody, token):
    everybody.forget()
    behave(everybody, "plain", "realm", "here", asks_first=True)
    everybody["realm"].reply = granting(token)
    with (
        everybody.client("password") as client,
        pytest.raises(TransferError, match="gave no token"),
    ):
        client.manifest(everybody.endpoint("registry"), "1")


def page(link, number):
    """Return a page of referrers that goes on at ``link``."""
    entry = {"mediaType": "x/y", "digest": f"sha256:{number:064x}", "size": 1}
    document = {"schemaVersion": 2, "mediaType": manifest.OCI_INDEX, "manifests": [entry]}
    fields = {"Content-Type": manifest.OCI_INDEX}
    if link:
        fields["Link"] = f'<{link}>; rel="next"'
    return 200, fields, json.dumps(document).encode()


LINKS = {
    "itself": lambda _number, _web: "?n=0",
    "a circle": lambda number, _web: f"?n={(number + 1) % 3}",
    "ever further": lambda number, _web: f"?n={number + 1}",
    "elsewhere": lambda number, web: f"{web['evil'].url}/v2/team/app/referrers/x?n={number + 1}",
    "without TLS": lambda number, web: f"{web['registry'].url}/v2/team/app/x?n={number + 1}",
    "another host's name": lambda number, web: f"//{web['evil'].address}/x?n={number + 1}",
    "nowhere": lambda _number, _web: "http://[::1",
    "an end": lambda number, _web: f"?n={number + 1}" if number < 5 else "",
}


@pytest.mark.parametrize(
    ("login", "scheme"), [("password", "basic"), ("password", "realm"), ("identity token", "realm")]
)
@pytest.mark.parametrize("kind", LINKS)
def test_pages_end_and_tell_nobody(everybody, login, scheme, kind):
    everybody.forget()
    name, realm = behave(everybody, "tls", scheme, "here", asks_first=True)
    admitted = everybody[name].reply

    def reply(said):
        answer = admitted(said)
        if answer[0] != 200 or "/referrers/" not in said.path:
            return answer
        number = int(said.path.partition("n=")[2] or 0)
        return page(LINKS[kind](number, everybody), number)

    everybody[name].reply = reply
    digest = f"sha256:{'0' * 64}"
    with everybody.client(login) as client:
        if kind == "an end":
            assert len(client.referrers(everybody.endpoint(name), digest)) == 6
        else:
            with pytest.raises(TransferError, match=r"has no end|elsewhere|no address") as caught:
                client.referrers(everybody.endpoint(name), digest)
            assert not caught.value.passing
    assert len(everybody[name].said) <= PAGES + 2
    leaks = {s: everybody.heard(s) - f for s, f in friends_of("tls", scheme, name, realm).items()}
    assert not any(leaks.values()), leaks
