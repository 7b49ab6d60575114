//! The log of a door, which is its host's.

use std::fmt;
use std::io::Write;
use std::sync::Arc;

/// The weight of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something that was asked for is not done.
    Error,
    /// Something went wrong, and the work goes on.
    Warning,
    /// For whoever wants to know.
    Info,
}

/// A host's log.
pub trait Sink: Send + Sync {
    /// Writes a message of one line, without the door's name. May be called by any thread, and must
    /// not panic.
    fn write(&self, door: &str, level: Level, text: &str);
}

/// Standard error, for hosts that have no log: `nnburst-ladspa: warning: ...`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stderr;

impl Sink for Stderr {
    fn write(&self, door: &str, level: Level, text: &str) {
        let level = match level {
            Level::Error => "error: ",
            Level::Warning => "warning: ",
            Level::Info => "",
        };
        // In one write, so that lines of several threads stay whole. A host may have closed it.
        let _ = std::io::stderr().write_all(format!("nnburst-{door}: {level}{text}\n").as_bytes());
    }
}

/// The messages that are wanted: the option `log`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verbosity {
    /// Errors alone.
    Quiet,
    /// Errors and warnings, and a summary of what a door does where it has one.
    #[default]
    Summary,
    /// Everything.
    All,
}

/// A door's name, its host's log, and the messages that are wanted there. Clones write to the same
/// log.
#[derive(Clone)]
pub struct Log {
    door: &'static str,
    verbosity: Verbosity,
    sink: Arc<dyn Sink>,
}

impl Log {
    /// The log of a door, such as `ladspa`.
    pub fn new(door: &'static str, verbosity: Verbosity, sink: impl Sink + 'static) -> Self {
        Self { door, verbosity, sink: Arc::new(sink) }
    }

    /// Standard error as the log of a door.
    pub fn stderr(door: &'static str) -> Self {
        Self::new(door, Verbosity::default(), Stderr)
    }

    /// The same log with other messages wanted.
    #[must_use]
    pub fn with_verbosity(&self, verbosity: Verbosity) -> Self {
        Self { verbosity, ..self.clone() }
    }

    /// Returns the door's name.
    pub fn door(&self) -> &'static str {
        self.door
    }

    /// Writes what was asked for and is not done.
    pub fn error(&self, text: &str) {
        self.write(Level::Error, text);
    }

    /// Writes what went wrong, unless the log is to be quiet.
    pub fn warning(&self, text: &str) {
        if self.verbosity != Verbosity::Quiet {
            self.write(Level::Warning, text);
        }
    }

    /// Writes a line of the door's summary, unless the log is to be quiet.
    pub fn summary(&self, text: &str) {
        if self.verbosity != Verbosity::Quiet {
            self.write(Level::Info, text);
        }
    }

    /// Writes a detail, where all is wanted.
    pub fn detail(&self, text: &str) {
        if self.verbosity == Verbosity::All {
            self.write(Level::Info, text);
        }
    }

    fn write(&self, level: Level, text: &str) {
        self.sink.write(self.door, level, text);
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { door, verbosity, .. } = self;
        f.debug_struct("Log").field("door", door).field("verbosity", verbosity).finish()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A log that keeps what was written.
    #[derive(Clone, Default)]
    pub(crate) struct Kept(Arc<Mutex<Vec<(Level, String)>>>);

    impl Kept {
        pub(crate) fn log() -> (Log, Self) {
            let kept = Self::default();
            (Log::new("test", Verbosity::Summary, kept.clone()), kept)
        }

        pub(crate) fn texts(&self) -> Vec<String> {
            self.0.lock().unwrap().iter().map(|(_, text)| text.clone()).collect()
        }
    }

    impl Sink for Kept {
        fn write(&self, door: &str, level: Level, text: &str) {
            assert_eq!(door, "test");
            self.0.lock().unwrap().push((level, text.to_owned()));
        }
    }

    #[test]
    fn the_log_has_what_is_wanted() {
        let (log, kept) = Kept::log();
        for verbosity in [Verbosity::Quiet, Verbosity::Summary, Verbosity::All] {
            let log = log.with_verbosity(verbosity);
            log.error("e");
            log.warning("w");
            log.summary("s");
            log.detail("d");
        }
        assert_eq!(kept.texts(), ["e", "e", "w", "s", "e", "w", "s", "d"]);
    }
}
