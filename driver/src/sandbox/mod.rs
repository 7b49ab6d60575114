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

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
mod system_calls;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use caps::{CapSet, Capability};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, RestrictionStatus, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use nnburst_hal::process;

/// The crate that writes the filter knows other processors.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
mod system_calls {
    pub(super) fn filter() -> Result<bool, super::SandboxError> {
        Ok(false)
    }

    pub(super) fn is_available() -> bool {
        false
    }
}

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
    /// Files, and directories with all below them, that may be read.
    readable: Vec<PathBuf>,
    /// True for tests of what the other means achieve by themselves.
    lacks_landlock: bool,
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

    /// Lets a file be read, or a directory and all below it: such as the file of settings that the
    /// driver reads again. A file that is replaced by another can't be read any more; its directory
    /// outlives that.
    #[must_use]
    pub fn reading(mut self, path: &Path) -> Self {
        self.readable.push(path.to_owned());
        self
    }

    /// The sandbox of a kernel without Landlock.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn without_landlock(mut self) -> Self {
        self.lacks_landlock = true;
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
        let seccomp = system_calls::filter()?;
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
            seccomp: system_calls::is_available(),
            capabilities: caps::read(None, CapSet::Permitted).is_ok(),
        }
    }

    fn restrict_files(&self) -> Result<LandlockState, SandboxError> {
        if self.lacks_landlock {
            return Ok(LandlockState::Missing);
        }
        let files = AccessFs::from_all(LANDLOCK);
        let mut ruleset = Ruleset::default()
            .handle_access(files)?
            .handle_access(AccessNet::from_all(LANDLOCK))?
            .scope(Scope::from_all(LANDLOCK))?
            .create()?;
        let dirs = READABLE.map(Path::new).into_iter();
        for path in dirs.chain(self.readable.iter().map(PathBuf::as_path)) {
            let read = BitFlags::from(AccessFs::ReadFile);
            // The kernel refuses a file's rule that speaks of directories.
            let access = if path.is_dir() { read | AccessFs::ReadDir } else { read };
            ruleset = allow(ruleset, path, access)?;
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
            LandlockState::Missing => "no Landlock (files can be read and removed)",
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
