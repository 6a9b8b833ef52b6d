#!/bin/sh
# Runs the fuzzers of all modules, one after the other, each for as long as FUZZ_TIME says (default 1m). FUZZ selects fuzzers by
# a regular expression of package and name, such as enginecore/embedded or FuzzCron. An input that fails is stored below
# testdata/fuzz of its package, where `make test` runs it from then on; the others, which reach further code, stay in the build cache.
# With FUZZ_KEEP set they are copied to testdata/fuzz as well.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
go=${GO:-go}
failed=

# keep copies the inputs that the build cache has for a fuzzer of a folder to its testdata.
keep() {
	cached=$("$go" env GOCACHE)/fuzz/$("$go" list "$1")/$2
	[ -d "$cached" ] || return 0
	mkdir -p "$1/testdata/fuzz/$2"
	find "$cached" -type f -exec cp {} "$1/testdata/fuzz/$2/" \;
}

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
			[ -z "${FUZZ_KEEP:-}" ] || keep "$folder" "$name"
		done
	done
done
[ -z "$failed" ] || { echo "failed:$failed" >&2; exit 1; }
