//! `nnburst trace`: the spans of requests in all processes that take part, in one file.
//!
//! ```text
//!   this process ───┐ lines appended to one file,    sorted, whole,
//!   driver ─────────┴──► .nnburst-spans-XXXX ──────► trace.json
//!      (it is handed the open file: its sandbox opens none)
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;

use nnburst::hal::{TimePoint, trace_to};
use serde_json::Value;

use crate::args::{ModelArgs, TraceArgs};
use crate::commands::bench::fill_inputs;
use crate::failure::{Failure, folder_of, not_writable};
use crate::pace::Pacer;
use crate::session::{ModelSession, open_device};
use crate::source::ModelSource;
use crate::table::TextTable;

/// Has a model or a program run, and writes what all processes of it did.
pub(crate) fn trace(args: &TraceArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let spans = Spans::beside(&args.output)?;
    let ran = match args.program.split_first() {
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments).env("NNBURST_TRACE", spans.0.path());
            let status = command.status().map_err(|error| {
                let program = program.display();
                Failure::usage(format!("{program}: {error}; give the program's path after --"))
            })?;
            let failed = || Failure::check(format!("{}: {status}", program.display()));
            status.success().then(TimePoint::now).ok_or_else(failed)
        }
        None => run_model(args, &spans),
    };
    let events = spans.events(ran?)?;
    write_whole(&args.output, &events)?;
    write!(out, "{}", summary(&events))?;
    Ok(writeln!(out, "{} spans in {}", count(&events), args.output.display())?)
}

/// Returns the end of what is of interest.
fn run_model(args: &TraceArgs, spans: &Spans) -> Result<TimePoint, Failure> {
    let model = ModelArgs { model: args.model.clone(), builtin: args.builtin.clone() };
    let source = ModelSource::choose(&model, &args.import)?.with_hint(args.engine.hint);
    let device = open_device(&args.engine)?;
    let source = source.instead_for(&device)?.unwrap_or(source);
    let mut session = ModelSession::open(&device, &source, &args.engine)?;
    fill_inputs(&mut session, &source, 1.0)?;
    for _ in 0..(args.runs / 10).clamp(3, 1000) {
        session.step()?;
    }
    let own = trace_to(spans.open()?, "nnburst")
        .map_err(|error| Failure::usage(format!("{error}: NNBURST_TRACE is set")))?;
    let theirs = device.trace(spans.open()?.as_fd())?;
    let mut pacer = Pacer::new(args.pace.period);
    for _ in 0..args.runs {
        pacer.wait();
        session.step()?;
    }
    drop(own);
    // The driver writes of a request after it has answered; who answers the next one has done so.
    let ended = TimePoint::now();
    session.step()?;
    drop(theirs);
    Ok(ended)
}

/// The file that all processes append their spans to as they end.
struct Spans(tempfile::NamedTempFile);

impl Spans {
    fn beside(output: &Path) -> Result<Self, Failure> {
        let made =
            tempfile::Builder::new().prefix(".nnburst-spans-").tempfile_in(folder_of(output));
        made.map(Self).map_err(|error| not_writable(output, &error))
    }

    /// As one more writer.
    fn open(&self) -> Result<File, Failure> {
        let opened = File::options().append(true).open(self.0.path());
        opened.map_err(|error| not_writable(self.0.path(), &error))
    }

    /// The events of all up to a time, in their order. What a process that was killed left half is
    /// passed over.
    fn events(&self, end: TimePoint) -> Result<Vec<Value>, Failure> {
        let text = std::fs::read_to_string(self.0.path())
            .map_err(|error| not_writable(self.0.path(), &error))?;
        let lines = text.lines().map(|line| line.trim_end_matches(','));
        let mut events: Vec<Value> =
            lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
        let time = |event: &Value| event["ts"].as_f64().unwrap_or(0.0);
        #[expect(clippy::cast_precision_loss, reason = "two centuries of microseconds fit")]
        let end = end.nanoseconds as f64 / 1e3;
        events.retain(|event| time(event) <= end);
        events.sort_by(|one, other| time(one).total_cmp(&time(other)));
        Ok(events)
    }
}

fn write_whole(path: &Path, events: &[Value]) -> Result<(), Failure> {
    let write = || -> std::io::Result<()> {
        let mut file =
            tempfile::Builder::new().prefix(".nnburst-trace-").tempfile_in(folder_of(path))?;
        let mut out = BufWriter::new(file.as_file_mut());
        writeln!(out, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
        for (at, event) in events.iter().enumerate() {
            let separator = if at == 0 { "" } else { ",\n" };
            write!(out, "{separator}{event}")?;
        }
        writeln!(out, "\n]}}")?;
        out.flush()?;
        drop(out);
        file.persist(path)?;
        Ok(())
    };
    write().map_err(|error| not_writable(path, &error))
}

fn spans(events: &[Value]) -> impl Iterator<Item = &Value> {
    events.iter().filter(|event| event["ph"] == "X")
}

fn count(events: &[Value]) -> usize {
    spans(events).count()
}

/// The kinds of spans that took longest in sum, parts counted in the whole too.
fn summary(events: &[Value]) -> TextTable {
    const SHOWN: usize = 12;
    let mut sums: BTreeMap<(u64, &str), (u64, f64)> = BTreeMap::new();
    for span in spans(events) {
        let key = (span["pid"].as_u64().unwrap_or(0), span["name"].as_str().unwrap_or(""));
        let (count, sum) = sums.entry(key).or_default();
        *count += 1;
        *sum += span["dur"].as_f64().unwrap_or(0.0);
    }
    let mut rows: Vec<_> = sums.into_iter().collect();
    rows.sort_by(|(_, (_, one)), (_, (_, other))| other.total_cmp(one));
    let mut table = TextTable::new(&["span", "process", "count", "total us"]);
    for ((process, name), (count, sum)) in rows.into_iter().take(SHOWN) {
        table.row([name.to_owned(), process.to_string(), count.to_string(), format!("{sum:.0}")]);
    }
    table
}
