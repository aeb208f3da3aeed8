# Makes a user namespace and further namespaces that belong to it, and binds each to a file, which keeps it
# without any process in it. For perl-base, which every Debian has: unshare(1) needs newuidmap to map more than one ID.
#
# Arguments: "process.arch"; the first ID of this machine that the namespace maps, to its own 0; how many; the file of
# the user namespace; then pairs of a kind ("ipc", "net", "uts") and its file. A failure is on standard error.
use strict;
my ($machine, $first, $count, $user, %files) = @ARGV;
# asm/unistd.h
my %call = $machine eq 'arm64' ? (mount => 40, unshare => 97) : (mount => 165, unshare => 272);
# linux/sched.h
my %flag = (user => 0x10000000, ipc => 0x8000000, net => 0x40000000, uts => 0x4000000);
my $BIND = 4096; # linux/mount.h
$files{user} = $user;
my $flags = 0;
$flags |= $flag{$_} for keys %files;

pipe my $made, my $make or die "pipe: $!\n";
pipe my $bound, my $bind or die "pipe: $!\n";
my $child = fork;
defined $child or die "fork: $!\n";
if (!$child) {
  close $made;
  close $bind;
  syscall($call{unshare}, $flags) == 0 or die "unshare: $!\n";
  syswrite $make, '1';
  # Until its namespaces are bound, or the parent has failed.
  sysread $bound, my $byte, 1;
  exit;
}
close $make;
close $bound;
sysread $made, my $byte, 1 or exit 1;
for my $map ('uid_map', 'gid_map') {
  open my $file, '>', "/proc/$child/$map" or die "open $map: $!\n";
  syswrite $file, "0 $first $count\n" or die "write $map: $!\n";
}
for my $kind (sort keys %files) {
  my $namespace = "/proc/$child/ns/$kind";
  syscall($call{mount}, $namespace, $files{$kind}, 0, $BIND, 0) == 0 or die "bind $kind: $!\n";
}
close $bind;
waitpid $child, 0;
