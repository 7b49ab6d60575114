//! Settings of the process: what Android keeps in system properties.
//!
//! Each has a variable of the environment; where that is not set, a line `name = value` in the file
//! that `NNBURST_CONFIG` names, else in `/etc/nnburst/nnburst.conf`, counts. Lines that begin with
//! `#` are remarks.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use nnburst_hal::{environment, setting_variable, settings_file, settings_in, settings_text};
use nnburst_hal_ipc::service_dir;
use once_cell::race::OnceBox;

use crate::log_format::LogFormat;
use crate::wait::Wait;

/// The partitioning over devices that the caller didn't choose.
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
    /// Android's property, where it has one.
    pub property: &'static str,
    /// The default.
    pub default: &'static str,
    /// Its effect.
    pub meaning: &'static str,
}

impl Setting {
    /// The variable of the environment, which counts first.
    pub fn variable(&self) -> String {
        setting_variable(self.name)
    }
}

const fn setting(
    name: &'static str,
    property: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> Setting {
    Setting { name, property, default, meaning }
}

/// Every setting there is, in the order of Android's list, then our own.
pub const SETTINGS: &[Setting] = &[
    setting(
        "vlog",
        "debug.nn.vlog",
        "",
        "parts that log: all, or some of model, compilation, execution, cpuexe, manager, driver, memory",
    ),
    setting(
        "partition",
        "debug.nn.partition",
        "1",
        "0: everything on the reference device; 1: the best devices, with fallback; 2: without",
    ),
    setting(
        "prefer-served",
        "",
        "1",
        "1: where no device is named, a driver in another process that takes all of a model is preferred to this process; 0: figures alone decide",
    ),
    setting("cpu-only", "debug.nn.cpuonly", "0", "1: the reference device is the only one"),
    setting(
        "syncexec-cpu",
        "debug.nn.syncexec-cpu",
        "1",
        "0: the reference device runs in a thread of its own",
    ),
    setting("syncexec-hal", "debug.nn.syncexec-hal", "1", "0: drivers are called asynchronously"),
    setting(
        "syncexec-runtime",
        "debug.nn.syncexec-runtime",
        "0",
        "1: executions that are started run in the caller's thread",
    ),
    setting(
        "strict-slicing",
        "debug.nn.strict-slicing",
        "0",
        "1: a model of which no valid part can go to an older driver is an error",
    ),
    setting(
        "sample-supported",
        "debug.nn.sample.supported",
        "0",
        "1: services whose names begin with \"sample\" or \"nnapi-sample\" report a part of the operations as not supported",
    ),
    setting(
        "burst-window",
        "debug.nn.burst-conrtoller-polling-window, debug.nn.sample-driver-burst-polling-window",
        "2000",
        "microseconds that both ends of a burst poll at most before they sleep, where they wait adaptively; Android's is 50; 0: they sleep at once",
    ),
    setting(
        "burst-wait",
        "",
        "auto",
        "how both ends of a burst wait unless the program chooses: spin, adaptive, block; auto is block for LOW_POWER, else adaptive",
    ),
    setting(
        "hint",
        "",
        "",
        "bf16: the precision hint; drivers compute models that allow relaxed precision with bf16 factors",
    ),
    setting(
        "keep-warm",
        "",
        "1",
        "0: drivers neither touch weights nor warm up while their bursts poll and no request comes",
    ),
    setting(
        "sandbox",
        "",
        "1",
        "0: drivers in processes of their own keep the rights of their user: files, sockets, programs",
    ),
    setting(
        "extensions-allowlist",
        "(a file)",
        "/etc/nnburst/extensions_allowlist",
        "the programs that may use extensions, one path per line",
    ),
    setting(
        "service-dir",
        "(hwservicemanager)",
        "$XDG_RUNTIME_DIR/nnburst",
        "the directory of the services' sockets",
    ),
    setting(
        "service-user",
        "",
        "",
        "uid or name of another user whose services are trusted, beside root's and your own",
    ),
    setting(
        "service-timeout",
        "",
        "5000",
        "milliseconds that a service may take to greet and to answer a query; one that computes is pinged as often",
    ),
    setting("isa", "", "the best there is", "which kernels compute, such as scalar or avx2"),
    setting(
        "log",
        "(logcat)",
        "",
        "what the command and the C library write to standard error, such as warn or nnburst_burst=trace; else the tags of vlog",
    ),
    setting(
        "log-format",
        "",
        "auto",
        "how that is written: plain, json (an object per line), journal (with fields); auto is journal where standard error is the journal's, else plain",
    ),
    setting(
        "serve-config",
        "",
        "~/.config/nnburst/serve.toml, else /etc/nnburst/serve.toml",
        "the file with the limits of services that nnburst serve reads",
    ),
    setting("trace", "", "", "a file that the command and the C library write spans of time to"),
    setting(
        "state-dir",
        "(a file)",
        "$XDG_STATE_HOME/nnburst",
        "the directory of the figures that drivers measured",
    ),
];

/// The values of all settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `partition`.
    pub partitioning: Partitioning,
    /// `prefer-served`.
    pub prefer_served: bool,
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
    /// `burst-window`.
    pub burst_window: Duration,
    /// `burst-wait`.
    pub burst_wait: Wait,
    /// True if `hint` is `bf16`.
    pub bf16: bool,
    /// `keep-warm`.
    pub keep_warm: bool,
    /// `sandbox`.
    pub sandbox: bool,
    /// `extensions-allowlist`.
    pub extensions_allowlist: PathBuf,
}

/// The source of a setting's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// Its variable of the environment.
    Environment,
    /// The file of settings.
    File(PathBuf),
}

/// A setting as it stands.
#[derive(Clone, Debug)]
pub struct Current {
    /// The setting.
    pub setting: &'static Setting,
    /// The value that holds.
    pub value: String,
    /// The source of the value.
    pub origin: Origin,
}

impl Settings {
    /// Reads the environment and the file.
    pub fn load() -> Self {
        let texts = Texts::read();
        let flag = |name| texts.get(name) == "1";
        Self {
            partitioning: Partitioning::from_number(texts.get("partition")).unwrap_or_default(),
            prefer_served: flag("prefer-served"),
            cpu_only: flag("cpu-only"),
            synchronous_reference: flag("syncexec-cpu"),
            synchronous_drivers: flag("syncexec-hal"),
            synchronous_runtime: flag("syncexec-runtime"),
            strict_slicing: flag("strict-slicing"),
            sample_supported: flag("sample-supported"),
            burst_window: texts
                .get("burst-window")
                .parse()
                .map_or(BURST_WINDOW, Duration::from_micros),
            burst_wait: Wait::from_name(texts.get("burst-wait")).unwrap_or_default(),
            bf16: texts.get("hint") == "bf16",
            keep_warm: flag("keep-warm"),
            sandbox: flag("sandbox"),
            extensions_allowlist: texts.get("extensions-allowlist").into(),
        }
    }

    /// [`Settings::load`] of the first time: for what is asked at every execution.
    pub(crate) fn of_process() -> &'static Self {
        static SETTINGS: OnceBox<Settings> = OnceBox::new();
        SETTINGS.get_or_init(|| Box::new(Self::load()))
    }

    /// Every setting as it stands.
    pub fn list() -> Vec<Current> {
        let texts = Texts::read();
        let current = |setting: &'static Setting| {
            let (value, origin) = match texts.said.get(setting.name) {
                Some((value, true)) => (value.clone(), Origin::Environment),
                Some((value, false)) => (value.clone(), Origin::File(settings_file())),
                None if setting.name == "service-dir" => {
                    let dir = service_dir().map(|dir| dir.display().to_string());
                    (dir.unwrap_or_else(|error| error.to_string()), Origin::Default)
                }
                None => (setting.default.to_owned(), Origin::Default),
            };
            Current { setting, value, origin }
        };
        SETTINGS.iter().map(current).collect()
    }

    /// Returns the settings that have no effect: names that are no settings, values that none
    /// takes. One sentence each.
    pub fn mistakes() -> Vec<String> {
        Texts::read().mistakes()
    }
}

/// Settings under names that they had before.
const RENAMED: [(&str, &str); 1] = [("wish", "hint")];

/// The window where the value of `burst-window` can't be read.
const BURST_WINDOW: Duration = Duration::from_millis(2);

/// The texts of the settings.
#[derive(Default)]
struct Texts {
    /// By name; and whether it was the environment that said it.
    said: HashMap<&'static str, (String, bool)>,
    /// Lines of the file that set nothing.
    idle: Vec<String>,
    /// Why the file sets nothing at all.
    refused: Option<String>,
}

impl Texts {
    fn read() -> Self {
        let text = settings_text();
        let variable = |name: &str| environment(name)?.into_string().ok();
        let mut texts = Self::from(text.as_deref().unwrap_or_default(), variable);
        texts.refused = text.err().map(|error| error.to_string());
        texts
    }

    fn from(file: &str, variable: impl Fn(&str) -> Option<String>) -> Self {
        let mut texts = Self::default();
        for line in settings_in(file) {
            let known = line.map(|(name, value)| {
                let name =
                    RENAMED.iter().find(|(old, _)| *old == name).map_or(name, |&(_, new)| new);
                (SETTINGS.iter().find(|setting| setting.name == name), name, value)
            });
            match known {
                Ok((Some(setting), _, value)) => {
                    texts.said.insert(setting.name, (value.to_owned(), false));
                }
                Ok((None, name, value)) => texts.idle.push(format!("{name} = {value}")),
                Err(line) => texts.idle.push(line.to_owned()),
            }
        }
        for setting in SETTINGS {
            let old = RENAMED.iter().find(|(_, new)| *new == setting.name);
            let old = || variable(&setting_variable(old?.0));
            let given = |value: &String| !value.is_empty();
            let value = variable(&setting.variable()).filter(given).or_else(|| old().filter(given));
            if let Some(value) = value {
                texts.said.insert(setting.name, (value, true));
            }
        }
        texts
    }

    fn get(&self, name: &str) -> &str {
        let default = || SETTINGS.iter().find(|setting| setting.name == name);
        match self.said.get(name) {
            Some((value, _)) => value,
            None => default().map_or("", |setting| setting.default),
        }
    }

    fn mistakes(&self) -> Vec<String> {
        let idle = self.idle.iter().map(|line| format!("{line:?} in the file sets nothing"));
        let wrong = SETTINGS.iter().filter_map(|setting| {
            let (value, _) = self.said.get(setting.name)?;
            let takes = match setting.name {
                "vlog" => nnburst_hal::VlogMask::parse(value).1.is_empty(),
                "partition" => Partitioning::from_number(value).is_some(),
                "hint" => value == "bf16",
                "burst-window" => value.parse::<u64>().is_ok(),
                "service-timeout" => value.parse::<u64>().is_ok_and(|ms| ms > 0),
                "log-format" => LogFormat::from_name(value).is_some(),
                "burst-wait" => Wait::from_name(value).is_some(),
                "prefer-served" | "cpu-only" | "syncexec-cpu" | "syncexec-hal"
                | "syncexec-runtime" | "strict-slicing" | "sample-supported" | "keep-warm"
                | "sandbox" => {
                    matches!(value.as_str(), "0" | "1")
                }
                _ => true,
            };
            (!takes).then(|| format!("{} can't be {value:?}", setting.name))
        });
        self.refused.iter().cloned().chain(idle).chain(wrong).collect()
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
        assert!(texts.said["partition"].1, "by the environment");
        assert!(!texts.said["cpu-only"].1, "by the file");
        assert_eq!(texts.mistakes(), ["\"nonsense\" in the file sets nothing"]);
    }

    #[test]
    fn old_names_set_what_they_did() {
        let by_file = Texts::from("wish = bf16", |_| None);
        let by_variable =
            Texts::from("", |name| (name == "NNBURST_WISH").then(|| "bf16".to_owned()));
        for texts in [by_file, by_variable] {
            assert_eq!(texts.get("hint"), "bf16");
            assert!(texts.mistakes().is_empty());
        }
    }

    #[test]
    fn what_has_no_effect_is_told() {
        let file = "partition = 7\nisas = scalar\nburst-window = long\nvlog = model,rocket\ncpu-only = yes";
        let mistakes = Texts::from(file, |_| None).mistakes();
        let told = |name: &str| mistakes.iter().any(|mistake| mistake.contains(name));
        assert_eq!(mistakes.len(), 5, "{mistakes:?}");
        for name in ["partition", "isas", "burst-window", "vlog", "cpu-only"] {
            assert!(told(name), "{name}: {mistakes:?}");
        }
        assert!(Texts::from("", |_| None).mistakes().is_empty());
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
