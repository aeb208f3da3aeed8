# Runs a command that starts a process, writes its ID to a file and ends, and then waits for that process alone.
# For perl-base, which every Debian has, as Node neither adopts the descendants of its children nor waits for them.
#
# Arguments: "process.arch"; the file; a socket, or nothing; the command. Ends as the process does, with 128 and the number of
# a signal; if the command fails, as that does. What the process leaves running goes to the first process of the machine.
# With a socket, which the command sends the process's terminal to, input and output are passed on meanwhile.
use strict;
my ($machine, $file, $socket, @command) = @ARGV;
my $is_arm = $machine eq 'arm64'; # asm/unistd.h
my ($prctl, $recvmsg) = $is_arm ? (167, 212) : (157, 47);
my ($SET_CHILD_SUBREAPER, $on) = (36, 1); # linux/prctl.h
syscall($prctl, $SET_CHILD_SUBREAPER, $on, 0, 0, 0) == 0 or die "prctl: $!\n";

# How processes have ended while the ID is not known. Whatever ends meanwhile must be waited for: it is this program's child now.
my %ends;
my $WNOHANG = 1; # sys/wait.h
my ($EINTR, $EAGAIN) = (4, 11); # asm-generic/errno-base.h
# What a terminal holds of what was printed, and more: without end is what a process in the background prints.
my $held = 131072;

# Whether a process has ended. Takes up what has ended until then; all of it, if it does not block.
sub has_ended {
  my ($pid, $is_known, $flags) = @_;
  until (defined $ends{$pid}) {
    my $ended = waitpid(-1, $flags);
    return 0 if $ended == 0;
    $ended > 0 or die "wait for process $pid: $!\n";
    next if $is_known && $ended != $pid;
    $ends{$ended} = $? & 127 ? 128 + ($? & 127) : $? >> 8;
  }
  return 1;
}

sub end_of {
  my ($pid, $is_known) = @_;
  has_ended($pid, $is_known, 0);
  return $ends{$pid};
}

# The terminal that a program sends through a socket: a descriptor in a control message (cmsg(3)).
sub receive_terminal {
  my ($connection) = @_;
  my ($name, $control) = ("\0" x 4096, "\0" x 24);
  my $vector = pack 'P Q', $name, length $name;
  my $message = pack 'Q L x4 P Q P Q l x4', 0, 0, $vector, 1, $control, length $control, 0;
  my $length = syscall($recvmsg, fileno $connection, $message, 0);
  $length > 0 or die "receive the terminal: $!\n";
  my (undef, $level, $type, $descriptor) = unpack 'Q l l l', $control;
  $level == Socket::SOL_SOCKET() && $type == Socket::SCM_RIGHTS() or die "receive the terminal: there is none\n";
  open my $terminal, '+<&=', $descriptor or die "open the terminal: $!\n";
  return $terminal;
}

# Passes input and output on until a process has ended, and what it has printed until then.
sub pass_on {
  my ($terminal, $pid) = @_;
  pipe my $woken, my $wake or die "pipe: $!\n";
  $_->blocking(0) for $terminal, $woken, $wake;
  # A child that ends in any moment from now on makes the pipe readable, so that no wait begins after it.
  local $SIG{CHLD} = sub { syswrite $wake, '.' };
  my ($pending, $has_input, $has_output) = ('', 1, 1);
  until (has_ended($pid, 1, $WNOHANG)) {
    my ($readable, $writable) = ('', '');
    vec($readable, fileno $woken, 1) = 1;
    vec($readable, fileno $terminal, 1) = 1 if $has_output;
    vec($readable, fileno STDIN, 1) = 1 if $has_input && $pending eq '';
    vec($writable, fileno $terminal, 1) = 1 if $pending ne '';
    next if select($readable, $writable, undef, undef) <= 0;
    sysread $woken, my $ignored, 4096 if vec $readable, fileno $woken, 1;
    if (vec $readable, fileno STDIN, 1) {
      # The end of the input is what a user's Ctrl-D is.
      sysread STDIN, $pending, 4096 or ($has_input, $pending) = (0, "\4");
    }
    if ($pending ne '') {
      my $written = syswrite $terminal, $pending;
      $pending = defined $written ? substr $pending, $written : $! == $EAGAIN ? $pending : '';
    }
    # At its end nobody has it open.
    $has_output = 0 if vec($readable, fileno $terminal, 1) && !print_some($terminal);
  }
  for (my $left = $held; $left > 0;) {
    my $length = print_some($terminal) or last;
    $left -= $length;
  }
}

# Prints what a terminal has now. Returns how much that was.
sub print_some {
  my ($terminal) = @_;
  my $length = sysread $terminal, my $text, 65536;
  return 0 unless $length;
  for (my $done = 0; $done < $length;) {
    my $written = syswrite STDOUT, $text, $length - $done, $done;
    return $length unless defined $written || $! == $EINTR;
    $done += $written // 0;
  }
  return $length;
}

my $listener;
if ($socket ne '') {
  require Socket;
  require IO::Handle;
  socket $listener, Socket::AF_UNIX(), Socket::SOCK_STREAM(), 0 or die "socket: $!\n";
  bind $listener, Socket::pack_sockaddr_un($socket) or die "bind: $!\n";
  listen $listener, 1 or die "listen: $!\n";
}
my $child = fork;
defined $child or die "fork: $!\n";
if ($child == 0) {
  exec { $command[0] } @command or die "start $command[0]: $!\n";
}
my $code = end_of($child, 0);
exit $code if $code != 0;
open my $ids, '<', $file or exit 255;
my $pid = <$ids> + 0;
if ($listener) {
  accept my $connection, $listener or die "accept: $!\n";
  my $terminal = receive_terminal($connection);
  # A client that has gone is noticed elsewhere.
  $SIG{PIPE} = 'IGNORE';
  pass_on($terminal, $pid);
}
# Its end of output is the process's, not this program's.
close STDIN;
close STDOUT;
close STDERR;
exit end_of($pid, 1);
