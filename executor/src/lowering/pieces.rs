//! Into how many pieces a step's bands are grouped, and whether threads gain by sharing them.

use std::ops::Range;

use super::draft::DraftStep;
use crate::lowering::step::Work;
use crate::lowering::{Io, Label};

/// A run looks at its deadline, and lets others go first, about this often at least, in
/// nanoseconds.
const LOOK_EVERY: u64 = 500_000;

/// From here on, in nanoseconds of one thread, sharing a step pays: opening and closing a job takes
/// two exchanges of a cache line between cores, up to 1 us each where the cores are far apart. A
/// step that is not shared fetches what others wrote from their caches, a line in 70 ns: next to
/// shared ones even short steps gain.
const SHARE_FROM: u64 = 8_000;

/// A piece of a shared step takes at least this long, in nanoseconds: every piece reads the weights
/// anew, and few lines leave tiles half empty.
const SHARED_PIECE: u64 = 50_000;

/// Pieces per thread: whoever is late or slow then leaves the others little to wait for.
const PIECES_PER_THREAD: u64 = 4;

/// Stages that take one thread less than this, in nanoseconds, aren't shared at all: so much of
/// them is steps that can't be, and what goes from core to core in between, that nothing is gained.
const SHARE_STAGES_FROM: u64 = 500_000;

/// The grouping of row blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pieces {
    /// The number of chunks, as even as can be.
    pub(crate) pieces: usize,
    /// True if threads share them.
    pub(crate) shared: bool,
}

impl Pieces {
    /// By the estimate of how long the step takes one thread.
    pub(crate) fn of(label: &Label, count: usize, threads: usize) -> Self {
        Self::with(label, count, threads, LOOK_EVERY, PIECES_PER_THREAD)
    }

    /// For bands of which neighbours share work, which is done again where a piece ends: a piece
    /// per thread, and longer ones.
    pub(crate) fn overlapping(label: &Label, count: usize, threads: usize) -> Self {
        Self::with(label, count, threads, 8 * LOOK_EVERY, 1)
    }

    /// The work of `count` bands that are grouped so.
    pub(crate) fn work(
        self,
        count: usize,
        run: impl Fn(Io<'_>, Range<usize>) -> Result<(), String> + Send + Sync + 'static,
    ) -> Work {
        let Self { pieces, shared } = self;
        Work::Bands { count, pieces, shared, run: Box::new(run) }
    }

    fn with(label: &Label, count: usize, threads: usize, look_every: u64, per_thread: u64) -> Self {
        let time = label.estimate();
        let shared = threads > 1 && count > 1 && time >= SHARE_FROM;
        let mut pieces = time.div_ceil(look_every);
        if shared {
            let threads = threads as u64;
            // As many for each thread, lest one waits for another's last.
            pieces = pieces.max((time / SHARED_PIECE).clamp(threads, threads * per_thread));
            pieces = pieces.next_multiple_of(threads);
        }
        let pieces = usize::try_from(pieces).unwrap_or(usize::MAX).clamp(1, count.max(1));
        Self { pieces, shared }
    }
}

/// Leaves the steps of a short stage to one thread.
pub(crate) fn keep_short_whole(steps: &mut [DraftStep]) {
    let all = steps.iter().map(|step| step.label.estimate()).fold(0, u64::saturating_add);
    if all >= SHARE_STAGES_FROM {
        return;
    }
    for step in steps {
        if let Work::Bands { shared, .. } = &mut step.work {
            *shared = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use nnburst_kernels::simd::Isa;

    use super::*;
    use crate::lowering::Words;

    #[test]
    fn little_work_stays_whole_and_much_is_cut() {
        let (whole, cut) = (false, true);
        let vectors = Isa::best();
        // Machines without vectors take as long for a hundredth.
        let work = |operations: u64| match vectors {
            Isa::Scalar => operations / 100,
            _ => operations,
        };
        for (what, form, operations, count, threads, expected) in [
            ("a small step", vectors, work(100_000), 8, 2, (1, whole)),
            ("a large one on one thread", vectors, work(100_000_000), 8, 1, (2, whole)),
            ("one that is just worth it", vectors, work(1_000_000), 24, 2, (2, cut)),
            ("a large one on two", vectors, work(30_000_000), 24, 2, (6, cut)),
            ("a larger one on two", vectors, work(650_000_000), 56, 2, (14, cut)),
            ("one band can't be shared", vectors, work(100_000_000), 1, 2, (1, whole)),
            ("plain code is slow", Isa::Scalar, 5_000_000, 100, 1, (10, whole)),
            ("without an estimate", Isa::Scalar, 0, 9, 2, (1, whole)),
            ("without bands", Isa::Scalar, 0, 0, 2, (1, whole)),
        ] {
            let label = Label { kernel: "test", form, shape: Words::default(), operations };
            let Pieces { pieces, shared } = Pieces::of(&label, count, threads);
            assert_eq!((pieces, shared), expected, "{what}");
        }
        let label = Label {
            kernel: "test",
            form: Isa::best(),
            shape: Words::default(),
            operations: work(300_000_000),
        };
        assert_eq!(Pieces::overlapping(&label, 56, 2), Pieces { pieces: 2, shared: true });
        assert_eq!(Pieces::overlapping(&label, 14, 1), Pieces { pieces: 1, shared: false });
    }
}
