# Prints "listening", sends a datagram that was not asked for from another port, and answers the first one that comes.
#
# answer-udp.pl PORT ASKER-ADDRESS ASKER-PORT [OWN-ADDRESS [BYTES-OF-ANSWER]]
use strict;
use warnings;
use Socket;

my ($port, $asker, $asker_port, $own, $bytes) = @ARGV;
socket my $socket, PF_INET, SOCK_DGRAM, 17 or die $!;
bind $socket, sockaddr_in($port, $own ? inet_aton($own) : INADDR_ANY) or die $!;
socket my $other, PF_INET, SOCK_DGRAM, 17 or die $!;
$| = 1;
print "listening\n";
send $other, "unasked", 0, sockaddr_in($asker_port, inet_aton($asker));
my $from = recv $socket, my $question, 100, 0;
send $socket, $bytes ? "." x $bytes : "answer", 0, $from;
