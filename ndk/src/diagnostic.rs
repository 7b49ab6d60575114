//! Diagnostics of support libraries: call-backs at the end of compilations and executions.
//!
//! See `NeuralNetworksDiagnostic.h`. Nothing is gathered before a program registers call-backs: an
//! execution of any other program pays for one load.

use std::ffi::{CString, c_char, c_int};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nnburst::hal::{Model, Operand, OperandLifeTime, OperandType, OperationType, Subgraph, Timing};
use sha2::{Digest, Sha256};

use crate::c::{Context, Registered};
use crate::error::Result;

/// The feature level of this library.
const FEATURE_LEVEL: i64 = 30;

/// Nanoseconds that were not measured.
const UNKNOWN: u64 = u64::MAX;

/// The callbacks that a program registered.
struct Callbacks {
    compiled: Option<extern "C" fn(Context, &CompilationInfo)>,
    executed: Option<extern "C" fn(Context, &ExecutionInfo)>,
    context: Context,
    /// Tells this process from others.
    session: i32,
}

static CALLBACKS: Registered<Callbacks> = Registered::new();

/// The properties of a compilation that all its infos share.
#[derive(Debug)]
pub(crate) struct Facts {
    architecture: [u8; 32],
    devices: CString,
    inputs: DataClass,
    outputs: DataClass,
    is_cached: bool,
    has_control_flow: bool,
    has_dynamic_tensors: bool,
}

/// `ANeuralNetworksDiagnosticDataClass`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum DataClass {
    Unknown = 0,
    Other = 1,
    Float32 = 2,
    Float16 = 3,
    Quantised = 4,
    Mixed = 5,
}

/// `ANeuralNetworksDiagnosticExecutionMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum DiagnosticMode {
    Unknown = 0,
    Async = 1,
    Sync = 2,
    Burst = 3,
    Fenced = 4,
}

/// `ANeuralNetworksDiagnosticCompilationInfo`.
pub(crate) struct CompilationInfo {
    session: i32,
    facts: Arc<Facts>,
    error: c_int,
    nanoseconds: u64,
}

/// `ANeuralNetworksDiagnosticExecutionInfo`.
pub(crate) struct ExecutionInfo {
    session: i32,
    facts: Arc<Facts>,
    error: c_int,
    mode: DiagnosticMode,
    /// Nanoseconds in this library, in the driver, on the device.
    runtime: u64,
    driver: u64,
    hardware: u64,
}

pub(crate) extern "C" fn register_callbacks(
    compiled: Option<extern "C" fn(Context, &CompilationInfo)>,
    executed: Option<extern "C" fn(Context, &ExecutionInfo)>,
    context: Context,
) {
    let session = CALLBACKS.get().map_or_else(new_session, |before| before.session);
    CALLBACKS.set(Callbacks { compiled, executed, context, session });
}

/// A number that is not 0, made of the time and the process.
fn new_session() -> i32 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let mixed = u64::from(time.subsec_nanos()) ^ (u64::from(std::process::id()) << 8);
    i32::try_from(mixed % 0x7fff_ffff).unwrap_or(0).max(1)
}

/// The time at which something begins that call-backs may ask about; `None` where there are none.
#[inline]
pub(crate) fn begin() -> Option<Instant> {
    CALLBACKS.get().map(|_| Instant::now())
}

/// Reports the end of a compilation.
pub(crate) fn compiled<T>(begun: Instant, facts: Arc<Facts>, result: &Result<T>) {
    let Some(&Callbacks { compiled: Some(call), context, session, .. }) = CALLBACKS.get() else {
        return;
    };
    let (error, nanoseconds) = (code(result), nanoseconds(begun.elapsed()));
    call(context, &CompilationInfo { session, facts, error, nanoseconds });
}

/// Reports the end of an execution that began after call-backs were registered, of a compilation
/// that did.
#[inline]
pub(crate) fn executed(
    facts: Option<&Arc<Facts>>,
    begun: Option<Instant>,
    mode: DiagnosticMode,
    timing: Timing,
    result: &Result<()>,
) {
    if let (Some(begun), Some(facts)) = (begun, facts) {
        report(begun, Arc::clone(facts), mode, timing, result);
    }
}

#[cold]
fn report(
    begun: Instant,
    facts: Arc<Facts>,
    mode: DiagnosticMode,
    timing: Timing,
    result: &Result<()>,
) {
    let Some(&Callbacks { executed: Some(call), context, session, .. }) = CALLBACKS.get() else {
        return;
    };
    // The largest number stands for unknown in both units.
    let of_microseconds = |time: u64| time.saturating_mul(1000);
    let info = ExecutionInfo {
        session,
        facts,
        error: code(result),
        mode,
        runtime: nanoseconds(begun.elapsed()),
        driver: of_microseconds(timing.time_in_driver),
        hardware: of_microseconds(timing.time_on_device),
    };
    call(context, &info);
}

fn code<T>(result: &Result<T>) -> c_int {
    result.as_ref().err().map_or(0, |error| error.code as c_int)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(UNKNOWN)
}

impl Facts {
    /// The properties of a model that is compiled for devices, each `NAME=VERSION`.
    pub(crate) fn of(model: &Model, mut devices: Vec<String>, is_cached: bool) -> Self {
        devices.sort_unstable();
        let graphs = || std::iter::once(&model.main).chain(&model.referenced);
        let is_control = |kind| matches!(kind, OperationType::If | OperationType::While);
        let is_dynamic = |operand: &Operand| {
            operand.lifetime == OperandLifeTime::TemporaryVariable
                && operand.has_unspecified_dimensions()
        };
        let class = |indexes: &[u32]| {
            let operand = |&at: &u32| model.main.operands.get(usize::try_from(at).ok()?);
            DataClass::of(indexes.iter().filter_map(operand).map(|operand| operand.kind))
        };
        Self {
            architecture: architecture(model),
            devices: CString::new(devices.join(",").replace('\0', "")).unwrap_or_default(),
            inputs: class(&model.main.input_indexes),
            outputs: class(&model.main.output_indexes),
            is_cached,
            has_control_flow: graphs()
                .any(|graph| graph.operations.iter().any(|operation| is_control(operation.kind))),
            has_dynamic_tensors: graphs().any(|graph| graph.operands.iter().any(is_dynamic)),
        }
    }
}

/// SHA-256 of a model's operands (type, shape, lifetime) and operations: of neither weights nor
/// quantisation.
fn architecture(model: &Model) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut numbers = |numbers: &[u32]| {
        // With the length, so that lists can't run into each other.
        hash.update(numbers.len().to_le_bytes());
        numbers.iter().for_each(|number| hash.update(number.to_le_bytes()));
    };
    for graph in std::iter::once(&model.main).chain(&model.referenced) {
        let Subgraph { operands, operations, input_indexes, output_indexes } = graph;
        for operand in operands {
            numbers(&[operand.kind.code(), operand.lifetime.code().unsigned_abs()]);
            numbers(&operand.dimensions);
        }
        for operation in operations {
            numbers(&[operation.kind.code()]);
            numbers(&operation.inputs);
            numbers(&operation.outputs);
        }
        numbers(input_indexes);
        numbers(output_indexes);
    }
    hash.finalize().into()
}

impl DataClass {
    /// The class of tensors of these types; scalars and tensors of other types count only where
    /// there is nothing else.
    fn of(kinds: impl Iterator<Item = OperandType>) -> Self {
        kinds.fold(Self::Unknown, |before, kind| match (before, Self::of_one(kind)) {
            (Self::Unknown, one) | (Self::Other, one) => one,
            (before, Self::Other) => before,
            (before, one) if before == one => one,
            _ => Self::Mixed,
        })
    }

    fn of_one(kind: OperandType) -> Self {
        match kind {
            OperandType::TensorFloat32 => Self::Float32,
            OperandType::TensorFloat16 => Self::Float16,
            OperandType::TensorQuant8Asymm
            | OperandType::TensorQuant8AsymmSigned
            | OperandType::TensorQuant8Symm
            | OperandType::TensorQuant8SymmPerChannel
            | OperandType::TensorQuant16Symm
            | OperandType::TensorQuant16Asymm => Self::Quantised,
            _ => Self::Other,
        }
    }
}

/// Functions that tell a field of an info, and of no info the last value.
macro_rules! getters {
    ($info:ty: $($name:ident -> $result:ty = |$of:ident| $value:expr, else $none:expr;)*) => {$(
        pub(crate) extern "C" fn $name(info: Option<&$info>) -> $result {
            match info {
                Some($of) => $value,
                None => $none,
            }
        }
    )*};
}

getters! { CompilationInfo:
    compilation_session -> i32 = |info| info.session, else 0;
    compilation_version -> i64 = |_info| FEATURE_LEVEL, else 0;
    compilation_architecture -> *const u8 = |info| info.facts.architecture.as_ptr(),
        else std::ptr::null();
    compilation_devices -> *const c_char = |info| info.facts.devices.as_ptr(),
        else std::ptr::null();
    compilation_error -> i32 = |info| info.error, else 0;
    compilation_inputs -> DataClass = |info| info.facts.inputs, else DataClass::Unknown;
    compilation_outputs -> DataClass = |info| info.facts.outputs, else DataClass::Unknown;
    compilation_time -> u64 = |info| info.nanoseconds, else UNKNOWN;
    compilation_is_cached -> bool = |info| info.facts.is_cached, else false;
    compilation_has_control_flow -> bool = |info| info.facts.has_control_flow, else false;
    compilation_has_dynamic_tensors -> bool = |info| info.facts.has_dynamic_tensors, else false;
}

getters! { ExecutionInfo:
    execution_session -> i32 = |info| info.session, else 0;
    execution_version -> i64 = |_info| FEATURE_LEVEL, else 0;
    execution_architecture -> *const u8 = |info| info.facts.architecture.as_ptr(),
        else std::ptr::null();
    execution_devices -> *const c_char = |info| info.facts.devices.as_ptr(),
        else std::ptr::null();
    execution_mode -> DiagnosticMode = |info| info.mode, else DiagnosticMode::Unknown;
    execution_inputs -> DataClass = |info| info.facts.inputs, else DataClass::Unknown;
    execution_outputs -> DataClass = |info| info.facts.outputs, else DataClass::Unknown;
    execution_error -> u32 = |info| info.error.unsigned_abs(), else 0;
    execution_runtime_time -> u64 = |info| info.runtime, else UNKNOWN;
    execution_driver_time -> u64 = |info| info.driver, else UNKNOWN;
    execution_hardware_time -> u64 = |info| info.hardware, else UNKNOWN;
    execution_is_cached -> bool = |info| info.facts.is_cached, else false;
    execution_has_control_flow -> bool = |info| info.facts.has_control_flow, else false;
    execution_has_dynamic_tensors -> bool = |info| info.facts.has_dynamic_tensors, else false;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_tensors() {
        use OperandType::{
            Float32, Int32, TensorFloat16, TensorFloat32, TensorInt32, TensorQuant8Asymm,
            TensorQuant8Symm,
        };
        let cases: [(&[OperandType], DataClass); 7] = [
            (&[], DataClass::Unknown),
            (&[Float32], DataClass::Other),
            (&[Float32, TensorFloat32, Int32], DataClass::Float32),
            (&[TensorFloat16, TensorInt32], DataClass::Float16),
            (&[TensorQuant8Asymm, TensorQuant8Symm], DataClass::Quantised),
            (&[TensorFloat32, TensorQuant8Asymm], DataClass::Mixed),
            (&[TensorFloat32, TensorFloat16, TensorFloat32], DataClass::Mixed),
        ];
        for (kinds, class) in cases {
            assert_eq!(DataClass::of(kinds.iter().copied()), class, "{kinds:?}");
        }
    }

    #[test]
    fn the_hash_is_of_operations_and_shapes_alone() {
        let model = |name| nnburst::builtin::model(name).unwrap();
        let mut other_weights = model("sine");
        other_weights.operand_values.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
        assert_eq!(architecture(&model("sine")), architecture(&other_weights));
        assert_ne!(architecture(&model("sine")), architecture(&model("add1")));
    }
}
