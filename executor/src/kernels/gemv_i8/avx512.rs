//! A panel's sums are one vector; four panels at a time hide the latency of the dot product.

use core::arch::x86_64::{
    _mm512_dpbusd_epi32, _mm512_loadu_si512, _mm512_set1_epi32, _mm512_setzero_si512,
    _mm512_storeu_si512,
};

use super::{COLUMNS, DEPTH, Kernel, Panels};

pub(super) const KERNEL: Kernel = Kernel { run: panels, signed: false };

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn panels(panels: &Panels) {
    let mut first = 0;
    while first < panels.panels {
        // SAFETY: as many panels as are left, at least.
        unsafe {
            match panels.panels - first {
                1 => some::<1>(panels, first),
                2 => some::<2>(panels, first),
                3 => some::<3>(panels, first),
                _ => some::<4>(panels, first),
            }
        }
        first += 4;
    }
}

/// # Safety
/// As for [`super::Run`]; `COUNT` panels are there from `first` on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn some<const COUNT: usize>(panels: &Panels, first: usize) {
    let line = COLUMNS * DEPTH;
    let mut sums = [_mm512_setzero_si512(); COUNT];
    for (at, sum) in sums.iter_mut().enumerate() {
        // SAFETY: the sums of a panel that is there.
        *sum = unsafe { _mm512_loadu_si512(panels.sums.add((first + at) * COLUMNS).cast()) };
    }
    for word in 0..panels.words {
        // SAFETY: a word of the row.
        let x = _mm512_set1_epi32(unsafe { *panels.row.add(word) }.cast_signed());
        for (at, sum) in sums.iter_mut().enumerate() {
            // SAFETY: a line of a panel that is there.
            let weights = unsafe {
                let from = panels.weights.add(((first + at) * panels.words + word) * line);
                _mm512_loadu_si512(from.cast())
            };
            *sum = _mm512_dpbusd_epi32(*sum, x, weights);
        }
    }
    for (at, &sum) in sums.iter().enumerate() {
        // SAFETY: as above.
        unsafe { _mm512_storeu_si512(panels.sums.add((first + at) * COLUMNS).cast(), sum) };
    }
}
