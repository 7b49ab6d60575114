//! A stage while it is being lowered: steps over values, before the arena is laid out.

use std::sync::Arc;

use nnburst_hal::{Charge, OperandType};
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::rows::{Apart, Port};
use nnburst_kernels::tensor::{AlignedBytes, In, Shape, poll};

use super::arena::{Lifetime, lay_out};
use super::fuse::Part;
use super::label::{Label, Words};
use super::stage::{KnownOutput, Place, Step, Work};
use super::state::{Storage, Value};
use crate::extension::Types;
use crate::ops::support::map_rows;

/// Where an operand will be, with locals still to be laid out: `len` bytes in one piece, or in
/// rows.
#[derive(Clone, Debug)]
pub(super) enum DraftPlace {
    Omitted,
    Constant(Arc<AlignedBytes>),
    Slot { slot: usize, offset: usize, len: usize, apart: Option<Apart> },
    Local { local: usize, offset: usize, len: usize, apart: Option<Apart> },
}

impl DraftPlace {
    pub(super) fn of(value: &Value, kind: OperandType, types: &Types) -> Self {
        let element = types.element_bytes(kind).unwrap_or(1);
        let len = value.shape.as_ref().map_or(0, |shape| shape.elements() * element);
        match &value.storage {
            Storage::Omitted | Storage::Unset => Self::Omitted,
            Storage::Constant(bytes) => Self::Constant(Arc::clone(bytes)),
            &Storage::Slot(slot) => Self::Slot { slot, offset: 0, len, apart: None },
            &Storage::Arena { slot, offset } => Self::Slot { slot, offset, len, apart: None },
            &Storage::Local(local) => Self::local(local, len),
        }
    }

    /// The first bytes of a local.
    pub(super) fn local(local: usize, len: usize) -> Self {
        Self::Local { local, offset: 0, len, apart: None }
    }

    /// The same, where locals are counted from `local` on.
    fn count_from(&mut self, from: usize) {
        if let Self::Local { local, .. } = self {
            *local = local.wrapping_sub(from);
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

    /// How its rows lie, where they lie apart.
    pub(super) fn apart(&self) -> Option<Apart> {
        match self {
            Self::Slot { apart, .. } | Self::Local { apart, .. } => *apart,
            Self::Omitted | Self::Constant(_) => None,
        }
    }

    /// `len` bytes of it from byte `start` on, in rows of their own or as they lie here. `None`
    /// where that is neither one piece nor rows.
    pub(super) fn part(&self, start: usize, len: usize, rows: Option<Apart>) -> Option<Self> {
        let (gap, apart) = match (self.apart(), rows) {
            (None, rows) => (start, rows),
            (Some(whole), None) if start == 0 && len == self.len() => (0, Some(whole)),
            (Some(whole), Some(rows))
                if rows.pitch == whole.row && start % whole.row + rows.row <= whole.row =>
            {
                let gap = start / whole.row * whole.pitch + start % whole.row;
                (gap, Some(Apart { pitch: whole.pitch, ..rows }))
            }
            _ => return None,
        };
        match *self {
            Self::Slot { slot, offset, .. } => {
                Some(Self::Slot { slot, offset: offset + gap, len, apart })
            }
            Self::Local { local, offset, .. } => {
                Some(Self::Local { local, offset: offset + gap, len, apart })
            }
            Self::Omitted | Self::Constant(_) => None,
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
    /// Inputs of the output's size that output 0 may be written over: each element is read before
    /// it is written.
    pub(super) in_place: &'static [usize],
    /// Operands whose rows may lie apart, and how many bytes a row must have; `None`: as many as it
    /// likes.
    pub(super) rows: Vec<(Port, Option<usize>)>,
}

impl DraftStep {
    /// Whether an operand may lie in rows of so many bytes.
    pub(super) fn takes(&self, port: Port, row: usize) -> bool {
        self.rows
            .iter()
            .any(|&(it, wanted)| it == port && wanted.is_none_or(|wanted| wanted == row))
    }

    /// All places that it touches.
    pub(super) fn places(&self) -> impl Iterator<Item = &DraftPlace> {
        self.inputs.iter().chain(&self.outputs).chain([&self.scratch])
    }

    /// All operands that are there.
    pub(super) fn operands(&self) -> impl Iterator<Item = (Port, &DraftPlace)> {
        let inputs = self.inputs.iter().enumerate();
        let inputs = inputs.map(|(at, place)| (Port::Input(at), place));
        inputs.chain(self.outputs.iter().map(|place| (Port::Output, place)))
    }
}

/// Memory for a value that lives within the stage.
#[derive(Clone, Debug)]
struct Local {
    bytes: usize,
    /// Where it lies, if it is a part of something else.
    home: Option<DraftPlace>,
}

/// What following a local to what it is a part of takes at most, about.
const RESOLVE_NS: usize = 32;

/// Who reads the memory of each local.
pub(super) struct Readers {
    /// Operands of steps.
    operands: Vec<usize>,
    /// Whether later stages do.
    kept: Vec<bool>,
}

impl Readers {
    /// Whether so many operands of steps are all that read it.
    pub(super) fn are(&self, local: usize, operands: usize) -> bool {
        self.operands[local] == operands && !self.kept[local]
    }

    /// Whether later stages read it.
    pub(super) fn are_later(&self, local: usize) -> bool {
        self.kept[local]
    }

    /// Has those of a local read what it became a part of, but for some operands that nobody reads
    /// any more.
    pub(super) fn follow(&mut self, local: usize, root: usize, dropped: usize) {
        self.operands[root] += self.operands[local].saturating_sub(dropped);
        self.kept[root] |= self.kept[local];
    }
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
    /// What the steps' tables take of a budget.
    pub(super) claims: Vec<Charge>,
}

impl std::fmt::Debug for Draft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Draft of {} steps", self.steps.len())
    }
}

/// Where locals are, once laid out.
pub(super) struct Layout {
    pub(super) slot: usize,
    /// The place of each in its slot.
    homes: Vec<DraftPlace>,
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
        // Passes go through many of them. Whoever asks for so many looks whether the work is to
        // end.
        let _ = poll::work(RESOLVE_NS);
        while let DraftPlace::Local { local, offset, len, apart } = place
            && let Some(home) = &self.locals[local].home
        {
            let _ = poll::work(RESOLVE_NS);
            let part = home.part(offset, len, apart);
            debug_assert!(part.is_some(), "{place:?} within {home:?}");
            place = part.unwrap_or(DraftPlace::Omitted);
        }
        place
    }

    /// The local whose memory a place is in.
    pub(super) fn root(&self, place: &DraftPlace) -> Option<usize> {
        let &DraftPlace::Local { local, .. } = place else { return None };
        if self.is_root(local) {
            return Some(local);
        }
        match self.resolve(place) {
            DraftPlace::Local { local, .. } => Some(local),
            _ => None,
        }
    }

    /// The local that a place is the whole of, if that is no part of anything else.
    pub(super) fn whole_root(&self, place: &DraftPlace) -> Option<usize> {
        match *place {
            DraftPlace::Local { local, offset: 0, len, apart: None }
                if self.is_root(local) && self.locals[local].bytes == len =>
            {
                Some(local)
            }
            _ => None,
        }
    }

    /// The place of a local, before anything is known of where that is.
    pub(super) fn all_of(&self, local: usize) -> DraftPlace {
        DraftPlace::local(local, self.locals[local].bytes)
    }

    /// How many locals there are.
    pub(super) fn local_count(&self) -> usize {
        self.locals.len()
    }

    /// The locals whose memory later stages read.
    pub(super) fn kept_roots(&self) -> Vec<bool> {
        let mut kept = vec![false; self.locals.len()];
        for &local in &self.kept {
            if let Some(root) = self.root(&self.all_of(local)) {
                kept[root] = true;
            }
        }
        kept
    }

    /// Who reads each local, as steps are now.
    pub(super) fn readers(&self) -> Readers {
        let mut operands = vec![0; self.locals.len()];
        for place in self.steps.iter().flat_map(|step| &step.inputs) {
            if let Some(root) = self.root(place) {
                operands[root] += 1;
            }
        }
        Readers { operands, kept: self.kept_roots() }
    }

    pub(super) fn know_output(&mut self, index: usize, shape: &Shape, bytes: usize) {
        self.outputs.push(KnownOutput { index, dimensions: shape.to_u32(), bytes });
    }

    /// Back to where an operation started that could not be lowered yet.
    pub(super) fn rewind(&mut self, steps: usize, outputs: usize) {
        self.steps.truncate(steps);
        self.outputs.truncate(outputs);
    }

    /// Takes the steps from `first` on out, into a draft of their own that has the locals from
    /// `local` on, counted from there. `None`, and nothing is taken, where they touch others.
    pub(super) fn split_off(&mut self, first: usize, local: usize) -> Option<Self> {
        let mut own = Self { steps: self.steps.split_off(first), ..Self::default() };
        let is_own = |place: &&DraftPlace| !matches!(place, DraftPlace::Local { local: at, .. } if *at < local);
        let homes = self.locals.iter().skip(local).filter_map(|it| it.home.as_ref());
        let places = own.steps.iter().flat_map(DraftStep::places);
        if !homes.chain(places).all(|place| is_own(&place)) {
            self.steps.append(&mut own.steps);
            return None;
        }
        own.locals.extend_from_slice(self.locals.get(local..).unwrap_or_default());
        own.locals.iter_mut().filter_map(|it| it.home.as_mut()).for_each(|it| it.count_from(local));
        own.count_from(local);
        Some(own)
    }

    /// Puts back what [`Draft::split_off`] took.
    pub(super) fn put_back(&mut self, mut own: Self, local: usize) {
        own.count_from(local.wrapping_neg());
        self.steps.append(&mut own.steps);
    }

    fn count_from(&mut self, local: usize) {
        for step in &mut self.steps {
            let places = step.inputs.iter_mut().chain(&mut step.outputs);
            places.chain([&mut step.scratch]).for_each(|place| place.count_from(local));
        }
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
        let bytes = from.len();
        let shape = Words::new(move |f| write!(f, "{bytes} bytes"));
        let label = Label { kernel: "copy", form: Isa::Scalar, shape, operations: 0 };
        let work = Work::Whole(Box::new(|io| {
            map_rows(&io, |from: In<'_, u8>, to| {
                to.copy_from(from);
                Ok(())
            })
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
            part: Some(Part::Join { offsets: vec![0], rows: 1 }),
            in_place: &[],
            rows: vec![(Port::Input(0), None)],
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
            for place in step.places() {
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
        let home = |local| match self.resolve(&self.all_of(local)) {
            DraftPlace::Local { local, offset, len, apart } => {
                DraftPlace::Slot { slot, offset: offsets[local] + offset, len, apart }
            }
            place => place,
        };
        Layout { slot, homes: (0..self.locals.len()).map(home).collect(), bytes }
    }
}

impl Layout {
    /// Slot and offset of a local.
    pub(super) fn home(&self, local: usize) -> (usize, usize) {
        match self.homes[local] {
            DraftPlace::Slot { slot, offset, .. } => (slot, offset),
            _ => (self.slot, 0),
        }
    }

    pub(super) fn place(&self, place: DraftPlace) -> Place {
        let place = match place {
            DraftPlace::Local { local, offset, len, apart } => {
                self.homes[local].part(offset, len, apart).unwrap_or(DraftPlace::Omitted)
            }
            place => place,
        };
        match place {
            DraftPlace::Constant(bytes) => Place::Constant(bytes),
            DraftPlace::Slot { slot, offset, len, apart } => {
                Place::Slot { slot, offset, len, apart }
            }
            DraftPlace::Omitted | DraftPlace::Local { .. } => Place::Omitted,
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
