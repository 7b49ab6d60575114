//! The GStreamer plugin `nnburst`: neural networks on video, and speech without noise.
//!
//! ```text
//!   v4l2src ! jpegdec ! videoconvert ! videoscale ! nnbinference ! videoconvert ! autovideosink
//!                                          │             │  ├─► bus message `nnburst-inference`
//!          writes into memfds of ours ◄────┘             │  ├─► region-of-interest metadata
//!                                                        │  └─► pads `tensor_%u`, `mask`
//!                                      Burst ◄───────────┘
//!                                        │ one packet through shared memory
//!                                        ▼
//!                                     driver: reads the picture where it lies
//! ```
//!
//! - Module `inference`: the element `nnbinference`, video in and the same video out.
//! - Module `denoise`: the element `nnbdenoise`, sound in and clean sound out.
//!
//! The plugin lives in a host that nnburst knows nothing of. It never runs the host's program as a
//! driver, blocks all signals in its threads, logs to GStreamer's log (category `nnburst`), and
//! stays loaded until the process ends.
#![cfg(feature = "plugin")]

pub mod allocator;
pub mod denoise;
mod element;
mod engine;
pub mod inference;
mod log;
mod properties;
mod restartable;
mod results;

use gst::glib;

pub(crate) use log::CAT;

fn plugin_init(plugin: &gst::Plugin) -> Result<(), glib::BoolError> {
    nnburst_doors_common::start_logging(&log::of_door());
    inference::register(plugin)?;
    denoise::register(plugin)
}

/// The entry points that GStreamer finds in the library: the symbols that `plugin_define` makes.
mod plugin {
    #![expect(missing_docs, reason = "made by a macro")]

    use super::plugin_init;

    gst::plugin_define!(
        nnburst,
        env!("CARGO_PKG_DESCRIPTION"),
        plugin_init,
        env!("CARGO_PKG_VERSION"),
        // One of the licences that GStreamer knows by name; the package is "Apache-2.0 OR MIT".
        "Apache 2.0",
        env!("CARGO_PKG_NAME"),
        env!("CARGO_PKG_NAME"),
        "Unknown package origin",
        "2026-11-23"
    );
}

pub use plugin::plugin_register_static;
