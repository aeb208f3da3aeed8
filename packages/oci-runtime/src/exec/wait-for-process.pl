# Runs a command that starts a process, writes its ID to a file and ends, and then waits for that process alone.
# For perl-base, which every Debian has, as Node neither adopts the descendants of its children nor waits for them.
#
# Arguments: "process.arch"; the file; the command. Ends as the process does, with 128 and the number of a signal; if
# the command fails, as that does. What the process leaves running goes to the first process of the machine.
use strict;
my ($machine, $file, @command) = @ARGV;
my $prctl = $machine eq 'arm64' ? 167 : 157; # asm/unistd.h
my ($SET_CHILD_SUBREAPER, $on) = (36, 1); # linux/prctl.h
syscall($prctl, $SET_CHILD_SUBREAPER, $on, 0, 0, 0) == 0 or die "prctl: $!\n";

# How processes have ended while the ID is not known. Whatever ends meanwhile must be waited for: it is this program's child now.
my %ends;

sub end_of {
  my ($pid, $is_known) = @_;
  until (defined $ends{$pid}) {
    my $ended = waitpid(-1, 0);
    $ended > 0 or die "wait for process $pid: $!\n";
    next if $is_known && $ended != $pid;
    $ends{$ended} = $? & 127 ? 128 + ($? & 127) : $? >> 8;
  }
  return $ends{$pid};
}

my $child = fork;
defined $child or die "fork: $!\n";
if ($child == 0) {
  exec { $command[0] } @command or die "start $command[0]: $!\n";
}
my $code = end_of($child, 0);
exit $code if $code != 0;
# Its end of output is the process's, not this program's.
close STDIN;
close STDOUT;
close STDERR;
open my $ids, '<', $file or exit 255;
exit end_of(<$ids> + 0, 1);
