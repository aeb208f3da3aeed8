# Sends a datagram, and prints the error that comes back within five seconds, "an answer" or "no answer".
#
# ask-udp.pl ADDRESS PORT SOURCE-ADDRESS
use strict;
use warnings;
use Errno;
use Socket;

my ($address, $port, $source) = @ARGV;
socket my $socket, PF_INET, SOCK_DGRAM, 17 or die $!;
bind $socket, sockaddr_in(0, inet_aton($source)) or die $!;
connect $socket, sockaddr_in($port, inet_aton($address)) or die $!;
setsockopt $socket, SOL_SOCKET, SO_RCVTIMEO, pack "qq", 5, 0 or die $!;
send $socket, "question", 0;
if (defined recv $socket, my $answer, 100, 0) { print "an answer" }
else { print $!{EAGAIN} ? "no answer" : "$!" }
