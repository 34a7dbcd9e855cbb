import dataclasses
import re
from pathlib import Path

import pytest

from buildchain.core import process
from buildchain.core.errors import ConfigError
from buildchain.machine import host
from buildchain.medium import iso
from buildchain.project import config, git
from buildchain.project.model import Image, Tool
from buildchain.pulls import skopeo
from tests.conftest import ROOT

HEX = "0123456789abcdef" * 4


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return the least that is a checkout for the settings."""
    for profile in ("default", "upstream"):
        folder = tmp_path / "checkout" / "buildchain" / "pins" / profile
        folder.mkdir(parents=True)
        (folder / "profile.toml").touch()
    return tmp_path / "checkout"


def test_defaults(checkout, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = config.load(checkout, {})
    assert settings.project_name == "MetalK8s"
    assert settings.build_root == checkout / "_build"
    assert settings.cache_root == tmp_path / ".cache" / "metalk8s"
    assert settings.profile == "default"
    assert settings.base_image == ""
    assert settings.source_date_epoch is None
    assert settings.vagrant_snapshot_name == "bootstrap.autosnapshot"


@pytest.mark.parametrize(
    ("variable", "value", "field", "expected"),
    [
        ("PROJECT_NAME", "Acme-2", "project_name", "Acme-2"),
        ("BUILD_ROOT", "/elsewhere/b", "build_root", Path("/elsewhere/b")),
        ("CACHE_ROOT", "/elsewhere/c", "cache_root", Path("/elsewhere/c")),
        ("PROFILE", "upstream", "profile", "upstream"),
        ("BASE_IMAGE", f"reg:5000/a/b@sha256:{HEX}", "base_image", f"reg:5000/a/b@sha256:{HEX}"),
        ("SIGNING_KEY", "ab" * 20, "signing_key", "AB" * 20),
        ("SIGNING_KEY", f" {'ab' * 20}  {'CD' * 20}", "signing_key", f"{'AB' * 20} {'CD' * 20}"),
        ("SOURCE_DATE_EPOCH", "315532800", "source_date_epoch", 315532800),
        ("SOURCE_DATE_EPOCH", "4294967295", "source_date_epoch", 4294967295),
        ("SOURCE_DATE_EPOCH", "1700000000", "source_date_epoch", 1700000000),
        ("REGISTRY_MIRRORS", "", "registry_mirrors", ()),
        (
            "REGISTRY_MIRRORS",
            "r.example=https://m:5/a/b r:5=http://m",
            "registry_mirrors",
            ("r.example=https://m:5/a/b", "r:5=http://m"),
        ),
        (
            "PLAIN_HTTP_REGISTRIES",
            "127.0.0.1:5000 [::1]:5 r.example",
            "plain_http_registries",
            ("127.0.0.1:5000", "[::1]:5", "r.example"),
        ),
        ("REGISTRY_AUTH_FILE", __file__, "registry_auth_file", Path(__file__)),
        ("SIGNATURE_POLICY", __file__, "signature_policy", Path(__file__)),
        ("VAGRANT_PROVIDER", "libvirt", "vagrant_provider", "libvirt"),
        ("VAGRANT_UP_ARGS", "--provision 'a b'", "vagrant_up_args", ("--provision", "a b")),
        ("VAGRANT_SNAPSHOT_NAME", "mine.1", "vagrant_snapshot_name", "mine.1"),
    ],
)
def test_values(checkout, variable, value, field, expected):
    assert getattr(config.load(checkout, {variable: value}), field) == expected


def test_relative_folders_are_below_the_checkout(checkout):
    settings = config.load(checkout, {"BUILD_ROOT": "out/b", "CACHE_ROOT": "out/c"})
    assert settings.build_root == checkout / "out" / "b"
    assert settings.cache_root == checkout / "out" / "c"


def test_an_empty_variable_means_the_default(checkout):
    assert config.load(checkout, {"PROJECT_NAME": ""}).project_name == "MetalK8s"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PROJECT_NAME", "-leads"),
        ("PROJECT_NAME", "seventeen-letters"),
        ("PROJECT_NAME", "a/b"),
        ("PROJECT_NAME", "a b"),
        ("BUILD_ROOT", " "),
        ("PROFILE", "defualt"),
        ("PROFILE", "../default"),
        ("BASE_IMAGE", "debian:12"),
        ("BASE_IMAGE", "debian@sha256:1234"),
        ("SIGNING_KEY", "12345678"),
        ("SOURCE_DATE_EPOCH", "yesterday"),
        ("SOURCE_DATE_EPOCH", "-1"),
        ("SOURCE_DATE_EPOCH", "0"),
        ("SOURCE_DATE_EPOCH", "315532799"),
        ("SOURCE_DATE_EPOCH", "4294967296"),
        ("SOURCE_DATE_EPOCH", "99999999999"),
        ("SOURCE_DATE_EPOCH", "１７００００００００"),
        ("REGISTRY_MIRRORS", "r.example"),
        ("REGISTRY_MIRRORS", "r.example=m.example"),
        ("REGISTRY_MIRRORS", "r.example=https://user:secret@m.example"),
        ("PLAIN_HTTP_REGISTRIES", "http://r.example"),
        ("REGISTRY_AUTH_FILE", "/nonexistent"),
        ("SIGNATURE_POLICY", "/"),
        ("VAGRANT_PROVIDER", "hyperv"),
        ("VAGRANT_UP_ARGS", "--name 'open quote"),
        ("VAGRANT_SNAPSHOT_NAME", "a/b"),
    ],
)
def test_a_bad_value_is_named_with_what_is_expected(checkout, variable, value):
    with pytest.raises(ConfigError, match=re.escape(f"{variable}={value}: expected ")) as caught:
        config.load(checkout, {variable: value})
    assert ";" not in caught.value.reason, "one problem"


def test_all_problems_are_named_at_once(checkout):
    (checkout / ".env").write_text("export PROJET_NAME=x\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        config.load(checkout, {"VAGRANT_PROVIDER": "x", "SIGNING_KEY": "y", "PROFILE": "z"})
    reason = caught.value.reason
    for word in ("PROJET_NAME", "VAGRANT_PROVIDER=x", "SIGNING_KEY=y", "PROFILE=z"):
        assert word in reason


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (
            "export PROJET_NAME=x",
            ".env line 2: PROJET_NAME is not an option (did you mean PROJECT_NAME?)",
        ),
        (
            "SKOPEO_BINARY=x",
            ".env line 2: SKOPEO_BINARY is not an option (did you mean SKOPEO_BIN?)",
        ),
        ("  export QQQQ=x", ".env line 2: QQQQ is not an option"),
    ],
)
def test_unknown_name_in_env_file(checkout, line, problem):
    (checkout / ".env").write_text(f"# a comment=1\n{line}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        config.load(checkout, {})
    assert caught.value.reason == problem


@pytest.mark.parametrize("name", ["DOCKER_BNI", "VAGRANT_PROVIDRE", "DOCKER_BIN_"])
def test_a_misspelt_option_is_none_that_is_passed_on(checkout, name):
    (checkout / ".env").write_text(f"{name}=x\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"{name} is not an option \(did you mean "):
        config.load(checkout, {})


def test_control_characters_in_a_value_are_shown(checkout):
    with pytest.raises(ConfigError, match=r"LOCK_POLICY=strict\\x0d: expected one of"):
        config.load(checkout, {"LOCK_POLICY": "strict\r"})
    with pytest.raises(ConfigError, match=r"CACHE_ROOT=\\x09: expected a value"):
        config.load(checkout, {"CACHE_ROOT": "\t"})


def test_every_variable_that_processes_get_may_stand_in_env_file(checkout):
    """Not those that each environment has anyway, as it would win."""
    names = [*process.KEPT, "DOCKER_HOST", "VAGRANT_HOME", "SSL_CERT_DIR", "PIP_INDEX_URL"]
    names += ["GNUPGHOME", "https_proxy", "ALL_PROXY", "ftp_proxy", "NO_COLOR", "CI", "PYTHON"]
    names = [name for name in names if name not in {"PATH", "HOME", "USER", "LOGNAME"}]
    (checkout / ".env").write_text("".join(f"{name}=x\n" for name in names), encoding="utf-8")
    config.load(checkout, {})
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    for name in ("GNUPGHOME", "TMPDIR", "XDG_RUNTIME_DIR", "VAGRANT_HOME", "NO_COLOR", "PYTHON"):
        assert name in example


def test_an_env_file_that_cannot_be_read(checkout):
    (checkout / ".env").mkdir()
    with pytest.raises(ConfigError, match=r"\.env cannot be read \(Is a directory\)"):
        config.load(checkout, {})


def test_names_that_are_passed_on_are_known(checkout):
    lines = ["export PROJECT_NAME=x", "DOCKER_HOST=x", "https_proxy=x", "NO_PROXY=x", "PIP_X=y"]
    lines += ["#export NOTHING=1", "if true; then echo; fi"]
    (checkout / ".env").write_text("\n".join(lines), encoding="utf-8")
    config.load(checkout, {})


# Option to a function that gives the argument list in which it must come first.
TOOL = Tool("name", "package", "reason", ("build",), version=("--version",))
USES = {
    "DOCKER_BIN": lambda settings: [host.command_of(_tool("docker"), settings)],
    "GIT_BIN": lambda settings: git.argv_for_describe(settings.binary("git"), Path("/r")),
    "GOFMT_BIN": lambda settings: [host.command_of(_tool("gofmt"), settings)],
    "HARDLINK_BIN": lambda settings: [settings.binary("hardlink")],
    "MKISOFS_BIN": lambda settings: iso.argv_for_iso(
        settings.binary("mkisofs"), Path("/r"), Path("/o"),
        volume_id="V", epoch=0, reproducible=True),
    "OPERATOR_SDK_BIN": lambda settings: [host.command_of(_tool("operator-sdk"), settings)],
    "SKOPEO_BIN": lambda settings: skopeo.argv_for_export(
        settings.binary("skopeo"), "a:1", Path("/o")),
    "VAGRANT_BIN": lambda settings: [host.command_of(_tool("vagrant"), settings)],
}  # fmt: skip


def _tool(option: str) -> Tool:
    return dataclasses.replace(TOOL, option=option)


def test_every_program_option_has_a_use():
    assert {o.name for o in config.OPTIONS if o.name.endswith("_BIN")} == set(USES)


@pytest.mark.parametrize("option", sorted(USES))
def test_program_options_reach_the_command_line(checkout, option):
    settings = config.load(checkout, {option: "/opt/mine"})
    assert USES[option](settings)[0] == "/opt/mine"


def test_every_tool_option_of_the_pins_exists(root):
    from buildchain.project import catalog

    settings = config.load(root, {})
    for tool in catalog.tools(root):
        if tool.option:
            assert settings.binary(tool.option)


def test_example_lists_every_option(root):
    """``.env.example``: a help line above each ``export NAME=default``, commented or not."""
    text = (root / ".env.example").read_text(encoding="utf-8")
    found = dict(re.findall(r"^#? ?export ([A-Z_]+)=(.*)$", text, re.MULTILINE))
    assert list(found) == [option.name for option in config.OPTIONS]
    for option in config.OPTIONS:
        assert found[option.name].strip("'\"") == option.default, option.name
        assert option.help in re.sub(r"\n# ", " ", text), f"the help of {option.name}"


def test_records_of_the_pins_are_frozen(checkout):
    settings = config.load(checkout, {})
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.profile = "other"
    with pytest.raises(dataclasses.FrozenInstanceError):
        Image("a", "1", "A", "MIT").name = "b"
