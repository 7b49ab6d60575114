//! The seccomp filter: calls that no driver makes after it listens.

use std::collections::BTreeMap;
use std::path::Path;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::SandboxError;

/// Returns whether the system has filters.
pub(super) fn is_available() -> bool {
    TargetArch::try_from(std::env::consts::ARCH).is_ok()
        && Path::new("/proc/sys/kernel/seccomp/actions_avail").exists()
}

/// Filters the calls of all threads; false where the system has no filters.
pub(super) fn filter() -> Result<bool, SandboxError> {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else { return Ok(false) };
    for (rules, errno) in [(denied()?, libc::EPERM), (missing(), libc::ENOSYS)] {
        let action = SeccompAction::Errno(errno.cast_unsigned());
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch)?;
        let program: BpfProgram = filter.try_into()?;
        match seccompiler::apply_filter_all_threads(&program) {
            Ok(()) => {}
            Err(seccompiler::Error::Seccomp(error))
                if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL)) =>
            {
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

/// Puts characters into a terminal's input, as if its user had typed them. The C libraries don't
/// agree on the type of libc's constant.
const TIOCSTI: i32 = 0x5412;

/// Does so on a console, by way of its selection (`linux/tiocl.h`).
const TIOCLINUX: i32 = 0x541c;

/// `fchmodat2`, which libc doesn't name everywhere; calls of Linux 5.1 and later have the same
/// number on each architecture.
const FCHMODAT2: libc::c_long = 452;

/// `renameat`, which isn't named everywhere either; other architectures than x86-64 share numbers.
const RENAMEAT: libc::c_long = if cfg!(target_arch = "x86_64") { 264 } else { 38 };
/// `truncate`.
const TRUNCATE: libc::c_long = if cfg!(target_arch = "x86_64") { 76 } else { 45 };

/// Calls that came after `mseal` (Linux 6.10), the newest that this filter was written for, up to
/// where numbers of the x32 ABI begin.
const FUTURE: std::ops::Range<libc::c_long> = 463..512;

/// The rules of a filter: numbers of system calls, and for each of them conditions on arguments of
/// which one must hold; none for every call.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Calls that fail with EPERM.
fn denied() -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = DENIED.iter().flat_map(|&call| numbers(call)).map(always).collect();
    for (call, conditions) in conditional()? {
        for number in numbers(call) {
            let any_of = conditions.iter().map(|one| SeccompRule::new(vec![one.clone()]));
            rules.insert(number, any_of.collect::<Result<_, _>>()?);
        }
    }
    #[cfg(target_arch = "x86_64")]
    rules.extend(X32.map(|number| always(number | X32_BIT)));
    Ok(rules)
}

/// Calls that fail with EPERM where one of their conditions holds.
fn conditional() -> Result<Vec<(libc::c_long, Vec<SeccompCondition>)>, seccompiler::BackendError> {
    let executable = masked(2, libc::PROT_EXEC, libc::PROT_EXEC)?;
    let mut all = vec![
        // Threads are made, processes are not.
        (libc::SYS_clone, vec![masked(0, libc::CLONE_THREAD, 0)?]),
        (libc::SYS_mmap, vec![executable.clone()]),
        (libc::SYS_mprotect, vec![executable.clone()]),
        (libc::SYS_pkey_mprotect, vec![executable]),
        (libc::SYS_ioctl, vec![masked(1, -1, TIOCSTI)?, masked(1, -1, TIOCLINUX)?]),
        // Files are read; Landlock, where there is one, leaves few of them.
        (libc::SYS_openat, written(2)?),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, written(1)?),
    ];
    // The process may signal itself, as `abort` does, and each thread limits and schedules itself.
    let own = std::process::id().cast_signed();
    all.extend(
        [(libc::SYS_kill, own), (libc::SYS_tgkill, own), (libc::SYS_prlimit64, 0)]
            .into_iter()
            .chain(SCHEDULING.map(|call| (call, 0)))
            .map(|(call, pid)| Ok((call, vec![other_than(0, pid)?])))
            .collect::<Result<Vec<_>, seccompiler::BackendError>>()?,
    );
    Ok(all)
}

/// Calls that change how a thread is scheduled, by its number; 0 is the calling one.
const SCHEDULING: [libc::c_long; 4] = [
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
];

/// The conditions that flags of an opened file, in an argument, are not those of reading what is
/// there.
fn written(argument: u8) -> Result<Vec<SeccompCondition>, seccompiler::BackendError> {
    let flags = [
        (libc::O_ACCMODE, libc::O_WRONLY),
        (libc::O_ACCMODE, libc::O_RDWR),
        (libc::O_CREAT, libc::O_CREAT),
        (libc::O_TRUNC, libc::O_TRUNC),
    ];
    flags.into_iter().map(|(mask, value)| masked(argument, mask, value)).collect()
}

/// Calls that fail with ENOSYS, as on a kernel before them. Upon that the C library makes threads
/// by `clone` and opens files by `openat`, whose flags a filter can see.
fn missing() -> Rules {
    [libc::SYS_clone3, libc::SYS_openat2]
        .into_iter()
        .chain(FUTURE)
        .flat_map(numbers)
        .map(always)
        .collect()
}

fn always(number: i64) -> (i64, Vec<SeccompRule>) {
    (number, Vec::new())
}

/// The condition that the lower half of an argument is another number.
fn other_than(argument: u8, value: i32) -> Result<SeccompCondition, seccompiler::BackendError> {
    let value = u64::from(value.cast_unsigned());
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value)
}

/// The condition that the lower half of an argument has these bits under a mask.
fn masked(
    argument: u8,
    mask: i32,
    value: i32,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    let (mask, value) = (u64::from(mask.cast_unsigned()), u64::from(value.cast_unsigned()));
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), value)
}

/// The numbers of a call: on x86-64 its 32-bit pointers' form has one of its own.
#[cfg(target_arch = "x86_64")]
fn numbers(call: libc::c_long) -> Vec<i64> {
    vec![call, call | X32_BIT]
}

#[cfg(not(target_arch = "x86_64"))]
fn numbers(call: libc::c_long) -> Vec<i64> {
    vec![call.into()]
}

/// `__X32_SYSCALL_BIT` of the kernel's `asm/unistd.h`.
#[cfg(target_arch = "x86_64")]
const X32_BIT: i64 = 0x4000_0000;

/// Calls with other numbers there: execve, ptrace, process_vm_readv, process_vm_writev, execveat,
/// ioctl, kexec_load, rt_sigqueueinfo, rt_tgsigqueueinfo.
#[cfg(target_arch = "x86_64")]
const X32: [i64; 9] = [520, 521, 539, 540, 545, 514, 528, 524, 536];

/// Calls that no driver makes after it listens.
const DENIED: &[libc::c_long] = &[
    // Programs and processes.
    libc::SYS_execve,
    libc::SYS_execveat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_kcmp,
    // Signals to them by other ways, and their priorities.
    #[cfg(not(target_env = "musl"))]
    libc::SYS_tkill, // musl's raise
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    // What processes of a user share by name or number.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    // Sockets: what is there is accepted from or was sent.
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    // Modes, owners, times and attributes of files, which Landlock leaves alone, and lengths, which
    // it does before Linux 6.2.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    TRUNCATE,
    // Names of files, also where there is no Landlock. The driver removes its socket's in the end.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    RENAMEAT,
    libc::SYS_renameat2,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_inotify_add_watch,
    // Files by other ways than their names.
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fsconfig,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    // Users.
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setgroups,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_capset,
    // The kernel and the machine.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_personality,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];
