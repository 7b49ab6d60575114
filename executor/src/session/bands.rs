//! Runs the bands of one step: piece by piece, alone or with a team.

use std::cell::Cell;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use nnburst_kernels::simd::FloatMode;
use nnburst_kernels::tensor::poll;

use super::team::Team;
use crate::lowering::{Control, Helping, RunError};

/// Runs `count` bands in `pieces` pieces; `run` gets the number of the thread and the bands.
///
/// # Errors
/// Of a piece, whose others then may not have run; or the run is to end.
#[inline]
pub(super) fn run_bands(
    count: usize,
    pieces: usize,
    control: &Control<'_>,
    team: Option<&mut Team>,
    run: impl Fn(usize, Range<usize>) -> Result<(), RunError> + Sync,
) -> Result<(), RunError> {
    if pieces <= 1 {
        let ran = run(0, 0..count);
        return poll::halted().map_err(RunError::from).and(ran);
    }
    match team {
        Some(team) if team.size().min(control.most_threads()) > 1 => {
            together(count, pieces, control, team, run)
        }
        _ => (0..pieces).try_for_each(|at| {
            if at > 0 {
                control.check()?;
            }
            let ran = run(0, piece(at, count, pieces));
            poll::halted().map_err(RunError::from).and(ran)
        }),
    }
}

/// The bands of piece `at`: sizes differ by one at most.
fn piece(at: usize, count: usize, pieces: usize) -> Range<usize> {
    let (least, more) = (count / pieces, count % pieces);
    // The larger ones first.
    let start = |at: usize| at * least + at.min(more);
    start(at)..start(at + 1)
}

/// Pieces that nobody has taken, at either end.
///
/// Whoever owns the run takes them from the front, helpers from the back: in the next step each
/// then mostly reads lines that it wrote itself. From another core's cache a line takes 70 ns:
/// depthwise convolutions took up to six times as long as alone where pieces went to whoever came
/// first.
struct Untaken {
    /// Taken from the back, shifted, and from the front. Relaxed: the numbers are all that is
    /// handed out; the team orders the rest.
    taken: AtomicU64,
    pieces: u64,
}

impl Untaken {
    const FROM_BACK: u32 = 32;

    /// As many as 32 bits count, which is more than there are lines.
    fn new(pieces: usize) -> Option<Self> {
        let pieces = u64::from(u32::try_from(pieces).ok()?);
        Some(Self { taken: AtomicU64::new(0), pieces })
    }

    /// The next one for this thread.
    fn take(&self, thread: usize) -> Option<usize> {
        let one = if thread == 0 { 1 } else { 1 << Self::FROM_BACK };
        let taken = self.taken.fetch_add(one, Ordering::Relaxed);
        // Whoever finds none left stops asking, so that neither count gets far beyond the pieces.
        let (back, front) = (taken >> Self::FROM_BACK, taken & u64::from(u32::MAX));
        let at = if thread == 0 { front } else { self.pieces.checked_sub(back + 1)? };
        (front + back < self.pieces).then(|| usize::try_from(at).ok())?
    }
}

fn together(
    count: usize,
    pieces: usize,
    control: &Control<'_>,
    team: &mut Team,
    run: impl Fn(usize, Range<usize>) -> Result<(), RunError> + Sync,
) -> Result<(), RunError> {
    let Some(untaken) = Untaken::new(pieces) else {
        return run_bands(count, 1, control, None, run);
    };
    // A helper that panics takes its piece with it; the count of what ended tells.
    let ended = AtomicUsize::new(0);
    let failed = OnceLock::new();
    let most = control.most_threads();
    let work = |thread: usize| {
        let mut first = true;
        while let Some(at) = untaken.take(thread)
            && failed.get().is_none()
        {
            // Whoever owns the run answers for it; helpers stop with it.
            let go_on = if thread == 0 && !first { control.check() } else { Ok(()) };
            first = false;
            let bands = piece(at, count, pieces);
            let size = bands.len();
            let ran = go_on.map_err(RunError::from).and_then(|()| run(thread, bands));
            // What a poll inside it ended computed nothing, however it came back.
            if let Err(error) = poll::halted().map_err(RunError::from).and(ran) {
                // The first to fail tells.
                let _ = failed.set(error);
                return;
            }
            // Relaxed: read only when all have left the job, which orders it.
            ended.fetch_add(size, Ordering::Relaxed);
        }
    };
    let job = |thread: usize| match thread {
        0 => work(0),
        helper if helper < most => {
            // It takes turns of its own at the polls inside its pieces.
            let helping = Helping::of(control);
            let control = Control { checkpoint: Some(&helping), ..*control };
            poll::under(&control, || FloatMode::Flushed.within(|| work(helper)));
        }
        _ => {}
    };
    let rested = Cell::new(false);
    team.share(&job, &|| {
        if control.most_threads() == 1 {
            rested.set(true);
            control.rest();
        }
    });
    if rested.get() {
        control.check()?;
    }
    match (failed.into_inner(), count - ended.into_inner()) {
        (Some(error), _) => Err(error),
        (None, 0) => Ok(()),
        (None, lost) => Err(RunError::LostBands { lost, count }),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn every_band_runs_once_in_pieces_as_even_as_can_be() {
        let mut team = Team::new(3, None);
        for (count, pieces) in [(0, 1), (1, 1), (7, 2), (8, 8), (9, 4), (64, 7)] {
            for together in [false, true] {
                let seen: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                let team = together.then_some(&mut team);
                let ran = run_bands(count, pieces, &Control::default(), team, |_, bands| {
                    assert!((count / pieces..=count.div_ceil(pieces)).contains(&bands.len()));
                    for band in bands {
                        seen[band].fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                });
                assert!(ran.is_ok());
                let once = seen.iter().all(|band| band.load(Ordering::Relaxed) == 1);
                assert!(once, "{count} in {pieces}, together: {together}");
            }
        }
    }

    #[test]
    fn owner_and_helpers_take_from_either_end() {
        let untaken = Untaken::new(5).unwrap();
        let taken = [0, 1, 2, 0, 1, 0, 1].map(|thread| untaken.take(thread));
        assert_eq!(taken, [Some(0), Some(4), Some(3), Some(1), Some(2), None, None]);
    }

    #[test]
    fn bands_that_a_helper_lost_are_missed() {
        let mut team = Team::new(2, None);
        // The owner leaves the job open until the helper has come, and been lost.
        let came = AtomicBool::new(false);
        let ran = run_bands(40, 10, &Control::default(), Some(&mut team), |thread, _| {
            if thread == 1 {
                came.store(true, Ordering::Relaxed);
                panic!("a kernel with a fault");
            }
            while !came.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            Ok(())
        });
        assert_eq!(ran, Err(RunError::LostBands { lost: 4, count: 40 }));

        // The rest of the team carries on.
        let ran = run_bands(40, 10, &Control::default(), Some(&mut team), |_, _| Ok(()));
        assert_eq!(ran, Ok(()));
    }

    #[test]
    fn a_stop_or_a_failure_ends_a_step_between_its_pieces() {
        let mut team = Team::new(2, None);
        for together in [false, true] {
            let stop = AtomicBool::new(false);
            let control = Control { stop: Some(&stop), ..Control::default() };
            let pieces = AtomicUsize::new(0);
            let helpers = together.then_some(&mut team);
            let ran = run_bands(1 << 30, 1 << 30, &control, helpers, |_, _| {
                if pieces.fetch_add(1, Ordering::Relaxed) == 10 {
                    stop.store(true, Ordering::Relaxed);
                }
                Ok(())
            });
            assert!(matches!(ran, Err(RunError::Stopped)), "{ran:?}");

            let helpers = together.then_some(&mut team);
            let ran = run_bands(1 << 30, 1 << 30, &Control::default(), helpers, |_, bands| {
                if bands.contains(&20) { Err(RunError::Stopped) } else { Ok(()) }
            });
            assert!(matches!(ran, Err(RunError::Stopped)), "{ran:?}");
        }
    }
}
