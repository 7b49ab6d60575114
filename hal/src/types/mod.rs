//! The data types of the interface, as of 1.3.

mod burst;
mod capabilities;
mod codes;
mod model;
mod operand;
mod outcome;
mod request;
mod time;

pub use burst::{BurstFigures, BurstOptions, BurstTerms, ModelFigures, RealTimeProfile};
pub use capabilities::{
    Capabilities, OperandPerformance, PerformanceInfo, non_extension_operand_performance,
};
pub use codes::{
    CACHE_TOKEN_BYTES, DEFAULT_LOOP_TIMEOUT, DeviceStatus, DeviceType, ErrorStatus,
    ExecutionPreference, ExtensionCode, FusedActivation, MAX_CACHE_FILES, MAX_LOOP_TIMEOUT,
    MeasureTiming, OperandLifeTime, OperandType, OperationType, Priority, UnknownCode, Version,
};
pub use model::{
    Extension, ExtensionNameAndPrefix, ExtensionOperandType, Model, Operation, Subgraph,
};
pub use operand::{
    ChannelQuant, DataLocation, ExtraParams, Operand, extends_shape, pool_alignment,
};
pub use outcome::{ExecutionFailure, ExecutionOutcome, ExecutionResult, OutputShape};
pub use request::{
    BufferDesc, BufferRole, CacheFiles, CacheHandles, Request, RequestArgument, RequestPool,
};
pub use time::{TimePoint, Timing};
