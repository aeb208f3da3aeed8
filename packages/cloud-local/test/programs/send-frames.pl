# Sends each line of standard input, hexadecimal, as a frame. Perl is in every Debian, and speaks AF_PACKET without a library.
#
# send-frames.pl INTERFACE-INDEX
use strict;
use warnings;

# AF_PACKET, SOCK_RAW, all protocols: packet(7).
socket my $socket, 17, 3, unpack "n", pack "S", 3 or die $!;
my $address = pack "SnlSCC a8", 17, 3, $ARGV[0], 0, 0, 6, "";
while (my $line = <STDIN>) {
  chomp $line;
  send $socket, pack("H*", $line), 0, $address or die $!;
}
