//! The process's SIGBUS handler: faults in watched mappings are ours, all others go on.
//!
//! It stands in front of whatever handler it finds. One that the program installs later takes its
//! place; it is put in front again when the next mapping is watched. A handler that was installed
//! over ours may call ours for what isn't its own: then the one that stood there before both is
//! called, and nothing goes round in circles.
//!
//! Everything here that runs in signal context uses atomics and system calls, nothing that locks or
//! allocates.

use std::ffi::{c_int, c_void};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use super::error::MemoryError;
use super::guard::entry_of;
use crate::sys::page_size;

/// The file has no such page (any more). From <asm-generic/siginfo.h>; libc doesn't have it for
/// every target.
const BUS_ADRERR: c_int = 2;

/// Handlers that are remembered. Programs install one; whoever goes on replacing ours is left alone
/// in the end.
const MOST_HANDLERS: usize = 32;

/// Mappings that are set aside for when the system allows no more of them: a replacement that takes
/// a part out of what the system had joined needs two more.
const RESERVE_PAGES: usize = 8;

/// The handlers of SIGBUS before ours, the newest first; never freed.
static NEWEST: AtomicPtr<Previous> = AtomicPtr::new(std::ptr::null_mut());

/// The address of the mappings set aside, 0 while there are none.
static RESERVE: AtomicUsize = AtomicUsize::new(0);

/// A page's bytes: the handler may not ask the system.
static PAGE_SIZE: AtomicUsize = AtomicUsize::new(4096);

/// Signals that are being passed on, by the address of their siginfo.
static PASSING: [Passing; 64] = [const { Passing::new() }; 64];

struct Previous {
    action: libc::sigaction,
    older: *mut Self,
}

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Puts our handler in front, if it isn't there.
///
/// # Errors
/// The system refuses.
pub(super) fn install() -> Result<(), MemoryError> {
    install_in_front().map_err(MemoryError::system("sigaction(SIGBUS)"))?;
    if RESERVE.load(Ordering::Relaxed) == 0 {
        set_aside();
    }
    Ok(())
}

fn install_in_front() -> Result<(), Errno> {
    let current = exchange(None)?;
    if current.sa_sigaction == ours() {
        return Ok(());
    }
    PAGE_SIZE.store(page_size(), Ordering::Relaxed); // sigaction orders it for us
    if !remember(current) {
        return Ok(());
    }
    // SAFETY: all zeros is a valid sigaction: the default action, no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = ours();
    action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_ONSTACK;
    exchange(Some(&action)).map(drop)
}

fn ours() -> usize {
    let handler: Handler = on_sigbus;
    handler as usize
}

/// Installs an action if there is one; returns the one before.
fn exchange(new: Option<&libc::sigaction>) -> Result<libc::sigaction, Errno> {
    // SAFETY: all zeros is a valid sigaction.
    let mut current: libc::sigaction = unsafe { std::mem::zeroed() };
    let new = new.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `new` is null or complete, with a handler of the three arguments that SA_SIGINFO asks
    // for.
    Errno::result(unsafe { libc::sigaction(libc::SIGBUS, new, &raw mut current) })?;
    Ok(current)
}

/// Notes whom faults of others go to from now on. False if there are too many already.
fn remember(action: libc::sigaction) -> bool {
    let newest = NEWEST.load(Ordering::Acquire); // pairs with the exchange below
    let known = |previous: &Previous| previous.action.sa_sigaction == action.sa_sigaction;
    // SAFETY: null, or leaked below.
    if unsafe { newest.as_ref() }.is_some_and(known) {
        return true;
    }
    if previous(newest).count() >= MOST_HANDLERS {
        return false;
    }
    let made = Box::into_raw(Box::new(Previous { action, older: newest }));
    // Release: pairs with the handler's acquire, which reads the action.
    if NEWEST.compare_exchange(newest, made, Ordering::Release, Ordering::Relaxed).is_err() {
        // Another thread was faster, and has seen the same handler.
        // SAFETY: made above, and nobody else knows of it.
        drop(unsafe { Box::from_raw(made) });
    }
    true
}

fn previous(newest: *mut Previous) -> impl Iterator<Item = &'static Previous> {
    // SAFETY: null, or leaked by `remember`.
    std::iter::successors(unsafe { newest.as_ref() }, |previous| {
        // SAFETY: as above.
        unsafe { previous.older.as_ref() }
    })
}

/// Takes some mappings that nobody needs: neighbours of different protection count one by one.
fn set_aside() {
    let page = page_size();
    let Some(len) = NonZeroUsize::new(page.saturating_mul(RESERVE_PAGES)) else { return };
    let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
    // SAFETY: a new mapping, where the system likes it.
    let base = unsafe { mmap_anonymous(None, len, ProtFlags::PROT_NONE, flags) };
    // Without a reserve it goes as well as it goes.
    let Ok(base) = base else { return };
    for at in (0..len.get()).step_by(page.saturating_mul(2)) {
        // SAFETY: within the mapping of above, of which nobody knows.
        let _ = unsafe { mprotect(base.byte_add(at), page, ProtFlags::PROT_READ) };
    }
    // Relaxed: the handler gives addresses to munmap alone.
    let had = RESERVE.compare_exchange(0, base.addr().get(), Ordering::Relaxed, Ordering::Relaxed);
    if had.is_err() {
        // SAFETY: the mapping of above.
        let _ = unsafe { munmap(base, len.get()) };
    }
}

/// Gives the mappings set aside back, if they are there still.
fn release_reserve() -> bool {
    // Relaxed: as in `set_aside`.
    let reserve = RESERVE.swap(0, Ordering::Relaxed);
    let page = PAGE_SIZE.load(Ordering::Relaxed); // written before the handler is installed
    let len = page.saturating_mul(RESERVE_PAGES);
    // SAFETY: mapped by `set_aside`, and used by nobody.
    reserve != 0 && unsafe { libc::munmap(reserve as *mut c_void, len) } == 0
}

extern "C" fn on_sigbus(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // The thread that was interrupted may be about to look at it.
    let errno = Errno::last_raw();
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo.
    let code = unsafe { (*info).si_code };
    // SAFETY: as above; of the faults BUS_ADRERR has an address, and only there it is looked at.
    let address = unsafe { (*info).si_addr() } as usize;
    let is_ours =
        code == BUS_ADRERR && entry_of(address).is_some_and(|entry| entry.replace(put_zeros));
    if !is_ours {
        pass_on(signal, info, context);
    }
    Errno::set_raw(errno);
}

/// Replaces the `len` bytes at `start`, a mapping of ours, by private zeros, which cost nothing
/// until they are written.
fn put_zeros(start: usize, len: usize) -> bool {
    let map = || {
        // SAFETY: the range is a mapping that a live `Mapping` owns (the faulting access goes
        // through one of its views), so replacing it takes nothing from anybody else.
        let mapped = unsafe {
            libc::mmap(
                start as *mut c_void,
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        mapped != libc::MAP_FAILED
    };
    map() || release_reserve() && map()
}

/// The progress of a signal through the handlers before ours.
struct Passing {
    /// The address of its siginfo.
    info: AtomicUsize,
    /// The handler that the kernel called.
    front: AtomicUsize,
    /// An address on the stack of our handler.
    frame: AtomicUsize,
    /// The next handler, should the one that was called call ours.
    next: AtomicPtr<Previous>,
}

impl Passing {
    const fn new() -> Self {
        Self {
            info: AtomicUsize::new(0),
            front: AtomicUsize::new(0),
            frame: AtomicUsize::new(0),
            next: AtomicPtr::new(std::ptr::null_mut()),
        }
    }
}

/// A signal that isn't ours: to whoever was there before, or the default, which ends the process.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let marker = 0u8;
    let frame = (&raw const marker).addr();
    let front = exchange(None).map_or(0, |action| action.sa_sigaction);
    let place = PASSING.get(info.addr() / 64 % PASSING.len());
    // Only this thread has a siginfo at this address, hence relaxed throughout. Ours was called by
    // a handler that it called itself if that is further down the stack, under the same handler of
    // the kernel's; all else is left from a handler that jumped away.
    let nested = place.filter(|place| {
        place.info.load(Ordering::Relaxed) == info.addr()
            && place.front.load(Ordering::Relaxed) == front
            && frame < place.frame.load(Ordering::Relaxed)
    });
    let target = match nested {
        Some(place) => place.next.load(Ordering::Relaxed),
        None => before(front),
    };
    // SAFETY: null, or leaked by `remember`.
    let Some(target) = (unsafe { target.as_ref() }) else { return act_by_default(signal, info) };
    if let Some(place) = place {
        place.info.store(info.addr(), Ordering::Relaxed);
        place.front.store(front, Ordering::Relaxed);
        place.frame.store(frame, Ordering::Relaxed);
        place.next.store(target.older, Ordering::Relaxed);
    }
    call(&target.action, signal, info, context);
    if let Some(place) = place {
        place.info.store(0, Ordering::Relaxed);
    }
}

/// The newest handler before ours; where the kernel called that one itself, and it ours, the next.
fn before(front: usize) -> *mut Previous {
    let newest = NEWEST.load(Ordering::Acquire); // pairs with `remember`
    // SAFETY: null, or leaked by `remember`.
    match unsafe { newest.as_ref() } {
        Some(previous) if previous.action.sa_sigaction == front => previous.older,
        _ => newest,
    }
}

fn call(action: &libc::sigaction, signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let handler = action.sa_sigaction;
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo.
        let is_sent = unsafe { (*info).si_code } <= 0;
        if handler == libc::SIG_DFL || !is_sent {
            act_by_default(signal, info);
        }
    } else if action.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: a handler installed with SA_SIGINFO has this signature.
        let handler: Handler = unsafe { std::mem::transmute(handler) };
        handler(signal, info, context);
    } else {
        // SAFETY: a handler installed without SA_SIGINFO has this signature.
        let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
        handler(signal);
    }
}

/// Ends the process by the signal: a fault comes again on return, one that was sent is sent again.
fn act_by_default(signal: c_int, info: *mut libc::siginfo_t) {
    // SAFETY: back to the default action.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo.
    if unsafe { (*info).si_code } <= 0 {
        // SAFETY: to this thread, which doesn't block it: the handler runs with SA_NODEFER.
        unsafe { libc::raise(signal) };
    }
}
