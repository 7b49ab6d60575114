//! The latency lab's command; see the library and `docs/measuring.md`.
#![expect(clippy::print_stderr, reason = "a command line tool talks")]

use std::fs::{File, TryLockError};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use benches::far::{FAR_SIDE, far_side};
use benches::lab::{self, RunPlan};
use benches::machine::Cpus;
use benches::{Result, burst, curves, ndk, report};
use clap::{Parser, ValueEnum};

/// Measures round trips and throughput between two pinned processes, every figure beside what the
/// bare machine takes.
#[derive(Debug, Parser)]
struct Options {
    /// The part to measure.
    #[arg(value_enum, default_value_t = Part::All)]
    part: Part,
    /// One JSON object per line instead of the table.
    #[arg(long)]
    json: bool,
    /// Few and short blocks: shows that everything works, measures nothing.
    #[arg(long)]
    quick: bool,
    /// The measuring side's CPU and the answering side's; by default the first two.
    #[arg(long, value_name = "A,B", value_parser = two_cpus)]
    cpus: Option<Cpus>,
    /// Blocks of every row: 60 for the queue and 3 for bursts if not said.
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// Only transports whose name contains this, and rows of the burst part like
    /// `add1 burst spin, back to back, idle` (the probes always run).
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Let the cores doze while blocking transports are measured, so that the hypervisor's wake-ups
    /// count too.
    #[arg(long)]
    let_doze: bool,
    /// Write the burst part's histograms there, one .hgrm file each.
    #[arg(long, value_name = "DIR")]
    hgrm: Option<PathBuf>,
    /// Write the burst part's percentile curves there, as one page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The queue and its peers.
    Fmq,
    /// Calls to a driver in another process.
    Burst,
    /// The C library beside the burst in Rust and the bare plan.
    Ndk,
    /// Everything.
    All,
}

fn two_cpus(text: &str) -> std::result::Result<Cpus, String> {
    let parse = |cpu: &str| cpu.trim().parse().map_err(|_| format!("`{cpu}` is no CPU number"));
    match text.split_once(',') {
        Some((near, far)) => Ok(Cpus { near: parse(near)?, far: parse(far)? }),
        None => Err("two CPU numbers with a comma between them".into()),
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.split_first() {
        Some((first, rest)) if first == FAR_SIDE => far_side(rest),
        Some((first, rest)) if first == ndk::ROLE => ndk::child(rest),
        Some((first, rest)) if first == "serve" => serve(rest),
        _ => measure(&Options::parse()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("latency: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The driver's process, as `Device::spawn` calls it: `serve --driver NAME --fd 0 --threads N`.
fn serve(args: &[String]) -> Result<()> {
    let [_, driver, _, fd, ..] = args else {
        return Err("serve: a driver and a descriptor".into());
    };
    Ok(nnburst::serve_inherited(driver, fd.parse()?, &nnburst::DriverOptions::default())?)
}

/// The program's file, locked: a lab at a time. Two would keep real-time processes on the same
/// processors, each of which polls for one that the other doesn't let run, for ever.
fn alone() -> Result<File> {
    let program = File::open(std::env::current_exe()?)?;
    if let Err(TryLockError::WouldBlock) = program.try_lock() {
        eprintln!("latency: waiting for another one to end");
    }
    program.lock()?;
    Ok(program)
}

fn measure(options: &Options) -> Result<()> {
    let _alone = alone()?;
    let plan = RunPlan {
        cpus: options.cpus.map_or_else(Cpus::first_two, Ok)?,
        rounds: options.rounds.unwrap_or(if options.quick { 2 } else { 60 }),
        burst_rounds: options.rounds.unwrap_or(if options.quick { 1 } else { 3 }),
        only: options.only.clone(),
        quick: options.quick,
        let_doze: options.let_doze,
    };
    let mut out = std::io::stdout().lock();
    if matches!(options.part, Part::Fmq | Part::All) {
        let outcome = lab::run(&plan)?;
        let print = if options.json { report::json } else { report::table };
        print(&outcome, &mut out)?;
    }
    if matches!(options.part, Part::Burst | Part::All) {
        let rows = burst::run(&plan)?;
        let print = if options.json { report::burst_json } else { report::burst_table };
        print(&rows, &mut out)?;
        options.hgrm.as_ref().map_or(Ok(()), |folder| curves::hgrm(&rows, folder))?;
        options.html.as_ref().map_or(Ok(()), |file| curves::html(&rows, file))?;
    }
    out.flush()?;
    drop(out);
    if matches!(options.part, Part::Ndk | Part::All) {
        ndk::run(&plan, options.json)?;
    }
    Ok(())
}
