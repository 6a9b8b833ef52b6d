#!/bin/sh
# Runs the fuzzers of all modules, one after the other, each for as long as FUZZ_TIME says (default 1m). FUZZ selects fuzzers by
# a regular expression of package and name, such as enginecore/embedded or FuzzCron. An input that fails is stored below
# testdata/fuzz of its package, where `make test` runs it from then on. The corpus of inputs that reach further code stays in Go's
# build cache, and the next run begins with it.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
go=${GO:-go}
failed=

for module in . "$@"; do
  cd "$root/$module"
  case $module in .) GOWORK=off ;; *) GOWORK=$root/go.work ;; esac
  export GOWORK
  for file in $(grep -rlE '^func Fuzz' --include='*_test.go' . | sort); do
    folder=$(dirname "$file")
    # A module below this one has its own turn.
    at=$folder
    while [ "$at" != . ] && [ ! -f "$at/go.mod" ]; do at=$(dirname "$at"); done
    [ "$at" = . ] || continue
    for name in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
      echo "$module/${folder#./} $name" | grep -qE "${FUZZ:-.}" || continue
      echo "== $module/${folder#./} $name"
      "$go" test -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZ_TIME:-1m}" -parallel 1 -vet=off "$folder" || failed="$failed $name"
    done
  done
done
[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
