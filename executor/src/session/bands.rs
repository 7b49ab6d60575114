//! Runs the bands of one step: piece by piece, alone or with a team.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Control;
use super::team::Team;
use crate::error::RunError;

/// Runs `count` bands, `grain` at a time; `run` gets the number of the thread and the bands.
///
/// # Errors
/// Of a piece, whose others then may not have run; or the run is to end.
#[inline]
pub(super) fn run_bands(
    (count, grain): (usize, usize),
    control: &Control<'_>,
    team: Option<&mut Team>,
    run: impl Fn(usize, Range<usize>) -> Result<(), RunError> + Sync,
) -> Result<(), RunError> {
    if grain >= count {
        return run(0, 0..count);
    }
    match team {
        Some(team) if team.size() > 1 => together((count, grain), control, team, run),
        _ => (0..count).step_by(grain).try_for_each(|first| {
            if first > 0 {
                control.check()?;
            }
            run(0, first..(first + grain).min(count))
        }),
    }
}

fn together(
    (count, grain): (usize, usize),
    control: &Control<'_>,
    team: &mut Team,
    run: impl Fn(usize, Range<usize>) -> Result<(), RunError> + Sync,
) -> Result<(), RunError> {
    let next = AtomicUsize::new(0);
    // A helper that panics takes its piece with it; the count of what ended tells.
    let ended = AtomicUsize::new(0);
    let failed = OnceLock::new();
    team.share(&|thread| {
        loop {
            // Relaxed: the number is all that is handed out; the team orders the rest.
            let first = next.fetch_add(grain, Ordering::Relaxed);
            if first >= count || failed.get().is_some() {
                return;
            }
            // Whoever owns the run answers for it; helpers stop with it.
            let go_on = if thread == 0 && first > 0 { control.check() } else { Ok(()) };
            let bands = first..(first + grain).min(count);
            let piece = bands.len();
            if let Err(error) = go_on.map_err(RunError::from).and_then(|()| run(thread, bands)) {
                // The first to fail tells.
                let _ = failed.set(error);
                return;
            }
            // Relaxed: read only when all have left the job, which orders it.
            ended.fetch_add(piece, Ordering::Relaxed);
        }
    });
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
    fn every_band_runs_once_in_pieces_of_any_size() {
        let mut team = Team::new(3);
        for (count, grain) in [(0, 1), (1, 1), (7, 2), (8, 8), (9, 100), (64, 1)] {
            for together in [false, true] {
                let seen: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
                let team = together.then_some(&mut team);
                let ran = run_bands((count, grain), &Control::default(), team, |_, bands| {
                    assert!(bands.len() <= grain);
                    for band in bands {
                        seen[band].fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                });
                assert!(ran.is_ok());
                let once = seen.iter().all(|band| band.load(Ordering::Relaxed) == 1);
                assert!(once, "{count} by {grain}, together: {together}");
            }
        }
    }

    #[test]
    fn bands_that_a_helper_lost_are_missed() {
        let mut team = Team::new(2);
        // The owner leaves the job open until the helper has come, and been lost.
        let came = AtomicBool::new(false);
        let ran = run_bands((40, 4), &Control::default(), Some(&mut team), |thread, _| {
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
        let ran = run_bands((40, 4), &Control::default(), Some(&mut team), |_, _| Ok(()));
        assert_eq!(ran, Ok(()));
    }

    #[test]
    fn a_stop_or_a_failure_ends_a_step_between_its_pieces() {
        let mut team = Team::new(2);
        for together in [false, true] {
            let stop = AtomicBool::new(false);
            let control = Control { stop: Some(&stop), ..Control::default() };
            let pieces = AtomicUsize::new(0);
            let helpers = together.then_some(&mut team);
            let ran = run_bands((1 << 40, 1), &control, helpers, |_, _| {
                if pieces.fetch_add(1, Ordering::Relaxed) == 10 {
                    stop.store(true, Ordering::Relaxed);
                }
                Ok(())
            });
            assert!(matches!(ran, Err(RunError::Stopped)), "{ran:?}");

            let helpers = together.then_some(&mut team);
            let ran = run_bands((1 << 40, 1), &Control::default(), helpers, |_, bands| {
                if bands.contains(&20) { Err(RunError::NoMemory { needed: 20 }) } else { Ok(()) }
            });
            assert!(matches!(ran, Err(RunError::NoMemory { needed: 20 })), "{ran:?}");
        }
    }
}
