# Started in a template, where it waits: does in a copy of it what a JavaScript program cannot, without a program having
# to be started first. It says "done" when it waits; then standard input brings two lines:
#
#   <entropy, hexadecimal> <seconds> <nanoseconds>
#   <lines for "ip -batch", with ";" for their ends>
#
# Each is answered by a line: "done", or what failed.
use strict;
use warnings;

$| = 1;
# Calls and numbers of the kernel (asm/unistd.h, linux/random.h): Perl has no names for them without its large package.
my ($machine) = (split ' ', `uname -m`);
my %call =
  $machine eq 'aarch64'
  ? (umount2 => 39, sync => 81, clock_settime => 112)
  : (umount2 => 166, sync => 162, clock_settime => 227);
my $reseed = 0x5207;
my $realtime = 0;

open my $random, '+<', '/dev/urandom' or die "open /dev/urandom: $!\n";
# What a buffer keeps would be added too late.
binmode $random;
# Runs already and waits for its lines.
open my $ip, '|-', 'ip', '-batch', '-' or die "start ip: $!\n";

sub seed {
  my ($entropy, $seconds, $nanoseconds) = @_;
  defined syswrite $random, pack('H*', $entropy) or return "write /dev/urandom: $!";
  # Without it the kernel would go on from the template's state for up to a minute.
  defined ioctl($random, $reseed, 0) or return "reseed the kernel's generator: $!";
  syscall($call{clock_settime}, $realtime, pack('q2', $seconds, $nanoseconds)) == 0 or return "set the clock: $!";
  # The kernel makes the boot's ID when it is first read, and nobody has read it: a file stood in for it.
  my $bootId = '/proc/sys/kernel/random/boot_id';
  syscall($call{umount2}, $bootId, 0) == 0 or return "give the boot its own ID: $!";
  return 'done';
}

sub connect_network {
  my ($lines) = @_;
  print $ip join("\n", split /;/, $lines), "\n";
  return close $ip ? 'done' : 'set up the network: "ip" failed with ' . ($? >> 8);
}

# What is not on the disk yet would be written by each copy.
syscall($call{sync});
print "done\n";
my $line = <STDIN> // exit;
chomp $line;
print seed(split ' ', $line), "\n";
$line = <STDIN> // exit;
chomp $line;
print connect_network($line), "\n";
# Perl's own end takes longer than all of this.
kill 'KILL', $$;
