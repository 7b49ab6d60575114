//! Room for the handlers of signals on threads that use tiles.
//!
//! With the state of tiles a signal takes 11.5 KB. An alternate stack as Rust's library makes it
//! (`AT_MINSIGSTKSZ`) has a few hundred bytes left then, and a fault of memory that a client cut
//! short has to be survived there.

use std::cell::OnceCell;
use std::ptr::{null, null_mut};

use nix::libc::{
    MAP_ANONYMOUS, MAP_FAILED, MAP_PRIVATE, PROT_NONE, PROT_READ, PROT_WRITE, SS_DISABLE, c_void,
    mmap, mprotect, munmap, sigaltstack, stack_t,
};

/// A signal with all state, and several times as much for its handlers.
const ROOM: usize = 64 << 10;

/// What nobody may touch below it: a page of any size that x86 has there.
const GUARD: usize = 4 << 10;

thread_local! {
    static HERE: OnceCell<Option<Stack>> = const { OnceCell::new() };
}

/// Makes room for handlers on this thread, once. False where there is none to be had.
pub(super) fn make_room() -> bool {
    HERE.try_with(|here| here.get_or_init(Stack::ensure).is_some()).unwrap_or(false)
}

/// The alternate stack of a thread: one of ours, or whatever serves.
struct Stack {
    /// Null where there was room already.
    base: *mut c_void,
}

impl Stack {
    fn ensure() -> Option<Self> {
        let now = current()?;
        // Without an alternate stack handlers run on the thread's.
        if now.ss_flags & SS_DISABLE != 0 || now.ss_size >= ROOM {
            return Some(Self { base: null_mut() });
        }
        // SAFETY: a new mapping, whose first page is given up; nobody knows of it.
        unsafe {
            let flags = MAP_PRIVATE | MAP_ANONYMOUS;
            let base = mmap(null_mut(), GUARD + ROOM, PROT_READ | PROT_WRITE, flags, -1, 0);
            if base == MAP_FAILED {
                return None;
            }
            let stack = Self { base };
            let new = stack_t { ss_sp: stack.start(), ss_flags: 0, ss_size: ROOM };
            let is_set = mprotect(base, GUARD, PROT_NONE) == 0
                && sigaltstack(&raw const new, null_mut()) == 0;
            is_set.then_some(stack)
        }
    }

    fn start(&self) -> *mut c_void {
        self.base.wrapping_byte_add(GUARD)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        if self.base.is_null() {
            return;
        }
        let ours =
            current().is_none_or(|now| now.ss_flags & SS_DISABLE == 0 && now.ss_sp == self.start());
        let none = stack_t { ss_sp: null_mut(), ss_flags: SS_DISABLE, ss_size: 0 };
        // SAFETY: it is the thread's no more where that succeeds, and nobody else's.
        unsafe {
            if !ours || sigaltstack(&raw const none, null_mut()) == 0 {
                munmap(self.base, GUARD + ROOM);
            }
        }
    }
}

/// The alternate stack that this thread has.
fn current() -> Option<stack_t> {
    let mut stack = stack_t { ss_sp: null_mut(), ss_flags: 0, ss_size: 0 };
    // SAFETY: it is written alone.
    (unsafe { sigaltstack(null(), &raw mut stack) } == 0).then_some(stack)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_room_for_handlers() {
        let thread = std::thread::spawn(|| {
            assert!(make_room() && make_room());
            let stack = current().unwrap();
            assert!(stack.ss_flags & SS_DISABLE != 0 || stack.ss_size >= ROOM);
        });
        thread.join().unwrap();
    }
}
