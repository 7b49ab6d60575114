//! The SIGBUS guard: a client that truncates a file under a mapping costs one execution, no process.
//!
//! A table of address ranges, fixed in size because a signal handler may neither allocate nor lock.
//! The handler looks the faulting address up, puts a page of zeros where the page was, marks the
//! range and returns; an address that isn't in the table goes to whoever handled SIGBUS before.
//! Display servers do the same for their clients' buffers.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::handle::MemoryError;

/// Most unsealed mappings at a time in one process.
const LIMIT: usize = 4096;

/// As many unsealed memories as can be mapped at a time in one process.
pub const GUARDED_MAPPINGS: u64 = LIMIT as u64;

static TABLE: [Entry; LIMIT] = [const { Entry::new() }; LIMIT];
/// What handled SIGBUS before us, for faults that aren't ours.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();
/// No entry from here on was ever used: bounds the handler's and `watch`'s search.
static USED: AtomicUsize = AtomicUsize::new(0);

/// A page's bytes: the handler may not ask the system.
static PAGE_SIZE: AtomicUsize = AtomicUsize::new(4096);

struct Entry {
    /// Claimed by a [`Guard`]. Acquire and release hand the entry from one guard to the next.
    taken: AtomicBool,
    /// First address, 0 while nothing is watched.
    start: AtomicUsize,
    len: AtomicUsize,
    tripped: AtomicBool,
}

impl Entry {
    const fn new() -> Self {
        Self {
            taken: AtomicBool::new(false),
            start: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            tripped: AtomicBool::new(false),
        }
    }
}

/// A watched address range; the watch ends when it is dropped.
#[derive(Debug)]
pub(super) struct Guard {
    entry: usize,
}

impl Guard {
    /// Watches `len` bytes from `start` on.
    pub(super) fn watch(start: usize, len: usize) -> Result<Self, MemoryError> {
        install()?;
        for (index, entry) in TABLE.iter().enumerate() {
            // Acquire: pairs with the release in Drop; the last owner is done with the entry.
            if entry.taken.swap(true, Ordering::Acquire) {
                continue;
            }
            entry.tripped.store(false, Ordering::Relaxed); // published by `start`
            entry.len.store(len, Ordering::Relaxed); // published by `start`
            entry.start.store(start, Ordering::Release); // pairs with the handler's acquire
            // Release: pairs with the handler's acquire, which then finds the entry.
            USED.fetch_max(index.saturating_add(1), Ordering::Release);
            return Ok(Self { entry: index });
        }
        Err(MemoryError::TooManyGuards { limit: LIMIT })
    }

    /// Whether a page of the range went away under somebody's eyes.
    pub(super) fn tripped(&self) -> bool {
        // Acquire: pairs with the handler's release; the zeros are in place.
        TABLE.get(self.entry).is_some_and(|entry| entry.tripped.load(Ordering::Acquire))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(entry) = TABLE.get(self.entry) {
            entry.start.store(0, Ordering::Relaxed); // ordered before the entry is free
            entry.taken.store(false, Ordering::Release); // pairs with `watch`
        }
    }
}

fn install() -> Result<(), MemoryError> {
    static INSTALLED: OnceLock<Result<(), rustix::io::Errno>> = OnceLock::new();
    (*INSTALLED.get_or_init(install_once)).map_err(MemoryError::system("sigaction(SIGBUS)"))
}

fn install_once() -> Result<(), rustix::io::Errno> {
    PAGE_SIZE.store(rustix::param::page_size(), Ordering::Relaxed); // sigaction orders it for us
    // SAFETY: all zeros is a valid sigaction: the default action, no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_sigbus;
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER | libc::SA_ONSTACK;
    // SAFETY: as above.
    let mut previous: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: `action` is complete, its handler has the three-argument signature that SA_SIGINFO asks for.
    if unsafe { libc::sigaction(libc::SIGBUS, &raw const action, &raw mut previous) } != 0 {
        return Err(rustix::io::Errno::from_io_error(&std::io::Error::last_os_error())
            .unwrap_or(rustix::io::Errno::INVAL));
    }
    // Set once: `INSTALLED` runs this function once.
    let _ = PREVIOUS.set(previous);
    Ok(())
}

/// Runs in signal context: atomics and one mmap, nothing that locks or allocates.
extern "C" fn on_sigbus(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo; SIGBUS fills in the address.
    let address = unsafe { (*info).si_addr() } as usize;
    let used = USED.load(Ordering::Acquire).min(LIMIT); // pairs with `watch`
    for entry in TABLE.iter().take(used) {
        let start = entry.start.load(Ordering::Acquire); // pairs with `watch`
        let len = entry.len.load(Ordering::Relaxed); // handed over by `start`
        if start != 0 && address.wrapping_sub(start) < len && put_zeros(address) {
            entry.tripped.store(true, Ordering::Release); // pairs with `tripped`
            return;
        }
    }
    pass_on(signal, info, context);
}

/// Replaces the page around `address` by a private page of zeros.
fn put_zeros(address: usize) -> bool {
    let size = PAGE_SIZE.load(Ordering::Relaxed); // written once, before the handler is installed
    let page = address & !size.wrapping_sub(1);
    // SAFETY: the page lies in a mapping that a live `Mapping` owns (the faulting access goes through
    // one of its views), so replacing it takes nothing from anybody else.
    let mapped = unsafe {
        libc::mmap(
            page as *mut c_void,
            size,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    mapped != libc::MAP_FAILED
}

/// A fault that isn't ours: to whoever was there before, or the default, which ends the process.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let previous = PREVIOUS.get().map_or(libc::SIG_DFL, |previous| previous.sa_sigaction);
    if previous == libc::SIG_DFL || previous == libc::SIG_IGN {
        // SAFETY: back to the default; the access faults again on return and the default acts.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        return;
    }
    let flags = PREVIOUS.get().map_or(0, |previous| previous.sa_flags);
    if flags & libc::SA_SIGINFO != 0 {
        // SAFETY: a handler installed with SA_SIGINFO has this signature.
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
            unsafe { std::mem::transmute(previous) };
        handler(signal, info, context);
    } else {
        // SAFETY: a handler installed without SA_SIGINFO has this signature.
        let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(previous) };
        handler(signal);
    }
}
