//! LADSPA plugins that take the noise out of speech: the DTLN networks for PipeWire's filter-chain,
//! ffmpeg, sox, GStreamer, Audacity and whatever else loads LADSPA.
//!
//! ```text
//!   host ─ run ─► stream ── blocks of 8 ms ──► worker ── bursts ──► driver
//!        ◄─────── (delayed) ◄───────────────── (a thread of ours)
//! ```
//!
//! | file | |
//! |---|---|
//! | `abi.rs`, `ports.rs` | LADSPA's types; both plugins as hosts see them |
//! | `plugin.rs` | the functions that hosts call |
//! | `stream.rs` | the sound: delay, blocks, mix |
//! | `resample.rs` | 48 kHz to 16 kHz and back |
//! | `pace.rs` | how long `run` may wait, by the kind of host |
//! | `link.rs`, `worker.rs` | the rings, and the thread behind them |
//!
//! docs/pipelines.md shows its use.

mod abi;
mod link;
mod pace;
mod plugin;
mod ports;
mod resample;
mod stream;
mod worker;

use std::ffi::c_ulong;
use std::ptr::null;

use abi::Descriptor;

/// The plugin of an index, null behind the last one: the one function that LADSPA's hosts look for.
#[unsafe(no_mangle)]
extern "C" fn ladspa_descriptor(index: c_ulong) -> *const Descriptor {
    let plugin = usize::try_from(index).ok().and_then(|index| ports::PLUGINS.get(index));
    plugin.map_or(null(), |plugin| plugin)
}
