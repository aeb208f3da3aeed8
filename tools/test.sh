#!/bin/sh
# npm test: everything that CI runs, on a machine that may have nothing yet.
set -eu
cd "$(dirname "$0")/.."
sh tools/setup.sh test
PATH="$PWD/node_modules/.bin:$PATH"
export PATH
node tools/check.ts
exec node tools/run-tests.ts all
