//! Spans on a timeline: a file that Perfetto and chrome://tracing open, written by every process
//! that takes part, on the one clock that they share.
//!
//! ```text
//!   client, NNBURST_TRACE=t.json ──┐ one line per span, appended whole
//!   driver, NNBURST_TRACE=t.json ──┴──► [ {"name":"[NN_LR_PE]..","ph":"X","ts":..,"dur":..}, ..
//! ```
//!
//! A request has an arrow ([`trace_flow`]) from its client's span to that of the driver.
//!
//! Off, a span costs one load of a flag that nobody writes, and a branch: no clock, no lock, no
//! call. On, it costs a write, so figures are to be taken with it off. The file is an array that is
//! never closed, which its format allows.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

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

/// Writes spans to a file; clones write to the same.
#[derive(Clone, Debug)]
pub struct Tracer {
    file: Arc<File>,
}

impl Tracer {
    /// Opens a file for spans; several processes may open the same one. What is there already
    /// stays. A new file has mode 0600.
    ///
    /// # Errors
    /// The file can't be opened or written, or another user could have put it there
    /// ([`append_trusted`]).
    pub fn open(path: &Path, process: &str) -> io::Result<Self> {
        Self::begin(append_trusted(path, Owners::own())?, process)
    }

    /// As [`Tracer::open`], to a file that somebody has opened.
    ///
    /// # Errors
    /// It is no ordinary file, or not opened for appending: lines of several processes would mix.
    pub fn on(file: File, process: &str) -> io::Result<Self> {
        let flags = OFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GETFL)?);
        if !file.metadata()?.is_file() || !flags.contains(OFlag::O_APPEND) {
            let why = "spans go to an ordinary file that is open for appending";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Self::begin(file, process)
    }

    fn begin(file: File, process: &str) -> io::Result<Self> {
        let tracer = Self { file: Arc::new(file) };
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
    pub fn span<'a>(&self, layer: Layer, phase: Phase, detail: &'a str) -> Span<'a> {
        let (tracer, start) = (self.clone(), TimePoint::now());
        Span(Some(Running { tracer, layer, phase, detail, start }))
    }

    /// One end of an arrow.
    fn flow(&self, end: FlowEnd, category: &str, id: u64, at: TimePoint) {
        let (phase, binding) = match end {
            FlowEnd::Sent => ("s", ""),
            // To the span that it lies in, not to the next.
            FlowEnd::Received => ("f", ",\"bp\":\"e\""),
        };
        let line = format!(
            "{{\"name\":\"request\",\"cat\":\"{category}\",\"ph\":\"{phase}\"{binding},\
             \"id\":\"{id:x}\",\"ts\":{},\"pid\":{},\"tid\":{}}},\n",
            Microseconds(at.nanoseconds),
            std::process::id(),
            nix::unistd::gettid(),
        );
        // A full disk costs the arrow, not the work it is about.
        let _ = self.append(&line);
    }

    /// Appends a line in one write, so that lines of several processes don't mix; nothing where the
    /// process may have no file of that size.
    fn append(&self, line: &str) -> io::Result<()> {
        let added = u64::try_from(line.len()).unwrap_or(u64::MAX);
        check_file_size(self.file.metadata()?.len().saturating_add(added))?;
        (&*self.file).write_all(line.as_bytes())
    }
}

/// A span of work; ends when dropped.
#[derive(Debug)]
#[must_use = "a span ends when it is dropped"]
pub struct Span<'a>(Option<Running<'a>>);

#[derive(Debug)]
struct Running<'a> {
    tracer: Tracer,
    layer: Layer,
    phase: Phase,
    detail: &'a str,
    start: TimePoint,
}

impl Drop for Span<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(running) = self.0.take() {
            running.end(TimePoint::now());
        }
    }
}

impl Running<'_> {
    #[cold]
    fn end(self, at: TimePoint) {
        let Self { tracer, layer, phase, detail, start } = self;
        let length = at.nanoseconds.saturating_sub(start.nanoseconds);
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

/// True while spans are written: all that is looked at while they aren't.
static IS_ON: AtomicBool = AtomicBool::new(false);
static TRACER: RwLock<Option<Tracer>> = RwLock::new(None);

/// Returns whether spans of this process are written.
#[inline]
pub fn is_traced() -> bool {
    // Relaxed: the lock hands the tracer over.
    IS_ON.load(Ordering::Relaxed)
}

#[cold]
fn current() -> Option<Tracer> {
    TRACER.read().unwrap_or_else(PoisonError::into_inner).clone()
}

fn set(tracer: &Tracer) -> io::Result<()> {
    let mut current = TRACER.write().unwrap_or_else(PoisonError::into_inner);
    if current.is_some() {
        let why = "spans are written to a file already";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
    }
    *current = Some(tracer.clone());
    // Relaxed: as in `is_traced`.
    IS_ON.store(true, Ordering::Relaxed);
    Ok(())
}

/// Writes this process's spans to a file from now on.
///
/// # Errors
/// The file can't be opened, or spans go to one already.
pub fn start_tracing(path: &Path, process: &str) -> io::Result<()> {
    set(&Tracer::open(path, process)?)
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

/// Writes this process's spans to an open file until what it returns is dropped.
///
/// # Errors
/// As for [`Tracer::on`], or spans go to a file already.
pub fn trace_to(file: File, process: &str) -> io::Result<Tracing> {
    let tracer = Tracer::on(file, process)?;
    set(&tracer)?;
    Ok(Tracing(()))
}

/// Spans of this process are written; they end when it is dropped.
#[derive(Debug)]
#[must_use = "spans end when it is dropped"]
pub struct Tracing(());

impl Drop for Tracing {
    fn drop(&mut self) {
        // Relaxed: as in `is_traced`. A span that has begun is written all the same.
        IS_ON.store(false, Ordering::Relaxed);
        *TRACER.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Begins a span of this process; one load where no spans are written.
#[inline]
pub fn trace_span(layer: Layer, phase: Phase, detail: &str) -> Span<'_> {
    if !is_traced() {
        return Span(None);
    }
    current().map_or(Span(None), |tracer| tracer.span(layer, phase, detail))
}

/// Writes a span that is over; one load where no spans are written.
#[inline]
pub fn trace_past(layer: Layer, phase: Phase, detail: &str, start: TimePoint, end: TimePoint) {
    if is_traced()
        && let Some(tracer) = current()
    {
        Running { tracer, layer, phase, detail, start }.end(end);
    }
}

/// An end of an arrow between two spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowEnd {
    /// It leaves the span at that time.
    Sent,
    /// It arrives in the span at that time.
    Received,
}

/// Writes one end of a request's arrow: both ends have the same category and number, in whatever
/// process. One load where no spans are written.
#[inline]
pub fn trace_flow(end: FlowEnd, category: &str, id: u64, at: TimePoint) {
    if is_traced()
        && let Some(tracer) = current()
    {
        tracer.flow(end, category, id, at);
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
        first.flow(FlowEnd::Sent, "call", 7, TimePoint::now());
        second.flow(FlowEnd::Received, "call", 7, TimePoint::now());
        drop(second.span(Layer::Driver, Phase::Computation, "inner"));
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        // The closing bracket that the format lets us leave out.
        let closed = format!("{}]", text.trim_end().trim_end_matches(','));
        let events: serde_json::Value = serde_json::from_str(&closed).unwrap();
        let named = [0, 1, 2, 5].map(|at| events[at]["name"].as_str().unwrap());
        assert_eq!(
            named,
            ["process_name", "process_name", "[NN_LR_PE]outer\n", "[NN_LD_PCO]inner"]
        );
        let ends = [3, 4].map(|at| [&events[at]["ph"], &events[at]["id"]]);
        assert_eq!(ends, [["s", "7"], ["f", "7"]]);
        assert_eq!(events[1]["args"]["name"], "driver \"x\"");
        let (start, next) = (events[2]["ts"].as_f64().unwrap(), events[5]["ts"].as_f64().unwrap());
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
    fn spans_are_something_only_while_they_are_written() {
        let span = || trace_span(Layer::Other, Phase::Overall, "x");
        assert!(span().0.is_none());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("spans");
        let open = || File::options().append(true).create(true).open(&path).unwrap();
        for lines in [4, 7] {
            let tracing = trace_to(open(), "test").unwrap();
            let second = trace_to(open(), "test").map(drop).unwrap_err();
            assert_eq!(second.kind(), io::ErrorKind::AlreadyExists);
            drop(span());
            drop(tracing);
            assert!(span().0.is_none());
            // That of the one refused is its name alone.
            assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), lines);
        }
        let not_appending = File::create(dir.path().join("other")).unwrap();
        assert!(Tracer::on(not_appending, "test").is_err());
    }
}
