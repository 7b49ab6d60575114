//! Steps: kernel calls on places in memory.

use std::ops::Range;
use std::sync::Arc;

use nnburst_kernels::tensor::AlignedBytes;
use nnburst_kernels::tensor::rows::Apart;

use super::io::Io;
use super::label::Label;
use super::state::ValueId;

/// The place of an operand's bytes at run time.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// Nowhere: an operand that is left out.
    Omitted,
    /// In the model.
    Constant(Arc<AlignedBytes>),
    /// In the memory of an argument, of an arena, or of a value that came with a shape of its own:
    /// `len` bytes in one piece, or in rows.
    Slot { slot: usize, offset: usize, len: usize, apart: Option<Apart> },
}

impl Place {
    /// How its rows lie, where they lie apart.
    #[inline]
    pub(crate) fn apart(&self) -> Option<Apart> {
        match self {
            Self::Slot { apart, .. } => *apart,
            Self::Omitted | Self::Constant(_) => None,
        }
    }
}

/// The function of a step. An object of `dyn Fn` would have code to be called by value as well.
pub(crate) trait RunWhole: Send + Sync {
    /// Computes all of it. An error is a value that can't be computed with, such as an index out of
    /// range.
    fn run(&self, io: Io<'_>) -> Result<(), String>;
}

impl<F: Fn(Io<'_>) -> Result<(), String> + Send + Sync> RunWhole for F {
    fn run(&self, io: Io<'_>) -> Result<(), String> {
        self(io)
    }
}

/// The function of a step for some of its row blocks.
pub(crate) trait RunBands: Send + Sync {
    /// Computes these. Errors are as for [`RunWhole::run`].
    fn run(&self, io: Io<'_>, bands: Range<usize>) -> Result<(), String>;
}

impl<F: Fn(Io<'_>, Range<usize>) -> Result<(), String> + Send + Sync> RunBands for F {
    fn run(&self, io: Io<'_>, bands: Range<usize>) -> Result<(), String> {
        self(io, bands)
    }
}

/// The division of a step's work.
pub(crate) enum Work {
    /// Not at all.
    Whole(Box<dyn RunWhole>),
    /// In bands that don't depend on each other: between them a run may be stopped, and threads
    /// share them.
    Bands {
        /// The number of elements.
        count: usize,
        /// Into how many pieces they are grouped.
        pieces: usize,
        /// True if threads gain by sharing them.
        shared: bool,
        /// Computes some.
        run: Box<dyn RunBands>,
    },
}

impl Work {
    /// Work that is not divided.
    pub(crate) fn whole(
        run: impl Fn(Io<'_>) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self::Whole(Box::new(run))
    }

    /// All of it, here and now.
    pub(crate) fn run(&self, io: Io<'_>) -> Result<(), String> {
        match self {
            Self::Whole(run) => run.run(io),
            Self::Bands { count, run, .. } => run.run(io, 0..*count),
        }
    }
}

/// One kernel call.
pub(crate) struct Step {
    /// Position of the operation in its graph.
    pub(crate) index: usize,
    /// Name of the operation.
    pub(crate) name: &'static str,
    pub(crate) label: Label,
    pub(crate) inputs: Box<[Place]>,
    pub(crate) outputs: Box<[Place]>,
    pub(crate) scratch: Place,
    /// Bytes of the scratch memory that each thread has for itself.
    pub(crate) scratch_share: usize,
    pub(crate) work: Work,
    /// True if the run is polled ahead of it: short steps follow others without.
    pub(crate) polls: bool,
}

impl Step {
    /// Nanoseconds that it takes one thread, about.
    pub(crate) fn estimate(&self) -> u64 {
        /// Bytes that are moved in a nanosecond.
        const MOVED: u64 = 10;
        let moves = u64::try_from(self.bytes()).unwrap_or(u64::MAX) / MOVED;
        self.label.estimate().max(moves)
    }

    /// Bytes of all operands, each read or written once.
    pub(crate) fn bytes(&self) -> usize {
        let len = |place: &Place| match place {
            Place::Omitted => 0,
            Place::Constant(bytes) => bytes.len(),
            Place::Slot { len, .. } => *len,
        };
        self.inputs.iter().chain(&self.outputs).map(len).sum()
    }
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Step")
            .field("index", &self.index)
            .field("name", &self.name)
            .field("label", &self.label)
            .finish_non_exhaustive()
    }
}

/// A graph output whose shape this stage knows.
#[derive(Debug)]
pub(crate) struct KnownOutput {
    pub(crate) index: usize,
    pub(crate) dimensions: Vec<u32>,
    pub(crate) bytes: usize,
}

/// The function of an operation whose output shapes are known only when it has run.
pub(crate) trait RunDynamic: Send + Sync {
    /// Computes every output. Errors are as for [`RunWhole::run`].
    fn run(&self, io: Io<'_>) -> Result<Vec<DynamicOutput>, String>;
}

impl<F: Fn(Io<'_>) -> Result<Vec<DynamicOutput>, String> + Send + Sync> RunDynamic for F {
    fn run(&self, io: Io<'_>) -> Result<Vec<DynamicOutput>, String> {
        self(io)
    }
}

/// An output with the shape it turned out to have.
#[derive(Debug)]
pub struct DynamicOutput {
    /// Its shape.
    pub shape: nnburst_kernels::tensor::Shape,
    /// Its elements.
    pub bytes: AlignedBytes,
}

/// An output of a dynamic operation or a WHILE.
#[derive(Clone, Debug)]
pub(crate) struct DynamicTarget {
    pub(crate) value: ValueId,
    /// The number of the graph output that it is, if it is one.
    pub(crate) output: Option<usize>,
    /// Declared extents; 0 is unknown.
    pub(crate) declared: Vec<Vec<u32>>,
}
