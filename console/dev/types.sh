#!/bin/sh
# Checks the types of the console's pages with the TypeScript of this version, which npm fetches into .cache.
set -eu
version=7.0.2
cd "$(dirname "$0")/.."
into=../.cache/typescript-$version
if [ ! -x "$into/node_modules/.bin/tsc" ]; then
  npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$into" "typescript@$version"
fi
exec "$into/node_modules/.bin/tsc" -p .
