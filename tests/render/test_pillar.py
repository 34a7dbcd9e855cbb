"""What the master tells each minion, of what the operator wrote."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import Any

import pytest

from .conftest import HERE, KEEPALIVED, NETWORKS, TREE, VIP

pytestmark = pytest.mark.render

SALTENV = "metalk8s-2.11.0"
CONFIGURATION = {
    "networks": NETWORKS,
    "ca": {"minion": "first"},
    "apiServer": {"host": VIP, "keepalived": KEEPALIVED},
}


@pytest.fixture(scope="module")
def pillars(salt_python: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Compile the pillar of the first machine, of another, of one that says it is the first."""
    scratch = tmp_path_factory.mktemp("pillar")
    shutil.copytree(TREE / "pillar", scratch / "pillar")
    file = scratch / "pillar/metalk8s/node.sls"
    text, where = file.read_text(encoding="utf-8"), "/etc/metalk8s/bootstrap.yaml"
    assert where in text
    file.write_text(text.replace(where, f"{scratch}/bootstrap.yaml"), encoding="utf-8")
    (scratch / "bootstrap.yaml").write_text(json.dumps(CONFIGURATION), encoding="utf-8")
    request = {
        "pillar": str(scratch / "pillar"),
        "saltenv": SALTENV,
        "scratch": str(scratch),
        "machines": {"first": "first", "other": "other", "liar": "first"},
    }
    run = subprocess.run(
        [salt_python, str(HERE / "salt_pillar.py")],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(scratch)},
    )
    assert run.returncode == 0, run.stderr
    answer: dict[str, Any] = json.loads(run.stdout)
    return answer


def test_the_first_machine_knows_everything(pillars: dict[str, Any]) -> None:
    found = pillars["first"]["metalk8s"]
    assert found["bootstrap"] == CONFIGURATION
    assert found["node"] == {"version": "2.11.0", "roles": ["bootstrap"]}


@pytest.mark.parametrize("name", ["other", "liar"])
def test_others_get_no_password(pillars: dict[str, Any], name: str) -> None:
    """Nor the role of the first machine, whatever a minion calls itself."""
    assert "_errors" not in pillars[name]
    found = pillars[name]["metalk8s"]
    assert KEEPALIVED["authPassword"] not in json.dumps(found)
    assert found["bootstrap"]["apiServer"]["keepalived"]["virtualRouterId"] == 51
    assert found["node"]["roles"] == ["node"]
