//! The C library's part: what `Execution_create`, an argument call each, `burstCompute` and
//! `Execution_free` cost more than the burst in Rust on a driver in another process, and than the
//! bare plan on the device in this process.
//!
//! The library finds drivers as services and in no other way, so this part serves one: a child
//! process of this program on the far CPU, in a directory of services of its own. A second child
//! measures, as that directory has to be in its environment from the start. Blocks of either kind
//! take turns; every pair of blocks gives one ratio or difference. Either way numbers are written
//! in and read out each time: they change processors, which is no fault of who carries them.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nnburst::hal::{View, ViewMut};
use nnburst::{BurstOptions, Compilation, Device, PrepareOptions, builtin};
use nnburst_executor::{CompileOptions, Control, Input, Output, Plan as ExecutorPlan, Session};
use nnburst_ndk_client::{Library, Repeated};
use serde_json::json;

use crate::figures::Spread;
use crate::lab::RunPlan;
use crate::{Error, Result, machine};

/// First word on the command line of the two children.
pub const ROLE: &str = "ndk-role";

const DRIVER: &str = "nnapi-sample_all";
const REFERENCE: &str = "nnapi-reference";
const MODEL: &str = "add1";
const DIR: &str = "NNBURST_SERVICE_DIR";

/// Serves a driver, and has a child measure with it; prints what that found.
///
/// # Errors
/// If the machine or the driver refuses something.
pub fn run(plan: &RunPlan, is_json: bool) -> Result<()> {
    let dir = std::env::temp_dir().join(format!("nnburst-lab-ndk-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let measured = measure_with_service(plan, is_json, &dir);
    std::fs::remove_dir_all(&dir)?;
    measured
}

fn measure_with_service(plan: &RunPlan, is_json: bool, dir: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700))?;
    let child = |role: &str, arguments: &[String]| {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(ROLE).arg(role).args(arguments).env(DIR, dir).stdin(Stdio::piped());
        command.spawn()
    };
    let mut driver = Stopped(child("serve", &[plan.cpus.far.to_string()])?);
    let socket = dir.join(format!("{DRIVER}.sock"));
    while !socket.exists() {
        if let Some(status) = driver.0.try_wait()? {
            return Err(format!("the driver ended: {status}").into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let rounds = if plan.quick { 2 } else { plan.rounds };
    let near = plan.cpus.near.to_string();
    let arguments = [near, rounds.to_string(), plan.quick.to_string(), is_json.to_string()];
    let status = child("measure", &arguments)?.wait()?;
    if status.success() { Ok(()) } else { Err(format!("measuring: {status}").into()) }
}

/// Ends with this process.
struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The children's main.
///
/// # Errors
/// If the machine or the driver refuses something.
pub fn child(arguments: &[String]) -> Result<()> {
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", far] => {
            machine::pin(far.parse()?)?;
            let _serving = nnburst::serve(DRIVER, &nnburst::DriverOptions::default())?;
            // Until the parent is gone: its end of our standard input closes then.
            std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
            Ok(())
        }
        ["measure", near, rounds, quick, is_json] => {
            machine::pin(near.parse()?)?;
            let calls = if quick.parse()? { 300 } else { 3000 };
            let pairs = measure(rounds.parse()?, calls)?;
            print(&pairs, is_json.parse()?)
        }
        _ => Err("ndk-role: serve or measure".into()),
    }
}

/// Two ways of the same inference.
struct Pair {
    /// Places of the C library's arguments: the row's name, and in words.
    bench: &'static str,
    arguments: &'static str,
    device: &'static str,
    /// Median latencies of the blocks, in nanoseconds: by the C library, and by what it is held
    /// against.
    c: Vec<f64>,
    base: Vec<f64>,
    base_name: &'static str,
    /// Median times of the blocks in the driver, where it tells.
    in_driver: Vec<f64>,
}

impl Pair {
    /// Overheads as a multiple, block by block: latencies less what the driver says it takes.
    fn ratio(&self) -> Option<Spread> {
        let blocks = self.c.iter().zip(&self.base).zip(&self.in_driver);
        Spread::of(blocks.map(|((c, base), driver)| (c - driver) / (base - driver)))
    }

    fn difference(&self) -> Option<Spread> {
        Spread::of(self.c.iter().zip(&self.base).map(|(c, base)| c - base))
    }
}

fn measure(rounds: u32, calls: u32) -> Result<Vec<Pair>> {
    let model = builtin::model(MODEL)?;
    let library = Library::open()?;
    let c_model = library.model(&model)?;
    let by_c = |name: &str| c_model.compile(&library.device(name)?);
    let (far_c, near_c) = (by_c(DRIVER)?, by_c(REFERENCE)?);
    let mut far_c = [far_c.repeated()?, far_c.repeated_in_memories()?];
    let mut near_c = [near_c.repeated()?, near_c.repeated_in_memories()?];
    let rust = Device::connect(DRIVER)?.compile(&model, PrepareOptions::default())?;
    let mut burst = rust.burst(&BurstOptions::default())?;
    let mut frame = burst.frame()?;
    let mut sum = [0.0f32];
    let mut bare = Bare::new(&rust)?;
    far_c.iter_mut().chain(&mut near_c).try_for_each(check)?;

    let new = |device, base_name| {
        [("ndk", "pointers"), ("ndk-memories", "memories")].map(|(bench, arguments)| {
            let (c, base, in_driver) = (Vec::new(), Vec::new(), Vec::new());
            Pair { bench, arguments, device, c, base, base_name, in_driver }
        })
    };
    let mut far = new(DRIVER, "burst in Rust");
    let mut near = new(REFERENCE, "bare plan");
    for at in (0..2).cycle().take(usize::try_from(rounds)?.saturating_mul(2)) {
        let (far, near) = (&mut far[at], &mut near[at]);
        let (far_c, near_c) = (&mut far_c[at], &mut near_c[at]);
        let mut in_driver = Vec::new();
        far.base.push(block(calls, || {
            frame.write(0, &[1.5f32])?;
            frame.write(1, &[1.5f32])?;
            burst.compute(&mut frame)?;
            frame.read_into(0, &mut sum)?;
            in_driver.extend(frame.time_in_driver().map(|time| time.as_secs_f64() * 1e9));
            Ok(())
        })?);
        far.in_driver.push(median(&mut in_driver));
        far.c.push(block(calls, || far_c.burst_compute().map_err(Error::from))?);
        near.base.push(block(calls, || bare.run())?);
        near.c.push(block(calls, || near_c.burst_compute().map_err(Error::from))?);
    }
    Ok(far.into_iter().chain(near).collect())
}

/// That the library adds.
fn check(inference: &mut Repeated<'_>) -> Result<()> {
    for index in 0..2 {
        inference.write(index, &1.5f32.to_le_bytes());
    }
    inference.burst_compute()?;
    let mut sum = [0; 4];
    inference.read(0, &mut sum);
    let sum = f32::from_le_bytes(sum);
    if sum >= 2.5 {
        Ok(())
    } else {
        Err(format!("the library adds 1.5 and 1.5 or 1: {sum}").into())
    }
}

/// The median latency of a block of calls, which a quarter as many have warmed up.
fn block(calls: u32, mut call: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut latencies = Vec::with_capacity(usize::try_from(calls)?);
    for _ in 0..calls / 4 {
        call()?;
    }
    for _ in 0..calls {
        let start = Instant::now();
        call()?;
        latencies.push(start.elapsed().as_secs_f64() * 1e9);
    }
    Ok(median(&mut latencies))
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// The executor's plan of the model, over buffers of this process: copies in, steps, copies out.
struct Bare {
    session: Session,
    inputs: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
}

impl Bare {
    fn new(compiled: &Compilation) -> Result<Self> {
        let plan = ExecutorPlan::compile(&builtin::model(MODEL)?, &CompileOptions::default())?;
        let bytes = |operand: &nnburst::hal::Operand| vec![0; operand.data_size().unwrap_or(0)];
        let inputs = compiled.inputs().iter().map(bytes).collect();
        let outputs = compiled.outputs().iter().map(bytes).collect();
        Ok(Self { session: plan.session(), inputs, outputs })
    }

    fn run(&mut self) -> Result<()> {
        let Self { session, inputs, outputs } = self;
        let inputs: Vec<_> = inputs.iter().map(|bytes| Input::new(View::of(bytes))).collect();
        let outputs: Vec<_> =
            outputs.iter_mut().map(|bytes| Output::new(ViewMut::of(bytes))).collect();
        session.run(&inputs, &outputs, &Control::default())?;
        Ok(())
    }
}

fn print(pairs: &[Pair], is_json: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for pair in pairs {
        let of = |values: &[f64]| Spread::of(values.iter().copied()).map_or(0.0, |it| it.p50);
        let (c, base, driver) = (of(&pair.c), of(&pair.base), of(&pair.in_driver));
        let difference = pair.difference();
        let ratio = pair.ratio();
        let spread = |it: Spread| json!({"p10": it.p10, "p50": it.p50, "p90": it.p90});
        if is_json {
            let object = json!({
                "bench": pair.bench, "model": MODEL, "device": pair.device, "against": pair.base_name,
                "p50_ns": c, "base_ns": base, "in_driver_ns": driver,
                "more_ns": difference.map(spread), "overhead_ratio": ratio.map(spread),
                "blocks": pair.c.len(),
            });
            writeln!(out, "{object}")?;
            continue;
        }
        let (name, arguments) = (pair.base_name, pair.arguments);
        write!(
            out,
            "C {MODEL} by {arguments} {:<18} {c:>7.0} ns, {name} {base:>7.0} ns",
            pair.device
        )?;
        if let Some(Spread { p10, p50, p90, .. }) = difference {
            write!(out, ", {p50:.0} ns more [{p10:.0} .. {p90:.0}]")?;
        }
        match ratio {
            Some(Spread { p10, p50, p90, .. }) => {
                writeln!(out, ", overhead x {p50:.2} [{p10:.2} .. {p90:.2}]")?;
            }
            None => writeln!(out)?,
        }
    }
    Ok(())
}
