//! A bar on a terminal, nothing anywhere else.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

/// The progress of long work.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new(steps: u64, what: &str) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(steps).with_message(what.to_owned());
        // A template with a mistake leaves the usual style.
        if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:40}] {pos}/{len} {eta}") {
            bar.set_style(style.progress_chars("=> "));
        }
        Self(bar)
    }

    /// Of what nobody looks at.
    pub(crate) fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// For work whose length isn't known.
    pub(crate) fn counting(what: &str) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new_spinner().with_message(what.to_owned());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {pos} {msg}, {per_sec}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// Prints something without breaking the bar.
    pub(crate) fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.0.suspend(print)
    }

    /// One step further. Drawing is rate-limited inside, and costs an atomic addition otherwise.
    pub(crate) fn step(&self) {
        self.0.inc(1);
    }

    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
