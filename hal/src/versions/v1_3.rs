//! HAL 1.3: 7 more operations, control flow, signed 8-bit, priorities, deadlines, fences and
//! driver-managed buffers. The crate's own types and traits are those of this version.

pub use crate::traits::{
    Buffer, BurstCallback, BurstContext, Device, ExecutionCallback, FencedExecutionCallback,
    PreparedModel, PreparedModelCallback,
};
pub use crate::types::Capabilities;

super::version_functions!(V1_3);
