//! A stage while it is being lowered: steps over values, before the arena is laid out.

use std::sync::Arc;

use nnburst_hal::OperandType;

use super::arena::{Lifetime, lay_out};
use super::fuse::Part;
use super::stage::{KnownOutput, Label, Place, Step, Work};
use super::state::{Storage, Value};
use crate::extension::Types;
use crate::kernels::Isa;
use crate::memory::AlignedBytes;
use crate::shape::Shape;

/// Where an operand will be, with locals still to be laid out.
#[derive(Clone, Debug)]
pub(super) enum DraftPlace {
    Omitted,
    Constant(Arc<AlignedBytes>),
    Slot { slot: usize, offset: usize, len: usize },
    Local { local: usize, len: usize },
}

impl DraftPlace {
    pub(super) fn of(value: &Value, kind: OperandType, types: &Types) -> Self {
        let element = types.element_bytes(kind).unwrap_or(1);
        let len = value.shape.as_ref().map_or(0, |shape| shape.elements() * element);
        match &value.storage {
            Storage::Omitted | Storage::Unset => Self::Omitted,
            Storage::Constant(bytes) => Self::Constant(Arc::clone(bytes)),
            &Storage::Slot(slot) => Self::Slot { slot, offset: 0, len },
            &Storage::Arena { slot, offset } => Self::Slot { slot, offset, len },
            &Storage::Local(local) => Self::Local { local, len },
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Omitted => 0,
            Self::Constant(bytes) => bytes.len(),
            Self::Slot { len, .. } | Self::Local { len, .. } => *len,
        }
    }
}

/// A step before the arena is laid out.
pub(super) struct DraftStep {
    pub(super) index: usize,
    pub(super) name: &'static str,
    pub(super) label: Label,
    pub(super) inputs: Vec<DraftPlace>,
    pub(super) outputs: Vec<DraftPlace>,
    pub(super) scratch: DraftPlace,
    pub(super) scratch_share: usize,
    pub(super) work: Work,
    /// What it can be joined with other steps by.
    pub(super) part: Option<Part>,
}

/// The stage so far.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) steps: Vec<DraftStep>,
    /// Bytes of each local.
    locals: Vec<usize>,
    pub(super) outputs: Vec<KnownOutput>,
    /// Locals that later stages read.
    pub(super) kept: Vec<usize>,
    /// Graph, operation and input of constants that are wholly in packed weights.
    pub(super) absorbed: Vec<(usize, usize, usize)>,
}

impl std::fmt::Debug for Draft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Draft of {} steps", self.steps.len())
    }
}

/// Offsets of locals, once laid out.
pub(super) struct Layout {
    pub(super) slot: usize,
    pub(super) offsets: Vec<usize>,
    pub(super) bytes: usize,
}

impl Draft {
    pub(super) fn add_local(&mut self, bytes: usize) -> usize {
        self.locals.push(bytes);
        self.locals.len() - 1
    }

    pub(super) fn know_output(&mut self, index: usize, shape: &Shape, bytes: usize) {
        self.outputs.push(KnownOutput { index, dimensions: shape.to_u32(), bytes });
    }

    /// Back to where an operation started that could not be lowered yet.
    pub(super) fn rewind(&mut self, steps: usize, outputs: usize) {
        self.steps.truncate(steps);
        self.outputs.truncate(outputs);
    }

    /// Takes the steps from `first` on out, into a draft of their own with the same locals.
    pub(super) fn split_off(&mut self, first: usize) -> Self {
        let steps = self.steps.split_off(first);
        Self { steps, locals: self.locals.clone(), ..Self::default() }
    }

    /// Bytes of a local.
    pub(super) fn local_bytes(&self, local: usize) -> usize {
        self.locals[local]
    }

    /// Adds a step that copies bytes.
    pub(super) fn copy(
        &mut self,
        index: usize,
        name: &'static str,
        from: DraftPlace,
        to: DraftPlace,
    ) {
        let shape = format!("{} bytes", from.len());
        let label = Label { kernel: "copy", form: Isa::Scalar, shape, operations: 0 };
        let work = Work::Whole(Box::new(|io| {
            io.output_bytes(0).copy_from(io.input_bytes(0));
            Ok(())
        }));
        let (inputs, outputs) = (vec![from], vec![to]);
        let (scratch, scratch_share) = (DraftPlace::Omitted, 0);
        let part = None;
        let step =
            DraftStep { index, name, label, inputs, outputs, scratch, scratch_share, work, part };
        self.steps.push(step);
    }

    /// Lays the locals out by the steps that touch them.
    pub(super) fn lay_out(&self, slot: usize) -> Layout {
        let mut lifetimes: Vec<Lifetime> = self
            .locals
            .iter()
            .map(|&bytes| Lifetime { bytes, first: usize::MAX, last: 0 })
            .collect();
        for (at, step) in self.steps.iter().enumerate() {
            for place in step.inputs.iter().chain(&step.outputs).chain([&step.scratch]) {
                if let &DraftPlace::Local { local, .. } = place {
                    lifetimes[local].first = lifetimes[local].first.min(at);
                    lifetimes[local].last = at;
                }
            }
        }
        for &local in &self.kept {
            lifetimes[local].last = self.steps.len();
        }
        for lifetime in &mut lifetimes {
            // Touched by no step but kept: live throughout. Touched by none at all: no memory.
            if lifetime.first == usize::MAX {
                lifetime.first = 0;
                lifetime.bytes = if lifetime.last > 0 { lifetime.bytes } else { 0 };
            }
        }
        let (offsets, bytes) = lay_out(&lifetimes);
        Layout { slot, offsets, bytes }
    }
}

impl Layout {
    pub(super) fn place(&self, place: DraftPlace) -> Place {
        match place {
            DraftPlace::Omitted => Place::Omitted,
            DraftPlace::Constant(bytes) => Place::Constant(bytes),
            DraftPlace::Slot { slot, offset, len } => Place::Slot { slot, offset, len },
            DraftPlace::Local { local, len } => {
                Place::Slot { slot: self.slot, offset: self.offsets[local], len }
            }
        }
    }

    pub(super) fn step(&self, step: DraftStep) -> Step {
        let DraftStep { index, name, label, inputs, outputs, scratch, scratch_share, work, .. } =
            step;
        let places = |places: Vec<DraftPlace>| places.into_iter().map(|p| self.place(p)).collect();
        let (inputs, outputs) = (places(inputs), places(outputs));
        let scratch = self.place(scratch);
        Step { index, name, label, inputs, outputs, scratch, scratch_share, work }
    }
}
