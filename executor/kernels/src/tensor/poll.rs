//! Polls inside long work: a run's stop flag, deadline and checkpoint are looked at within steps
//! too.
//!
//! A loop that may take long reports what it is about to do ([`work`]), in nanoseconds of one core
//! at the most. Each thread adds that up, and once `EVERY_NS` have come together it polls what
//! it works under ([`Poll`]). From the poll that says to end, each report fails: loops return
//! at once, whatever they were to compute, and whoever runs the step asks [`halted`] before it
//! believes any of the results.
//!
//! Nothing is passed down to kernels for that: the meter belongs to the thread, like the budget of
//! cooperative tasks. A report costs a subtraction and a branch, so that loops report some thousand
//! elements at a time, and small steps nothing at all.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;

use nnburst_hal::{View, ViewMut};

/// Reason why work ends that could go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The stop flag is set.
    Stopped,
    /// The deadline has passed.
    DeadlineMissed,
}

/// A run that work belongs to, polled while the work lasts.
pub trait Poll {
    /// Checks whether the work may go on, and may hold it up.
    ///
    /// # Errors
    /// It has to end.
    fn poll(&self) -> Result<(), Halt>;
}

/// Reported work between two polls, in nanoseconds. Reports are estimates: what takes ten times as
/// long is still polled every 5 milliseconds.
const EVERY_NS: i64 = 500_000;

/// The number of elements that loops report at a time: a few microseconds of vectors, half a
/// millisecond of slow functions.
pub const CHUNK: usize = 1 << 14;

/// Bytes that are copied between two reports: a hundred microseconds, into fresh pages too.
const COPIED: usize = 1 << 18;

/// The work has to end; why is [`halted`]'s to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halted(());

/// Steps fail with words; these are never read, since whoever runs the step looks at [`halted`]
/// first.
impl From<Halted> for String {
    fn from(_: Halted) -> Self {
        "the run was ended".to_owned()
    }
}

struct Meter {
    /// Until the next poll; negative for good once the work has to end.
    left: Cell<i64>,
    /// The control that the thread works under, valid during the call of [`under`] that set it.
    control: Cell<Option<NonNull<dyn Poll>>>,
    halted: Cell<Option<Halt>>,
}

thread_local! {
    static METER: Meter = const {
        Meter { left: Cell::new(EVERY_NS), control: Cell::new(None), halted: Cell::new(None) }
    };
}

/// Does some work of this thread under a control.
pub fn under<R>(control: &dyn Poll, act: impl FnOnce() -> R) -> R {
    /// Puts back what was before, also when `act` unwinds.
    struct Before {
        control: Option<NonNull<dyn Poll>>,
        halted: Option<Halt>,
        thread: PhantomData<*const ()>,
    }
    impl Drop for Before {
        fn drop(&mut self) {
            METER.with(|meter| {
                meter.control.set(self.control);
                meter.halted.set(self.halted);
                meter.left.set(if self.halted.is_some() { -1 } else { EVERY_NS });
            });
        }
    }
    // SAFETY: the lifetime alone changes, and `Before` takes the pointer back while it still holds.
    let control = unsafe {
        std::mem::transmute::<NonNull<dyn Poll + '_>, NonNull<dyn Poll>>(NonNull::from(control))
    };
    let _before = METER.with(|meter| {
        meter.left.set(EVERY_NS);
        Before {
            control: meter.control.replace(Some(control)),
            halted: meter.halted.take(),
            thread: PhantomData,
        }
    });
    act()
}

/// Reports work that begins now and takes at most so many nanoseconds, a millisecond or so at the
/// most.
///
/// # Errors
/// The work has to end.
#[inline]
pub fn work(ns: usize) -> Result<(), Halted> {
    METER.with(|meter| {
        // However much is reported, the meter doesn't wrap.
        let left = meter.left.get() - (ns.min(1 << 30)).cast_signed() as i64;
        meter.left.set(left);
        if left >= 0 { Ok(()) } else { poll(meter) }
    })
}

#[cold]
#[inline(never)]
fn poll(meter: &Meter) -> Result<(), Halted> {
    let Some(control) = meter.control.get().filter(|_| meter.halted.get().is_none()) else {
        let halted = meter.halted.get().is_some();
        meter.left.set(if halted { -1 } else { EVERY_NS });
        return if halted { Err(Halted(())) } else { Ok(()) };
    };
    // SAFETY: `under` borrows the control until it has taken the pointer back.
    let checked = unsafe { control.as_ref() }.poll();
    match checked {
        Ok(()) => {
            meter.left.set(EVERY_NS);
            Ok(())
        }
        Err(halt) => {
            meter.halted.set(Some(halt));
            meter.left.set(-1);
            Err(Halted(()))
        }
    }
}

/// Returns whether work of this thread was ended since it came [`under`] its control: what it left
/// is then no result.
///
/// # Errors
/// It was.
#[inline]
pub fn halted() -> Result<(), Halt> {
    METER.with(|meter| meter.halted.get().map_or(Ok(()), Err))
}

/// Fills memory, however much it is.
///
/// # Errors
/// The work has to end.
pub fn fill<T: Copy>(memory: &mut [T], value: T) -> Result<(), Halted> {
    for chunk in memory.chunks_mut(CHUNK) {
        work(size_of_val(chunk) / 4)?;
        chunk.fill(value);
    }
    Ok(())
}

/// Copies the first bytes, as many as both have, however many they are; once the work has to end,
/// no more of them.
pub fn copy(from: View<'_>, to: ViewMut<'_>) {
    let len = from.len().min(to.len());
    for start in (0..len).step_by(COPIED) {
        let piece = start..len.min(start + COPIED);
        let (Some(from), Some(to)) = (from.slice(piece.clone()), to.slice(piece)) else { return };
        if work(from.len() / 4).is_err() {
            return;
        }
        to.copy_from(from);
    }
}

/// The items of an iterator, each of which takes so many nanoseconds to work on beside what loops
/// within report themselves; none any more once the work has to end.
#[inline]
pub fn each<I: Iterator>(items: I, ns: usize) -> Each<I> {
    Each { items, ns, left: 0, batch: 0 }
}

/// See [`each`].
#[derive(Debug)]
pub struct Each<I: Iterator> {
    items: I,
    ns: usize,
    /// Items that are worked on until the next report.
    left: usize,
    /// Items of a report; 0 before the first item.
    batch: usize,
}

/// Nanoseconds that an iterator reports at a time.
const REPORT_NS: usize = 20_000;

impl<I: Iterator> Each<I> {
    /// Reports the items before; those to come are reported when they are done, so that short loops
    /// don't report more than they do.
    #[inline(never)]
    fn report(&mut self) -> Result<(), Halted> {
        work(self.batch * self.ns)?;
        self.batch = (REPORT_NS / self.ns.max(1)).max(1);
        self.left = self.batch;
        Ok(())
    }
}

impl<I: Iterator> Iterator for Each<I> {
    type Item = I::Item;

    #[inline(always)]
    fn next(&mut self) -> Option<I::Item> {
        if self.left == 0 {
            // Whoever comes back to a loop around this one finds it over at once, too.
            self.report().ok()?;
        }
        self.left -= 1;
        self.items.next()
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        // It may end earlier.
        (0, self.items.size_hint().1)
    }
}

impl<I: Iterator> Drop for Each<I> {
    #[inline]
    fn drop(&mut self) {
        // A halt is found by whoever reports next.
        let _ = work((self.batch - self.left) * self.ns);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    /// Counts polls, and ends the work once it is told to.
    #[derive(Debug, Default)]
    struct Polls {
        count: AtomicUsize,
        stop: AtomicBool,
    }

    impl Poll for Polls {
        fn poll(&self) -> Result<(), Halt> {
            self.count.fetch_add(1, Ordering::Relaxed);
            if self.stop.load(Ordering::Relaxed) { Err(Halt::Stopped) } else { Ok(()) }
        }
    }

    #[test]
    fn reports_add_up_to_polls_and_all_fail_from_the_one_that_ends_the_work() {
        let control = Polls::default();
        let count = || control.count.load(Ordering::Relaxed);
        under(&control, || {
            for _ in 0..100 {
                work(50_001).unwrap();
            }
            assert_eq!(count(), 10);
            assert_eq!(each(0..1_000_000, 5).count(), 1_000_000);
            let polls = count();
            assert!((19..=20).contains(&polls), "{polls}");
            assert_eq!(halted(), Ok(()));
            control.stop.store(true, Ordering::Relaxed);
            assert!(each(0..1_000_000, 5).count() < 200_000);
            assert_eq!((halted(), work(0)), (Err(Halt::Stopped), Err(Halted(()))));
            assert_eq!(count(), polls + 1);
            // Another piece of work of the same thread is not touched by that, and ends by itself.
            under(&Polls::default(), || assert_eq!((halted(), work(usize::MAX)), (Ok(()), Ok(()))));
            assert!(work(0).is_err());
        });
        assert_eq!((halted(), work(usize::MAX)), (Ok(()), Ok(())));
    }

    #[test]
    fn a_panic_puts_back_what_was_before() {
        let control = Polls { stop: AtomicBool::new(true), ..Polls::default() };
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            under(&control, || {
                assert!(work(usize::MAX).is_err());
                panic!("in a kernel");
            });
        }));
        assert!(unwound.is_err());
        assert_eq!((halted(), work(usize::MAX)), (Ok(()), Ok(())));
    }
}
