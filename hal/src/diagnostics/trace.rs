//! Spans on a timeline: a file that Perfetto and chrome://tracing open, written by every process
//! that takes part, on the one clock that they share.
//!
//! ```text
//!   client, NNBURST_TRACE=t.json ──┐ one line per span, appended whole
//!   driver, NNBURST_TRACE=t.json ──┴──► [ {"name":"[NN_LR_PE]..","ph":"X","ts":..,"dur":..}, ..
//! ```
//!
//! Off, a span costs one load. On, it costs a write, so figures are to be taken with it off. The
//! file is an array that is never closed, which its format allows.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::OnceLock;

use crate::memory::check_file_size;
use crate::settings::setting;
use crate::trusted::{Owners, append_trusted};
use crate::types::TimePoint;

/// The part that does the work: the second part of a span's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// The application.
    Application,
    /// The runtime.
    Runtime,
    /// The transport of calls between processes.
    Ipc,
    /// The driver.
    Driver,
    /// The CPU executor.
    Cpu,
    /// Anything else.
    Other,
    /// Helpers that every layer uses.
    Utility,
}

/// The phase of the work: the third part of a span's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// All of it.
    Overall,
    /// Warming up.
    WarmUp,
    /// Measuring.
    Benchmark,
    /// Setting up.
    Initialization,
    /// Making a model.
    Preparation,
    /// Compiling a model.
    Compilation,
    /// Executing.
    Execution,
    /// Taking down.
    Termination,
    /// Not said.
    Unspecified,
    /// Moving inputs and outputs, within an execution.
    InputsAndOutputs,
    /// Rearranging data, within an execution.
    Transformation,
    /// Computing, within an execution.
    Computation,
    /// Handing results on, within an execution.
    Results,
}

impl Layer {
    const fn code(self) -> &'static str {
        match self {
            Self::Application => "LA",
            Self::Runtime => "LR",
            Self::Ipc => "LI",
            Self::Driver => "LD",
            Self::Cpu => "LC",
            Self::Other => "LO",
            Self::Utility => "LU",
        }
    }
}

impl Phase {
    const fn code(self) -> &'static str {
        match self {
            Self::Overall => "PO",
            Self::WarmUp => "PWU",
            Self::Benchmark => "PBM",
            Self::Initialization => "PI",
            Self::Preparation => "PP",
            Self::Compilation => "PC",
            Self::Execution => "PE",
            Self::Termination => "PT",
            Self::Unspecified => "PU",
            Self::InputsAndOutputs => "PIO",
            Self::Transformation => "PTR",
            Self::Computation => "PCO",
            Self::Results => "PR",
        }
    }
}

/// Writes spans to a file.
#[derive(Debug)]
pub struct Tracer {
    file: File,
}

impl Tracer {
    /// Opens a file for spans; several processes may open the same one. What is there already
    /// stays. A new file has mode 0600.
    ///
    /// # Errors
    /// The file can't be opened or written, or another user could have put it there
    /// ([`append_trusted`]).
    pub fn open(path: &Path, process: &str) -> io::Result<Self> {
        let tracer = Self { file: append_trusted(path, Owners::own())? };
        // Whoever comes first starts the array; the lock keeps the second from writing before it.
        tracer.file.lock()?;
        if tracer.file.metadata()?.len() == 0 {
            tracer.append("[\n")?;
        }
        tracer.file.unlock()?;
        let mut line = String::from("{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":");
        let _ = write!(line, "{},\"args\":{{\"name\":\"", std::process::id());
        escape(process, &mut line);
        line.push_str("\"}},\n");
        tracer.append(&line)?;
        Ok(tracer)
    }

    /// Begins a span that ends when it is dropped.
    pub fn span<'a>(&'a self, layer: Layer, phase: Phase, detail: &'a str) -> Span<'a> {
        Span(Some(Running { tracer: self, layer, phase, detail, start: TimePoint::now() }))
    }

    /// Appends a line in one write, so that lines of several processes don't mix; nothing where the
    /// process may have no file of that size.
    fn append(&self, line: &str) -> io::Result<()> {
        let added = u64::try_from(line.len()).unwrap_or(u64::MAX);
        check_file_size(self.file.metadata()?.len().saturating_add(added))?;
        (&self.file).write_all(line.as_bytes())
    }
}

/// A span of work; ends when dropped.
#[derive(Debug)]
#[must_use = "a span ends when it is dropped"]
pub struct Span<'a>(Option<Running<'a>>);

#[derive(Debug)]
struct Running<'a> {
    tracer: &'a Tracer,
    layer: Layer,
    phase: Phase,
    detail: &'a str,
    start: TimePoint,
}

impl Drop for Span<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(running) = self.0.take() {
            running.end();
        }
    }
}

impl Running<'_> {
    #[cold]
    fn end(self) {
        let Self { tracer, layer, phase, detail, start } = self;
        let length = TimePoint::now().nanoseconds.saturating_sub(start.nanoseconds);
        let mut line = format!("{{\"name\":\"[NN_{}_{}]", layer.code(), phase.code());
        escape(detail, &mut line);
        let _ = writeln!(
            line,
            "\",\"ph\":\"X\",\"ts\":{},\"dur\":{},\"pid\":{},\"tid\":{}}},",
            Microseconds(start.nanoseconds),
            Microseconds(length),
            std::process::id(),
            nix::unistd::gettid(),
        );
        // A full disk costs the span, not the work it is about.
        let _ = tracer.append(&line);
    }
}

static TRACER: OnceLock<Tracer> = OnceLock::new();

/// Writes this process's spans to a file from now on.
///
/// # Errors
/// The file can't be opened, or spans go to one already.
pub fn start_tracing(path: &Path, process: &str) -> io::Result<()> {
    let tracer = Tracer::open(path, process)?;
    TRACER.set(tracer).map_err(|_| {
        io::Error::new(io::ErrorKind::AlreadyExists, "spans are written to a file already")
    })
}

/// As [`start_tracing`], to the file that the setting `trace` names; nothing where it names none.
///
/// # Errors
/// As for [`start_tracing`].
pub fn start_tracing_from_env(process: &str) -> io::Result<()> {
    match setting("trace") {
        Some(path) => start_tracing(Path::new(&path), process),
        None => Ok(()),
    }
}

/// Begins a span of this process; one load where no spans are written.
#[inline]
pub fn trace_span(layer: Layer, phase: Phase, detail: &str) -> Span<'_> {
    match TRACER.get() {
        Some(tracer) => tracer.span(layer, phase, detail),
        None => Span(None),
    }
}

/// Nanoseconds as microseconds with three places, the unit of the format.
struct Microseconds(u64);

impl std::fmt::Display for Microseconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

fn escape(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            control if u32::from(control) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_writers_make_one_array() {
        let path = std::env::temp_dir().join(format!("nnburst-trace-{}.json", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let first = Tracer::open(&path, "client").unwrap();
        let second = Tracer::open(&path, "driver \"x\"").unwrap();
        drop(first.span(Layer::Runtime, Phase::Execution, "outer\n"));
        drop(second.span(Layer::Driver, Phase::Computation, "inner"));
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        // The closing bracket that the format lets us leave out.
        let closed = format!("{}]", text.trim_end().trim_end_matches(','));
        let events: serde_json::Value = serde_json::from_str(&closed).unwrap();
        let names: Vec<_> = (0..4).map(|at| events[at]["name"].as_str().unwrap()).collect();
        assert_eq!(
            names,
            ["process_name", "process_name", "[NN_LR_PE]outer\n", "[NN_LD_PCO]inner"]
        );
        assert_eq!(events[1]["args"]["name"], "driver \"x\"");
        let (start, next) = (events[2]["ts"].as_f64().unwrap(), events[3]["ts"].as_f64().unwrap());
        assert!(start > 0.0 && next >= start && events[2]["dur"].as_f64().unwrap() >= 0.0);
        assert_eq!(events[2]["pid"], std::process::id());
    }

    /// In a process of its own, which a signal would end.
    #[test]
    #[cfg_attr(miri, ignore = "needs the system")]
    fn spans_beyond_the_limit_of_file_sizes_are_lost_and_the_process_goes_on() {
        use nix::sys::resource::{Resource, setrlimit};
        const FILE: &str = "NNBURST_TEST_TRACE_FILE";
        if let Some(path) = std::env::var_os(FILE) {
            let tracer = Tracer::open(Path::new(&path), "limited").unwrap();
            setrlimit(Resource::RLIMIT_FSIZE, 4096, 4096).unwrap();
            for _ in 0..1000 {
                drop(tracer.span(Layer::Other, Phase::Overall, "a span"));
            }
            let full = tracer.append(&"x".repeat(4096)).unwrap_err();
            assert_eq!(full.raw_os_error(), Some(libc::EFBIG));
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.json");
        let name = std::thread::current().name().unwrap().to_owned();
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &name])
            .env(FILE, &path)
            .output()
            .unwrap();
        assert!(child.status.success(), "{child:?}");
        let length = path.metadata().unwrap().len();
        assert!((1000..=4096).contains(&length), "{length} bytes");
    }

    #[test]
    fn without_a_file_a_span_is_nothing() {
        assert!(trace_span(Layer::Other, Phase::Overall, "x").0.is_none());
    }
}
