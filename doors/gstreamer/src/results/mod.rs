//! Results as GStreamer has them: structures for the bus, metadata on buffers, masks as video.

#[cfg(feature = "v1_26")]
mod analytics;
mod metadata;

pub(crate) use metadata::{Report, attach, mask_buffer, mask_caps, structure};
