//! The client's side: objects of another process that behave like ours.

mod buffer;
mod burst;
mod callbacks;
mod device;
mod link;
mod prepared_model;
mod tracing;

pub use buffer::RemoteBuffer;
pub use device::{ConnectError, RemoteDevice};
pub use link::hang_up_on_all;
pub(crate) use link::service_timeout;
pub use prepared_model::RemotePreparedModel;
pub use tracing::RemoteTracing;
