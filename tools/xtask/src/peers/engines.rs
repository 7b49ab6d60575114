//! Running the two engines: a process a measurement, one pinned core.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::Options;
use super::rows::{ModelOrigin, PeerRow, What};

/// The package that the peers' scripts need; the version that the project's targets were measured
/// with.
const PACKAGES: [&str; 2] = ["numpy", "ai-edge-litert==2.3.0"];
/// Calls of a round, at most.
const RUNS: u32 = 20_000;
/// Inputs that are subnormal, and so is what is made of them.
const FAINT: f32 = 1e-40;
/// Milliseconds and least calls of a paced measurement.
const PACED_MS: f64 = 2000.0;
const PACED_CALLS: f64 = 100.0;

/// Median microseconds of one round, theirs and ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) peer: f64,
    pub(super) ours: f64,
}

/// A model: a folder that has a manifest for the peers' scripts, and its name in there.
#[derive(Clone, Copy)]
struct Model<'a> {
    folder: &'a Path,
    name: &'a str,
}

impl Model<'_> {
    fn path(self) -> PathBuf {
        self.folder.join(self.name)
    }
}

/// Both engines, ready to run.
pub(super) struct Engines {
    python: PathBuf,
    scripts: PathBuf,
    shared: PathBuf,
    /// The directory of the networks of random weights, once they are made.
    pub(super) made: PathBuf,
    nnburst: PathBuf,
    cpu: String,
    threads: String,
}

impl Engines {
    /// Finds the scripts and the models, and makes the virtual environment where there is none.
    pub(super) fn new(options: &Options, nnburst: PathBuf) -> Result<Self, String> {
        let scripts = options.shared.join("peers/infer");
        if !scripts.is_dir() {
            let folder = scripts.display();
            return Err(format!("{folder} isn't there; --shared says where the models are"));
        }
        let python = options.venv.join("bin/python");
        if !python.exists() {
            install(&options.venv, &python)?;
        }
        let (cpu, threads) = (options.cpu.clone(), options.threads.clone());
        let (made, shared) = (PathBuf::new(), options.shared.clone());
        Ok(Self { python, scripts, shared, made, nnburst, cpu, threads })
    }

    /// Measures a row once, theirs first.
    pub(super) fn round(&self, row: &PeerRow<'_>, budget: f64) -> Result<Round, String> {
        let mut sum = Round { peer: 0.0, ours: 0.0 };
        let folder = match row.origin {
            ModelOrigin::Shared(folder) => &self.shared.join(folder),
            ModelOrigin::Made => &self.made,
        };
        for name in row.models {
            let model = Model { folder, name };
            let round = match row.what {
                What::Calls => self.back_to_back(model, budget)?,
                What::Faint => self.faint(model, budget)?,
                What::Paced(period) => self.paced(model, period)?,
                What::Preparing { cached } => self.preparing(model, cached)?,
            };
            sum.peer += round.peer;
            sum.ours += round.ours;
        }
        Ok(sum)
    }

    fn back_to_back(&self, model: Model<'_>, budget: f64) -> Result<Round, String> {
        let peer = ask(self.worker(model, RUNS, budget));
        let peer = peer.or_else(|_| ask(self.interpreter(model, budget, 1.0)))?;
        let (peer, ours) = (number(&peer, &["median_us"])?, self.bench(model));
        Self::beside(peer, ours, budget)
    }

    fn faint(&self, model: Model<'_>, budget: f64) -> Result<Round, String> {
        let peer = number(&ask(self.interpreter(model, budget, FAINT))?, &["median_us"])?;
        let mut ours = self.bench(model);
        ours.args(["--amplitude", &FAINT.to_string()]);
        Self::beside(peer, ours, budget)
    }

    /// Ours, to measure a model in process.
    fn bench(&self, model: Model<'_>) -> Command {
        let mut ours = self.pinned(&self.nnburst);
        ours.arg("bench").arg(model.path());
        ours.args(["--mode", "inproc", "--json", "--threads", &self.threads]);
        ours
    }

    /// As many calls of ours as take about as long as theirs.
    fn beside(peer: f64, mut ours: Command, budget: f64) -> Result<Round, String> {
        let runs = (budget * 1e6 / peer).clamp(20.0, f64::from(RUNS)).round();
        ours.args(["--runs", &runs.to_string()]);
        Ok(Round { peer, ours: number(&ask(ours)?, &["latency_us", "p50"])? })
    }

    /// A new process each, as where a pipeline starts: later models of a process find memory warm.
    fn preparing(&self, model: Model<'_>, cached: bool) -> Result<Round, String> {
        let peer = number(&ask(self.worker(model, 1, 0.01))?, &["load_ms"])?;
        let mut ours = self.bench(model);
        ours.args(["--runs", "1"]);
        if cached {
            ours.arg("--cache");
        }
        let ours = number(&ask(ours)?, &["compile_ms"])?;
        Ok(Round { peer: peer * 1e3, ours: ours * 1e3 })
    }

    /// Their script that loads a model, calls it, and tells how long both took.
    fn worker(&self, model: Model<'_>, runs: u32, budget: f64) -> Command {
        let mut worker = self.pinned(&self.python);
        worker.arg(self.scripts.join("worker.py")).args(["tflite-xnnpack", model.name]);
        worker.arg("--models").arg(model.folder).arg("--onnx").arg(model.folder);
        worker.args(["--threads", &self.threads, "--runs", &runs.to_string()]);
        worker.args(["--budget", &budget.to_string()]);
        worker
    }

    /// A script of ours that does the same but for looking at results, where theirs has no type for
    /// a network's inputs, or reads no golden values of theirs.
    fn interpreter(&self, model: Model<'_>, budget: f64, amplitude: f32) -> Command {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/peers/interpreter.py");
        let mut interpreter = self.pinned(&self.python);
        interpreter.arg(script).arg(model.path().join("model.tflite"));
        interpreter.args([&self.threads, &RUNS.to_string(), &budget.to_string()]);
        interpreter.arg(amplitude.to_string());
        interpreter
    }

    /// Theirs in their own process; ours through a burst to another, whose thread polls on the
    /// other core.
    fn paced(&self, model: Model<'_>, period_ms: f64) -> Result<Round, String> {
        let calls = (PACED_MS / period_ms).ceil().max(PACED_CALLS);
        let (period, calls) = (period_ms.to_string(), calls.to_string());
        let mut theirs = self.pinned(&self.python);
        theirs.arg(self.scripts.join("paced.py")).args([
            "tflite-xnnpack",
            model.name,
            &period,
            &calls,
        ]);
        theirs.env("MODELS", model.folder);
        let peer = number(&ask(theirs)?, &["median_us"])?;
        let mut ours = Command::new(&self.nnburst);
        ours.arg("bench").arg(model.path());
        ours.args(["--mode", "burst", "--wait", "spin", "--json", "--threads", &self.threads]);
        let other = if self.cpu == "0" { "1" } else { "0" };
        ours.args(["--cpus", &format!("{},{other}", self.cpu)]);
        ours.args(["--period", &period, "--runs", &calls]);
        Ok(Round { peer, ours: number(&ask(ours)?, &["latency_us", "p50"])? })
    }

    /// A command on the core, or on all where several threads compute.
    fn pinned(&self, program: &Path) -> Command {
        if self.threads != "1" {
            return Command::new(program);
        }
        let mut command = Command::new("taskset");
        command.args(["-c", &self.cpu]).arg(program);
        command
    }
}

fn install(venv: &Path, python: &Path) -> Result<(), String> {
    eprintln!("installing {} in {}", PACKAGES.join(", "), venv.display());
    let mut make = Command::new("python3");
    make.args(["-m", "venv"]).arg(venv);
    let mut fetch = Command::new(python);
    fetch.args(["-m", "pip", "install", "--quiet"]).args(PACKAGES);
    for mut command in [make, fetch] {
        let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
        if !status.success() {
            return Err(format!("{command:?}: {status}"));
        }
    }
    Ok(())
}

/// The last line that a command prints, an object.
fn ask(mut command: Command) -> Result<Value, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let (said, complaint) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let last = said.lines().last().and_then(|line| serde_json::from_str(line).ok());
    match last {
        Some(value) if output.status.success() => Ok(value),
        _ => Err(format!("{command:?}: {}: {said}{complaint}", output.status)),
    }
}

fn number(value: &Value, path: &[&str]) -> Result<f64, String> {
    let found = path.iter().try_fold(value, |value, &key| value.get(key));
    found.and_then(Value::as_f64).ok_or_else(|| format!("no {} in {value}", path.join(".")))
}
