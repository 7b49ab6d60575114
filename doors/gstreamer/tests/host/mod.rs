//! Hosts of the plugin, with the plugin of this build and a registry of their own.

pub(crate) mod inside;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nnburst_hal::testing::is_there;

/// The command whose results the element's are compared with.
pub(crate) const CLI: &str = "nnburst";

/// The file name of the plugin.
const PLUGIN: &str = "libgstnnburst.so";

/// Guards against hangs, not measures.
const HANG: Duration = Duration::from_secs(600);
const GUARD: &str = "600";

pub(crate) struct Host {
    pub(crate) models: PathBuf,
    pub(crate) more: PathBuf,
    pub(crate) dir: tempfile::TempDir,
    /// The directory with the plugin.
    plugins: PathBuf,
    cli: Option<PathBuf>,
}

pub(crate) struct Output {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A result that gst-launch printed.
#[derive(Debug)]
pub(crate) struct Printed(gst::Structure);

impl Host {
    pub(crate) fn new(models: PathBuf, more: PathBuf) -> Self {
        gst::init().unwrap();
        let this = std::env::current_exe().unwrap();
        // The library lies beside the tests, with those of macros, which are no plugins.
        let built = this.parent().unwrap().join(PLUGIN);
        let dir = tempfile::tempdir().unwrap();
        let plugins = dir.path().join("plugins");
        std::fs::create_dir(&plugins).unwrap();
        std::os::unix::fs::symlink(&built, plugins.join(PLUGIN)).unwrap();
        assert!(plugins.join(PLUGIN).exists(), "{} is not built", built.display());
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let named = std::env::var_os("NNBURST_CLI").map(PathBuf::from);
        let built =
            ["debug", "release"].map(|profile| workspace.join("target").join(profile).join(CLI));
        let cli = named.into_iter().chain(built).find(|cli| cli.exists());
        let cli = cli.filter(|cli| is_there("nnburst", cli.exists()));
        Self { models, more, dir, plugins, cli }
    }

    /// The command `nnburst`, where it has been built.
    pub(crate) fn cli(&self) -> Option<&str> {
        self.cli.as_ref().map(|cli| cli.to_str().unwrap())
    }

    /// The plugin's library.
    pub(crate) fn plugin(&self) -> PathBuf {
        self.plugins.join(PLUGIN)
    }

    /// Both networks of the denoiser.
    pub(crate) fn networks(&self) -> [PathBuf; 2] {
        [1, 2].map(|at| self.models.join(format!("dtln_float_{at}/model.tflite")))
    }

    /// Runs a host that is this program itself; it has to succeed.
    pub(crate) fn inside(&self, args: &[&str]) {
        let this = std::env::current_exe().unwrap();
        self.run("timeout", &[&[GUARD, this.to_str().unwrap()], args].concat());
    }

    fn command(&self, program: &str, args: &[impl AsRef<str>]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args.iter().map(AsRef::as_ref))
            .env("GST_PLUGIN_PATH", &self.plugins)
            .env("GST_REGISTRY", self.dir.path().join("registry.bin"))
            .env("NNBURST_DRIVER", std::env::current_exe().unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs a program, which has to succeed.
    pub(crate) fn run(&self, program: &str, args: &[&str]) -> Output {
        let output = run(self.command(program, args));
        assert!(output.status.success(), "{program} {args:?}: {}{}", output.stdout, output.stderr);
        output
    }

    /// Runs a pipeline to its end.
    pub(crate) fn run_launch(&self, pipeline: &str, env: &[(&str, &str)]) -> Output {
        let mut command = self.launcher(pipeline);
        command.envs(env.iter().copied());
        run(command)
    }

    /// Runs a pipeline, which has to succeed, and returns the results on its bus.
    pub(crate) fn launch(&self, pipeline: &str) -> Vec<Printed> {
        let output = self.run_launch(pipeline, &[]);
        let Output { status, stdout, stderr } = &output;
        assert!(status.success(), "{pipeline}: {stdout}{stderr}");
        results(stdout)
    }

    /// Starts a pipeline.
    pub(crate) fn start(&self, pipeline: &str) -> Started {
        let mut child = self.launcher(pipeline).spawn().unwrap();
        let (mut out, mut error) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            out.read_to_string(&mut text).unwrap();
            text
        });
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            error.read_to_string(&mut text).unwrap();
            text
        });
        Started { child, reader, errors }
    }

    fn launcher(&self, pipeline: &str) -> Command {
        let args = ["-m"].into_iter().chain(pipeline.split_whitespace());
        let guarded = ["--foreground", GUARD, "gst-launch-1.0"];
        let args: Vec<&str> = guarded.into_iter().chain(args).collect();
        self.command("timeout", &args)
    }
}

/// A pipeline that runs.
pub(crate) struct Started {
    child: Child,
    reader: std::thread::JoinHandle<String>,
    errors: std::thread::JoinHandle<String>,
}

/// The most of each that a process had.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    pub(crate) descriptors: usize,
    pub(crate) kib: u64,
}

impl Started {
    /// The driver that the host started, once it has.
    pub(crate) fn driver(&self) -> u32 {
        let start = Instant::now();
        loop {
            let is_driver = |pid: &u32| {
                let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                command.split(|byte| *byte == 0).any(|arg| arg == b"serve")
            };
            if let Some(driver) = descendants(self.child.id()).into_iter().find(is_driver) {
                return driver;
            }
            assert!(start.elapsed() < HANG, "no driver is started");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Watches the process until it ends, successfully.
    pub(crate) fn most_used(self) -> Used {
        let mut used = Used::default();
        let mut child = self.child;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            // The host is the child of what guards it.
            let host = descendants(child.id()).first().copied().unwrap_or_else(|| child.id());
            let proc = PathBuf::from(format!("/proc/{host}"));
            let descriptors = std::fs::read_dir(proc.join("fd")).map_or(0, Iterator::count);
            let text = std::fs::read_to_string(proc.join("status")).unwrap_or_default();
            let resident = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            let kib = resident.and_then(|line| line.split_whitespace().next()?.parse().ok());
            used.descriptors = used.descriptors.max(descriptors);
            used.kib = used.kib.max(kib.unwrap_or(0));
            std::thread::sleep(Duration::from_millis(10));
        };
        let (out, error) = (self.reader.join().unwrap(), self.errors.join().unwrap());
        assert!(status.success(), "{out}{error}");
        used
    }

    /// All that the host printed, once it has ended successfully.
    pub(crate) fn finish(mut self) -> String {
        let status = self.child.wait().unwrap();
        let text = self.reader.join().unwrap() + &self.errors.join().unwrap();
        assert!(status.success(), "{text}");
        text
    }
}

/// The children of a process and theirs.
fn descendants(pid: u32) -> Vec<u32> {
    // Children belong to the thread that started them.
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = tasks
        .filter_map(Result::ok)
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<u32> = lists
        .flat_map(|list| {
            list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>()
        })
        .collect();
    children.into_iter().flat_map(|child| [vec![child], descendants(child)].concat()).collect()
}

fn run(mut command: Command) -> Output {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Output { status: output.status, stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

/// The results among messages that gst-launch printed.
pub(crate) fn results(output: &str) -> Vec<Printed> {
    let printed = output.lines().filter_map(|line| line.split_once("(element): ")?.1.into());
    let results = printed.filter(|text| text.starts_with("nnburst-inference,"));
    results
        .map(|text| {
            // A mask is printed with its pixels.
            let text = text.split(", mask=").next().unwrap();
            let text = if text.ends_with(';') { text.to_owned() } else { format!("{text};") };
            Printed(text.parse().unwrap())
        })
        .collect()
}

impl Printed {
    pub(crate) fn texts(&self, name: &str) -> Vec<String> {
        let values = self.0.get::<gst::Array>(name).unwrap();
        values.iter().map(|value| value.get::<String>().unwrap()).collect()
    }

    /// The corners of boxes: left, top, right, bottom.
    pub(crate) fn boxes(&self) -> Vec<[f64; 4]> {
        let boxes = self.0.get::<gst::Array>("boxes").unwrap();
        let corners = boxes.iter().map(|corners| corners.get::<gst::Array>().unwrap());
        let values = |corners: gst::Array| {
            std::array::from_fn(|at| corners.as_slice()[at].get::<f64>().unwrap())
        };
        corners.map(values).collect()
    }

    pub(crate) fn number(&self, name: &str) -> u64 {
        self.0.get(name).unwrap()
    }
}

/// A file of little-endian floats.
pub(crate) fn floats(path: &Path) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap();
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}
