#!/bin/sh
# Makes the tags of a release on a commit of its own: the modules of this repository require each other in the version
# that stands for the tree, and a release names its own version instead. Nothing is pushed.
#
#   tools/release.sh v0.2.0
set -eu
version=${1-}
case $version in
  v[0-9]*.[0-9]*.[0-9]*) ;;
  *) echo "give a version such as v0.2.0, got: '$version'" >&2; exit 2 ;;
esac
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
[ -z "$(git status --porcelain)" ] || { echo "the tree has changes that are not committed" >&2; exit 1; }
path=github.com/flowfabric/flowfabric-go
before=$(git rev-parse --abbrev-ref HEAD)
git checkout -q --detach
trap 'git checkout -q --force "$before"' EXIT
for module in console server mcpserver cmd/flowfabric; do
  sed -i "s#\($path[a-z/]*\) v0\.0\.0\b#\1 $version#" "$module/go.mod"
done
git commit -qam "Release $version"
tags="$version console/$version server/$version mcpserver/$version cmd/flowfabric/$version"
for tag in $tags; do git tag "$tag"; done
echo "made the tags; push them with: git push origin $tags"
