//! An allocator that counts, for tests of what is allocated.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The system's allocator, with counts of the calls and bytes that went through it.
///
/// A test makes it its process's: `#[global_allocator] static ALLOCATOR: CountingAllocator =
/// CountingAllocator;`. Counts of the process are of all threads, so such a test is alone in its
/// program, or counts its own thread's calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingAllocator;

// Relaxed: whoever compares counts of several threads has synchronised with them by other means.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static RELEASES: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static CALLS: Cell<Calls> = const { Cell::new(Calls { allocations: 0, releases: 0 }) };
}

/// Numbers of calls of the allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Allocations and reallocations.
    pub allocations: u64,
    /// Releases.
    pub releases: u64,
}

impl std::ops::Sub for Calls {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            allocations: self.allocations.wrapping_sub(before.allocations),
            releases: self.releases.wrapping_sub(before.releases),
        }
    }
}

impl CountingAllocator {
    /// The calls of all threads of the process.
    pub fn calls() -> Calls {
        Calls {
            allocations: ALLOCATIONS.load(Ordering::Relaxed),
            releases: RELEASES.load(Ordering::Relaxed),
        }
    }

    /// The calls of the calling thread.
    pub fn calls_of_thread() -> Calls {
        CALLS.get()
    }

    /// The most bytes that `run` had allocated at a time, beyond those allocated before.
    pub fn peak_of<R>(run: impl FnOnce() -> R) -> (usize, R) {
        let before = BYTES.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        let result = run();
        (PEAK.load(Ordering::Relaxed).saturating_sub(before), result)
    }
}

fn allocated(bytes: usize) {
    ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    let now = BYTES.fetch_add(bytes, Ordering::Relaxed).wrapping_add(bytes);
    PEAK.fetch_max(now, Ordering::Relaxed);
    // A thread that ends has no place to count any more.
    let _ = CALLS.try_with(|calls| {
        let allocations = calls.get().allocations.wrapping_add(1);
        calls.set(Calls { allocations, ..calls.get() });
    });
}

fn released(bytes: usize) {
    RELEASES.fetch_add(1, Ordering::Relaxed);
    BYTES.fetch_sub(bytes, Ordering::Relaxed);
    let _ = CALLS.try_with(|calls| {
        let releases = calls.get().releases.wrapping_add(1);
        calls.set(Calls { releases, ..calls.get() });
    });
}

// SAFETY: every call goes to the system's allocator as it came; counting allocates nothing.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        allocated(layout.size());
        // SAFETY: the caller keeps `alloc_zeroed`'s contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        released(layout.size());
        // SAFETY: the caller keeps `dealloc`'s contract.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        allocated(size);
        BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps `realloc`'s contract.
        unsafe { System.realloc(block, layout, size) }
    }
}
