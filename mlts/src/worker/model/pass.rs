//! The common base of the parts of a pass over a model.

use nnburst::Device;
use nnburst::hal::tflite_extension;

use crate::data::Loaded;
use crate::protocol::ModelWork;
use crate::worker::client::{Client, Prepared};
use crate::worker::pulse::Pulse;

/// A compiled model and what it was made of.
pub(super) struct Pass<'a> {
    pub(super) work: &'a ModelWork,
    pub(super) loaded: &'a Loaded,
    pub(super) prepared: Prepared,
    /// The same model on the reference device; none where there is none to compare with.
    pub(super) reference: Option<ReferenceModel>,
    pub(super) pulse: &'a Pulse,
    pub(super) is_whole: bool,
    /// The driver's process, where it has one of its own.
    pub(super) driver_pid: Option<u32>,
}

impl Pass<'_> {
    /// The reference device, made ready for goldens that NNAPI's own rounding doesn't meet.
    pub(super) fn arbiter(&self) -> Option<ReferenceModel> {
        let compiled = self.reference.clone();
        compiled.or_else(|| {
            let reference = Client::Runtime(Device::reference());
            ReferenceModel::compile(&reference, self.loaded, self.work, self.pulse)
        })
    }
}

/// A model as another device computes it, with NNAPI's operations alone where it has no others.
#[derive(Clone)]
pub(super) struct ReferenceModel {
    pub(super) loaded: Loaded,
    pub(super) prepared: Prepared,
}

impl ReferenceModel {
    /// Compiles; `None` where the device can't have the model, which is no fault of the target's.
    pub(super) fn compile(
        device: &Client,
        loaded: &Loaded,
        work: &ModelWork,
        pulse: &Pulse,
    ) -> Option<Self> {
        let loaded = if loaded.uses_extension() && !device.has_extension(tflite_extension::NAME) {
            Loaded::open(&work.model, work.relaxed, false).ok()?
        } else {
            loaded.clone()
        };
        let prepared = device.prepare(&loaded.model, pulse).ok()?;
        Some(Self { loaded, prepared })
    }
}
