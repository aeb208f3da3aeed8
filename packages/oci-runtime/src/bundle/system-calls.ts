/**
 * System calls of x86-64, arm64 and their 32-bit programs, as sorted by the profile RuntimeDefault, with the kernel's names.
 */

/** Calls that are allowed in every container, by subject. */
export const allowedCalls: readonly string[] = words(`
  ${/* open files, and what is done with them */ ""}
  read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek _llseek readahead copy_file_range
  cachestat sendfile sendfile64 splice tee vmsplice open openat openat2 creat close close_range dup dup2 dup3 fcntl fcntl64 flock ioctl
  fsync fdatasync sync syncfs sync_file_range fadvise64 fadvise64_64 fallocate truncate truncate64 ftruncate ftruncate64
  pipe pipe2 poll ppoll ppoll_time64 select _newselect pselect6 pselect6_time64 eventfd eventfd2 memfd_create memfd_secret
  epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_wait epoll_wait_old epoll_pwait epoll_pwait2
  io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents io_pgetevents_time64
  inotify_init inotify_init1 inotify_add_watch inotify_rm_watch fanotify_mark

  ${/* names, attributes and folders */ ""}
  stat stat64 lstat lstat64 fstat fstat64 fstatat64 newfstatat statx statfs statfs64 fstatfs fstatfs64 name_to_handle_at
  access faccessat faccessat2 chmod fchmod fchmodat fchmodat2 chown chown32 lchown lchown32 fchown fchown32 fchownat umask
  link linkat symlink symlinkat readlink readlinkat unlink unlinkat rename renameat renameat2
  mkdir mkdirat rmdir mknod mknodat chdir fchdir getcwd getdents getdents64
  utime utimes utimensat utimensat_time64 futimesat
  getxattr lgetxattr fgetxattr setxattr lsetxattr fsetxattr listxattr llistxattr flistxattr
  removexattr lremovexattr fremovexattr landlock_create_ruleset landlock_add_rule landlock_restrict_self

  ${/* memory */ ""}
  brk mmap mmap2 munmap mremap mprotect madvise mincore msync mlock mlock2 mlockall munlock munlockall remap_file_pages
  pkey_alloc pkey_free pkey_mprotect membarrier map_shadow_stack process_vm_readv process_vm_writev
  get_thread_area set_thread_area

  ${/* processes and threads */ ""}
  fork vfork execve execveat exit exit_group wait4 waitid waitpid getpid getppid gettid getpgid getpgrp setpgid getsid setsid
  kill tkill tgkill pidfd_open pidfd_send_signal process_mrelease prctl seccomp ptrace rseq getcpu
  set_tid_address set_robust_list get_robust_list futex futex_time64 futex_waitv futex_wait futex_wake futex_requeue
  getpriority setpriority ioprio_get ioprio_set getrlimit ugetrlimit setrlimit prlimit64 getrusage times
  sched_yield sched_getaffinity sched_setaffinity sched_getattr sched_setattr sched_getparam sched_setparam
  sched_getscheduler sched_setscheduler sched_get_priority_max sched_get_priority_min
  sched_rr_get_interval sched_rr_get_interval_time64

  ${/* who it is, and where */ ""}
  getuid getuid32 geteuid geteuid32 getgid getgid32 getegid getegid32 getresuid getresuid32 getresgid getresgid32
  getgroups getgroups32 setuid setuid32 setgid setgid32 setreuid setreuid32 setregid setregid32 setresuid setresuid32
  setresgid setresgid32 setfsuid setfsuid32 setfsgid setfsgid32 setgroups setgroups32 capget capset
  uname sysinfo getrandom

  ${/* signals, clocks and timers */ ""}
  rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_tgsigqueueinfo rt_sigreturn rt_sigsuspend
  rt_sigtimedwait rt_sigtimedwait_time64 sigaltstack sigprocmask sigreturn signalfd signalfd4 pause restart_syscall
  time gettimeofday adjtimex clock_adjtime clock_adjtime64 clock_getres clock_getres_time64 clock_gettime clock_gettime64
  clock_nanosleep clock_nanosleep_time64 nanosleep alarm getitimer setitimer
  timer_create timer_delete timer_getoverrun timer_gettime timer_gettime64 timer_settime timer_settime64
  timerfd_create timerfd_gettime timerfd_gettime64 timerfd_settime timerfd_settime64

  ${/* sockets and other ways to talk */ ""}
  socketpair socketcall bind listen accept accept4 connect shutdown getsockname getpeername getsockopt setsockopt
  send sendto sendmsg sendmmsg recv recvfrom recvmsg recvmmsg recvmmsg_time64
  ipc msgget msgctl msgsnd msgrcv semget semctl semop semtimedop semtimedop_time64 shmget shmat shmdt shmctl
  mq_open mq_unlink mq_getsetattr mq_notify mq_timedreceive mq_timedreceive_time64 mq_timedsend mq_timedsend_time64
`);

/** Calls that are also allowed in every container on machines with this processor, by Node's name of it. */
export const callsOfProcessors: Readonly<Record<string, readonly string[]>> = {
  x64: ["arch_prctl", "modify_ldt"],
  arm64: words(
    "arm_fadvise64_64 arm_sync_file_range sync_file_range2 breakpoint cacheflush set_tls",
  ),
};

/** Calls that are allowed with a capability. */
export const callsOfCapabilities: ReadonlyMap<string, readonly string[]> = new Map(
  Object.entries({
    CAP_BPF: "bpf",
    CAP_DAC_READ_SEARCH: "open_by_handle_at",
    CAP_PERFMON: "perf_event_open",
    CAP_SYS_ADMIN: `clone clone3 unshare setns mount umount umount2 mount_setattr move_mount open_tree fsopen fsconfig
      fsmount fspick sethostname setdomainname bpf perf_event_open fanotify_init lookup_dcookie quotactl quotactl_fd syslog`,
    CAP_SYS_BOOT: "reboot",
    CAP_SYS_CHROOT: "chroot",
    CAP_SYS_MODULE: "init_module finit_module delete_module",
    CAP_SYS_NICE: "get_mempolicy set_mempolicy mbind set_mempolicy_home_node",
    CAP_SYS_PACCT: "acct",
    CAP_SYS_PTRACE: "kcmp pidfd_getfd process_madvise",
    CAP_SYS_RAWIO: "iopl ioperm",
    CAP_SYS_TIME: "settimeofday stime clock_settime clock_settime64",
    CAP_SYS_TTY_CONFIG: "vhangup",
    CAP_SYSLOG: "syslog",
  }).map(([capability, calls]) => [capability, words(calls)]),
);

/** Calls that this profile never allows, whatever the container's capabilities. */
export const forbiddenCalls: readonly string[] = words(`
  add_key keyctl request_key kexec_load kexec_file_load pivot_root swapon swapoff userfaultfd migrate_pages move_pages
  io_uring_setup io_uring_enter io_uring_register nfsservctl uselib ustat sysfs vm86 vm86old

  ${/* of old kernels and programs */ ""}
  _sysctl afs_syscall bdflush break create_module ftime get_kernel_syms getpmsg gtty idle lock mpx nice oldfstat oldlstat
  oldolduname oldstat olduname prof profil putpmsg query_module readdir security sgetmask sigaction signal sigpending
  sigsuspend ssetmask stty tuxcall ulimit vserver pciconfig_iobase pciconfig_read pciconfig_write
`);

function words(text: string): readonly string[] {
  return text.split(/\s+/).filter((word) => word !== "");
}
