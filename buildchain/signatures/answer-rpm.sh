#!/bin/sh
# Stands in for gpg where rpmsign calls it: keeps what is to be signed in $SCRATCH/header and answers
# with $SCRATCH/signature, if that is there.
#
#   answer-rpm.sh SIGNATURE PLAINTEXT

set -eu
cat "$2" >"$SCRATCH/header"
cp "$SCRATCH/signature" "$1"
