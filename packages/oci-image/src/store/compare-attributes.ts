import { spawnSync } from "node:child_process";
import { ImageError } from "../errors.ts";
import { closeFolder, openFolder } from "../unpack/descriptor-path.ts";

/** Numbers of llistxattr and lgetxattr. */
const calls: Readonly<Record<string, readonly [number, number]>> = {
  x64: [195, 192],
  arm64: [12, 9],
};

/**
 * Compares the extended attributes of two trees with the same names, whose roots are open as descriptors 3 and 4. Prints
 * the path of the first entry that differs, with a slash before it.
 *
 * Each part of a path is one step below an open folder and never a link. Of `security.*` only file capabilities
 * count: the rest are labels of the machine.
 */
const script = String.raw`
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
`;

/**
 * The first entry whose extended attributes (file capabilities, access lists, `user.*`, `trusted.*`) differ
 * in two trees with the same names; undefined if there is none. Needs perl, as Node has no call for it: without
 * it trees are unpacked without attributes, and nothing is compared.
 *
 * @returns its path, a byte string
 * @throws {ImageError} `IMAGE_STORE_FAILED` if the attributes cannot be read
 */
export function findAttributeDifference(one: string, other: string): string | undefined {
  const numbers = calls[process.arch];
  if (numbers === undefined) return undefined;
  const left = openFolder(one);
  try {
    const right = openFolder(other);
    try {
      return run(numbers, [left, right]);
    } finally {
      closeFolder(right);
    }
  } finally {
    closeFolder(left);
  }
}

function run(numbers: readonly number[], folders: readonly [number, number]): string | undefined {
  const child = spawnSync("/usr/bin/perl", ["-e", script, ...numbers.map(String)], {
    stdio: ["ignore", "pipe", "pipe", ...folders],
    env: {},
  });
  if (child.error && "code" in child.error && child.error.code === "ENOENT") return undefined;
  if (child.status === 0) {
    const path = child.stdout.toString("latin1");
    return path === "" ? undefined : path;
  }
  const reason = child.error?.message ?? child.stderr.toString("latin1").trim();
  throw new ImageError("IMAGE_STORE_FAILED", `extended attributes cannot be compared: ${reason}`, {
    cause: child.error,
    remedy: "See that the store's disk is mounted, readable and sound",
  });
}
