#!/bin/sh
# Called by mmdebstrap when the packages of this computer's architecture are installed, with the root's folder, another
# architecture, and patterns of the paths that are left out of packages: puts the packages of that architecture in their
# place. What their scripts have made stays: users, certificates and links are the same for both. So no program of the other
# architecture is run.
set -eu
root=$1
architecture=$2
shift 2
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
database=$root/var/lib/dpkg

query() { dpkg-query --admindir="$database" "$@"; }
native=$(query -W -f '${binary:Package} ${Architecture}\n' | grep -v ' all$' | cut -d ' ' -f 1)
common=$(query -W -f '${binary:Package} ${Architecture}\n' | grep ' all$' | cut -d ' ' -f 1)

mkdir "$root/packages"
cd "$root/packages"
# Without the name of this architecture, which those have that may be installed beside each other.
apt-get download -qq $(printf '%s\n' $native | sed "s/:.*//; s/\$/:$architecture/")

# A link to a folder stays, as /bin does; so does a folder in which a script has made something.
query -L $native | grep '^/' | sort -ru | while read -r file; do
  if [ -d "$root$file" ]; then rmdir "$root$file" 2>/dev/null || true; else rm -f "$root$file"; fi
done
# The linker's list of libraries. It finds them without.
rm -f "$root/etc/ld.so.cache" "$root/var/cache/ldconfig/aux-cache"

{ query -s $common && echo; } >"$root/packages/status"
for package in $native; do rm -f "$database/info/$package".*; done
for deb in *.deb; do
  # While mmdebstrap works, file systems of the kernel are mounted on these. Names of owners would be looked up on this computer,
  # whose numbers may differ; the numbers in Debian's packages are the same everywhere.
  dpkg-deb --fsys-tarfile "$deb" |
    tar -x -p --numeric-owner --keep-directory-symlink --exclude=./dev --exclude=./proc --exclude=./sys -C "$root"
  name=$(dpkg-deb -f "$deb" Package)
  [ "$(dpkg-deb -f "$deb" Multi-Arch)" != same ] || name=$name:$architecture
  dpkg-deb -e "$deb" control
  { sed '1a Status: install ok installed' control/control && echo; } >>status
  rm control/control
  for file in control/*; do mv "$file" "$database/info/$name.${file#control/}"; done
  rmdir control
  dpkg-deb --fsys-tarfile "$deb" | tar -t | sed 's,^\.,,; s,/$,,; s,^$,/.,' >"$database/info/$name.list"
done
# mmdebstrap has put a program that does nothing in the place of this one, and puts back what it keeps beside it.
daemon=$root/usr/sbin/start-stop-daemon
[ ! -e "$daemon.REAL" ] || mv "$daemon" "$daemon.REAL"
for pattern; do rm -rf "$root"$pattern; done
mv status "$database/status"
echo "$architecture" >"$database/arch"
cd /
rm -r "$root/packages"

# What the packages of this architecture depend on may not be all that those of the other one do.
apt-get check -qq -o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture"
