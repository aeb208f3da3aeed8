#!/bin/sh
# npm run quickstart: from a clean clone to a pod in its own virtual machine. --down removes every trace.
set -eu
cd "$(dirname "$0")/.."
sh tools/setup.sh
PATH="$PWD/node_modules/.bin:$PATH"
export PATH
exec node tools/quickstart.ts "$@"
