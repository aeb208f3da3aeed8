# Prints "listening" and answers each HTTP request with "hello", by IPv4 and IPv6.
#
# serve-hello.pl PORT
use strict;
use warnings;
use Socket qw(:DEFAULT IN6ADDR_ANY pack_sockaddr_in6);

my ($server, $place);
if (socket $server, PF_INET6, SOCK_STREAM, 6) { $place = pack_sockaddr_in6($ARGV[0], IN6ADDR_ANY) }
else {
  socket $server, PF_INET, SOCK_STREAM, 6 or die $!;
  $place = sockaddr_in($ARGV[0], INADDR_ANY);
}
setsockopt $server, SOL_SOCKET, SO_REUSEADDR, 1 or die $!;
bind $server, $place or die $!;
listen $server, 5 or die $!;
$| = 1;
print "listening\n";
while (accept my $client, $server) {
  recv $client, my $request, 9999, 0;
  send $client, "HTTP/1.0 200 OK\r\n\r\nhello", 0;
  close $client;
}
