//! For tests, of this crate and of those built on it: a small driver, a bare client with the
//! conformance suite's checks, and the bodies of the fuzz targets.

mod add_one;
mod bare;
mod hooked;
mod live;
mod packets;

pub use add_one::{AddOne, WarmUpFn};
pub use bare::{BareClient, SlotTable, unusable_queues_are_refused};
pub use hooked::Hooked;
pub use live::{live_controller, live_server};
pub use packets::{answer_packet, request_packet};
