#!/bin/sh
# What the demo image runs: a few lines for the log, then a page on port 8080.
echo "Hello from $(hostname)."
echo "This container runs in a virtual machine of its own: Linux $(uname -r), $(nproc) processors, $(free -m | awk '/^Mem:/ { print $2 }') MiB of memory."
site=/tmp/site
mkdir -p "$site" && echo "Hello from $(hostname)" >"$site/index.html" || site=/site
echo "Serving HTTP on port ${PORT:-8080}."
# The first process of a container must end itself when it is asked to: the kernel does not do it.
trap 'echo "Asked to stop. Goodbye."; exit 0' TERM INT
httpd -f -p "${PORT:-8080}" -h "$site" &
wait $!
