#!/bin/sh
# Installs what is missing on a Debian machine: packages of the system, and of npm. Run again at will.
# With the word "test": also the programs that tests compare us with; with "bench": those of the image benchmark; with "arm64":
# what emulates machines with arm64.
set -eu
cd "$(dirname "$0")/.."

if [ "$(id -u)" -ne 0 ]; then
  echo "kip: Cannot set up as user $(id -un): network namespaces and virtual machines need root" >&2
  echo "     Run the same command with sudo" >&2
  exit 1
fi

# program:package, for everything that is called by name
needed="qemu-system-x86_64:qemu-system-x86 qemu-img:qemu-utils mmdebstrap:mmdebstrap mke2fs:e2fsprogs ip:iproute2
nft:nftables genisoimage:genisoimage cpio:cpio busybox:busybox-static docker-registry:docker-registry
slirp4netns:slirp4netns flock:util-linux socat:socat"
if [ "${1-}" = test ]; then
  needed="$needed skopeo:skopeo umoci:umoci htpasswd:apache2-utils openssl:openssl script:bsdutils nginx:nginx
  promtool:prometheus"
fi
if [ "${1-}" = bench ]; then
  needed="$needed skopeo:skopeo umoci:umoci containerd:containerd curl:curl zstd:zstd gzip:gzip tar:tar time:time
mkfs.ext4:e2fsprogs fallocate:util-linux sha256sum:coreutils"
fi
[ "${1-}" != arm64 ] || needed="$needed qemu-system-aarch64:qemu-system-arm"
missing=""
for pair in $needed; do
  PATH="$PATH:/usr/sbin:/sbin" command -v "${pair%%:*}" >/dev/null 2>&1 || missing="$missing ${pair##*:}"
done
# Firmware: a file, not a program.
[ "${1-}" != test ] || [ -e /usr/share/ovmf/OVMF.fd ] || missing="$missing ovmf"
[ "${1-}" != arm64 ] || [ -e /usr/share/AAVMF/AAVMF_CODE.fd ] || missing="$missing qemu-efi-aarch64"
if [ -n "$missing" ]; then
  echo "kip: installing$missing"
  log=$(mktemp)
  if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
    tail -5 "$log" >&2
    rm -f "$log"
    echo "kip: Cannot install$missing: apt-get failed, see the lines above" >&2
    exit 1
  fi
  rm -f "$log"
  # Debian starts a registry for the whole machine with the package; we start our own when we need it.
  case "$missing" in
    *docker-registry*) [ ! -d /run/systemd/system ] || systemctl disable --now docker-registry >/dev/null 2>&1 || true ;;
  esac
  case "$missing" in
    *nginx*) [ ! -d /run/systemd/system ] || systemctl disable --now nginx >/dev/null 2>&1 || true ;;
  esac
  case "$missing" in
    *prometheus*) [ ! -d /run/systemd/system ] || systemctl disable --now prometheus >/dev/null 2>&1 || true ;;
  esac
  case "$missing" in
    *containerd*) [ ! -d /run/systemd/system ] || systemctl disable --now containerd >/dev/null 2>&1 || true ;;
  esac
fi

# The npm packages, Node included; again whenever the lock file changed.
stamp=node_modules/.kip-lock
lock=$(cksum <package-lock.json)
if [ ! -x node_modules/.bin/node ] || [ "$(cat "$stamp" 2>/dev/null)" != "$lock" ]; then
  echo "kip: installing npm packages"
  # npm must not run on the Node that it is about to replace.
  PATH=$(printf %s "$PATH" | tr ':' '\n' | grep -v '/node_modules/\.bin$' | tr '\n' ':') npm ci --no-audit --no-fund --loglevel=error
  printf %s "$lock" >"$stamp"
fi
