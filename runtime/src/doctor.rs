//! Checks whether this machine lets bursts be as quick as they can be, with the cure where it
//! doesn't.

use std::path::Path;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nnburst_driver::Sandbox;
use nnburst_executor::Isa;
use nnburst_hal::process;
use nnburst_hal::trusted::TrustedDir;
use nnburst_hal::{Memory, RealTimeProfile};
use nnburst_hal_ipc::{service_dir, service_owners, services};

use crate::burst::FIFO_PRIORITY;
use crate::extensions::extensions_are_allowed;
use crate::settings::Settings;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it should be.
    Good,
    /// Everything works, though slower or with less than could be.
    Advice,
    /// Something doesn't work.
    Bad,
}

/// One thing that was looked at.
#[derive(Clone, Debug)]
pub struct Check {
    /// The thing that was checked.
    pub what: &'static str,
    /// Its result.
    pub verdict: Verdict,
    /// The state that was found.
    pub found: String,
    /// The cure; empty where nothing is to be done.
    pub advice: &'static str,
}

/// Looks at everything that matters.
pub fn examine() -> Vec<Check> {
    vec![
        instruction_set(),
        processors(),
        locked_memory(),
        real_time(),
        real_time_share(),
        frequency(),
        huge_pages(),
        sealed_memory(),
        descriptors(),
        directory(),
        allowlist(),
        sandbox(),
        settings(),
    ]
}

/// Good, or else advice.
fn advised(what: &'static str, is_good: bool, found: String, advice: &'static str) -> Check {
    let verdict = if is_good { Verdict::Good } else { Verdict::Advice };
    Check { what, verdict, found, advice: if is_good { "" } else { advice } }
}

/// Good, or else bad.
fn need(what: &'static str, is_good: bool, found: String, advice: &'static str) -> Check {
    let verdict = if is_good { Verdict::Good } else { Verdict::Bad };
    Check { what, verdict, found, advice: if is_good { "" } else { advice } }
}

fn instruction_set() -> Check {
    let what = "instruction set";
    match Isa::from_environment() {
        Ok(isa) => advised(
            what,
            isa == Isa::best() && isa != Isa::Scalar,
            format!("{isa:?} is used, the best here is {:?}", Isa::best()),
            "unset NNBURST_ISA, or the file's `isa`; kernels are written for AVX2, AVX-VNNI, AVX-512 with VNNI, and NEON",
        ),
        Err(error) => {
            need(what, false, error.to_string(), "unset NNBURST_ISA, or the file's `isa`")
        }
    }
}

fn processors() -> Check {
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let isolated = read("/sys/devices/system/cpu/isolated").filter(|list| !list.is_empty());
    let isolated =
        isolated.map_or_else(|| "none isolated".into(), |list| format!("{list} isolated"));
    advised(
        "processors",
        count >= 2,
        format!("{count} for this process, {isolated}"),
        "a polling burst needs a core for each side; on one core use `--wait block`",
    )
}

/// More than the arenas and packed weights of most networks.
const ENOUGH_LOCKED: u64 = 256 << 20;

fn locked_memory() -> Check {
    let limit = limit_of(Resource::RLIMIT_MEMLOCK);
    // The limit doesn't hold for who has this capability, as root mostly has.
    let may = has_capability(CAP_IPC_LOCK);
    advised(
        "locked memory",
        may || limit.is_none_or(|limit| limit >= ENOUGH_LOCKED),
        match limit {
            None => "no limit".into(),
            Some(limit) if may => format!("a limit of {} KiB, lifted by CAP_IPC_LOCK", limit >> 10),
            Some(limit) => format!("at most {} KiB", limit >> 10),
        },
        "raise memlock in /etc/security/limits.conf (or LimitMEMLOCK= of the service) for `--realtime`",
    )
}

/// The kernel's number of the capability to lock memory.
const CAP_IPC_LOCK: u32 = 14;

/// Returns a limit of this process; `None` where there is none.
fn limit_of(resource: Resource) -> Option<u64> {
    // 32 bits on some machines.
    fn widened(limit: impl Into<u64>) -> u64 {
        limit.into()
    }
    let (current, _) = getrlimit(resource).ok()?;
    (current != RLIM_INFINITY).then_some(widened(current))
}

fn has_capability(number: u32) -> bool {
    let status = read("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits >> number & 1 == 1)
}

/// Tried, in a thread that ends at once: neither the user nor the limit alone decides.
fn real_time() -> Check {
    let profile =
        RealTimeProfile { fifo_priority: Some(FIFO_PRIORITY), ..RealTimeProfile::default() };
    let tried = process::spawn("nnburst-doctor", move || nnburst_burst::realtime::apply(&profile));
    let refused = tried.ok().and_then(|thread| thread.join().ok()).unwrap_or_default();
    advised(
        "real-time priority",
        refused.is_empty(),
        refused.into_iter().next().unwrap_or_else(|| format!("{FIFO_PRIORITY} is granted")),
        "raise rtprio to 50 in /etc/security/limits.conf (or LimitRTPRIO= of the service) for `--realtime`",
    )
}

fn real_time_share() -> Check {
    let share = read("/proc/sys/kernel/sched_rt_runtime_us");
    advised(
        "real-time share",
        share.as_deref().is_none_or(|share| share == "-1"),
        share.map_or_else(|| "not limited".into(), |share| format!("{share} us of every second")),
        "a polling real-time thread is stopped for the rest of each second: sysctl kernel.sched_rt_runtime_us=-1",
    )
}

fn frequency() -> Check {
    let governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    advised(
        "frequency",
        governor.as_deref().is_none_or(|governor| governor == "performance"),
        governor.map_or_else(
            || "no governor is visible".into(),
            |governor| format!("governor {governor}"),
        ),
        "cpupower frequency-set -g performance: otherwise paced frames run on a slow core",
    )
}

fn huge_pages() -> Check {
    let chosen = |what: &str| {
        let setting = read(&format!("/sys/kernel/mm/transparent_hugepage/{what}"));
        let setting = setting.unwrap_or_default();
        setting.split(['[', ']']).nth(1).unwrap_or("none").to_owned()
    };
    let (enabled, defrag) = (chosen("enabled"), chosen("defrag"));
    // "defer" leaves even those who ask to the background; "never" gives what lies ready.
    let is_enabled = enabled == "always" || enabled == "madvise";
    let is_made = matches!(defrag.as_str(), "always" | "madvise" | "defer+madvise");
    advised(
        "huge pages",
        is_enabled && is_made,
        format!("transparent: {enabled}, defrag: {defrag}"),
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, and > .../defrag: fewer TLB misses in weights",
    )
}

fn sandbox() -> Check {
    let what = "sandbox";
    let available = Sandbox::available();
    if !Settings::of_process().sandbox {
        let cure =
            "unset NNBURST_SANDBOX, or the file's `sandbox`: drivers keep all rights of their user";
        return advised(what, false, "switched off by the setting `sandbox`".to_owned(), cure);
    }
    advised(
        what,
        available.is_whole(),
        available.to_string(),
        "a kernel with Landlock (6.12 or later has all of it; `lsm=landlock,...` if it is off) and seccomp filters",
    )
}

fn sealed_memory() -> Check {
    let made = Memory::ashmem(4096).and_then(|memory| {
        let mapping = memory.map(nnburst_hal::Access::ReadWrite)?;
        Ok((memory, mapping))
    });
    let found = match &made {
        Ok(_) => "memfd, sealed and mapped".to_owned(),
        Err(error) => error.to_string(),
    };
    need(
        "sealed memory",
        made.is_ok(),
        found,
        "a kernel with memfd_create and seals, 3.17 or later",
    )
}

/// Each burst takes about 8, each memory one.
const ENOUGH_DESCRIPTORS: u64 = 1024;

fn descriptors() -> Check {
    let limit = limit_of(Resource::RLIMIT_NOFILE);
    advised(
        "descriptors",
        limit.is_none_or(|limit| limit >= ENOUGH_DESCRIPTORS),
        limit.map_or_else(|| "no limit".into(), |limit| format!("at most {limit}")),
        "ulimit -n 4096: every memory is a descriptor in both processes",
    )
}

fn directory() -> Check {
    let what = "service directory";
    let examined = service_dir().and_then(|dir| {
        let found = match TrustedDir::open(&dir, service_owners()?) {
            Err(error) if error.is_absent() => {
                "does not exist: no service runs, the embedded device is used".to_owned()
            }
            opened => {
                opened?;
                format!("is trusted, {} services", services(&dir)?.len())
            }
        };
        Ok(format!("{} {found}", dir.display()))
    });
    match examined {
        Ok(found) => advised(what, true, found, ""),
        Err(error) => need(
            what,
            false,
            error.to_string(),
            "no service is used: make the directory yours alone (chmod 700), or set NNBURST_SERVICE_DIR",
        ),
    }
}

fn allowlist() -> Check {
    let list = Settings::load().extensions_allowlist;
    let there = if Path::new(&list).exists() { "" } else { ", which does not exist" };
    let may = if extensions_are_allowed() { "allowed" } else { "not allowed" };
    advised("extensions", true, format!("{may} to this program by {}{there}", list.display()), "")
}

fn settings() -> Check {
    let mistakes = Settings::mistakes();
    advised(
        "settings",
        mistakes.is_empty(),
        if mistakes.is_empty() { "all of them understood".into() } else { mistakes.join("; ") },
        "correct /etc/nnburst/nnburst.conf, the file of NNBURST_CONFIG, or the variable",
    )
}

fn read(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_good_comes_with_advice() {
        let checks = examine();
        assert_eq!(checks.len(), 13);
        for check in &checks {
            assert_eq!(check.verdict != Verdict::Good, !check.advice.is_empty(), "{}", check.what);
            assert!(!check.found.is_empty(), "{}", check.what);
        }
        assert!(checks.iter().any(|check| check.what == "sealed memory"));
    }
}
