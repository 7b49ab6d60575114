//! `nnbinference`: runs a model on each frame of a video, and passes the video on.
//!
//! ```text
//!   sink ─► frame due? ─► picture to the driver ─► results ─► frame with metadata ─► src
//!            │ interval, QoS, busy                    ├─► message on the bus
//!            └─► frame with the last results          └─► pads `tensor_%u`, `mask`
//! ```
//!
//! No frame is ever held back or dropped: where there is no time for an inference, or no driver,
//! the frame goes on without a new result.

mod allocation;
mod imp;
mod pads;
mod properties;
mod qos;
mod stats;
mod stream;

use gst::glib;
use gst::prelude::*;

pub use properties::Drop;

glib::wrapper! {
    /// The element `nnbinference`.
    pub struct Inference(ObjectSubclass<imp::Inference>)
        @extends gst_base::BaseTransform, gst::Element, gst::Object;
}

pub(crate) fn register(plugin: &gst::Plugin) -> Result<(), glib::BoolError> {
    let rank = gst::Rank::NONE;
    gst::Element::register(Some(plugin), "nnbinference", rank, Inference::static_type())
}
