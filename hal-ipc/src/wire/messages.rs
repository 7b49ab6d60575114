//! The messages: calls of the client, questions and events of the driver, and what is answered.

use std::time::Duration;

use nnburst_hal::{
    BufferDesc, BufferRole, BurstOptions, BurstTerms, ExecutionFailure, ExecutionOptions,
    ExecutionOutcome, HalError, PrepareOptions, TimePoint,
};
use serde::{Deserialize, Serialize};

use super::bodies::{CacheBody, MemoryBody, ModelBody, ModelRef, QueueBody, RequestBody};

/// Every answer is a `Result` of what the call gives and this: shapes stay empty but for
/// executions.
pub(crate) type Failure = ExecutionFailure;

/// Declares the client's calls twice, once borrowing the model to send it and once owning it.
macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident $({ $($field:ident: $kind:ty,)* })?,)*) => {
        /// A call of the client, to be sent.
        #[derive(Debug, Serialize)]
        pub(crate) enum CallRef<'a> {
            $($(#[$doc])* $name $({ $($field: $kind,)* })?,)*
            /// -> a `bool` per operation.
            SupportedOperations { model: ModelRef<'a> },
            /// -> nothing; [`CallbackEvent::Prepared`] later.
            PrepareModel { model: ModelRef<'a>, options: PrepareOptions, cache: CacheBody, callback: u64 },
            /// -> `ServiceStatistics`.
            Statistics,
            /// -> `Version`, the newest of the interface that the driver speaks.
            InterfaceVersion,
            /// -> [`TraceBody`]; the driver's spans go to the file until that is released.
            Trace { file: u16 },
        }

        impl CallRef<'_> {
            /// The deadline of what is called for, if it has one.
            pub(crate) fn deadline(&self) -> Option<TimePoint> {
                match self {
                    Self::PrepareModelFromCache { deadline, .. } => *deadline,
                    Self::PrepareModel { options, .. } => options.deadline,
                    Self::ExecuteSynchronously { options, .. }
                    | Self::Execute { options, .. }
                    | Self::ExecuteFenced { options, .. } => options.deadline,
                    _ => None,
                }
            }

            /// Returns its name.
            pub(crate) fn name(&self) -> &'static str {
                match self {
                    $(Self::$name { .. } => stringify!($name),)*
                    Self::SupportedOperations { .. } => "SupportedOperations",
                    Self::PrepareModel { .. } => "PrepareModel",
                    Self::Statistics => "Statistics",
                    Self::InterfaceVersion => "InterfaceVersion",
                    Self::Trace { .. } => "Trace",
                }
            }
        }

        /// A call of the client, as it came. The order of the variants is the wire format.
        #[derive(Debug, Deserialize)]
        pub(crate) enum Call {
            $($name $({ $($field: $kind,)* })?,)*
            SupportedOperations { model: ModelBody },
            PrepareModel { model: ModelBody, options: PrepareOptions, cache: CacheBody, callback: u64 },
            Statistics,
            InterfaceVersion,
            Trace { file: u16 },
        }

        impl Call {
            /// Returns its name.
            pub(crate) fn name(&self) -> &'static str {
                match self {
                    $(Self::$name { .. } => stringify!($name),)*
                    Self::SupportedOperations { .. } => "SupportedOperations",
                    Self::PrepareModel { .. } => "PrepareModel",
                    Self::Statistics => "Statistics",
                    Self::InterfaceVersion => "InterfaceVersion",
                    Self::Trace { .. } => "Trace",
                }
            }
        }
    };
}

calls! {
    /// -> the service's name.
    Name,
    /// -> `Capabilities`.
    Capabilities,
    /// -> the version.
    VersionString,
    /// -> `DeviceType`.
    DeviceType,
    /// -> `DeviceStatus`.
    Status,
    /// -> `Vec<Extension>`.
    SupportedExtensions,
    /// -> `CacheFiles`.
    NumberOfCacheFilesNeeded,
    /// -> nothing; [`CallbackEvent::Prepared`] later.
    PrepareModelFromCache { deadline: Option<TimePoint>, cache: CacheBody, callback: u64, },
    /// -> object and token of the buffer.
    Allocate { desc: BufferDesc, models: Vec<u64>, input_roles: Vec<BufferRole>, output_roles: Vec<BufferRole>, },
    /// -> `ExecutionOutcome`.
    ExecuteSynchronously { model: u64, request: RequestBody, options: ExecutionOptions, },
    /// -> nothing; [`CallbackEvent::Executed`] later.
    Execute { model: u64, request: RequestBody, options: ExecutionOptions, callback: u64, },
    /// -> `FencedBody`.
    ExecuteFenced { model: u64, request: RequestBody, wait_for: Vec<u16>, options: ExecutionOptions, duration: Option<Duration>, },
    /// -> `FencedTiming`.
    ExecutionInfo { fenced: u64, },
    /// -> nothing.
    CopyTo { buffer: u64, destination: MemoryBody, },
    /// -> nothing.
    CopyFrom { buffer: u64, source: MemoryBody, dimensions: Vec<u32>, },
    /// -> [`BurstBody`].
    ConfigureBurst { model: u64, callback: u64, requests: QueueBody, results: QueueBody, options: BurstOptions, },
    /// -> nothing, once nothing reaches the slot's memory any more.
    FreeMemory { burst: u64, slot: i32, },
    /// -> `Option<BurstFigures>`.
    BurstFigures { burst: u64, },
    /// A note: the client holds the object no more.
    Release { object: u64, },
}

/// A fenced execution: its object, and its fence's place in the frame's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FencedBody {
    pub(crate) object: u64,
    pub(crate) fence: Option<u16>,
}

/// A burst: its object, and what the driver agreed to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BurstBody {
    pub(crate) object: u64,
    pub(crate) terms: BurstTerms,
}

/// The writing of the driver's spans: its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TraceBody {
    pub(crate) object: u64,
}

/// An answer that made an object of the driver's.
pub(crate) trait Made {
    /// The object's number.
    fn object(&self) -> u64;
}

impl Made for FencedBody {
    fn object(&self) -> u64 {
        self.object
    }
}

impl Made for TraceBody {
    fn object(&self) -> u64 {
        self.object
    }
}

impl Made for BurstBody {
    fn object(&self) -> u64 {
        self.object
    }
}

/// Object and token of a buffer.
impl Made for (u64, u32) {
    fn object(&self) -> u64 {
        self.0
    }
}

/// A note of the driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CallbackEvent {
    /// A preparation ended: the model's object, or why there is none.
    Prepared { callback: u64, result: Result<u64, HalError> },
    /// An execution ended.
    Executed { callback: u64, result: Executed },
}

pub(crate) type Executed = Result<ExecutionOutcome, ExecutionFailure>;

/// A call of the driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Question {
    /// -> a `MemoryBody` per slot.
    Memories { callback: u64, slots: Vec<i32> },
}
