// Made by tools/embed-scripts.ts. Do not edit.

/** packages/oci-runtime/src/exec/wait-for-process.pl */
export const waitForProcessScript = String.raw`# Runs a command that starts a process, writes its ID to a file and ends, and then waits for that process alone.
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
`;

/** packages/oci-runtime/src/sandbox/pid-holder.pl */
export const pidHolderScript = String.raw`# Makes a PID namespace with a first process, and prints that process's ID as this namespace numbers it.
# For perl-base, which every Debian has, as Node has none of these calls and programs that have them
# (unshare, setpriv) would have to be in the first process's root.
#
# Arguments: "process.arch"; the file that is to name the namespace; a directory of ours to mount on; the holding
# program in hexadecimal; the user and group it runs as; "cgroup.procs" of its cgroup; the user namespace that the PID
# namespace and its first process belong to, or nothing; then a file for each namespace that it joins. The file is bound before the process goes on, so none is left that
# cannot be found. Standard output and error close when the holding program runs; a failure is on
# standard error.
use strict;
my ($machine, $file, $root, $program, $id, $procs, @join) = @ARGV;
my $user = shift @join;
# asm/unistd.h
my %call = $machine eq 'arm64'
  ? (mount => 40, umount2 => 39, pivot_root => 41, unshare => 97, setns => 268, prctl => 167,
     capset => 91, setgroups => 159, setresgid => 149, setresuid => 147)
  : (mount => 165, umount2 => 166, pivot_root => 155, unshare => 272, setns => 308, prctl => 157,
     capset => 126, setgroups => 116, setresgid => 119, setresuid => 117);
# linux/sched.h
my ($NEWNS, $NEWCGROUP, $NEWPID, $NEWUSER) = (0x20000, 0x2000000, 0x20000000, 0x10000000);
# linux/mount.h
my ($RDONLY, $NOSUID, $NODEV, $REMOUNT, $BIND, $REC, $PRIVATE) = (1, 2, 4, 32, 4096, 16384, 1 << 18);
my $DETACH = 2;
# linux/prctl.h
my ($CAPBSET_DROP, $NO_NEW_PRIVS, $CAP_AMBIENT, $CLEAR_ALL) = (24, 38, 47, 4);

sub call {
  my ($name, @arguments) = @_;
  syscall($call{$name}, @arguments) == 0 or die "$name: $!\n";
}

# Who is root in a user namespace alone cannot open what is ours.
my @namespaces = map { open my $handle, '<', $_ or die "open $_: $!\n"; $handle } @join;
pipe my $wait, my $go or die "pipe: $!\n";
pipe my $answer, my $tell or die "pipe: $!\n";
# The process that makes the namespace: this one, or a child in the user namespace.
my $maker = $user eq '' ? 0 : fork;
defined $maker or die "fork: $!\n";
my $child;
if ($maker == 0) {
  if ($user ne '') {
    open my $handle, '<', $user or die "open $user: $!\n";
    call('setns', fileno $handle, $NEWUSER);
    call('setgroups', 0, 0);
    call('setresgid', 0, 0, 0);
    call('setresuid', 0, 0, 0);
  }
  call('unshare', $NEWPID);
  $child = fork;
  defined $child or die "fork: $!\n";
  if ($child && $user ne '') {
    syswrite $tell, "$child\n";
    exit;
  }
}
if ($maker || $child) {
  close $wait;
  close $tell;
  if ($maker) {
    $child = <$answer>;
    defined $child or exit 1;
    $child += 0;
  }
  # It comes to be the root of the cgroup namespace.
  if (open my $cgroup, '>', $procs) {
    syswrite $cgroup, $child;
  }
  my $namespace = "/proc/$child/ns/pid";
  call('mount', $namespace, $file, 0, $BIND, 0);
  syswrite STDOUT, "$child\n";
  syswrite $go, '1';
  exit;
}
close $go;
sysread $wait, my $byte, 1 or exit 1;
close $wait;

call('setns', fileno $_, 0) for @namespaces;
call('unshare', $NEWNS | $NEWCGROUP);
my ($none, $slash, $here, $type) = ('none', '/', '.', 'tmpfs');
call('mount', $none, $slash, 0, $REC | $PRIVATE, 0);
my $options = 'mode=0555,size=64k,nr_inodes=2';
call('mount', $type, $root, $type, $NOSUID | $NODEV, $options);
chdir $root or die "chdir: $!\n";
open my $holder, '>', 'pause' or die "open pause: $!\n";
syswrite $holder, pack 'H*', $program;
# Not readable: the kernel lets only those who may trace every process near one that runs it.
chmod 0111, $holder or die "chmod: $!\n";
close $holder;
call('mount', $none, $here, 0, $REMOUNT | $RDONLY | $NOSUID | $NODEV, 0);
call('pivot_root', $here, $here);
call('umount2', $here, $DETACH);
chdir '/' or die "chdir: $!\n";

for my $capability (0 .. 63) {
  last if syscall($call{prctl}, $CAPBSET_DROP, $capability, 0, 0, 0) != 0;
}
syscall($call{prctl}, $CAP_AMBIENT, $CLEAR_ALL, 0, 0, 0);
call('prctl', $NO_NEW_PRIVS, 1, 0, 0, 0);
$id = 0 + $id;
call('setgroups', 0, 0);
call('setresgid', $id, $id, $id);
call('setresuid', $id, $id, $id);
my ($header, $data) = (pack('Ll', 0x20080522, 0), "\0" x 24);
call('capset', $header, $data);

# Orphans come to this process: as it ignores their ends, the kernel itself removes them.
$SIG{CHLD} = 'IGNORE';
%ENV = ();
close STDIN;
# What the agent may have left open for its programs: close_range(3, all, CLOSE_RANGE_CLOEXEC).
my ($first, $last, $on_exec) = (3, 0xffffffff, 4);
syscall(436, $first, $last, $on_exec) == 0 or die "close_range: $!\n";
# They close with the start of the program.
for my $output (\*STDOUT, \*STDERR) {
  fcntl $output, 2, 1; # F_SETFD, FD_CLOEXEC
}
exec { '/pause' } 'pause' or die "start the holding program: $!\n";
`;

/** packages/oci-runtime/src/sandbox/user-namespace.pl */
export const userNamespaceScript = String.raw`# Makes a user namespace and further namespaces that belong to it, and binds each to a file, which keeps it
# without any process in it. For perl-base, which every Debian has: unshare(1) needs newuidmap to map more than one ID.
#
# Arguments: "process.arch"; the first ID of this machine that the namespace maps, to its own 0; how many; the file of
# the user namespace; then pairs of a kind ("ipc", "net", "uts") and its file. A failure is on standard error.
use strict;
my ($machine, $first, $count, $user, %files) = @ARGV;
# asm/unistd.h
my %call = $machine eq 'arm64' ? (mount => 40, unshare => 97) : (mount => 165, unshare => 272);
# linux/sched.h
my %flag = (user => 0x10000000, ipc => 0x8000000, net => 0x40000000, uts => 0x4000000);
my $BIND = 4096; # linux/mount.h
$files{user} = $user;
my $flags = 0;
$flags |= $flag{$_} for keys %files;

pipe my $made, my $make or die "pipe: $!\n";
pipe my $bound, my $bind or die "pipe: $!\n";
my $child = fork;
defined $child or die "fork: $!\n";
if (!$child) {
  close $made;
  close $bind;
  syscall($call{unshare}, $flags) == 0 or die "unshare: $!\n";
  syswrite $make, '1';
  # Until its namespaces are bound, or the parent has failed.
  sysread $bound, my $byte, 1;
  exit;
}
close $make;
close $bound;
sysread $made, my $byte, 1 or exit 1;
for my $map ('uid_map', 'gid_map') {
  open my $file, '>', "/proc/$child/$map" or die "open $map: $!\n";
  syswrite $file, "0 $first $count\n" or die "write $map: $!\n";
}
for my $kind (sort keys %files) {
  my $namespace = "/proc/$child/ns/$kind";
  syscall($call{mount}, $namespace, $files{$kind}, 0, $BIND, 0) == 0 or die "bind $kind: $!\n";
}
close $bind;
waitpid $child, 0;
`;
