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
    Local { local: usize, offset: usize, len: usize },
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
            &Storage::Local(local) => Self::Local { local, offset: 0, len },
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Omitted => 0,
            Self::Constant(bytes) => bytes.len(),
            Self::Slot { len, .. } | Self::Local { len, .. } => *len,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
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
    /// Inputs of the output's size that output 0 may be written over: each element is read before it is written.
    pub(super) in_place: &'static [usize],
}

/// Memory for a value that lives within the stage.
#[derive(Clone, Debug)]
struct Local {
    bytes: usize,
    /// Where it lies, if it is a part of something else.
    home: Option<DraftPlace>,
}

/// The stage so far.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) steps: Vec<DraftStep>,
    locals: Vec<Local>,
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

/// Where locals are, once laid out.
pub(super) struct Layout {
    pub(super) slot: usize,
    /// Slot and offset of each.
    homes: Vec<(usize, usize)>,
    pub(super) bytes: usize,
}

impl Draft {
    pub(super) fn add_local(&mut self, bytes: usize) -> usize {
        self.locals.push(Local { bytes, home: None });
        self.locals.len() - 1
    }

    /// Makes a local that has no place yet a part of something else.
    pub(super) fn settle(&mut self, local: usize, home: DraftPlace) {
        debug_assert!(self.is_root(local) && self.root(&home) != Some(local));
        self.locals[local].home = Some(home);
    }

    /// Whether a local is no part of anything else.
    pub(super) fn is_root(&self, local: usize) -> bool {
        self.locals[local].home.is_none()
    }

    /// The place in what it is a part of, if it is one.
    pub(super) fn resolve(&self, place: &DraftPlace) -> DraftPlace {
        let mut place = place.clone();
        while let DraftPlace::Local { local, offset, len } = place {
            match self.locals[local].home {
                Some(DraftPlace::Local { local, offset: start, .. }) => {
                    place = DraftPlace::Local { local, offset: start + offset, len };
                }
                Some(DraftPlace::Slot { slot, offset: start, .. }) => {
                    return DraftPlace::Slot { slot, offset: start + offset, len };
                }
                _ => break,
            }
        }
        place
    }

    /// The local whose memory a place is in.
    pub(super) fn root(&self, place: &DraftPlace) -> Option<usize> {
        match self.resolve(place) {
            DraftPlace::Local { local, .. } => Some(local),
            _ => None,
        }
    }

    /// The local that a place is the whole of, if that is no part of anything else.
    pub(super) fn whole_root(&self, place: &DraftPlace) -> Option<usize> {
        match *place {
            DraftPlace::Local { local, offset: 0, len }
                if self.is_root(local) && self.locals[local].bytes == len =>
            {
                Some(local)
            }
            _ => None,
        }
    }

    /// How many locals there are.
    pub(super) fn local_count(&self) -> usize {
        self.locals.len()
    }

    /// The locals whose memory later stages read.
    pub(super) fn kept_roots(&self) -> Vec<bool> {
        let mut kept = vec![false; self.locals.len()];
        for &local in &self.kept {
            if let Some(root) = self.root(&DraftPlace::Local { local, offset: 0, len: 0 }) {
                kept[root] = true;
            }
        }
        kept
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
        self.locals[local].bytes
    }

    /// Adds a step that copies bytes, unless what computes them can put them there.
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
        self.steps.push(DraftStep {
            index,
            name,
            label,
            inputs: vec![from],
            outputs: vec![to],
            scratch: DraftPlace::Omitted,
            scratch_share: 0,
            work,
            part: Some(Part::Join(vec![0])),
            in_place: &[],
        });
    }

    /// Lays the locals out by the steps that touch them.
    pub(super) fn lay_out(&self, slot: usize) -> Layout {
        let mut lifetimes: Vec<Lifetime> = self
            .locals
            .iter()
            .map(|local| Lifetime { bytes: local.bytes, first: usize::MAX, last: 0 })
            .collect();
        for (at, step) in self.steps.iter().enumerate() {
            for place in step.inputs.iter().chain(&step.outputs).chain([&step.scratch]) {
                if let Some(root) = self.root(place) {
                    lifetimes[root].first = lifetimes[root].first.min(at);
                    lifetimes[root].last = at;
                }
            }
        }
        for (lifetime, _) in lifetimes.iter_mut().zip(self.kept_roots()).filter(|(_, kept)| *kept) {
            lifetime.last = self.steps.len();
        }
        for lifetime in &mut lifetimes {
            // Touched by no step but kept: live throughout. Touched by none at all: no memory.
            if lifetime.first == usize::MAX {
                lifetime.first = 0;
                lifetime.bytes = if lifetime.last > 0 { lifetime.bytes } else { 0 };
            }
        }
        let (offsets, bytes) = lay_out(&lifetimes);
        let home = |local| match self.resolve(&DraftPlace::Local { local, offset: 0, len: 0 }) {
            DraftPlace::Local { local, offset, .. } => (slot, offsets[local] + offset),
            DraftPlace::Slot { slot, offset, .. } => (slot, offset),
            _ => (slot, 0),
        };
        Layout { slot, homes: (0..self.locals.len()).map(home).collect(), bytes }
    }
}

impl Layout {
    /// Slot and offset of a local.
    pub(super) fn home(&self, local: usize) -> (usize, usize) {
        self.homes[local]
    }

    pub(super) fn place(&self, place: DraftPlace) -> Place {
        match place {
            DraftPlace::Omitted => Place::Omitted,
            DraftPlace::Constant(bytes) => Place::Constant(bytes),
            DraftPlace::Slot { slot, offset, len } => Place::Slot { slot, offset, len },
            DraftPlace::Local { local, offset, len } => {
                let (slot, start) = self.homes[local];
                Place::Slot { slot, offset: start + offset, len }
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
