#!/bin/sh
# Called by mmdebstrap when the packages are installed, with the root's folder: adds kernel and modules.
# The kernel package is unpacked, not installed: installing it would draw in a generator of initramfs files.
set -eu
root=$1
package=$2
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
real=$(apt-cache depends "$package" | sed -n 's/^ *Depends: \(linux-image-[0-9][^ ]*\)$/\1/p' | head -n 1)
[ -n "$real" ] || { echo "no kernel behind $package" >&2; exit 1; }
mkdir "$root/kernel"
cd "$root/kernel"
apt-get download -qq "$real"
# The name of another architecture is part of what apt says.
dpkg-deb -x "${real%:*}"_*.deb .
mv boot/vmlinuz-* vmlinuz
mkdir -p "$root/usr/lib/modules"
mv lib/modules/* "$root/usr/lib/modules/"
rm -r ./*.deb boot lib usr
for version in "$root"/usr/lib/modules/*; do chroot "$root" depmod "$(basename "$version")"; done
