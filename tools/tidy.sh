#!/bin/sh
# Tidies the modules of the folders that are given. They require the other modules of this repository in a version that
# stands for the tree, which only a replacement in a copy of go.mod lets go mod tidy find. With -check nothing is
# written, and a module that is not tidy is an error.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
check=
if [ "${1-}" = -check ]; then check=yes; shift; fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for module in "$@"; do
  cd "$root/$module"
  cp go.mod "$work/go.mod"
  if [ -f go.sum ]; then cp go.sum "$work/go.sum"; else rm -f "$work/go.sum"; fi
  for other in . console mcpserver server; do
    path=github.com/flowfabric/flowfabric-go
    if [ "$other" != . ]; then path=$path/$other; fi
    go mod edit -replace "$path=$root/$other" "$work/go.mod"
  done
  GOWORK=off go mod tidy -modfile="$work/go.mod"
  for other in "" /console /mcpserver /server; do go mod edit -dropreplace "github.com/flowfabric/flowfabric-go$other" "$work/go.mod"; done
  if [ -n "$check" ]; then
    cmp "$work/go.mod" go.mod && cmp "$work/go.sum" go.sum || { echo "$module is not tidy: run tools/tidy.sh $module" >&2; exit 1; }
  else
    cp "$work/go.mod" go.mod && cp "$work/go.sum" go.sum
  fi
done
