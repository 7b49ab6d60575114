//! Settings of the process: what Android keeps in system properties.
//!
//! Each has a variable of the environment; where that is not set, a line `name = value` in the file that
//! `NNBURST_CONFIG` names, else in `/etc/nnburst/nnburst.conf`, counts. Lines that begin with `#` are remarks.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::OnceLock;

/// How work is spread over devices that the caller didn't choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Partitioning {
    /// Not at all: everything on the reference device.
    No,
    /// To whichever device is best, and what fails there to the reference device.
    #[default]
    WithFallback,
    /// To whichever device is best; what fails there fails.
    WithoutFallback,
}

impl Partitioning {
    /// By the number that the setting takes.
    pub fn from_number(number: &str) -> Option<Self> {
        match number {
            "0" => Some(Self::No),
            "1" => Some(Self::WithFallback),
            "2" => Some(Self::WithoutFallback),
            _ => None,
        }
    }
}

/// One setting, for lists.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// As it is called in the file.
    pub name: &'static str,
    /// The variable of the environment, which counts first.
    pub variable: &'static str,
    /// Android's property, where it has one.
    pub property: &'static str,
    /// What holds where nothing is said.
    pub default: &'static str,
    /// What it does.
    pub meaning: &'static str,
}

const fn setting(
    name: &'static str,
    variable: &'static str,
    property: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> Setting {
    Setting { name, variable, property, default, meaning }
}

/// Every setting there is, in the order of Android's list, then our own.
pub const SETTINGS: &[Setting] = &[
    setting(
        "vlog",
        "NNBURST_VLOG",
        "debug.nn.vlog",
        "",
        "parts that log: all, or some of model, compilation, execution, cpuexe, manager, driver, memory; not in the file",
    ),
    setting(
        "partition",
        "NNBURST_PARTITION",
        "debug.nn.partition",
        "1",
        "0: everything on the reference device; 1: the best devices, with fallback; 2: without",
    ),
    setting(
        "cpu-only",
        "NNBURST_CPU_ONLY",
        "debug.nn.cpuonly",
        "0",
        "1: the reference device is the only one",
    ),
    setting(
        "syncexec-cpu",
        "NNBURST_SYNCEXEC_CPU",
        "debug.nn.syncexec-cpu",
        "1",
        "0: the reference device runs in a thread of its own",
    ),
    setting(
        "syncexec-hal",
        "NNBURST_SYNCEXEC_HAL",
        "debug.nn.syncexec-hal",
        "1",
        "0: drivers are called asynchronously",
    ),
    setting(
        "syncexec-runtime",
        "NNBURST_SYNCEXEC_RUNTIME",
        "debug.nn.syncexec-runtime",
        "0",
        "1: executions that are started run in the caller's thread",
    ),
    setting(
        "strict-slicing",
        "NNBURST_STRICT_SLICING",
        "debug.nn.strict-slicing",
        "0",
        "1: a model of which no valid part can go to an older driver is an error",
    ),
    setting(
        "sample-supported",
        "NNBURST_SAMPLE_SUPPORTED",
        "debug.nn.sample.supported",
        "0",
        "1: services whose names begin with \"sample\" or \"nnapi-sample\" seem to refuse a part of the operations",
    ),
    setting(
        "extensions-allowlist",
        "NNBURST_EXTENSIONS_ALLOWLIST",
        "(a file)",
        "/etc/nnburst/extensions_allowlist",
        "the programs that may use extensions, one path per line",
    ),
    setting(
        "service-dir",
        "NNBURST_SERVICE_DIR",
        "(hwservicemanager)",
        "$XDG_RUNTIME_DIR/nnburst",
        "where drivers are found; not in the file",
    ),
    setting(
        "isa",
        "NNBURST_ISA",
        "",
        "the best there is",
        "which kernels compute, such as scalar or avx2; not in the file",
    ),
    setting("trace", "NNBURST_TRACE", "", "", "a file for spans of time; not in the file"),
];

/// The file of settings, where no variable names another.
const FILE: &str = "/etc/nnburst/nnburst.conf";
const FILE_VARIABLE: &str = "NNBURST_CONFIG";

/// What is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `partition`.
    pub partitioning: Partitioning,
    /// `cpu-only`.
    pub cpu_only: bool,
    /// `syncexec-cpu`.
    pub synchronous_reference: bool,
    /// `syncexec-hal`.
    pub synchronous_drivers: bool,
    /// `syncexec-runtime`.
    pub synchronous_runtime: bool,
    /// `strict-slicing`.
    pub strict_slicing: bool,
    /// `sample-supported`.
    pub sample_supported: bool,
    /// `extensions-allowlist`.
    pub extensions_allowlist: PathBuf,
}

impl Settings {
    /// Reads the environment and the file.
    pub fn load() -> Self {
        let texts = Texts::read();
        let flag = |name| texts.get(name) == "1";
        Self {
            partitioning: Partitioning::from_number(texts.get("partition")).unwrap_or_default(),
            cpu_only: flag("cpu-only"),
            synchronous_reference: flag("syncexec-cpu"),
            synchronous_drivers: flag("syncexec-hal"),
            synchronous_runtime: flag("syncexec-runtime"),
            strict_slicing: flag("strict-slicing"),
            sample_supported: flag("sample-supported"),
            extensions_allowlist: texts.get("extensions-allowlist").into(),
        }
    }

    /// [`Settings::load`] of the first time: for what is asked at every execution.
    pub(crate) fn of_process() -> &'static Self {
        static SETTINGS: OnceLock<Settings> = OnceLock::new();
        SETTINGS.get_or_init(Self::load)
    }

    /// Every setting with the value that holds, and whether somebody set it.
    pub fn list() -> Vec<(&'static Setting, String, bool)> {
        let texts = Texts::read();
        let told = |setting: &'static Setting| {
            let set = texts.0.get(setting.name);
            let value = set.map_or(setting.default, String::as_str);
            (setting, value.to_owned(), set.is_some())
        };
        SETTINGS.iter().map(told).collect()
    }
}

/// What was set, by name.
struct Texts(HashMap<&'static str, String>);

impl Texts {
    fn read() -> Self {
        let file = std::env::var_os(FILE_VARIABLE).map_or_else(|| FILE.into(), PathBuf::from);
        // Without a file nothing is set by it.
        Self::from(&std::fs::read_to_string(file).unwrap_or_default(), |variable| {
            std::env::var(variable).ok()
        })
    }

    fn from(file: &str, variable: impl Fn(&str) -> Option<String>) -> Self {
        let lines = file.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        let said: HashMap<_, _> = lines
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name.trim(), value.trim()))
            .collect();
        let of = |setting: &Setting| {
            let value = variable(setting.variable).filter(|value| !value.is_empty());
            let value = value.or_else(|| said.get(setting.name).map(|&value| value.to_owned()));
            Some((setting.name, value?))
        };
        Self(SETTINGS.iter().filter_map(of).collect())
    }

    fn get(&self, name: &str) -> &str {
        let default = || SETTINGS.iter().find(|setting| setting.name == name);
        match self.0.get(name) {
            Some(value) => value,
            None => default().map_or("", |setting| setting.default),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_counts_before_the_file_and_the_file_before_the_default() {
        let file = "# a remark\n partition = 0\ncpu-only=1\nnonsense\nstrict-slicing = 1";
        let variable = |name: &str| match name {
            "NNBURST_PARTITION" => Some("2".to_owned()),
            "NNBURST_STRICT_SLICING" => Some(String::new()),
            _ => None,
        };
        let texts = Texts::from(file, variable);
        assert_eq!(texts.get("partition"), "2");
        assert_eq!(texts.get("cpu-only"), "1");
        assert_eq!(texts.get("strict-slicing"), "1", "an empty variable says nothing");
        assert_eq!(texts.get("syncexec-cpu"), "1", "by default");
        assert_eq!(texts.get("no such"), "");
    }

    #[test]
    fn settings_have_names_of_their_own() {
        let mut names: Vec<_> = SETTINGS.iter().map(|setting| setting.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SETTINGS.len());
        assert_eq!(Partitioning::from_number("7"), None);
    }
}
