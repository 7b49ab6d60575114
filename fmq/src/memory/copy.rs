//! Copies between private memory and a ring that somebody else may be writing.

use std::sync::atomic::{Ordering, compiler_fence};

/// Up to this many bytes a loop over words beats the call of `memcpy`. Beyond it the loop loses,
/// since it fills the store buffer with small stores: 1 KiB between two cores takes 560 ns there
/// and back by words, 290 ns by `memcpy`.
const FEW: usize = 32;
const WORD: usize = size_of::<u64>();

/// Copies `src` to `dst`.
///
/// # Safety
/// `dst .. dst + src.len()` lies in a ring that stays mapped and writable during the call.
#[inline(always)]
pub(super) unsafe fn store(dst: *mut u8, src: &[u8]) {
    if src.len() <= FEW && (dst.addr() | src.len()).is_multiple_of(WORD) {
        let (words, _) = src.as_chunks::<WORD>();
        for (i, word) in words.iter().enumerate() {
            // SAFETY: word `i` lies within `src.len()` bytes of `dst`, and `dst` is aligned to
            // words. Volatile: the compiler may neither merge these with the publishing store nor
            // turn the loop into a call.
            unsafe { dst.cast::<u64>().add(i).write_volatile(u64::from_ne_bytes(*word)) };
        }
    } else {
        // SAFETY: both ranges are valid for `src.len()` bytes, and private memory never overlaps a
        // ring. A peer that reads at the same time against the protocol is another process: what it
        // sees is its affair.
        unsafe { dst.copy_from_nonoverlapping(src.as_ptr(), src.len()) };
    }
}

/// Copies `dst.len()` bytes from `src` to `dst`.
///
/// # Safety
/// `src .. src + dst.len()` lies in a ring that stays mapped during the call.
#[inline(always)]
pub(super) unsafe fn load(dst: &mut [u8], src: *const u8) {
    if dst.len() <= FEW && (src.addr() | dst.len()).is_multiple_of(WORD) {
        let (words, _) = dst.as_chunks_mut::<WORD>();
        for (i, word) in words.iter_mut().enumerate() {
            // SAFETY: word `i` lies within `dst.len()` bytes of `src`, and `src` is aligned to
            // words. Volatile: each word is read exactly once, whatever a hostile peer does to it
            // meanwhile.
            *word = unsafe { src.cast::<u64>().add(i).read_volatile() }.to_ne_bytes();
        }
    } else {
        // SAFETY: both ranges are valid for `dst.len()` bytes, and private memory never overlaps a
        // ring. A peer that writes at the same time against the protocol leaves a mixture in `dst`:
        // bytes, all valid.
        unsafe { dst.as_mut_ptr().copy_from_nonoverlapping(src, dst.len()) };
        // Who validates `dst` and then uses it must use what was validated: forbid to read `src`
        // again for it.
        compiler_fence(Ordering::SeqCst);
    }
}

/// Asks for the cache line at `address`, without waiting for it. Any address will do: it never
/// faults.
#[inline(always)]
pub(super) fn prefetch(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program sees, and is ignored where nothing is
        // mapped.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}
