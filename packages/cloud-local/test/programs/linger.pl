# What a program that was broken into can do to be missed by those who end it. Prints "ready" and waits for its end.
#
# linger.pl HOW [ANYTHING]
use strict;
use warnings;
use threads;

my ($how) = @ARGV;
$| = 1;

sub linger {
  print "ready\n";
  sleep 1000 while 1;
}

my %ways = (
  # Nothing special.
  "stay" => sub { },
  "ignore SIGTERM" => sub { $SIG{TERM} = "IGNORE" },
  "change arguments" => sub { $0 = "other" },
  "fork" => sub { $0 = "other"; fork },
  # A daemon: a process group of its own, whose parent is gone.
  "fork twice and leave" => sub { $0 = "other"; exit if fork; setpgrp; exit if fork },
  # exit(2) of the first thread alone, x86-64.
  "end the first thread" => sub { $0 = "other"; threads->create(\&linger); syscall 60, 0 },
  # Another process each half millisecond: who lists it finds it gone. Ends by itself after 20 s.
  "fork all the time" => sub {
    $0 = "other";
    $SIG{CHLD} = "IGNORE";
    print "ready\n";
    my $end = time + 20;
    while (time < $end) { exit if fork; select undef, undef, undef, 0.0005 }
    exit;
  },
  # mmap(2) of standard input, shared, to read and write, x86-64; then only the mapping is left.
  "map standard input" => sub { syscall 9, 0, 4096, 3, 1, 0, 0; close STDIN },
);

($ways{$how} or die "unknown way: $how\n")->();
linger();
