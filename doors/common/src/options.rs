//! The options of all doors: strings, as hosts have them.
//!
//! Values never need the characters that callers separate options with: `:`, `;`, `,`, `#` and
//! space.

use std::collections::BTreeMap;
use std::path::PathBuf;

use nnburst::{BurstOptions, DriverOptions, Wait};

use crate::device::{DeviceChoice, Home};
use crate::log::Verbosity;

/// An option: its key, the values it takes and what it means, for lists and for errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// As it is spelt.
    pub name: &'static str,
    /// The values that it takes.
    pub values: &'static str,
    /// The value that holds where none is given.
    pub default: &'static str,
    /// Its purpose, in one line.
    pub meaning: &'static str,
}

const fn key(
    name: &'static str,
    values: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> Key {
    Key { name, values, default, meaning }
}

/// The options that doors share. A door takes those that mean something in it.
pub const KEYS: &[Key] = &[
    key(
        "device",
        "embedded/NAME, spawn/NAME or connect/NAME",
        "embedded/nnburst-cpu",
        "where it is computed: in this process, in a process of its own, or by a service",
    ),
    key("wait", "auto, adaptive, spin or block", "auto", "how both ends of a burst wait"),
    key("mode", "auto, burst or sync", "auto", "how executions reach the driver"),
    key("threads", "a number from 1 to 1024", "1", "threads that compute one execution"),
    key("realtime", "0 or 1", "0", "real-time scheduling and locked memory are asked for"),
    key("cpus", "processors such as 0+2-3", "", "where the calling thread runs"),
    key("driver-cpus", "processors such as 0+2-3", "", "where the driver's thread runs"),
    key("cache-dir", "a directory", "", "the compilation cache"),
    key("relaxed", "0 or 1", "0", "float models may be computed with less precision"),
    key("on-error", "fail or cpu", "fail", "cpu: without the device the host computes by itself"),
    key("log", "quiet, summary or all", "summary", "the messages in the host's log"),
];

/// The path of executions to the driver: the option `mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallMode {
    /// [`Burst`](Self::Burst) to a driver in another process, [`Sync`](Self::Sync) to one in this,
    /// whose bursts hand each execution to another thread.
    #[default]
    Auto,
    /// Packets through queues in shared memory.
    Burst,
    /// Calls over the control connection, or of a driver in this process.
    Sync,
}

/// A door's behaviour where the device is not to be had: the option `on-error`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// It fails.
    #[default]
    Fail,
    /// It leaves the work to the host's own means, and warns.
    Cpu,
}

/// The values of the shared options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DoorOptions {
    /// `device`.
    pub device: DeviceChoice,
    /// `wait`.
    pub wait: Wait,
    /// `mode`.
    pub mode: CallMode,
    /// `threads`; `None` where the door chooses.
    pub threads: Option<usize>,
    /// `realtime`.
    pub realtime: bool,
    /// `cpus`; empty for all.
    pub cpus: Vec<u32>,
    /// `driver-cpus`; empty for all.
    pub driver_cpus: Vec<u32>,
    /// `cache-dir`.
    pub cache_dir: Option<PathBuf>,
    /// `relaxed`.
    pub relaxed: bool,
    /// `on-error`.
    pub on_error: OnError,
    /// `log`.
    pub log: Verbosity,
    /// The values of the door's own options that were given, by key.
    pub own: BTreeMap<&'static str, String>,
}

/// Why an option can't be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionError {
    /// The door has no such option.
    #[error("no option is called {key:?}; known are {known}")]
    Unknown {
        /// The key that was given.
        key: String,
        /// The keys that there are.
        known: String,
    },
    /// The option takes other values.
    #[error("option {key} is {value:?}, expected {expected}")]
    Value {
        /// The option.
        key: &'static str,
        /// The value that was given.
        value: String,
        /// The values that would be right.
        expected: &'static str,
    },
    /// The text of several options has one without a value.
    #[error("option {text:?} has no value, expected KEY=VALUE")]
    NoValue {
        /// The word in its place.
        text: String,
    },
}

/// The names of all of [`KEYS`], for a door in which each means something.
pub const EVERY_KEY: &[&str] = &every_key();

const fn every_key() -> [&'static str; KEYS.len()] {
    let mut names = [""; KEYS.len()];
    let mut at = 0;
    while at < KEYS.len() {
        names[at] = KEYS[at].name;
        at += 1;
    }
    names
}

/// The options of one door.
#[derive(Clone, Copy, Debug)]
pub struct Grammar {
    /// The keys of [`KEYS`] that mean something in it.
    pub shared: &'static [&'static str],
    /// Its own.
    pub own: &'static [Key],
}

impl Grammar {
    /// The options that the door takes.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        let shared = KEYS.iter().filter(|key| self.shared.contains(&key.name));
        shared.chain(self.own).copied()
    }

    /// Follows the options that were given, the last of a key. The values of the door's own are
    /// kept as they are.
    ///
    /// # Errors
    /// [`OptionError`] for the first that can't be followed.
    pub fn parse<K: AsRef<str>, V: AsRef<str>>(
        &self,
        given: impl IntoIterator<Item = (K, V)>,
    ) -> Result<DoorOptions, OptionError> {
        let mut options = DoorOptions::default();
        for (key, value) in given {
            let (key, value) = (key.as_ref().trim(), value.as_ref().trim());
            let known = self.keys().find(|known| known.name == key);
            let known = known.ok_or_else(|| OptionError::Unknown {
                key: key.to_owned(),
                known: self.keys().map(|key| key.name).collect::<Vec<_>>().join(", "),
            })?;
            if self.own.contains(&known) {
                options.own.insert(known.name, value.to_owned());
            } else {
                options.set(known, value)?;
            }
        }
        Ok(options)
    }

    /// [`Grammar::parse`] of one text, `device=spawn/nnburst-cpu;threads=2`: options are separated
    /// by `;`, `,` or spaces, keys and values by `=`.
    ///
    /// # Errors
    /// As for [`Grammar::parse`]; an option without a value.
    pub fn parse_text(&self, text: &str) -> Result<DoorOptions, OptionError> {
        let parts = text.split([';', ',', ' ']).filter(|part| !part.is_empty());
        let pairs = parts.map(|part| {
            part.split_once('=').ok_or_else(|| OptionError::NoValue { text: part.to_owned() })
        });
        self.parse(pairs.collect::<Result<Vec<_>, _>>()?)
    }
}

impl DoorOptions {
    fn set(&mut self, key: Key, value: &str) -> Result<(), OptionError> {
        self.try_set(key.name, value).ok_or_else(|| OptionError::Value {
            key: key.name,
            value: value.to_owned(),
            expected: key.values,
        })
    }

    fn try_set(&mut self, key: &str, value: &str) -> Option<()> {
        match key {
            "device" => self.device = value.parse().ok()?,
            "wait" => self.wait = Wait::from_name(value)?,
            "mode" => {
                self.mode = one_of(
                    value,
                    &[
                        ("auto", CallMode::Auto),
                        ("burst", CallMode::Burst),
                        ("sync", CallMode::Sync),
                    ],
                )?;
            }
            "threads" => {
                self.threads = Some(value.parse().ok().filter(|n| (1..=MOST_THREADS).contains(n))?);
            }
            "realtime" => self.realtime = flag(value)?,
            "cpus" => self.cpus = processors(value)?,
            "driver-cpus" => self.driver_cpus = processors(value)?,
            "cache-dir" => self.cache_dir = Some(value.into()).filter(|_| !value.is_empty()),
            "relaxed" => self.relaxed = flag(value)?,
            "on-error" => {
                self.on_error = one_of(value, &[("fail", OnError::Fail), ("cpu", OnError::Cpu)])?;
            }
            "log" => {
                let known = [
                    ("quiet", Verbosity::Quiet),
                    ("summary", Verbosity::Summary),
                    ("all", Verbosity::All),
                ];
                self.log = one_of(value, &known)?;
            }
            _ => return None,
        }
        Some(())
    }

    /// Returns whether executions are packets of a burst. A driver in this process is called
    /// without one, unless the options are for a burst's threads.
    pub fn has_burst(&self) -> bool {
        let sets_threads = self.wait != Wait::default()
            || self.realtime
            || !self.cpus.is_empty()
            || !self.driver_cpus.is_empty();
        match self.mode {
            CallMode::Auto => self.device.home != Home::Embedded || sets_threads,
            CallMode::Burst => true,
            CallMode::Sync => false,
        }
    }

    /// The options of a burst.
    pub fn burst(&self) -> BurstOptions {
        BurstOptions {
            wait: self.wait,
            cpus: self.cpus.clone(),
            driver_cpus: self.driver_cpus.clone(),
            realtime: self.realtime,
            ..BurstOptions::default()
        }
    }

    /// The options of a driver that this process makes or starts. Its program is the caller's to
    /// name.
    pub fn driver(&self) -> DriverOptions {
        DriverOptions { threads: self.threads.unwrap_or(1), ..DriverOptions::default() }
    }
}

const MOST_THREADS: usize = 1024;
/// As many as a set of processors of the system's has.
const MOST_PROCESSORS: u32 = 1024;

fn one_of<T: Copy>(value: &str, known: &[(&str, T)]) -> Option<T> {
    known.iter().find(|(name, _)| *name == value).map(|&(_, one)| one)
}

fn flag(value: &str) -> Option<bool> {
    one_of(value, &[("0", false), ("1", true), ("false", false), ("true", true)])
}

/// Processors, ascending: `0+2-3` are 0, 2 and 3.
fn processors(value: &str) -> Option<Vec<u32>> {
    let mut found = Vec::new();
    for part in value.split('+').filter(|_| !value.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse().ok().filter(|&cpu: &u32| cpu < MOST_PROCESSORS);
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return None;
        }
        found.extend(first..=last);
    }
    found.sort_unstable();
    found.dedup();
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Key = Key { name: "labels", values: "a file", default: "", meaning: "names" };
    const ALL: Grammar = Grammar { shared: EVERY_KEY, own: &[OWN] };

    #[test]
    fn every_option_is_followed() {
        let text = "device=spawn/nnapi-sample_all;wait=spin,mode=sync threads=2;realtime=1;cpus=0+2-3;\
                    driver-cpus=1;cache-dir=/tmp/x;relaxed=true;on-error=cpu;log=all;labels=a.txt";
        let options = ALL.parse_text(text).unwrap();
        let expected = DoorOptions {
            device: DeviceChoice { home: Home::Spawn, name: "nnapi-sample_all".into() },
            wait: Wait::Spin,
            mode: CallMode::Sync,
            threads: Some(2),
            realtime: true,
            cpus: vec![0, 2, 3],
            driver_cpus: vec![1],
            cache_dir: Some("/tmp/x".into()),
            relaxed: true,
            on_error: OnError::Cpu,
            log: Verbosity::All,
            own: [("labels", "a.txt".to_owned())].into(),
        };
        assert_eq!(options, expected);
        let burst = options.burst();
        assert!(burst.realtime && burst.wait == Wait::Spin && burst.cpus == [0, 2, 3]);
        assert_eq!(options.driver().threads, 2);
    }

    #[test]
    fn a_driver_in_this_process_is_called_without_a_burst() {
        let has_burst = |text: &str| ALL.parse_text(text).unwrap().has_burst();
        assert!(!has_burst("device=embedded/nnburst-cpu"));
        assert!(has_burst("device=spawn/nnburst-cpu") && has_burst("device=connect/a"));
        for option in ["mode=burst", "wait=spin", "realtime=1", "cpus=0", "driver-cpus=1"] {
            assert!(has_burst(option), "{option}");
        }
        assert!(!has_burst("mode=sync,wait=spin") && !has_burst("mode=sync,device=spawn/a"));
    }

    #[test]
    fn every_default_is_the_value_that_it_says() {
        for key in KEYS.iter().filter(|key| !key.default.is_empty()) {
            let options = ALL.parse([(key.name, key.default)]).unwrap();
            let threads = options.threads.filter(|&threads| threads != 1);
            assert_eq!(DoorOptions { threads, ..options }, DoorOptions::default(), "{}", key.name);
        }
        assert_eq!(KEYS.len(), ALL.shared.len());
        assert_eq!(ALL.parse_text("").unwrap(), DoorOptions::default());
    }

    #[test]
    fn what_can_not_be_followed_is_named_with_what_could() {
        let few = Grammar { shared: &["device", "log"], own: &[OWN] };
        let error = few.parse([("thread", "2")]).unwrap_err().to_string();
        assert_eq!(error, "no option is called \"thread\"; known are device, log, labels");
        assert!(few.parse([("threads", "2")]).is_err(), "not an option of this door");
        let cases = [
            ("device", "gpu"),
            ("device", "spawn/"),
            ("wait", "poll"),
            ("mode", "async"),
            ("threads", "0"),
            ("threads", "4294967296"),
            ("realtime", "yes"),
            ("cpus", "3-1"),
            ("cpus", "0-4294967295"),
            ("driver-cpus", "a"),
            ("relaxed", ""),
            ("on-error", "gpu"),
            ("log", "loud"),
        ];
        for (key, value) in cases {
            let error = ALL.parse([(key, value)]).unwrap_err().to_string();
            let start = format!("option {key} is {value:?}, expected ");
            assert!(error.starts_with(&start), "{error}");
        }
        let error = ALL.parse_text("device").unwrap_err().to_string();
        assert_eq!(error, "option \"device\" has no value, expected KEY=VALUE");
    }
}
