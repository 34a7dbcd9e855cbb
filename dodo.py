"""The task list of ``./doit.sh``: assembled here, defined in each room's ``steps.py``."""

from buildchain.compare.steps import task_diff, task_reproduce
from buildchain.core import report
from buildchain.core.errors import BuildError
from buildchain.debian.steps import (
    task__apt_update,
    task__base_image,
    task__builder_image,
    task__debian_closure,
    task__debian_floor,
)
from buildchain.images.steps import (
    task__image_build,
    task__image_dedup_layers,
    task__registry_config,
    task_images,
)
from buildchain.inputs.steps import task_inputs, task_inputs_unpack
from buildchain.locks.steps import task__lock_record, task_lock
from buildchain.machine.steps import task_check_for, task_doctor, task_setup
from buildchain.manual.steps import task__documents_deploy, task_docs
from buildchain.medium.steps import (
    task__iso_bill,
    task__iso_blocks,
    task__iso_build,
    task__iso_digest,
    task__iso_populate,
    task__iso_product,
    task__iso_provenance,
    task__iso_release,
    task_iso,
    task_populate_iso,
    task_verify,
)
from buildchain.packages.steps import task__build_packages
from buildchain.project import context
from buildchain.proof.steps import task__iso_check, task_check
from buildchain.publication.steps import task_fetch, task_publish
from buildchain.pulls.steps import task__image_pull, task__images_fetch
from buildchain.quality.steps import (
    task__dev_environment,
    task__salt_environment,
    task_bench,
    task_codegen,
    task_format,
    task_lint,
    task_test,
    task_test_fresh,
)
from buildchain.redhat.steps import task__package_sign, task__redhat_closure
from buildchain.release.steps import task__release_gate, task_release
from buildchain.repositories.steps import (
    task__package_check,
    task__package_repository,
    task_packaging,
)
from buildchain.salt_tree.steps import task__salt_tree_deploy, task_salt_tree
from buildchain.signatures.steps import (
    task__iso_key,
    task__signatures_begin,
    task_sign,
    task_sign_import,
    task_sign_request,
)
from buildchain.sources.steps import (
    task__sources_build,
    task__sources_digest,
    task__sources_populate,
    task__sources_sign,
    task_sources_iso,
)
from buildchain.testbed.steps import (
    task__conformance_compile,
    task__conformance_image,
    task__testbed_image,
    task__vagrant_key,
    task_machine,
    task_vagrant_restore,
    task_vagrant_up,
)
from buildchain.updates.steps import task_update_pack

__all__ = [
    "DOIT_CONFIG",
    "task__apt_update",
    "task__base_image",
    "task__build_packages",
    "task__builder_image",
    "task__conformance_compile",
    "task__conformance_image",
    "task__debian_closure",
    "task__debian_floor",
    "task__dev_environment",
    "task__documents_deploy",
    "task__image_build",
    "task__image_dedup_layers",
    "task__image_pull",
    "task__images_fetch",
    "task__iso_bill",
    "task__iso_blocks",
    "task__iso_build",
    "task__iso_check",
    "task__iso_digest",
    "task__iso_key",
    "task__iso_populate",
    "task__iso_product",
    "task__iso_provenance",
    "task__iso_release",
    "task__lock_record",
    "task__package_check",
    "task__package_repository",
    "task__package_sign",
    "task__redhat_closure",
    "task__registry_config",
    "task__release_gate",
    "task__salt_environment",
    "task__salt_tree_deploy",
    "task__signatures_begin",
    "task__sources_build",
    "task__sources_digest",
    "task__sources_populate",
    "task__sources_sign",
    "task__testbed_image",
    "task__vagrant_key",
    "task_bench",
    "task_check",
    "task_check_for",
    "task_codegen",
    "task_diff",
    "task_docs",
    "task_doctor",
    "task_fetch",
    "task_format",
    "task_images",
    "task_inputs",
    "task_inputs_unpack",
    "task_iso",
    "task_lint",
    "task_lock",
    "task_machine",
    "task_packaging",
    "task_populate_iso",
    "task_publish",
    "task_release",
    "task_reproduce",
    "task_salt_tree",
    "task_setup",
    "task_sign",
    "task_sign_import",
    "task_sign_request",
    "task_sources_iso",
    "task_test",
    "task_test_fresh",
    "task_update_pack",
    "task_vagrant_restore",
    "task_vagrant_up",
    "task_verify",
]

try:
    _LAYOUT = context.current().layout
except BuildError as error:
    raise SystemExit(report.refuse(error)) from None

DOIT_CONFIG = {
    "default_tasks": ["iso"],
    "reporter": report.BuildReporter,
    "dep_file": str(_LAYOUT.build / ".doit.json"),
    "backend": "whole_json",
    # Actions are other programs and hashing, which threads do side by side; and one process can
    # share what it fetched.
    "par_type": "thread",
    "cleanforget": True,
    # What waits for signatures stops nothing else: all of a run's are asked for at once.
    "continue": _LAYOUT.public_keys is not None,
}
