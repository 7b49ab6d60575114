//! The machine before and after a run: what latencies depend on beside the driver.

use std::path::Path;

use nnburst::doctor::{Verdict, examine};

use crate::num::real_u64;
use crate::report::Host;

/// The state of the machine at the beginning of a run.
#[derive(Debug)]
pub(crate) struct Conditions {
    host: Host,
    stolen: u64,
    all: u64,
}

impl Conditions {
    pub(crate) fn before() -> Self {
        let complaints = examine().into_iter().filter(|check| check.verdict != Verdict::Good);
        let host = Host {
            cpu: cpu(),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            kernel: line("/proc/sys/kernel/osrelease"),
            governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            mhz: [mhz(), 0.0],
            load1: [load(), 0.0],
            doctor: complaints.map(|check| format!("{}: {}", check.what, check.found)).collect(),
            ..Host::default()
        };
        let (stolen, all) = jiffies();
        Self { host, stolen, all }
    }

    pub(crate) fn after(mut self) -> Host {
        let (stolen, all) = jiffies();
        let share = real_u64(stolen.saturating_sub(self.stolen))
            / real_u64(all.saturating_sub(self.all).max(1));
        let [_, mhz_after] = &mut self.host.mhz;
        *mhz_after = mhz();
        let [_, load_after] = &mut self.host.load1;
        *load_after = load();
        self.host.steal_pct = share * 100.0;
        self.host.thermal_c = thermal();
        self.host
    }
}

/// Ticks that the hypervisor kept from this machine since it was started.
pub(crate) fn stolen_jiffies() -> u64 {
    jiffies().0
}

/// Stolen ticks and all ticks.
fn jiffies() -> (u64, u64) {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = first.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    (ticks.get(7).copied().unwrap_or(0), ticks.iter().take(8).sum())
}

fn line(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn cpu() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map(|(_, name)| name.trim().to_owned()).unwrap_or_default()
}

fn mhz() -> f64 {
    let file = line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq");
    file.parse::<f64>().map_or(0.0, |khz| khz / 1000.0)
}

fn load() -> f64 {
    let text = line("/proc/loadavg");
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}

fn thermal() -> Vec<f64> {
    let zones = std::fs::read_dir(Path::new("/sys/class/thermal")).into_iter().flatten().flatten();
    let read = |path: &Path| std::fs::read_to_string(path).ok()?.trim().parse::<f64>().ok();
    zones.filter_map(|zone| Some(read(&zone.path().join("temp"))? / 1000.0)).collect()
}
