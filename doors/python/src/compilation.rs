//! Compilations as Python objects.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use nnburst::{Caching, CompileOptions, RuntimeError, compile_for, load_cached};
use nnburst_doors_common::{DeviceChoice, make_cache_dir};
use nnburst_tflite::{Imported, UnsupportedOperator};
use pyo3::prelude::*;

use crate::burst::{BurstArgs, PyBurst};
use crate::device::PyDevice;
use crate::error::{Error, OrRaise, wrong};
use crate::frame::{FrameLayout, PyFrame};
use crate::model::{OpenFile, PyModel};
use crate::wait::{in_background, seconds};

/// Bytes of room for an output whose size is known at run time alone. They are taken from the
/// system as they are written.
const OPEN_BYTES: usize = 1 << 20;

/// A model that a device has made ready.
#[pyclass(name = "Compilation", frozen, module = "nnburst")]
pub(crate) struct PyCompilation {
    pub(crate) made: Made,
}

/// The result of compiling.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) compilation: nnburst::Compilation,
    pub(crate) device: PyDevice,
    layout: Arc<FrameLayout>,
    is_from_cache: bool,
    time: Duration,
}

/// The stages of compiling, as `progress` is told of them.
const STAGES: [&str; 3] = ["open", "import", "compile"];

/// The work of [`compile`], on a thread of its own.
struct Work {
    file: Arc<OpenFile>,
    device: Result<PyDevice, (DeviceChoice, usize)>,
    cache_dir: Option<PathBuf>,
    is_relaxed: bool,
    keeps_tensors: bool,
    timeout: Option<Duration>,
    /// An index into [`STAGES`].
    stage: Arc<AtomicU8>,
}

impl Work {
    fn run(self) -> Result<Made, Error> {
        let start = Instant::now();
        let device = match self.device {
            Ok(device) => device,
            Err((choice, threads)) => PyDevice::open_here(choice, threads)?,
        };
        // Relaxed: the number is all there is to it.
        self.stage.store(1, Ordering::Relaxed);
        let mut imported = self.file.import(device.has_extension()?, self.keeps_tensors)?;
        imported.model.relax_computation_float32_to_float16 |= self.is_relaxed;
        let layout = FrameLayout::of(&imported, &self.file.scalars())?;
        self.stage.store(2, Ordering::Relaxed);
        let variant = u8::from(self.is_relaxed) | u8::from(self.keeps_tensors) << 1;
        let caching = match self.cache_dir {
            Some(dir) => {
                make_cache_dir(&dir).map_err(|error| Error::Io(error, Some(dir.clone())))?;
                Some(Caching { dir, token: self.file.digest()?.map(|byte| byte ^ variant) })
            }
            None => None,
        };
        let options =
            CompileOptions { caching, timeout: self.timeout, ..CompileOptions::default() };
        let cached = load_cached(&imported.model, &device.device, &options).ok().flatten();
        let is_from_cache = cached.is_some();
        let compilation = match cached {
            Some(compilation) => compilation,
            None => compile_for(&imported.model, std::slice::from_ref(&device.device), &options)
                .map_err(|error| refused(error, &imported, &device))?,
        };
        Ok(Made { compilation, device, layout, is_from_cache, time: start.elapsed() })
    }
}

/// The error of compiling, with all the operators that the device doesn't take.
fn refused(error: RuntimeError, imported: &Imported, device: &PyDevice) -> Error {
    let Ok(taken) = device.device.supported_operations(&imported.model) else {
        return device.error(error);
    };
    let mut refused: Vec<UnsupportedOperator> = Vec::new();
    let operations = taken.iter().zip(&imported.sources).zip(&imported.model.main.operations);
    for ((&taken, &index), operation) in operations {
        if !taken && refused.last().is_none_or(|last| last.index != index) {
            let name = imported.operators.get(index).cloned().unwrap_or_default();
            let why = format!("{} doesn't take {}", device.device.name(), operation.kind.name());
            refused.push(UnsupportedOperator { index, name, why });
        }
    }
    if refused.is_empty() { device.error(error) } else { Error::Unsupported(refused) }
}

/// Makes a model ready on a device: one that is open, or one that a text names.
///
/// `progress(stage, seconds)` is called twenty times a second and at the end; the stages are
/// `open`, `import`, `compile` and `ready`. With `cache_dir` the driver keeps what it made there,
/// and loads it the next time. `relaxed` allows less precision to models of floats. With
/// `keep_tensors` what operators compute is there as further outputs, for looking into a network;
/// their tensors are in `Compilation.arguments`.
#[pyfunction]
#[pyo3(signature = (
    model,
    device=None,
    *,
    threads=1,
    cache_dir=None,
    relaxed=false,
    keep_tensors=false,
    timeout=None,
    progress=None,
))]
#[expect(clippy::too_many_arguments, reason = "keywords of Python, named at every call")]
pub(crate) fn compile(
    py: Python<'_>,
    model: &Bound<'_, PyModel>,
    device: Option<&Bound<'_, PyAny>>,
    threads: usize,
    cache_dir: Option<PathBuf>,
    relaxed: bool,
    keep_tensors: bool,
    timeout: Option<f64>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<PyCompilation> {
    let stage = Arc::new(AtomicU8::new(0));
    let work = Work {
        file: model.get().file(),
        device: device_of(py, device, threads)?,
        cache_dir,
        is_relaxed: relaxed,
        keeps_tensors: keep_tensors,
        timeout: seconds(py, timeout)?,
        stage: Arc::clone(&stage),
    };
    let start = Instant::now();
    let report = |stage: &str| match progress {
        Some(progress) => progress.call1((stage, start.elapsed().as_secs_f64())).map(drop),
        None => Ok(()),
    };
    let name = || STAGES.get(usize::from(stage.load(Ordering::Relaxed))).copied();
    report(STAGES[0])?;
    let made = in_background(py, move || work.run(), || report(name().unwrap_or_default()))?;
    report("ready")?;
    Ok(PyCompilation { made })
}

fn device_of(
    py: Python<'_>,
    device: Option<&Bound<'_, PyAny>>,
    threads: usize,
) -> PyResult<Result<PyDevice, (DeviceChoice, usize)>> {
    let Some(device) = device else {
        let home = "spawn/nnburst-cpu".parse().or_raise(py)?;
        return Ok(Err((home, threads)));
    };
    if let Ok(open) = device.cast::<PyDevice>() {
        return Ok(Ok(open.get().clone()));
    }
    match device.extract::<String>() {
        Ok(text) => Ok(Err((text.parse().or_raise(py)?, threads))),
        Err(_) => Err(wrong(py, format!("device is {device}, expected a Device or its name"))),
    }
}

#[pymethods]
impl PyCompilation {
    /// The device.
    #[getter]
    fn device(&self) -> PyDevice {
        self.made.device.clone()
    }

    /// True if the model came out of the cache.
    #[getter(from_cache)]
    fn is_from_cache(&self) -> bool {
        self.made.is_from_cache
    }

    /// Milliseconds that compiling took, with opening the device where that was to be done.
    #[getter]
    fn compile_ms(&self) -> f64 {
        self.made.time.as_secs_f64() * 1e3
    }

    /// The tensors of inputs and outputs, as indices in the file.
    #[getter]
    fn arguments(&self) -> (Vec<usize>, Vec<usize>) {
        let tensors =
            |slots: &[crate::frame::ArgumentSlot]| slots.iter().map(|slot| slot.tensor).collect();
        (tensors(&self.made.layout.inputs), tensors(&self.made.layout.outputs))
    }

    /// The shapes of the inputs and of the outputs; 0 where an extent is known at run time alone.
    #[getter]
    fn shapes(&self) -> (Vec<Vec<usize>>, Vec<Vec<usize>>) {
        let Made { compilation, layout, .. } = &self.made;
        let shapes = |slots: &[crate::frame::ArgumentSlot], operands: &[nnburst::hal::Operand]| {
            let shape = |(slot, operand): (&crate::frame::ArgumentSlot, &nnburst::hal::Operand)| {
                slot.shape(&operand.dimensions).unwrap_or_default()
            };
            slots.iter().zip(operands).map(shape).collect()
        };
        let inputs = shapes(&layout.inputs, compilation.inputs());
        (inputs, shapes(&layout.outputs, compilation.outputs()))
    }

    /// A frame for this model. Outputs whose size is known at run time alone have room for
    /// `open_bytes`.
    #[pyo3(signature = (*, open_bytes=OPEN_BYTES))]
    pub(crate) fn frame(&self, py: Python<'_>, open_bytes: usize) -> PyResult<PyFrame> {
        let Made { compilation, layout, .. } = &self.made;
        PyFrame::new(compilation, layout, open_bytes).or_raise(py)
    }

    /// Opens a burst: executions by packets through queues in shared memory.
    ///
    /// `wait` is `auto`, `adaptive`, `spin` or `block`; `depth` frames may be in flight; `timeout`
    /// is what each call may take, in seconds; `cpus` and `driver_cpus` are where the calling
    /// thread and the driver's are to run; `realtime` asks for real-time scheduling and locked
    /// memory.
    #[pyo3(signature = (
        *,
        wait="auto",
        depth=1,
        timeout=None,
        cpus=None,
        driver_cpus=None,
        realtime=false,
    ))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python, named at every call")]
    fn burst(
        &self,
        py: Python<'_>,
        wait: &str,
        depth: u32,
        timeout: Option<f64>,
        cpus: Option<Vec<u32>>,
        driver_cpus: Option<Vec<u32>>,
        realtime: bool,
    ) -> PyResult<PyBurst> {
        let timeout = seconds(py, timeout)?;
        let args = BurstArgs { wait, depth, timeout, cpus, driver_cpus, realtime };
        PyBurst::open(py, &self.made, &args.options(py)?)
    }

    fn __repr__(&self) -> String {
        format!("<nnburst.Compilation on {}>", self.made.device.device.name())
    }
}
