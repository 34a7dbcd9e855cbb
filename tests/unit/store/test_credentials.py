import base64
import json

import pytest

from buildchain.core import reference
from buildchain.core.errors import ConfigError
from buildchain.store.credentials import Credentials, Login, standard_files

APP = reference.parse("r.example:5000/team/app")


def entry(pair: str) -> dict[str, str]:
    return {"auth": base64.b64encode(pair.encode()).decode()}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({}, None),
        ({"auths": {}}, None),
        ({"auths": {"other.example": entry("u:p")}}, None),
        ({"auths": {"r.example:5000": entry("u:p:q")}}, Login("u", "p:q")),
        ({"auths": {"https://r.example:5000/v1/": entry("u:p")}}, Login("u", "p")),
        ({"auths": {"http://r.example:5000": entry("u:p")}}, Login("u", "p")),
        (
            {"auths": {"r.example:5000": entry("u:p"), "r.example:5000/team": entry("t:p")}},
            Login("t", "p"),
        ),
        ({"auths": {"r.example:5000/te": entry("t:p")}}, None),
        ({"auths": {"r.example:5000/team/app": entry("t:p\0\0")}}, Login("t", "p")),
        ({"auths": {"r.example:5000": {"identitytoken": "x"}}}, Login(identity_token="x")),
        ({"auths": {"r.example:5000": {}}}, None),
        ({"credHelpers": {"r.example:5000": "vault"}}, Login("helped", "vault r.example:5000")),
        (
            {"auths": {"r.example:5000": {}}, "credsStore": "store"},
            Login("helped", "store r.example:5000"),
        ),
        ({"credsStore": "empty"}, None),
        ({"credsStore": "token"}, Login(identity_token="id")),
    ],
)
def test_find(tmp_path, document, expected):
    def helper(name: str, server: str) -> str:
        if name == "empty":
            return ""
        if name == "token":
            return '{"Username": "<token>", "Secret": "id"}'
        return json.dumps({"Username": "helped", "Secret": f"{name} {server}"})

    path = tmp_path / "auth.json"
    path.write_text(json.dumps(document))
    assert Credentials((tmp_path / "none", path), helper).find(APP) == expected


def test_the_first_file_that_has_it_wins(tmp_path):
    for name, pair in (("a", None), ("b", "b:1"), ("c", "c:1")):
        auths = {"r.example:5000": entry(pair)} if pair else {"x.example": entry("x:1")}
        (tmp_path / name).write_text(json.dumps({"auths": auths}))
    files = tuple(tmp_path / name for name in "abc")
    assert Credentials(files).find(APP) == Login("b", "1")


@pytest.mark.parametrize(
    "content",
    [
        "secret{",
        "[]",
        '{"auths": {"r.example:5000": {"auth": "secret!"}}}',
        '{"auths": {"r.example:5000": {"auth": "c2VjcmV0"}}}',
        '{"auths": ["secret"]}',
        '{"auths": {"r.example:5000": "secret"}}',
    ],
)
def test_a_damaged_file_is_named_and_not_shown(tmp_path, content):
    path = tmp_path / "auth.json"
    path.write_text(content)
    with pytest.raises(ConfigError) as caught:
        Credentials((path,)).find(APP)
    assert str(path) in caught.value.reason
    assert "secret" not in caught.value.friendly()


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        Credentials((tmp_path,)).find(APP)


def test_nothing_secret_in_a_repr():
    assert "secret" not in repr(Login("u", "secret", "secret"))


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"REGISTRY_AUTH_FILE": "/a.json", "HOME": "/h"}, ["/a.json"]),
        ({"HOME": "/h"}, ["/h/.config/containers/auth.json", "/h/.docker/config.json"]),
        (
            {"HOME": "/h", "XDG_RUNTIME_DIR": "/r", "XDG_CONFIG_HOME": "/c", "DOCKER_CONFIG": "/d"},
            ["/r/containers/auth.json", "/c/containers/auth.json", "/d/config.json"],
        ),
    ],
)
def test_standard_files(environ, expected):
    assert [str(path) for path in standard_files(environ)] == expected
