//! A dataflow in a folder of its own, with a small model.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use dora_node_api::serde_json::{self, Value};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use nnburst_tflite::TensorKind;
use nnburst_tflite::testing::TfliteFile;
use tempfile::TempDir;

/// As long as nothing hangs, all is over before.
const HANG: Duration = Duration::from_secs(180);

/// dora's command.
pub(crate) fn dora() -> PathBuf {
    std::env::var_os("NNBURST_DORA").map_or_else(|| "dora".into(), PathBuf::from)
}

/// A folder with a dataflow and what it needs.
pub(crate) struct Folder {
    folder: TempDir,
}

impl Folder {
    /// One of the shipped dataflows; each of `edits` is a text and what stands in its place.
    pub(crate) fn new(name: &str, edits: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("dataflows").join(name);
        let mut text = fs::read_to_string(shipped).unwrap();
        let node = env!("CARGO_BIN_EXE_nnburst-dora-node");
        let here = folder.path().display();
        let (model_at, report_at) = (format!("model={here}/"), format!("report={here}/"));
        for (from, to) in [
            ("../target/release/nnburst-dora-node", node),
            ("/opt/nnburst/nnburst-dora-node", node),
            ("folder=photos ", ""),
            ("folder=/opt/nnburst/photos ", ""),
            ("model=/opt/nnburst/", "model="),
            ("report=/tmp/", "report="),
            ("model=", &model_at),
            ("report=", &report_at),
        ] {
            text = text.replace(from, to);
        }
        for (from, to) in edits {
            assert!(text.contains(from), "{name} has no {from:?}");
            text = text.replace(from, to);
        }
        fs::write(folder.path().join("flow.yml"), text).unwrap();
        fs::write(folder.path().join("model.tflite"), model()).unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The figures that the sink wrote last; `None` before the first time.
    pub(crate) fn report(&self, name: &str) -> Option<Value> {
        let bytes = fs::read(self.path().join(name)).ok()?;
        Some(serde_json::from_slice(&bytes).unwrap())
    }
}

/// A classifier whose scores are the values of its picture's pixels.
fn model() -> Vec<u8> {
    let mut file = TfliteFile::new();
    let x = file.input("picture", TensorKind::Float32, &[1, 8, 8, 3]);
    let shape = file.int_constant("shape", &[2], &[1, 192]);
    let y = file.tensor("scores", TensorKind::Float32, &[1, 192]);
    file.operator("RESHAPE", &[x, shape], &[y]);
    file.outputs(&[y]);
    file.build()
}

/// A process, killed at the end of the test with all that it started, and what it wrote.
pub(crate) struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Starts a command in a folder.
    pub(crate) fn start(folder: &Folder, name: &str, command: &mut Command) -> Self {
        let log = folder.path().join(format!("{name}.log"));
        let file = File::create(&log).unwrap();
        command.current_dir(folder.path()).process_group(0).stdin(Stdio::null());
        command.stdout(file.try_clone().unwrap()).stderr(file);
        let child = command.spawn().unwrap_or_else(|error| {
            panic!("{command:?}: {error}; is dora installed, or named by NNBURST_DORA?")
        });
        Self { child, log }
    }

    /// Runs a folder's dataflow on this machine.
    pub(crate) fn dora_run(folder: &Folder) -> Self {
        let mut command = Command::new(dora());
        command.args(["run", "flow.yml"]);
        Self::start(folder, "dora", &mut command)
    }

    /// The text that the process and its nodes wrote.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap()).into_owned()
    }

    /// Waits until something is there.
    pub(crate) fn until<T>(&mut self, what: &str, look: impl Fn(&str) -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(found) = look(&self.log()) {
                return found;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "{what}: ended with {ended:?}\n{}", self.log());
            assert!(begun.elapsed() < HANG, "{what}: waited in vain\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for the end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < HANG, "does not end\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns whether the process is there after some time.
    pub(crate) fn is_running_after(&mut self, time: Duration) -> bool {
        std::thread::sleep(time);
        self.child.try_wait().unwrap().is_none()
    }

    /// Kills the process alone.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let group = Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        // Gone already where it ended by itself.
        let _ = killpg(group, Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

/// The number behind a text in a line that has another.
pub(crate) fn number_in(log: &str, line: &str, before: &str) -> Option<i32> {
    let line = log.lines().rfind(|text| text.contains(line) && text.contains(before))?;
    let (_, rest) = line.split_once(before)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Kills a process as an out-of-memory killer does.
pub(crate) fn kill_9(process: i32) {
    send(process, Signal::SIGKILL);
}

/// Sends a signal to a process.
pub(crate) fn send(process: i32, signal: Signal) {
    kill(Pid::from_raw(process), signal).unwrap();
}
