//! What the parts of a pass over a model have in common.

use nnburst::Device;

use crate::data::Loaded;
use crate::protocol::ModelWork;
use crate::worker::client::{Client, Prepared};
use crate::worker::pulse::Pulse;

/// A compiled model and what it was made of.
pub(super) struct Pass<'a> {
    pub(super) work: &'a ModelWork,
    pub(super) loaded: &'a Loaded,
    pub(super) prepared: Prepared,
    /// The reference device with the same model; none where there is none to compare with.
    pub(super) reference: Option<Prepared>,
    pub(super) pulse: &'a Pulse,
    pub(super) is_whole: bool,
}

impl Pass<'_> {
    /// The reference device, made ready for goldens that NNAPI's own rounding doesn't meet.
    pub(super) fn arbiter(&self) -> Option<Prepared> {
        let compiled = self.reference.clone();
        compiled.or_else(|| {
            let reference = Client::Runtime(Device::reference());
            reference.prepare(&self.loaded.model, self.pulse).ok()
        })
    }
}
