#!/bin/sh
# Take a machine out of the cluster: on the bootstrap machine, as root. See --help.
#
# Everything is in metalk8s_deployment, beside this script; it asks the Salt master of the cluster, step by step.

set -eu

export LC_ALL=C PYTHONDONTWRITEBYTECODE=1
unset PYTHONHOME PYTHONSTARTUP
root=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
export PYTHONPATH="$root"
# Salt's own, which a bootstrap machine has.
for python in python3.11 python3; do
    if "$python" -I -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
        exec "$python" -s -m metalk8s_deployment remove "$@"
    fi
done
echo "remove-node.sh: error: this machine has no Python 3.9: it is not the bootstrap machine" >&2
exit 1
