//! Types, traits and rules of the Android Neural Networks HAL, versions 1.0 to 1.3, for Linux.
//!
//! ```text
//!   client                                   driver
//!     Model, Request (types) ──► Device ──► PreparedModel (traits) ──► ExecutionOutcome
//!        pools: Memory  ──────────── file descriptors ───────────► Mapping ──► View, ViewMut
//! ```
//!
//! The canonical types are those of 1.3 with the numeric codes of the interface. The traits mirror
//! the HAL's interfaces; whatever computes implements them, and whatever carries calls between
//! processes offers them again on the other side. There are no queues, sockets or kernels in here.
//!
//! What a model or request has to be is in [`validate_model`] and [`validate_request`], with every
//! operation's signatures as data behind [`operation_info`]. The modules [`v1_0`] to [`v1_3`] are
//! the versions: what each can express, its traits, and drivers of one seen as those of another.
//! [`diagnostics`] draws models, filters logs and writes spans.
//!
//! [`trusted`] opens files and directories that no other user can change.
//!
//! `unsafe` lives in [`memory`] alone: where a client's memory is mapped, watched and viewed; but
//! for one question to the kernel in [`environment`].
//!
//! ```
//! use nnburst_hal::{
//!     Model, Operand, OperandLifeTime, OperandType, Operation, OperationType, Subgraph,
//! };
//!
//! let kind = OperandType::TensorFloat32;
//! let tensor = |lifetime| Operand::tensor(kind, vec![1]).with_lifetime(lifetime);
//! let model = Model {
//!     main: Subgraph {
//!         operands: vec![
//!             tensor(OperandLifeTime::SubgraphInput),
//!             tensor(OperandLifeTime::SubgraphOutput),
//!         ],
//!         operations: vec![Operation {
//!             kind: OperationType::Relu,
//!             inputs: vec![0],
//!             outputs: vec![1],
//!         }],
//!         input_indexes: vec![0],
//!         output_indexes: vec![1],
//!     },
//!     ..Model::default()
//! };
//! assert_eq!(model.main.operands[0].data_size(), Some(4));
//! ```

pub mod bound;
mod budget;
pub mod diagnostics;
mod error;
mod fallible;
mod fence;
pub mod memory;
pub mod process;
mod settings;
mod signatures;
mod sys;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tflite_extension;
mod traits;
pub mod trusted;
mod types;
mod validate;
mod versions;

pub use budget::{Amounts, Budget, Charge, Exhausted, Resource, SettingOf};
pub use diagnostics::{
    FlowEnd, Latencies, LatencyRecorder, Layer, Phase, Span, Tracer, Tracing, VlogMask, VlogTag,
    dot, is_traced, log_dot, read_vlog_mask, set_vlog_mask, start_tracing, start_tracing_from_env,
    trace_flow, trace_past, trace_span, trace_to, vlog_is_on,
};
pub use error::{HalError, Result};
pub use fallible::{try_collect, try_copied, try_filled};
pub use fence::{
    FenceSignal, FencedEnd, unsignalled_fences, wait_for_driver, wait_for_fence, wait_for_fences,
};
pub use memory::{
    Access, Mapping, Memory, MemoryError, MemoryKind, MemoryObserver, ProcessorAccess, Still, View,
    ViewMut, WeakMemory, check_file_size, check_prompt, gather_pages, max_guarded_mappings,
};
pub use nnburst_fmq::file::{FileIdentity, FileStatus};
pub use settings::{
    environment, setting, setting_variable, settings_file, settings_in, settings_text,
};
pub use signatures::{
    Condition, OperandRun, OperationInfo, Ranks, Signature, Trailing, all_operations,
    operation_info,
};
pub use traits::{
    Buffer, BurstCallback, BurstContext, Device, ExecutionCallback, ExecutionInPlace,
    ExecutionOptions, FencedExecution, FencedExecutionCallback, FencedTiming, PrepareOptions,
    PreparedModel, PreparedModelCallback, ReusableExecution, wait_for_prepared_model,
};
pub use types::*;
pub use validate::{
    AllowUnspecifiedOutput, Direction, GraphId, LoopOperand, MAX_SUBGRAPH_DEPTH, MemoryRole,
    MemoryRoles, Place, Rule, ValidationError, ValidationMode, operation_since,
    validate_channel_quant, validate_extensions, validate_memory_desc, validate_model,
    validate_model_in, validate_model_polled, validate_operand_type, validate_operation,
    validate_pool, validate_preference, validate_priority, validate_request,
};
pub use versions::{
    CapabilityLoss, Converted, Loss, ModelSlice, compliant_with, convert_request_to, convert_to,
    noncompliant_operations, request_compliant_with, slice_for, trim_default_arguments, v1_0, v1_1,
    v1_2, v1_3,
};
