# Compares the extended attributes of two trees with the same names, whose roots are open as descriptors 3 and 4. Prints
# the path of the first entry that differs, with a slash before it.
#
# Each part of a path is one step below an open folder and never a link. Of "security.*" only file capabilities
# count: the rest are labels of the machine.
use strict;
my ($LLIST, $LGET) = map { 0 + $_ } @ARGV;
my $flags = 010000000 | 0200000 | 0400000;  # O_PATH, O_DIRECTORY, O_NOFOLLOW
$flags = 010000000 | 040000 | 0100000 if $LLIST != 195;  # arm64 has other numbers
binmode STDOUT;
sub attributes {
  my $path = $_[0];
  my $list = "\0" x 65536;
  my $size = length $list;
  $! = 0;
  my $count = syscall($LLIST, $path, $list, $size);
  return $! == 95 ? "" : "unknown $!" if $count < 0;  # EOPNOTSUPP
  my @pairs;
  for my $name (sort split /\0/, substr($list, 0, $count)) {
    next if $name !~ /^(?:user\.|trusted\.|security\.capability$|system\.posix_acl_)/;
    my $value = "\0" x 65536;
    my $length = syscall($LGET, $path, $name, $value, $size);
    push @pairs, $name, $length < 0 ? "unknown $!" : substr($value, 0, $length);
  }
  return pack("(N/a)*", @pairs);
}
sub differ {
  my ($left, $right) = map { "/proc/self/fd/" . fileno($_[$_]) . "/$_[2]" } 0, 1;
  return attributes($left) ne attributes($right);
}
sub compare {
  my ($left, $right, $path) = @_;
  opendir(my $entries, "/proc/self/fd/" . fileno($left)) or die "$path: $!";
  my @names = sort grep { $_ ne "." && $_ ne ".." } readdir $entries;
  closedir $entries;
  for my $name (@names) {
    if (differ($left, $right, $name)) {
      print "$path/$name";
      exit 0;
    }
    lstat("/proc/self/fd/" . fileno($left) . "/$name") or die "$path/$name: $!";
    next if !-d _;
    my @below = map {
      sysopen(my $below, "/proc/self/fd/" . fileno($_) . "/$name", $flags) or die "$path/$name: $!";
      $below;
    } $left, $right;
    compare(@below, "$path/$name");
  }
}
open(my $left, "<&=", 3) or die "no tree: $!";
open(my $right, "<&=", 4) or die "no tree: $!";
if (differ($left, $right, ".")) {
  print "/";
  exit 0;
}
compare($left, $right, "");
