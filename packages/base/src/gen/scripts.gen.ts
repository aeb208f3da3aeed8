// Made by tools/embed-scripts.ts. Do not edit.

/** packages/base/src/host/map-owners.pl */
export const mapOwnersScript = String.raw`# Mounts folders and files at other places, where owners are those that a user namespace maps them to.
# For perl-base, which every Debian has: mount(8) of Debian 12 cannot do it.
#
# Arguments: the file of the user namespace; then pairs of a source and a place. What is mounted below a source is seen as
# it is: not every file system can map owners. A failure is on standard error.
use strict;
my ($namespace, @pairs) = @ARGV;
# The same on all machines: asm-generic/unistd.h
my ($OPEN_TREE, $MOVE_MOUNT, $MOUNT_SETATTR) = (428, 429, 442);
# linux/fcntl.h, linux/mount.h
my ($AT_FDCWD, $EMPTY_PATH, $RECURSIVE, $CLONE) = (-100, 0x1000, 0x8000, 1);
my ($FROM_EMPTY_PATH, $IDMAP) = (4, 0x100000);
open my $users, '<', $namespace or die "open $namespace: $!\n";
while (my ($source, $place) = splice @pairs, 0, 2) {
  my $none = '';
  my $tree = syscall($OPEN_TREE, $AT_FDCWD, $source, $CLONE | $RECURSIVE);
  $tree >= 0 or die "open_tree $source: $!\n";
  # struct mount_attr: set, clear, propagation, descriptor of the namespace
  my $attributes = pack 'QQQQ', $IDMAP, 0, 0, fileno $users;
  syscall($MOUNT_SETATTR, $tree, $none, $EMPTY_PATH, $attributes, length $attributes) == 0
    or die "mount_setattr $source: $!\n";
  syscall($MOVE_MOUNT, $tree, $none, $AT_FDCWD, $place, $FROM_EMPTY_PATH) == 0
    or die "move_mount $place: $!\n";
}
`;
