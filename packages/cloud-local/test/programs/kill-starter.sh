#!/bin/sh
# Stands for a program of the same name, and kills the process that starts the n-th of them.
#
# `settings`, beside it: kill_at (n), moment (before or after the program runs), counter (a folder), path (without this one).
# Not in the environment, which some programs are started without.
. "${0%/*}/settings"
real=$(PATH=$path; command -v "${0##*/}")
n=1
while ! mkdir "$counter/$n" 2>/dev/null; do n=$((n + 1)); done
[ "$n" = "$kill_at" ] || exec "$real" "$@"
case "$moment $*" in
before*) ;;
*" -S "*/ctl.sock*) # QEMU does not return
  control=$(printf '%s\n' "$@" | sed -n 's/^socket,id=command,.*,path=//p')
  "$real" "$@" &
  while [ ! -S "$control" ]; do sleep 0.01; done ;;
*" monitor "*) "$real" "$@" & ;; # does not return either
*) "$real" "$@" ;;
esac
kill -KILL "$PPID"
