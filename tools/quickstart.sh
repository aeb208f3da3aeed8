#!/bin/sh
# npm run quickstart: from a clean clone to a pod in its own virtual machine. --down removes every trace.
set -eu
cd "$(dirname "$0")/.."
# What a removal needs is there if a start was: it works without a network, too.
case " $* " in
  *" --down "*) [ -x node_modules/.bin/node ] || sh tools/setup.sh ;;
  *) sh tools/setup.sh ;;
esac
PATH="$PWD/node_modules/.bin:$PATH"
export PATH
exec node tools/quickstart.ts "$@"
