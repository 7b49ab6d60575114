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

/// The rules of a filter: numbers of system calls, and for each of them conditions on arguments of
/// which one must hold; none for every call.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Calls that fail with EPERM.
fn denied() -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = DENIED.iter().flat_map(|&call| numbers(call)).map(always).collect();
    // Threads are made, processes are not.
    let no_thread = masked(0, libc::CLONE_THREAD, 0)?;
    for call in numbers(libc::SYS_clone) {
        rules.insert(call, vec![SeccompRule::new(vec![no_thread.clone()])?]);
    }
    let executable = masked(2, libc::PROT_EXEC, libc::PROT_EXEC)?;
    let typed_for_the_user = masked(1, -1, TIOCSTI)?;
    for (call, condition) in [
        (libc::SYS_mmap, executable.clone()),
        (libc::SYS_mprotect, executable.clone()),
        (libc::SYS_pkey_mprotect, executable),
        (libc::SYS_ioctl, typed_for_the_user),
    ] {
        for number in numbers(call) {
            rules.insert(number, vec![SeccompRule::new(vec![condition.clone()])?]);
        }
    }
    #[cfg(target_arch = "x86_64")]
    rules.extend(X32.map(|number| always(number | X32_BIT)));
    Ok(rules)
}

/// Calls that fail with ENOSYS, upon which the C library makes threads by `clone`, whose flags a
/// filter can see.
fn missing() -> Rules {
    numbers(libc::SYS_clone3).into_iter().map(always).collect()
}

fn always(number: i64) -> (i64, Vec<SeccompRule>) {
    (number, Vec::new())
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
/// ioctl, kexec_load.
#[cfg(target_arch = "x86_64")]
const X32: [i64; 7] = [520, 521, 539, 540, 545, 514, 528];

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
    libc::SYS_kcmp,
    // Sockets: what is there is accepted from or was sent.
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
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
