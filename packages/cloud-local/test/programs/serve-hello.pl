# Prints "listening" and answers each HTTP request with "hello".
#
# serve-hello.pl PORT
use strict;
use warnings;
use Socket;

socket my $server, PF_INET, SOCK_STREAM, 6 or die $!;
setsockopt $server, SOL_SOCKET, SO_REUSEADDR, 1 or die $!;
bind $server, sockaddr_in($ARGV[0], INADDR_ANY) or die $!;
listen $server, 5 or die $!;
$| = 1;
print "listening\n";
while (accept my $client, $server) {
  recv $client, my $request, 9999, 0;
  send $client, "HTTP/1.0 200 OK\r\n\r\nhello", 0;
  close $client;
}
