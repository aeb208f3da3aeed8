#!/bin/busybox sh
# Keeps the agent running. Containers hang on their conmon, not on the agent: they outlive it.
log=/var/log/itzo.log
[ -f "$log" ] && [ "$(stat -c %s "$log")" -gt 4194304 ] && mv "$log" "$log.1"
# Code that was compiled when the image was built.
export NODE_COMPILE_CACHE=/usr/lib/kip/code-cache NODE_COMPILE_CACHE_PORTABLE=1
# Node would read all authorities that it brings when TLS is loaded, in another thread, a tenth of a second under emulation;
# OpenSSL looks for the system's when it meets one. Kip's own is in the identity.
export NODE_OPTIONS=--use-openssl-ca SSL_CERT_DIR=/etc/ssl/certs
# One heap for all threads of the agent, and what it frees goes back to the machine: 2 MB less.
export MALLOC_ARENA_MAX=1 MALLOC_TRIM_THRESHOLD_=131072
# Copies of a template find the code compiled that its rehearsal has run (all code would be 5 MB more in each), and run no
# machine code that V8 made: under emulation it would be translated on top of the interpreter. The template has collected what
# is garbage; some seconds after its start a copy would do so again, twice, by five threads on its one processor.
for_templates='--no-memory-reducer --single-threaded-gc --no-opt --no-maglev --no-sparkplug --no-regexp-tier-up'
while :; do
  options=
  if [ -e /run/kip/template ] && [ ! -e /run/kip/template-offered ]; then
    options=$for_templates
    # What is needed for a moment, by the compiler for one, goes back to the machine if it is mapped on its own.
    export MALLOC_MMAP_THRESHOLD_=32768
  fi
  read -r before _ </proc/uptime
  /usr/lib/kip/node $options /usr/lib/kip/itzo.js 2>&1
  code=$?
  unset MALLOC_MMAP_THRESHOLD_
  read -r after _ </proc/uptime
  echo "kip: agent ended with code $code at $after"
  # An agent that dies at its start must not eat the machine.
  [ $((${after%.*} - ${before%.*})) -lt 5 ] && sleep 1
done | tee -a "$log"
