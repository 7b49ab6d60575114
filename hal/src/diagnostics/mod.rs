//! Looking at what happens: models as pictures, log tags, spans on a timeline, latencies.

mod dot;
mod latencies;
mod trace;
mod vlog;

pub use dot::{dot, log_dot};
pub use latencies::{Latencies, LatencyRecorder};
pub use trace::{
    FlowEnd, Layer, Phase, Span, Tracer, Tracing, is_traced, start_tracing, start_tracing_from_env,
    trace_flow, trace_past, trace_span, trace_to,
};
pub use vlog::{VlogMask, VlogTag, read_vlog_mask, set_vlog_mask, vlog_is_on};

#[doc(hidden)]
pub use tracing;
