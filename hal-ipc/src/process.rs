//! The budget of this process: what all clients of all its services may have together.
//!
//! The limits come from the machine when the first client arrives. They leave a rest for the
//! process itself, so that no client ever meets the limit of the system, where a failed allocation
//! or a thread without a stack would end the process and with it everybody else's work.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use nix::sys::resource::{RLIM_INFINITY, Resource as Rlimit, getrlimit, setrlimit};
use nnburst_hal::memory::max_guarded_mappings;
use nnburst_hal::process::keep_little_freed_memory;
use nnburst_hal::{Amounts, Budget, Resource};

use crate::wire::MAX_DESCRIPTORS;

/// The limits of all clients of this process's services together, of which one user may have half:
/// each may have at most as much as is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessLimits {
    /// Threads.
    pub threads: u64,
    /// File descriptors.
    pub descriptors: u64,
    /// Memory mappings.
    pub mappings: u64,
    /// Bytes of mapped memories and queues.
    pub address_space: u64,
    /// Mapped memories that aren't sealed against shrinking.
    pub guarded_mappings: u64,
    /// Bytes of messages, models, plans, sessions and buffers.
    pub memory_bytes: u64,
}

/// The kernel's limit where it doesn't report one.
const MAX_MAP_COUNT: u64 = 65_530;

/// File descriptors that a service uses for itself.
const OWN_DESCRIPTORS: u64 = 32;

/// Threads that a service uses for itself, however many clients there are: who accepts, the watches
/// of peers and of idle models, and the program's own.
const OWN_THREADS: u64 = 8;

/// Bytes of the address space that a thread takes, mostly of its heap, where that is limited.
const THREAD_SPACE: u64 = 4 << 20;

/// The room in 47 bits of addresses beside everything else.
const ADDRESS_SPACE: u64 = 1 << 46;

impl ProcessLimits {
    /// The limits for this machine and process as they are now.
    ///
    /// `memory.max` and `pids.max` are those of the process's cgroups; 285 descriptors are 32, and
    /// the 253 that one message brings at most; of few, three eighths are for clients.
    ///
    /// | resource      | of the least of these, less what is in use               | for clients |
    /// |---------------|----------------------------------------------------------|---|
    /// | threads       | `kernel.threads-max`, `RLIMIT_NPROC`, `pids.max`         | a half - 8 |
    /// | descriptors   | `RLIMIT_NOFILE`                                          | all but 285 |
    /// | mappings      | `vm.max_map_count`                                       | seven eighths |
    /// | memory        | `MemAvailable`, `memory.max`; `RLIMIT_AS`, `RLIMIT_DATA` | 3/4; 1/2 |
    /// | address space | `RLIMIT_AS`, or else 64 TiB                              | a quarter |
    pub fn of_machine() -> Self {
        let space = left_of_rlimit(Rlimit::RLIMIT_AS, "VmSize:");
        let data = left_of_rlimit(Rlimit::RLIMIT_DATA, "VmData:");
        let cgroups = cgroups();
        let least = |bounds: &[Option<u64>]| bounds.iter().flatten().copied().min();
        let of_cgroups = |most: &str, now: &str| {
            let left = |group: &PathBuf| {
                Some(number(&group.join(most))?.saturating_sub(number(&group.join(now))?))
            };
            cgroups.iter().filter_map(left).min()
        };
        let memory = least(&[
            least(&[
                field("/proc/meminfo", "MemAvailable:").map(|kib| kib.saturating_mul(1024)),
                of_cgroups("memory.max", "memory.current"),
                of_cgroups("memory.limit_in_bytes", "memory.usage_in_bytes"),
            ])
            .map(|bytes| bytes / 4 * 3),
            space.map(|bytes| bytes / 2),
            data.map(|bytes| bytes / 2),
        ]);
        let threads = least(&[
            number(Path::new("/proc/sys/kernel/threads-max")),
            rlimit(Rlimit::RLIMIT_NPROC),
            of_cgroups("pids.max", "pids.current"),
        ]);
        let threads =
            least(&[threads.map(|count| count / 2), space.map(|bytes| bytes / 8 / THREAD_SPACE)]);
        let descriptors = rlimit(Rlimit::RLIMIT_NOFILE).unwrap_or(u64::MAX);
        let left = descriptors.saturating_sub(entries("/proc/self/fd"));
        let most = number(Path::new("/proc/sys/vm/max_map_count")).unwrap_or(MAX_MAP_COUNT);
        let maps = fs::read_to_string("/proc/self/maps").map_or(0, |maps| maps.lines().count());
        let mappings = most.saturating_sub(u64::try_from(maps).unwrap_or(u64::MAX));
        Self {
            threads: threads.map_or(u64::MAX, |count| count.saturating_sub(OWN_THREADS)),
            descriptors: descriptors_for_clients(left),
            mappings: mappings / 8 * 7,
            address_space: space.map_or(ADDRESS_SPACE, |bytes| bytes / 4),
            guarded_mappings: u64::try_from(max_guarded_mappings()).unwrap_or(u64::MAX),
            memory_bytes: memory.unwrap_or(u64::MAX),
        }
    }

    /// Has these be the limits of this process instead of [`ProcessLimits::of_machine`]. False, and
    /// nothing is changed, once a client has come to one of its services.
    pub fn apply(self) -> bool {
        let mut is_new = false;
        PROCESS.get_or_init(|| {
            is_new = true;
            Process::new(&self)
        });
        is_new
    }

    fn amounts(&self) -> Amounts {
        Amounts::UNLIMITED
            .with(Resource::Threads, self.threads)
            .with(Resource::Descriptors, self.descriptors)
            .with(Resource::Mappings, self.mappings)
            .with(Resource::AddressSpace, self.address_space)
            .with(Resource::GuardedMappings, self.guarded_mappings)
            .with(Resource::Memory, self.memory_bytes)
    }
}

/// The file descriptors for clients, of those that are left. Where there are few, a message that
/// brings more than there is room for fails (`MSG_CTRUNC`), but most bring one or two.
fn descriptors_for_clients(left: u64) -> u64 {
    let rest = left.saturating_sub(OWN_DESCRIPTORS.min(left / 4));
    let arriving = u64::try_from(MAX_DESCRIPTORS).unwrap_or(u64::MAX);
    rest.saturating_sub(arriving.min(rest / 2))
}

/// Raises the number of files that this process may have open as far as it may: for programs that
/// serve, before their first client. (What waits with `select` can't do with as many.)
pub fn raise_descriptor_limit() {
    let Ok((_, most)) = getrlimit(Rlimit::RLIMIT_NOFILE) else { return };
    // Refused, it stays as it is, and clients share that.
    let _ = setrlimit(Rlimit::RLIMIT_NOFILE, most, most);
}

/// The budgets of this process.
struct Process {
    budget: Arc<Budget>,
    users: Mutex<HashMap<u32, Weak<Budget>>>,
}

static PROCESS: OnceLock<Process> = OnceLock::new();

impl Process {
    fn new(limits: &ProcessLimits) -> Self {
        tracing::info!(?limits, "limits of all clients together");
        keep_little_freed_memory();
        Self { budget: Budget::root("process", limits.amounts()), users: Mutex::default() }
    }
}

/// The budget of a user of this process's services. It goes with the last who holds it.
pub(crate) fn user(uid: u32) -> Arc<Budget> {
    let process = PROCESS.get_or_init(|| Process::new(&ProcessLimits::of_machine()));
    let mut users = process.users.lock().unwrap_or_else(PoisonError::into_inner);
    users.retain(|_, budget| budget.strong_count() > 0);
    if let Some(known) = users.get(&uid).and_then(Weak::upgrade) {
        return known;
    }
    let budget = process.budget.fair_child(format!("user {uid}"), Amounts::UNLIMITED);
    users.insert(uid, Arc::downgrade(&budget));
    budget
}

/// Returns a limit of this process; `None` where there is none.
fn rlimit(limit: Rlimit) -> Option<u64> {
    // 32 bits on some machines.
    fn widened(limit: impl Into<u64>) -> u64 {
        limit.into()
    }
    let (current, _) = getrlimit(limit).ok()?;
    (current != RLIM_INFINITY).then_some(widened(current))
}

/// Returns the rest of a limit in bytes; `None` where there is none.
fn left_of_rlimit(limit: Rlimit, used: &str) -> Option<u64> {
    let used = field("/proc/self/status", used).unwrap_or(0).saturating_mul(1024);
    Some(rlimit(limit)?.saturating_sub(used))
}

/// The number behind a name in a file of the system.
fn field(file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The number in a file; `None` for `max`.
fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn entries(dir: &str) -> u64 {
    fs::read_dir(dir).map_or(0, |entries| u64::try_from(entries.count()).unwrap_or(u64::MAX))
}

/// The folders of this process's control groups, those around them included, of both versions.
fn cgroups() -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut folders = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { continue };
        let mut mounts = vec![PathBuf::from("/sys/fs/cgroup")];
        mounts.extend(controllers.split(',').map(|name| Path::new("/sys/fs/cgroup").join(name)));
        for mount in mounts {
            let path = mount.join(group.trim_start_matches('/'));
            let within = path.ancestors().take_while(|folder| folder.starts_with(&mount));
            folders.extend(within.map(Path::to_owned));
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_room_for_clients() {
        let limits = ProcessLimits::of_machine();
        assert!(limits.threads > 100 && limits.descriptors > 100, "{limits:?}");
        assert!(limits.mappings > 10_000 && limits.mappings < 1 << 40, "{limits:?}");
        assert!(limits.memory_bytes > 64 << 20 && limits.memory_bytes < 1 << 50, "{limits:?}");
    }

    #[test]
    fn clients_get_descriptors_of_however_few_there_are() {
        let cases = [(20_000, 20_000 - 32 - 253), (1000, 1000 - 32 - 253), (240, 104), (56, 21)];
        for (left, clients) in cases {
            assert_eq!(descriptors_for_clients(left), clients, "{left}");
        }
    }

    #[test]
    fn a_user_has_one_budget_for_as_long_as_somebody_holds_it() {
        let first = user(77_777);
        assert!(Arc::ptr_eq(&first, &user(77_777)));
        assert!(!Arc::ptr_eq(&first, &user(77_778)));
        let gone = Arc::downgrade(&first);
        drop(first);
        assert!(gone.upgrade().is_none());
    }
}
