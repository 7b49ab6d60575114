//! Room on the stack of whoever calls: a program's thread may have as little as 16 KiB, where
//! compiling a model takes more than ten times that.
//!
//! Where there is less than [`ROOM`] left, the call runs on a thread of the library's while the
//! caller waits: 0.1 ms, and none of the program's business. Threads with the usual megabytes pay
//! for a comparison.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::thread::Builder;

use nnburst::hal::process::without_signals;

/// Bytes that calls run with at least.
pub(crate) const ROOM: usize = 256 << 10;

/// Bytes of the stack of a thread that runs a call in place of its caller's.
const STACK: usize = 8 << 20;

thread_local! {
    /// The thread's stack. Empty where the system doesn't say, hence no address is in it.
    static BOUNDS: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

/// Runs `work`, here or where there is room for it. `None` where there would have to be another
/// thread, and is none.
#[inline]
pub(crate) fn with_room<R>(work: impl FnOnce() -> R) -> Option<R> {
    if has_room() { Some(apart(work)) } else { elsewhere(work) }
}

/// Keeps what `work` has on the stack out of the frame that looks whether there is room.
#[inline(never)]
fn apart<R>(work: impl FnOnce() -> R) -> R {
    work()
}

#[inline]
fn has_room() -> bool {
    let marker = 0u8;
    let here = (&raw const marker).addr();
    // While the thread ends its variables are gone: as good a place as any.
    let bounds = BOUNDS.try_with(|bounds| bounds.get().unwrap_or_else(|| look_up(bounds)));
    let (low, high) = bounds.unwrap_or_default();
    // Elsewhere than on the thread's stack is a stack of the program's making, of which nothing is
    // known.
    !(low..high).contains(&here) || here - low >= ROOM
}

#[cold]
fn look_up(bounds: &Cell<Option<(usize, usize)>>) -> (usize, usize) {
    let found = stack().unwrap_or(0..0);
    let found = (found.start, found.end);
    bounds.set(Some(found));
    found
}

/// The addresses of the calling thread's stack.
fn stack() -> Option<Range<usize>> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut start, mut length) = (std::ptr::null_mut(), 0);
    // SAFETY: of the calling thread, into attributes that are read and destroyed only where this
    // went well.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let known =
            libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut start, &raw mut length);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        (known == 0).then(|| start.addr()..start.addr().saturating_add(length))
    }
}

/// A call that another thread runs while this one waits.
struct Lent<'a>(&'a mut dyn FnMut());

// SAFETY: whoever made it doesn't touch what it borrows until the other thread is joined, and
// nothing that the calls of this library work with belongs to a thread: the reason of a failure is
// noted by the caller's.
unsafe impl Send for Lent<'_> {}

impl Lent<'_> {
    fn run(self) {
        (self.0)();
    }
}

#[cold]
#[inline(never)]
fn elsewhere<R>(work: impl FnOnce() -> R) -> Option<R> {
    let (mut work, mut result) = (Some(work), None);
    on_a_thread(Lent(&mut || result = work.take().map(|work| work())));
    result
}

/// The part of [`elsewhere`] that is the same for all calls. The call is not made where there is no
/// thread.
fn on_a_thread(work: Lent<'_>) {
    std::thread::scope(|scope| {
        let thread = Builder::new().name("nnburst-call".into()).stack_size(STACK);
        if let Ok(running) = without_signals(|| thread.spawn_scoped(scope, move || work.run())) {
            // It doesn't panic: panics end within calls.
            let _ = running.join();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_a_stack_of(bytes: usize, work: impl FnOnce() -> String + Send + 'static) -> String {
        let thread = Builder::new().name("caller".into()).stack_size(bytes);
        thread.spawn(work).unwrap().join().unwrap()
    }

    #[test]
    fn small_stacks_are_left_and_others_are_not() {
        let who = || with_room(|| std::thread::current().name().unwrap().to_owned()).unwrap();
        assert_eq!(on_a_stack_of(2 << 20, who), "caller");
        assert_eq!(on_a_stack_of(64 << 10, who), "nnburst-call");
    }
}
