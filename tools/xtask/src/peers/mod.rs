//! `cargo xtask peers`: our models beside TFLite's with XNNPACK, as ratios.
//!
//! ```text
//!   cargo xtask peers --venv DIR [--all] [--rows A,B] [--rounds N] [--budget SECONDS]
//!                     [--cpu N] [--threads N] [--nnburst FILE] [--shared DIR] [--json]
//! ```
//!
//! The peers' scripts lie beside the models (`peers/infer` in the shared folder); `DIR` is where a
//! virtual environment with them is, or is made, with pip. Networks of random weights and single
//! operators (`--rows other,transformer,operators`) are written into `target/networks` first;
//! `--all` takes every network of the shared folders instead, and leaves out, with the reason, what
//! either engine doesn't run. Each row is measured in rounds, a process of theirs and one of ours
//! in turn on one pinned core; a round gives a ratio, and the row the median of the ratios and
//! their spread. The machine drifts from minute to minute: only ratios of one run mean anything.

mod engines;
mod report;
mod rows;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::cargo::{Cargo, Outcome, root, target_folder};
use engines::Engines;
use rows::{FOLDERS, ModelOrigin, OPERATORS, OTHERS, PeerRow, ROWS, TRANSFORMERS};

/// The options of the command line.
struct Options {
    venv: PathBuf,
    /// Rows whose name contains one of these; all where there are none.
    rows: Vec<String>,
    rounds: usize,
    /// Seconds of one engine's calls in one round.
    budget: f64,
    cpu: String,
    threads: String,
    nnburst: Option<PathBuf>,
    shared: PathBuf,
    json: bool,
    /// Every network of the shared folders, instead of the rows that the targets name.
    all: bool,
}

/// Measures what is asked for and prints a line per row as it is done.
pub(crate) fn run(args: &[String]) -> Outcome {
    let options = Options::parse(args)?;
    let nnburst = match &options.nnburst {
        Some(file) => file.clone(),
        None => build()?,
    };
    let names = if options.all { shared_networks(&options.shared)? } else { BTreeMap::new() };
    let names: Vec<_> = names.iter().map(|(name, folder)| ([name.as_str()], *folder)).collect();
    let all: Vec<PeerRow<'_>> = match options.all {
        true => names.iter().map(|(name, folder)| rows::any(folder, name)).collect(),
        false => {
            let made = OTHERS.iter().chain(TRANSFORMERS).chain(OPERATORS);
            ROWS.iter().chain(made).copied().collect()
        }
    };
    let mut chosen: Vec<_> = all.iter().filter(|row| options.wants(row)).collect();
    if chosen.is_empty() {
        let known: Vec<_> = all.iter().map(|row| row.name).collect();
        return Err(format!("no row is called so; there are {}", known.join(", ")));
    }
    let mut engines = Engines::new(&options, nnburst)?;
    if chosen.iter().any(|row| row.origin == ModelOrigin::Made) {
        engines.made = make_networks()?;
    }
    // The paced ones, during which the core sleeps, last.
    chosen.sort_by_key(|row| row.what.period_ms().is_some());
    if !options.json {
        println!("{}", report::HEADER);
    }
    let mut lines = Vec::new();
    for row in chosen {
        let rounds = (0..options.rounds).map(|_| engines.round(row, options.budget));
        let rounds = match rounds.collect::<Result<Vec<_>, _>>() {
            Ok(rounds) => rounds,
            Err(error) if options.all => {
                eprintln!("left out: {}: {error}", row.name);
                continue;
            }
            Err(error) => return Err(format!("{}: {error}", row.name)),
        };
        let line = report::ReportLine::new(row, &rounds);
        println!("{}", if options.json { line.json() } else { line.text() });
        lines.push(line);
    }
    if !options.json {
        println!("{}", report::summary(&lines));
    }
    Ok(())
}

/// The networks of the shared folders and the folder of each: the first one that has it.
fn shared_networks(shared: &Path) -> Result<BTreeMap<String, &'static str>, String> {
    let mut found = BTreeMap::new();
    for folder in FOLDERS {
        let path = shared.join(folder);
        let entries =
            fs::read_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        for entry in entries {
            let entry = entry.map_err(|error| error.to_string())?;
            if entry.path().join("model.tflite").is_file() {
                found.entry(entry.file_name().to_string_lossy().into_owned()).or_insert(folder);
            }
        }
    }
    Ok(found)
}

fn build() -> Result<PathBuf, String> {
    let build = ["build", "--release", "--quiet", "--package", "nnburst-cli"];
    let (done, said) = Cargo::new("nnburst").args(build).ask()?;
    if !done {
        return Err(format!("the command can't be built:\n{said}"));
    }
    Ok(target_folder().join("release/nnburst"))
}

/// Writes the networks of random weights; where.
fn make_networks() -> Result<PathBuf, String> {
    let folder = target_folder().join("networks");
    let example = ["run", "--release", "--quiet", "-p", "nnburst-tflite", "--example", "networks"];
    let (done, said) = Cargo::new("networks").args(example).args(["--"]).args([&folder]).ask()?;
    if !done {
        return Err(format!("the networks can't be made:\n{said}"));
    }
    Ok(folder)
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, String> {
        let shared = std::env::var_os("NNBURST_SHARED").map(PathBuf::from);
        let mut options = Self {
            venv: PathBuf::new(),
            rows: Vec::new(),
            rounds: 5,
            budget: 1.0,
            cpu: "1".into(),
            threads: "1".into(),
            nnburst: None,
            shared: shared.unwrap_or_else(|| root().join("../shared")),
            json: false,
            all: false,
        };
        let mut rest = args.iter();
        while let Some(option) = rest.next() {
            let flag = match option.as_str() {
                "--json" => Some(&mut options.json),
                "--all" => Some(&mut options.all),
                _ => None,
            };
            if let Some(flag) = flag {
                *flag = true;
                continue;
            }
            let value = rest.next().ok_or_else(|| format!("`{option}` lacks its value"))?;
            let wrong = || format!("{option}: `{value}` is no number of that kind");
            match option.as_str() {
                "--venv" => options.venv = value.into(),
                "--rows" => options.rows = value.split(',').map(str::to_owned).collect(),
                "--rounds" => options.rounds = value.parse().map_err(|_| wrong())?,
                "--budget" => options.budget = value.parse().map_err(|_| wrong())?,
                "--cpu" => options.cpu.clone_from(value),
                "--threads" => options.threads.clone_from(value),
                "--nnburst" => options.nnburst = Some(value.into()),
                "--shared" => options.shared = value.into(),
                _ => return Err(format!("`{option}` is no option of this chore")),
            }
        }
        if options.venv.as_os_str().is_empty() {
            return Err("--venv DIR says where the peers are, or shall be, installed".into());
        }
        if options.rounds == 0 || options.budget.is_nan() || options.budget <= 0.0 {
            return Err("rounds and budget are above zero".into());
        }
        Ok(options)
    }

    fn wants(&self, row: &PeerRow<'_>) -> bool {
        self.rows.is_empty() || self.rows.iter().any(|part| row.name.contains(part.as_str()))
    }
}
