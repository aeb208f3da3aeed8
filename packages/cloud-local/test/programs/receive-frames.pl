# Prints "listening", then each frame that an interface receives or sends as a line, hexadecimal.
#
# receive-frames.pl INTERFACE-INDEX
use strict;
use warnings;

# AF_PACKET, SOCK_RAW, all protocols: packet(7).
socket my $socket, 17, 3, unpack "n", pack "S", 3 or die $!;
bind $socket, pack "SnlSCC a8", 17, 3, $ARGV[0], 0, 0, 6, "" or die $!;
$| = 1;
print "listening\n";
while (1) {
  recv $socket, my $frame, 65536, 0;
  print unpack("H*", $frame), "\n";
}
