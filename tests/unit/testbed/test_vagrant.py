import json
import re

import pytest

from buildchain.core.errors import ConfigError, ToolError
from buildchain.machine import engine as engines
from buildchain.project import config
from buildchain.testbed import vagrant
from buildchain.testbed.vagrant import MACHINE, Bed, MachineError, Machines
from tests.unit.debian.test_base import closure

# A vagrant that remembers the state of one machine and its snapshots, in the folder it runs in.
VAGRANT = """
import pathlib
machine = pathlib.Path(".vagrant/machines/bootstrap")
state, snapshots = pathlib.Path("state"), pathlib.Path("snapshots")
options = [word for word in argv if word.startswith("-")]
if argv[0] == "status":
    now = state.read_text() if state.exists() else "not_created"
    print(f"1,bootstrap,state,{now}")
elif argv[0] == "up":
    provider = argv[argv.index("--provider") + 1]
    (machine / provider).mkdir(parents=True, exist_ok=True)
    (machine / provider / "id").write_text("id-1")
    if "--no-provision" not in options:
        (machine / provider / "action_provision").write_text("1.5:id-1")
    state.write_text("running")
    print("==> bootstrap: Machine booted")
    print("    bootstrap: detail")
    print("==> bootstrap: Running trigger x")
elif argv[0] == "halt":
    state.write_text("poweroff")
elif argv[0] == "destroy":
    state.unlink()
elif argv[:2] == ["snapshot", "save"]:
    snapshots.write_text(argv[-1] + "\\n")
elif argv[:2] == ["snapshot", "list"]:
    print(snapshots.read_text() if snapshots.exists() else "==> no snapshots")
elif argv == ["plugin", "list"]:
    print("vagrant-libvirt (0.11, global)" if state.with_name("plugin").exists() else "")
"""


@pytest.fixture
def machine_of(layout, root, fake_program, monkeypatch):
    """Return a function that gives what starts machines, with these options."""
    fake_program("vagrant", VAGRANT)
    (layout.iso_root).mkdir()

    def make(**options):
        settings = config.load(root, options)
        return Machines(layout, settings, "2.8.0", lambda: "metalk8s-node:1")

    return make


@pytest.fixture
def only(fake_program, monkeypatch):
    """Let PATH have nothing but fakes."""
    monkeypatch.setenv("PATH", str(fake_program.folder))
    return fake_program


def verbs(programs):
    return [" ".join(w for w in argv if not w.startswith("-")) for argv in programs.calls("vagrant")
            if argv[0] != "status" and argv[:2] != ["snapshot", "list"]]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({}, ""),
        ({"VAGRANT_PROVIDER": "libvirt"}, "libvirt"),
        ({"VAGRANT_UP_ARGS": "--provider docker"}, "docker"),
        ({"VAGRANT_UP_ARGS": "--provider=docker", "VAGRANT_PROVIDER": "docker"}, "docker"),
    ],
)
def test_asked_provider(root, options, asked):
    settings = config.load(root, options)
    assert vagrant.asked_provider(settings) == asked
    if asked:
        assert vagrant.may_be_docker(settings) is (asked == "docker")


@pytest.mark.parametrize(
    "options",
    [
        {"VAGRANT_UP_ARGS": "--provider hyperv"},
        {"VAGRANT_UP_ARGS": "--provider docker", "VAGRANT_PROVIDER": "libvirt"},
    ],
)
def test_providers_that_make_no_sense(root, options):
    with pytest.raises(ConfigError, match="VAGRANT_UP_ARGS"):
        vagrant.asked_provider(config.load(root, options))


def test_the_first_provider_there_is(root, only, engine):
    only("vagrant")
    only("docker")
    settings = config.load(root, {})
    assert vagrant.provider(settings) == "docker"
    only("VBoxManage")
    assert vagrant.provider(settings) == "virtualbox"
    assert not vagrant.may_be_docker(settings)
    assert vagrant.provider(config.load(root, {"VAGRANT_PROVIDER": "docker"})) == "docker"


def test_libvirt_needs_its_plugin(root, only):
    only("virsh")
    only("vagrant", output="vagrant-libvirt (0.11, global)\n")
    settings = config.load(root, {"VAGRANT_PROVIDER": "libvirt"})
    assert vagrant.provider(settings) == "libvirt"
    assert only.records("vagrant")[0]["cwd"] == "/"
    only("vagrant")
    with pytest.raises(ToolError, match="libvirt: no plugin vagrant-libvirt"):
        vagrant.provider(settings)


def test_no_provider_at_all(root, only):
    only("vagrant")
    with pytest.raises(ToolError) as caught:
        vagrant.provider(config.load(root, {}))
    assert caught.value.reason == (
        "no machine can be started here (virtualbox: VBoxManage is missing; "
        "libvirt: virsh is missing; docker: docker is missing)"
    )
    only("docker")
    with pytest.raises(ToolError, match="docker: the engine does not answer") as caught:
        vagrant.provider(config.load(root, {"VAGRANT_PROVIDER": "docker"}))
    assert "VAGRANT_PROVIDER" in caught.value.solution


def test_key(layout, require):
    require("ssh-keygen")
    assert not vagrant.has_key(layout)
    vagrant.make_key(layout)
    assert vagrant.has_key(layout)
    key = Bed(layout).key
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.read_text().startswith("-----BEGIN RSA PRIVATE KEY-----")
    assert key.with_suffix(".pub").read_text().strip().endswith("metalk8s nodes")
    assert sorted(p.name for p in key.parent.iterdir()) == [key.name, f"{key.name}.pub"]


def test_node_image(layout, engine):
    closure(layout, "testbed", "systemd")
    folder = Bed(layout).node
    folder.mkdir(parents=True)
    for name in ("Dockerfile", "start.sh", "run.args"):
        (folder / name).write_text(name)
    engine.add_image("base:1")
    with engines.connect("docker") as client:
        first = vagrant.ensure_node_image(layout, client, "base:1")
        assert vagrant.ensure_node_image(layout, client, "base:1") == first
        (folder / "start.sh").chmod(0o755)
        assert vagrant.ensure_node_image(layout, client, "base:1") != first
    (reference, context, arguments), _ = engine.builds
    assert reference == first
    assert first.startswith("metalk8s-node:")
    assert set(context) == {"Dockerfile", "start.sh", "debs/systemd_1_amd64.deb"}
    assert arguments == {"BASE_IMAGE": "base:1"}


def test_a_new_machine_is_saved_before_it_is_provisioned(machine_of, fake_program, recorded):
    fake_program("VBoxManage")
    machines = machine_of(VAGRANT_SNAPSHOT_NAME="mine", VAGRANT_PROVIDER="virtualbox")
    vagrant.up(machines)
    assert verbs(fake_program) == [
        "up virtualbox bootstrap", "snapshot save bootstrap mine", "up virtualbox bootstrap",
    ]  # fmt: skip
    first, _, last = (a for a in fake_program.calls("vagrant") if a[0] in ("up", "snapshot"))
    assert "--no-provision" in first
    assert "--provision" in last
    assert "bootstrap: Machine booted" in recorded.notes
    assert not any("trigger" in note or "detail" in note for note in recorded.notes)
    document = json.loads(machines.bed.settings.read_text())
    assert document["version"] == "2.8.0"
    assert document["tree"] == str(machines.layout.iso_root)
    assert document["key"] == str(machines.layout.keys / "metalk8s.gpg")
    assert "image" not in document
    fake_program.forget()
    vagrant.up(machines)
    assert verbs(fake_program) == ["up virtualbox bootstrap"], "it is there and provisioned"


def test_options_reach_vagrant(machine_of, fake_program):
    fake_program("VBoxManage")
    fake_program("my-vagrant", VAGRANT)
    vagrant.up(machine_of(VAGRANT_BIN="my-vagrant", VAGRANT_PROVIDER="virtualbox",
                          VAGRANT_UP_ARGS="--provision --debug"))  # fmt: skip
    assert fake_program.calls("vagrant") == []
    call = fake_program.records("my-vagrant")[-1]
    assert call["argv"] == ["up", "--provision", "--debug", "--provider", "virtualbox", MACHINE]
    assert call["env"]["VAGRANT_CHECKPOINT_DISABLE"] == "1"


def test_a_machine_with_an_old_tree_is_restarted(machine_of, fake_program, recorded):
    fake_program("VBoxManage")
    machines = machine_of(VAGRANT_PROVIDER="virtualbox")
    vagrant.up(machines)
    fake_program.forget()
    machines.layout.iso_root.rename(machines.layout.build / "old")
    machines.layout.iso_root.mkdir()
    vagrant.up(machines)
    assert verbs(fake_program) == ["halt bootstrap", "up virtualbox bootstrap"]


def test_up_without_a_tree(machine_of, fake_program):
    fake_program("VBoxManage")
    machines = machine_of(VAGRANT_PROVIDER="virtualbox")
    machines.layout.iso_root.rmdir()
    with pytest.raises(MachineError, match="is not there") as caught:
        vagrant.up(machines)
    assert "populate_iso" in caught.value.solution


def test_restore(machine_of, fake_program):
    fake_program("VBoxManage")
    machines = machine_of(VAGRANT_SNAPSHOT_NAME="mine", VAGRANT_PROVIDER="virtualbox")
    with pytest.raises(MachineError, match="bootstrap has no snapshot mine"):
        vagrant.restore(machines)
    vagrant.up(machines)
    fake_program.forget()
    vagrant.restore(machines)
    assert verbs(fake_program) == ["snapshot restore bootstrap mine"]
    with pytest.raises(MachineError, match="bootstrap has no snapshot other"):
        vagrant.restore(machine_of(VAGRANT_SNAPSHOT_NAME="other", VAGRANT_PROVIDER="virtualbox"))


def test_machines_in_containers(machine_of, fake_program, engine):
    fake_program("docker")
    machines = machine_of(VAGRANT_PROVIDER="docker", VAGRANT_SNAPSHOT_NAME="mine")
    engine.containers["id-1"] = {"Image": "metalk8s-node:1"}
    vagrant.up(machines)
    snapshot = machines.bed.snapshot("mine")
    assert snapshot in engine.images
    document = json.loads(machines.bed.settings.read_text())
    assert (document["provider"], document["image"]) == ("docker", "metalk8s-node:1")
    assert fake_program.records("vagrant")[0]["env"]["DOCKER_HOST"] == engine.url
    fake_program.forget()
    vagrant.restore(machines)
    assert verbs(fake_program) == ["destroy bootstrap", "up docker bootstrap"]
    call = fake_program.records("vagrant")[-1]
    assert call["env"][vagrant.IMAGE_VARIABLE] == snapshot


def test_a_snapshot_replaces_its_predecessor(machine_of, fake_program, engine):
    fake_program("docker")
    machines = machine_of(VAGRANT_PROVIDER="docker")
    engine.containers["id-1"] = {"Image": "metalk8s-node:1"}
    file = machines.bed.machine("docker", "id")
    file.parent.mkdir(parents=True)
    file.write_text("id-1\n")
    vagrant.save(machines, "docker")
    vagrant.save(machines, "docker")
    assert [name for name in engine.images if "snapshot" in name or "none" in name] == [
        machines.bed.snapshot("bootstrap.autosnapshot")
    ]


def test_settings_that_cannot_be_read_are_none(machine_of, fake_program):
    fake_program("VBoxManage")
    machines = machine_of(VAGRANT_PROVIDER="virtualbox")
    machines.bed.folder.mkdir()
    for text in ("{", "[]"):
        machines.bed.settings.write_text(text)
        vagrant.up(machines)
    assert machines.bed.settings.is_file()


# -- which machine is worth a snapshot ------------------------------------------------------------
def killed_before_the_snapshot(layout):
    (layout.root / ".vagrant/machines/bootstrap/virtualbox/action_provision").unlink()
    (layout.root / "snapshots").unlink()


def restored(layout):
    (layout.root / ".vagrant/machines/bootstrap/virtualbox/action_provision").unlink()


def lost_its_snapshot(layout):
    (layout.root / "snapshots").unlink()


def marked_by_a_predecessor(layout):
    (layout.root / ".vagrant/machines/bootstrap/virtualbox/id").write_text("id-2")
    (layout.root / "snapshots").unlink()


@pytest.mark.parametrize(
    ("happened", "saved"),
    [
        (killed_before_the_snapshot, True),
        (restored, False),
        (lost_its_snapshot, False),
        (marked_by_a_predecessor, True),
    ],
)
def test_only_a_bare_machine_without_a_snapshot_is_saved(machine_of, fake_program, happened, saved):
    fake_program("VBoxManage")
    machines = machine_of(VAGRANT_PROVIDER="virtualbox")
    vagrant.up(machines)
    happened(machines.layout)
    fake_program.forget()
    vagrant.up(machines)
    save = ["snapshot", "save", "--force", MACHINE, "bootstrap.autosnapshot"]
    assert (save in fake_program.calls("vagrant")) is saved


def test_default_arguments_of_up(machine_of, fake_program):
    fake_program("VBoxManage")
    vagrant.up(machine_of(VAGRANT_PROVIDER="virtualbox"))
    assert fake_program.calls("vagrant")[-1] == [
        "up", "--provision", "--no-destroy-on-error", "--parallel", "--provider", "virtualbox",
        MACHINE,
    ]  # fmt: skip


def test_a_snapshot_in_use_stays(machine_of, fake_program, engine):
    fake_program("docker")
    machines = machine_of(VAGRANT_PROVIDER="docker")
    engine.containers["id-1"] = {"Image": "metalk8s-node:1"}
    engine.refuse["DELETE /images/.*"] = (409, {"message": "image is being used"})
    file = machines.bed.machine("docker", "id")
    file.parent.mkdir(parents=True)
    file.write_text("id-1\n")
    for _ in range(2):
        vagrant.save(machines, "docker")
    assert machines.bed.snapshot("bootstrap.autosnapshot") in engine.images


def test_arguments_of_a_node_are_options(root):
    """Vagrant and the test bed pass them on line by line."""
    text = (root / "tests/testbed/node/run.args").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert [line for line in lines if not re.match(r"--[a-z-]+=\S", line)] == []
