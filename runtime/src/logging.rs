//! What the crates say as `tracing` events, written to standard error where the settings ask for it.

use std::io::{self, IsTerminal};
use std::sync::Once;

use nnburst_hal::{VlogMask, VlogTag, setting};

use crate::settings::Settings;

/// Begins to write events and spans as the settings ask, once in a process; without these settings it does
/// nothing. For programs, and for libraries whose programs know nothing of `tracing`; who installs a subscriber of
/// their own needs it not.
///
/// Events go to standard error: those that `NNBURST_LOG` names (`debug`, `nnburst_burst=trace`), or else those of the tags
/// that the setting `vlog` names, and all warnings. Spans of `process` go to the file that `NNBURST_TRACE` names.
///
/// # Errors
/// The file of `NNBURST_TRACE` can't be opened.
pub fn start_logging(process: &str) -> io::Result<()> {
    static BEGUN: Once = Once::new();
    let mut result = Ok(());
    BEGUN.call_once(|| {
        let named = setting("log").map(|filter| filter.to_string_lossy().into_owned());
        // Where standard error is closed its number goes to whatever is opened next.
        let has_stderr = rustix::io::fcntl_getfd(rustix::stdio::stderr()).is_ok();
        if let Some(filter) = named.or_else(filter_of_tags).filter(|_| has_stderr) {
            let colours = io::stderr().is_terminal();
            let events = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours);
            // Saying that a full disk or a closed pipe takes nothing would panic, within a call of C's.
            let events = events.log_internal_errors(false);
            // A program that listens already keeps its subscriber.
            let _ = events.with_writer(io::stderr).try_init();
        }
        result = nnburst_hal::start_tracing_from_env(process);
    });
    result
}

/// Lets through what the tags of the setting `vlog` say, and warnings of all; `None` without tags.
fn filter_of_tags() -> Option<String> {
    let vlog = Settings::list().into_iter().find(|one| one.setting.name == "vlog")?;
    let (mask, _) = VlogMask::parse(&vlog.value);
    let named = VlogTag::ALL.into_iter().filter(|&tag| mask.contains(tag));
    let tags: Vec<_> = named.map(|tag| format!("{}=debug", tag.target())).collect();
    (!tags.is_empty()).then(|| format!("warn,{}", tags.join(",")))
}
