# Makes the calls that Node has none for, in a tree whose root is open as descriptor 3: extended
# attributes and special files. For perl-base, which every Debian has.
#
# Standard input: fields, each with its length before it as 32 bits, five to a step: what to do,
# the real path of the folder, the name in it, and two more. Standard output: a line "<step> <errno>"
# for each step that failed.
#
# Each part of a path is one step below an open folder and never a link: the same rule as
# FolderStack's. A path that is gone is passed over, and its entry with it.
use strict;
my ($LSET, $LLIST, $LREMOVE, $MKNODAT) = map { 0 + $_ } @ARGV;
my $flags = 010000000 | 0200000 | 0400000;  # O_PATH, O_DIRECTORY, O_NOFOLLOW
$flags = 010000000 | 040000 | 0100000 if $LSET != 189;  # arm64 has other numbers
binmode STDIN;
local $/;
my @fields = unpack("(N/a)*", scalar <STDIN>);
open(my $root, "<&=", 3) or die "no root: $!";
my @names;
my @open = ($root);
sub enter {
  my @parts = split m{/}, $_[0];
  my $same = 0;
  $same++ while $same < @names && $same < @parts && $names[$same] eq $parts[$same];
  $#names = $same - 1;
  $#open = $same;
  for my $part (@parts[$same .. $#parts]) {
    sysopen(my $next, "/proc/self/fd/" . fileno($open[-1]) . "/$part", $flags) or return 0;
    push @open, $next;
    push @names, $part;
  }
  return 1;
}
my $step = 0;
while (@fields) {
  my ($what, $folder, $name, $key, $value) = splice @fields, 0, 5;
  my $result = 0;
  if (enter($folder)) {
    my $path = "/proc/self/fd/" . fileno($open[-1]) . ($name eq "" ? "/." : "/$name");
    my $length = length $value;
    $! = 0;
    if ($what eq "set") {
      $result = syscall($LSET, $path, $key, $value, $length, 0);
    } elsif ($what eq "clear") {
      my $list = "\0" x 65536;
      my $size = length $list;
      my $count = syscall($LLIST, $path, $list, $size);
      for my $old ($count > 0 ? split(/\0/, substr($list, 0, $count)) : ()) {
        next if $old =~ /^(?:security\.(?!capability)|trusted\.overlay\.)/;
        syscall($LREMOVE, $path, $old);
      }
    } elsif ($what eq "node") {
      my ($mode, $device) = map { 0 + $_ } split / /, $key;
      my ($uid, $gid, $time) = map { 0 + $_ } split / /, $value;
      my $cwd = -100;
      $result = syscall($MKNODAT, $cwd, $path, $mode, $device);
      if ($result != -1) {
        $result = -1 if !chown($uid, $gid, $path) || !chmod($mode & 07777, $path);
        utime($time, $time, $path);
      }
    }
    printf "%d %d\n", $step, $! + 0 if $result == -1;
  }
  $step++;
}
