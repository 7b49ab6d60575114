//! `nnburst demo`: what a burst is worth, without any file.
//!
//! A driver in a process of its own and the same driver in this one run the same network on the
//! same frames; the table sets the four ways of calling side by side, and the outputs have to be
//! equal.

use std::io::Write;
use std::time::{Duration, Instant};

use nnburst::hal::PrepareOptions;
use nnburst::{Compilation, Frame};
use serde::Serialize;

use crate::args::{DemoArgs, Engine, ModeArg, WaitArg};
use crate::commands::bench::Figures;
use crate::failure::Failure;
use crate::pace::Pacer;
use crate::progress::Progress;
use crate::session::{Caller, open_device};
use crate::source::ModelSource;
use crate::stats::Summary;
use crate::table::{TextTable, histogram};

const NETWORK: &str = "mobilenet_v2_1.0_224";
/// Thirty pictures a second.
const CAMERA: Duration = Duration::from_nanos(33_333_333);
/// A series ends here, however many frames are left: the demo is to fit a coffee.
const LONGEST_SERIES: Duration = Duration::from_secs(5);
/// The same for a quick look.
const LONGEST_QUICK_SERIES: Duration = Duration::from_millis(500);

/// The ways of calling that are compared.
const WAYS: [(&str, ModeArg, WaitArg); 4] = [
    ("in-process", ModeArg::Inproc, WaitArg::Spin),
    ("synchronous over the socket", ModeArg::Sync, WaitArg::Spin),
    ("burst (spin)", ModeArg::Burst, WaitArg::Spin),
    ("burst (block)", ModeArg::Burst, WaitArg::Block),
];

/// Runs all ways, paced and back to back, and prints the table.
pub(crate) fn demo(args: &DemoArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let (paced, back_to_back, longest) =
        if args.quick { (12, 30, LONGEST_QUICK_SERIES) } else { (120, 300, LONGEST_SERIES) };
    let source = ModelSource::builtin(NETWORK)?;
    let here = open_device(&engine(ModeArg::Inproc, WaitArg::Spin))?;
    let there = open_device(&engine(ModeArg::Burst, WaitArg::Spin))?;
    let started = Instant::now();
    let compiled_here = here.compile(&source.model, PrepareOptions::default())?;
    let compiled_there = there.compile(&source.model, PrepareOptions::default())?;
    if !args.json {
        let process = there.driver_process().unwrap_or(0);
        writeln!(
            out,
            "{NETWORK} with seeded weights, in this process ({}) and in the driver's ({process}); compiled in {:.0} ms each",
            std::process::id(),
            started.elapsed().as_secs_f64() * 500.0
        )?;
        out.flush()?;
    }
    let mut rows = Vec::new();
    let frames = u64::from(paced + back_to_back) * 4;
    let progress = Progress::new(frames, "frames");
    for (pace, period, count) in
        [("one frame every 33 ms", Some(CAMERA), paced), ("back to back", None, back_to_back)]
    {
        for (way, mode, wait) in WAYS {
            let compilation =
                if mode == ModeArg::Inproc { &compiled_here } else { &compiled_there };
            let (figures, output) =
                series(compilation, &engine(mode, wait), period, count, longest, &progress)
                    .map_err(|failure| failure.during(way))?;
            rows.push(Row { pace, way, figures, output });
        }
    }
    progress.finish();
    print(args, &rows, out)?;
    if rows.iter().any(|row| row.output != rows[0].output) {
        return Err(Failure::check("the ways of calling gave different outputs"));
    }
    Ok(())
}

#[derive(Debug)]
struct Row {
    pace: &'static str,
    way: &'static str,
    figures: Figures,
    /// Of the first frame, which is the same for all ways.
    output: Vec<u8>,
}

/// The object that `--json` prints of a row.
#[derive(Debug, Serialize)]
struct Report {
    pace: &'static str,
    way: &'static str,
    frames: u64,
    latency_us: Option<Summary>,
    overhead_us: Option<Summary>,
}

fn engine(mode: ModeArg, wait: WaitArg) -> Engine {
    Engine::plain(None, mode, wait)
}

fn series(
    compilation: &Compilation,
    engine: &Engine,
    period: Option<Duration>,
    count: u32,
    longest: Duration,
    progress: &Progress,
) -> Result<(Figures, Vec<u8>), Failure> {
    const WARM_UP: u8 = 2;
    let mut caller = Caller::new(compilation.clone(), engine)?;
    let mut frame = Some(compilation.frame()?);
    let mut picture = vec![0f32; 224 * 224 * 3];
    let mut output = Vec::new();
    for warm_up in 0..WARM_UP {
        expose(&mut frame, &mut picture, u32::from(warm_up))?;
        caller.call(&mut frame)?;
        if warm_up == 0 {
            output =
                frame.as_ref().map(|frame| frame.read_bytes(0)).transpose()?.unwrap_or_default();
        }
    }
    let mut figures = Figures::new()?;
    let mut pacer = Pacer::new(period);
    let start = Instant::now();
    for number in 0..count {
        if number == 0 || start.elapsed() < longest {
            expose(&mut frame, &mut picture, number)?;
            pacer.wait();
            figures.record(caller.call(&mut frame)?);
        }
        progress.step();
    }
    Ok((figures, output))
}

/// A picture as a camera would leave it in shared memory: stripes that wander from frame to frame.
fn expose(frame: &mut Option<Frame>, picture: &mut [f32], number: u32) -> Result<(), Failure> {
    let shift = usize::try_from(number).unwrap_or(0);
    for (at, value) in picture.iter_mut().enumerate() {
        let phase = u8::try_from((at / 3 + shift * 5) % 224).unwrap_or(0);
        *value = f32::from(phase) / 112.0 - 1.0;
    }
    match frame {
        Some(frame) => Ok(frame.write(0, picture)?),
        None => Err(Failure::check("the frame was lost with a failed call")),
    }
}

fn print(args: &DemoArgs, rows: &[Row], out: &mut dyn Write) -> Result<(), Failure> {
    if args.json {
        for row in rows {
            let report = Report {
                pace: row.pace,
                way: row.way,
                frames: row.figures.latency.len(),
                latency_us: row.figures.latency.summary(),
                overhead_us: row.figures.overhead.summary(),
            };
            let line = serde_json::to_string(&report)
                .map_err(|error| Failure::check(format!("the report: {error}")))?;
            writeln!(out, "{line}")?;
        }
        return Ok(());
    }
    let mut table = TextTable::new(&[
        "latency in us",
        "frames",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max",
        "overhead p50",
    ]);
    let mut pace = "";
    for row in rows {
        if row.pace != pace {
            pace = row.pace;
            table.row([format!("{pace}:")]);
        }
        if let Some(latency) = row.figures.latency.summary() {
            let overhead = row.figures.overhead.summary();
            table.counted_latency_row(
                &format!("  {}", row.way),
                row.figures.latency.len(),
                latency,
                overhead,
            );
        }
    }
    write!(out, "\n{table}")?;
    if let Some(row) = rows.iter().rfind(|row| row.way == "burst (spin)") {
        writeln!(out, "\n{}, {}:", row.way, row.pace)?;
        write!(out, "{}", histogram(&row.figures.latency))?;
    }
    Ok(())
}
