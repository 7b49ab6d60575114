//! A stage while it is being lowered: steps over values, before the arena is laid out.

use std::sync::Arc;

use nnburst_hal::{Charge, OperandType};
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::rows::{Apart, Port};
use nnburst_kernels::tensor::{AlignedBytes, In, Shape, poll};

use super::state::{Storage, Value};
use crate::lowering::extension::Types;
use crate::lowering::io::map_rows;
use crate::lowering::part::StepPart;
use crate::lowering::recipe::Recipe;
use crate::lowering::step::{KnownOutput, Work};
use crate::lowering::{Label, Words};

/// The place of an operand, with locals still to be laid out: `len` bytes in one piece, or in rows.
#[derive(Clone, Debug)]
pub(crate) enum DraftPlace {
    Omitted,
    Constant(Arc<AlignedBytes>),
    Slot { slot: usize, offset: usize, len: usize, apart: Option<Apart> },
    Local { local: usize, offset: usize, len: usize, apart: Option<Apart> },
}

impl DraftPlace {
    pub(crate) fn of(value: &Value, kind: OperandType, types: &Types) -> Self {
        let element = types.element_bytes(kind).unwrap_or(1);
        let len = value.shape.as_ref().map_or(0, |shape| shape.elements() * element);
        match &value.storage {
            Storage::Omitted | Storage::Unset | Storage::Unread => Self::Omitted,
            Storage::Constant(bytes) => Self::Constant(Arc::clone(bytes)),
            &Storage::Slot(slot) => Self::Slot { slot, offset: 0, len, apart: None },
            &Storage::Arena { slot, offset } => Self::Slot { slot, offset, len, apart: None },
            &Storage::Local(local) => Self::local(local, len),
        }
    }

    /// The first bytes of a local.
    pub(crate) fn local(local: usize, len: usize) -> Self {
        Self::Local { local, offset: 0, len, apart: None }
    }

    /// The same, where locals are counted from `local` on.
    fn count_from(&mut self, from: usize) {
        if let Self::Local { local, .. } = self {
            *local = local.wrapping_sub(from);
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Omitted => 0,
            Self::Constant(bytes) => bytes.len(),
            Self::Slot { len, .. } | Self::Local { len, .. } => *len,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How its rows lie, where they lie apart.
    pub(crate) fn apart(&self) -> Option<Apart> {
        match self {
            Self::Slot { apart, .. } | Self::Local { apart, .. } => *apart,
            Self::Omitted | Self::Constant(_) => None,
        }
    }

    /// `len` bytes of it from byte `start` on, in rows of their own or as they lie here. `None`
    /// where that is neither one piece nor rows.
    pub(crate) fn part(&self, start: usize, len: usize, rows: Option<Apart>) -> Option<Self> {
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
pub(crate) struct DraftStep {
    pub(crate) index: usize,
    pub(crate) name: &'static str,
    pub(crate) label: Label,
    pub(crate) inputs: Vec<DraftPlace>,
    pub(crate) outputs: Vec<DraftPlace>,
    pub(crate) scratch: DraftPlace,
    pub(crate) scratch_share: usize,
    pub(crate) work: Work,
    /// What it can be joined with other steps by.
    pub(crate) part: Option<StepPart>,
    /// What it computes, where patterns of steps are known that it could belong to.
    pub(crate) recipe: Option<Recipe>,
    /// Inputs of the output's size that output 0 may be written over: each element is read before
    /// it is written.
    pub(crate) in_place: &'static [usize],
    /// Operands whose rows may lie apart, and how many bytes a row must have; `None`: as many as it
    /// likes.
    pub(crate) rows: Vec<(Port, Option<usize>)>,
}

impl DraftStep {
    /// Returns whether an operand may lie in rows of so many bytes.
    pub(crate) fn takes(&self, port: Port, row: usize) -> bool {
        self.rows
            .iter()
            .any(|&(it, wanted)| it == port && wanted.is_none_or(|wanted| wanted == row))
    }

    /// All places that it touches.
    pub(crate) fn places(&self) -> impl Iterator<Item = &DraftPlace> {
        self.inputs.iter().chain(&self.outputs).chain([&self.scratch])
    }

    /// All operands that are there.
    pub(crate) fn operands(&self) -> impl Iterator<Item = (Port, &DraftPlace)> {
        let inputs = self.inputs.iter().enumerate();
        let inputs = inputs.map(|(at, place)| (Port::Input(at), place));
        inputs.chain(self.outputs.iter().map(|place| (Port::Output, place)))
    }
}

/// Memory for a value that lives within the stage.
#[derive(Clone, Debug)]
struct Local {
    bytes: usize,
    /// Its place, if it is a part of something else.
    home: Option<DraftPlace>,
}

/// What following a local to what it is a part of takes at most, about.
const RESOLVE_NS: usize = 32;

/// The readers of each local's memory.
pub(crate) struct Readers {
    /// Operands of steps.
    operands: Vec<usize>,
    /// True if later stages do.
    kept: Vec<bool>,
}

impl Readers {
    /// Returns whether so many operands of steps are all that read it.
    pub(crate) fn are(&self, local: usize, operands: usize) -> bool {
        self.operands[local] == operands && !self.kept[local]
    }

    /// Returns whether later stages read it.
    pub(crate) fn are_later(&self, local: usize) -> bool {
        self.kept[local]
    }

    /// Has those of a local read what it became a part of, but for some operands that nobody reads
    /// any more.
    pub(crate) fn follow(&mut self, local: usize, root: usize, dropped: usize) {
        self.operands[root] += self.operands[local].saturating_sub(dropped);
        self.kept[root] |= self.kept[local];
    }
}

/// The stage so far.
#[derive(Default)]
pub(crate) struct Draft {
    pub(crate) steps: Vec<DraftStep>,
    locals: Vec<Local>,
    pub(crate) outputs: Vec<KnownOutput>,
    /// Locals that later stages read.
    pub(crate) kept: Vec<usize>,
    /// Graph, operation and input of constants that are wholly in packed weights.
    pub(crate) absorbed: Vec<(usize, usize, usize)>,
    /// The charges of the steps' tables to a budget.
    pub(crate) claims: Vec<Charge>,
}

impl std::fmt::Debug for Draft {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Draft of {} steps", self.steps.len())
    }
}

impl Draft {
    pub(crate) fn add_local(&mut self, bytes: usize) -> usize {
        self.locals.push(Local { bytes, home: None });
        self.locals.len() - 1
    }

    /// Makes a local that has no place yet a part of something else.
    pub(crate) fn settle(&mut self, local: usize, home: DraftPlace) {
        debug_assert!(self.is_root(local) && self.root(&home) != Some(local));
        self.locals[local].home = Some(home);
    }

    /// Returns whether a local is no part of anything else.
    pub(crate) fn is_root(&self, local: usize) -> bool {
        self.locals[local].home.is_none()
    }

    /// The place in what it is a part of, if it is one.
    pub(crate) fn resolve(&self, place: &DraftPlace) -> DraftPlace {
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
    pub(crate) fn root(&self, place: &DraftPlace) -> Option<usize> {
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
    pub(crate) fn whole_root(&self, place: &DraftPlace) -> Option<usize> {
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
    pub(crate) fn all_of(&self, local: usize) -> DraftPlace {
        DraftPlace::local(local, self.locals[local].bytes)
    }

    /// Returns the number of locals.
    pub(crate) fn local_count(&self) -> usize {
        self.locals.len()
    }

    /// The locals whose memory later stages read.
    pub(crate) fn kept_roots(&self) -> Vec<bool> {
        let mut kept = vec![false; self.locals.len()];
        for &local in &self.kept {
            if let Some(root) = self.root(&self.all_of(local)) {
                kept[root] = true;
            }
        }
        kept
    }

    /// Returns the readers of each local, as steps are now.
    pub(crate) fn readers(&self) -> Readers {
        let mut operands = vec![0; self.locals.len()];
        for place in self.steps.iter().flat_map(|step| &step.inputs) {
            if let Some(root) = self.root(place) {
                operands[root] += 1;
            }
        }
        Readers { operands, kept: self.kept_roots() }
    }

    pub(crate) fn know_output(&mut self, index: usize, shape: &Shape, bytes: usize) {
        self.outputs.push(KnownOutput { index, dimensions: shape.to_u32(), bytes });
    }

    /// Back to where an operation started that could not be lowered yet.
    pub(crate) fn rewind(&mut self, steps: usize, outputs: usize) {
        self.steps.truncate(steps);
        self.outputs.truncate(outputs);
    }

    /// Takes the steps from `first` on out, into a draft of their own that has the locals from
    /// `local` on, counted from there. `None`, and nothing is taken, where they touch others.
    pub(crate) fn split_off(&mut self, first: usize, local: usize) -> Option<Self> {
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
    pub(crate) fn put_back(&mut self, mut own: Self, local: usize) {
        own.count_from(local.wrapping_neg());
        self.steps.append(&mut own.steps);
    }

    fn count_from(&mut self, local: usize) {
        for step in &mut self.steps {
            let places = step.inputs.iter_mut().chain(&mut step.outputs);
            places.chain([&mut step.scratch]).for_each(|place| place.count_from(local));
        }
    }

    /// Bytes of each local.
    pub(crate) fn local_sizes(&self) -> impl Iterator<Item = usize> {
        self.locals.iter().map(|local| local.bytes)
    }

    /// Bytes of a local.
    pub(crate) fn local_bytes(&self, local: usize) -> usize {
        self.locals[local].bytes
    }

    /// Adds a step that copies bytes, unless what computes them can put them there.
    pub(crate) fn copy(
        &mut self,
        index: usize,
        name: &'static str,
        from: DraftPlace,
        to: DraftPlace,
    ) {
        let bytes = from.len();
        let shape = Words::new(move |f| write!(f, "{bytes} bytes"));
        let label = Label { kernel: "copy", form: Isa::Scalar, shape, operations: 0 };
        let work = Work::whole(|io| {
            map_rows(&io, |from: In<'_, u8>, to| {
                to.copy_from(from);
                Ok(())
            })
        });
        self.steps.push(DraftStep {
            index,
            name,
            label,
            inputs: vec![from],
            outputs: vec![to],
            scratch: DraftPlace::Omitted,
            scratch_share: 0,
            work,
            part: Some(StepPart::Join { offsets: vec![0], rows: 1 }),
            recipe: None,
            in_place: &[],
            rows: vec![(Port::Input(0), None)],
        });
    }
}
