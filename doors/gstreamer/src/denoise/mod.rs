//! `nnbdenoise`: speech without noise, by the DTLN pair of networks.
//!
//! ```text
//!   sink ─► blocks of 128 samples ─► two networks ─► sound of 384 samples before ─► src
//!   any size of buffer                                 as much as came in, with its time stamps
//! ```
//!
//! Sound comes out 32 ms after it came in, always: 8 ms for a block to fill, 24 ms for the
//! networks' window. The time stamps are those of the sound itself. Where there is no driver, the
//! sound goes on as it was heard, at the same delay.

mod aligned;
mod imp;
mod properties;

use gst::glib;
use gst::prelude::*;

glib::wrapper! {
    /// The element `nnbdenoise`.
    pub struct Denoise(ObjectSubclass<imp::Denoise>)
        @extends gst_base::BaseTransform, gst::Element, gst::Object;
}

pub(crate) fn register(plugin: &gst::Plugin) -> Result<(), glib::BoolError> {
    let rank = gst::Rank::NONE;
    gst::Element::register(Some(plugin), "nnbdenoise", rank, Denoise::static_type())
}
