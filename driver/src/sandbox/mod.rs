//! The rights that a driver gives up before it serves its first client: files, sockets, programs,
//! other processes.
//!
//! A driver parses models and runs over memory of clients that nobody trusts. Should one of them
//! take it over, these are the walls: Landlock (Linux 5.13 and later) for files, TCP, signals and
//! abstract sockets; a seccomp filter for system calls that no driver makes; and capabilities,
//! without which root's driver is a user's. What the system lacks is left out and told, by
//! [`Enforcement`].
//!
//! ```text
//!                     the sandboxed driver may
//!   descriptors       use all that it has and all that clients send: memories, queues, fences
//!   files             read /proc, CPUs in /sys and cgroups; remove its own socket
//!   system calls      none that starts programs, opens sockets, maps executable memory, ...
//!   capabilities      keep those of real-time threads and locked memory, where it had them
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use caps::{CapSet, Capability};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, RestrictionStatus, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use nnburst_hal::process;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// The newest version of Landlock that is asked for; an older kernel enforces what it knows.
const LANDLOCK: ABI = ABI::V6;

/// Read at run time: limits and memory of this process and its control group, names of clients,
/// the processors that are there.
const READABLE: [&str; 3] = ["/proc", "/sys/devices/system/cpu", "/sys/fs/cgroup"];

/// Bursts of the driver's own user may ask for real-time threads and locked memory.
const KEPT: [Capability; 3] =
    [Capability::CAP_SYS_NICE, Capability::CAP_IPC_LOCK, Capability::CAP_SYS_RESOURCE];

/// The sandbox of a driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sandbox {
    /// Directories in which files may be removed.
    removable: Vec<PathBuf>,
}

impl Sandbox {
    /// The sandbox of a driver that needs no file.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets files be removed in a directory: that of services, where the driver's socket is.
    #[must_use]
    pub fn removing_in(mut self, dir: &Path) -> Self {
        self.removable.push(dir.to_owned());
        self
    }

    /// Gives up everything else, for good. Files and capabilities are given up by the calling
    /// thread and those that it starts from now on; system calls by all threads of the process.
    ///
    /// # Errors
    /// The system has one of the means and refused it.
    pub fn enforce(&self) -> Result<Enforcement, SandboxError> {
        let capabilities = drop_capabilities()?;
        let landlock = self.restrict_files()?;
        let seccomp = filter_system_calls()?;
        let enforcement = Enforcement { landlock, seccomp, capabilities };
        if enforcement.is_whole() {
            tracing::debug!("sandbox: {enforcement}");
        } else {
            tracing::warn!("sandbox: {enforcement}");
        }
        Ok(enforcement)
    }

    /// Returns what would be in force, without giving up anything.
    #[must_use]
    pub fn available() -> Enforcement {
        // A restricted thread takes its restrictions with it when it ends.
        let tried = process::spawn("nnburst-sandbox", || Self::new().restrict_files());
        let landlock = tried.ok().and_then(|thread| thread.join().ok()).and_then(Result::ok);
        Enforcement {
            landlock: landlock.unwrap_or(LandlockState::Missing),
            seccomp: TargetArch::try_from(std::env::consts::ARCH).is_ok()
                && Path::new("/proc/sys/kernel/seccomp/actions_avail").exists(),
            capabilities: caps::read(None, CapSet::Permitted).is_ok(),
        }
    }

    fn restrict_files(&self) -> Result<LandlockState, SandboxError> {
        let files = AccessFs::from_all(LANDLOCK);
        let mut ruleset = Ruleset::default()
            .handle_access(files)?
            .handle_access(AccessNet::from_all(LANDLOCK))?
            .scope(Scope::from_all(LANDLOCK))?
            .create()?;
        for path in READABLE {
            ruleset = allow(ruleset, Path::new(path), AccessFs::ReadFile | AccessFs::ReadDir)?;
        }
        for dir in &self.removable {
            ruleset = allow(ruleset, dir, AccessFs::RemoveFile.into())?;
        }
        Ok(LandlockState::of(&ruleset.restrict_self()?))
    }
}

/// Allows access beneath a path. Nothing beneath a path that is not there needs it.
fn allow(
    ruleset: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    match PathFd::new(path) {
        Ok(fd) => ruleset.add_rule(PathBeneath::new(fd, access)),
        Err(_) => Ok(ruleset),
    }
}

/// The means of a sandbox that are in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enforcement {
    /// Files, TCP, signals, abstract sockets.
    pub landlock: LandlockState,
    /// System calls; false where the system or the processor's architecture has no filter.
    pub seccomp: bool,
    /// Capabilities; false where the system tells none.
    pub capabilities: bool,
}

impl Enforcement {
    /// Returns whether nothing is missing.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        *self == Self { landlock: LandlockState::Full, seccomp: true, capabilities: true }
    }
}

impl fmt::Display for Enforcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let landlock = match self.landlock {
            LandlockState::Full => "Landlock",
            LandlockState::Partial => "Landlock of an older kernel",
            LandlockState::Missing => "no Landlock (files can be opened)",
        };
        let seccomp = if self.seccomp { "seccomp filter" } else { "no seccomp filter" };
        let capabilities =
            if self.capabilities { "capabilities dropped" } else { "capabilities unknown" };
        write!(f, "{landlock}, {seccomp}, {capabilities}")
    }
}

/// The part of Landlock that the kernel enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LandlockState {
    /// All that is asked for.
    Full,
    /// Files at least.
    Partial,
    /// Nothing: the kernel has no Landlock, or it is switched off.
    Missing,
}

impl LandlockState {
    fn of(status: &RestrictionStatus) -> Self {
        match status.ruleset {
            RulesetStatus::FullyEnforced => Self::Full,
            RulesetStatus::PartiallyEnforced => Self::Partial,
            RulesetStatus::NotEnforced => Self::Missing,
        }
    }
}

/// A driver that could not be sandboxed; it doesn't serve then.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// Landlock refused.
    #[error("Landlock: {0}")]
    Landlock(#[from] RulesetError),
    /// The seccomp filter was refused.
    #[error("seccomp filter: {0}")]
    Seccomp(#[from] seccompiler::Error),
    /// Capabilities could not be dropped.
    #[error("capabilities: {0}")]
    Capabilities(#[from] caps::errors::CapsError),
}

impl From<seccompiler::BackendError> for SandboxError {
    fn from(error: seccompiler::BackendError) -> Self {
        Self::Seccomp(error.into())
    }
}

impl From<SandboxError> for io::Error {
    fn from(error: SandboxError) -> Self {
        Self::other(format!("the sandbox could not be entered: {error}"))
    }
}

/// Keeps [`KEPT`] of the capabilities that this thread has. Others let root look into any process
/// (CAP_PERFMON reads environments) and open any file that Landlock leaves.
fn drop_capabilities() -> Result<bool, SandboxError> {
    let Ok(permitted) = caps::read(None, CapSet::Permitted) else { return Ok(false) };
    let kept = permitted.into_iter().filter(|capability| KEPT.contains(capability)).collect();
    // Of no effect once no program can be started; here for those that a debugger might.
    caps::clear(None, CapSet::Inheritable)?;
    caps::set(None, CapSet::Effective, &kept)?;
    caps::set(None, CapSet::Permitted, &kept)?;
    Ok(true)
}

fn filter_system_calls() -> Result<bool, SandboxError> {
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
