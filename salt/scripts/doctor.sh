#!/bin/sh
# Tell how the cluster is: on the bootstrap machine, as root. See --help.
#
# The Salt master looks (metalk8s_doctor) and says it in words or as JSON; here is only how it is asked.

set -eu

export LC_ALL=C
config=/etc/kubernetes/admin.conf

usage() {
    cat <<END
usage: doctor.sh [--json]

Looks at everything and changes nothing: machines, members of etcd, API servers, certificates, disks, clocks, versions.

  --json   facts and findings for programs, not a page for people

Exit status: 0 all is well, 1 there are warnings, 2 something does not work, 3 it could not be found out.
END
}

cannot() {
    echo "doctor.sh: error: $1" >&2
    exit 3
}

what=page out=newline_values_only
case "$#:${1-}" in
0:) ;;
1:--json) what=report out=json ;;
1:--help | 1:-h)
    usage
    exit 0
    ;;
*)
    usage >&2
    exit 3
    ;;
esac

pod=$(kubectl --kubeconfig="$config" --namespace=kube-system get pods --field-selector=status.phase=Running \
    --selector=app.kubernetes.io/name=salt-master --output='jsonpath={.items[0].metadata.name}') ||
    cannot "the API server does not answer, or the Salt master does not run: kubectl is to say more, above"
said=$(kubectl --kubeconfig="$config" --namespace=kube-system exec "$pod" -- \
    salt-run "--out=$out" --log-level=quiet "metalk8s_doctor.$what") || cannot "$pod gave no answer: $said"
printf '%s\n' "$said"
case "$said" in
*'"verdict": "fine"'* | *"Verdict: fine") exit 0 ;;
*'"verdict": "warning"'* | *"Verdict: warning") exit 1 ;;
*'"verdict": "error"'* | *"Verdict: error") exit 2 ;;
esac
cannot "$pod answered something else"
