"""What goes into an image besides packages."""

from buildchain.images import steps as images
from buildchain.project import context


def of(root, tmp_path, name):
    folders = {"BUILD_ROOT": str(tmp_path / "build"), "CACHE_ROOT": str(tmp_path / "cache")}
    found = context.load(root, folders)
    [image] = [image for image in found.catalog.images if image.name == name]
    return found, image


def test_programs_of_ours_come_without_their_tests(root, tmp_path):
    found = images._programs(*of(root, tmp_path, "network-agent"))
    assert {name.split("/")[1] for name in found} == {"metalk8s_operators", "metalk8s_pod_network"}
    for name in ("metalk8s_operators/client.py", "metalk8s_pod_network/__main__.py"):
        folder = {"metalk8s_operators": "library"}.get(name.split("/")[0], "network")
        assert found[f"programs/{name}"] == root / "operators" / folder / name
    assert all(path.suffix == ".py" for path in found.values())


def test_a_change_of_a_program_makes_its_image_anew(root, tmp_path):
    step = images._image(*of(root, tmp_path, "network-agent"))
    assert root / "operators/network/metalk8s_pod_network/plan.py" in step.inputs
    other = images._image(*of(root, tmp_path, "nginx"))
    assert not [path for path in other.inputs if "operators" in path.parts]
