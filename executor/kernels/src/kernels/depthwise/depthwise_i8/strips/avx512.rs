//! Sixteen channels of four lines; four neighbours of two lines of outputs.

use core::arch::x86_64::{
    __m512i, _mm_loadu_si128, _mm_setr_epi8, _mm_storeu_si128, _mm512_broadcast_i32x4,
    _mm512_castsi128_si512, _mm512_castsi512_si128, _mm512_dpbusd_epi32, _mm512_extracti32x4_epi32,
    _mm512_inserti32x4, _mm512_loadu_si512, _mm512_or_si512, _mm512_permutexvar_epi8,
    _mm512_permutexvar_epi32, _mm512_setr_epi32, _mm512_shuffle_epi8, _mm512_slli_epi32,
    _mm512_srli_epi32,
};
use std::hint::black_box;
use std::marker::PhantomData;

use super::line::{GENERAL, Job, NEGATIVE, Word, strip};
use super::row::windows;
use super::{Strip, StripKernel};
use crate::kernels::gemm_i8::Encoding;
use crate::kernels::gemm_i8::avx512::encode;
use crate::simd::requantise::Channels;
use crate::simd::requantise::avx512::{Avx512QuickLanes, Narrow, general};
use crate::simd::{Avx512, Avx512Vbmi};

/// With one shuffle for each word.
pub(in super::super) const VBMI: StripKernel =
    StripKernel { three: vbmi_three, five: vbmi_five, row: Some(vbmi_row), ..KERNEL };

pub(in super::super) const KERNEL: StripKernel = StripKernel {
    encoding: Encoding::Bytes,
    lines: 4,
    encode,
    order: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    three,
    five,
    row: Some(row),
};

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn three(s: &Strip) {
    // SAFETY: as the caller promises.
    unsafe { split::<Twice, 3, 1>(Avx512::new_unchecked(), s) };
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn five(s: &Strip) {
    // SAFETY: as the caller promises.
    unsafe { split::<Twice, 5, 2>(Avx512::new_unchecked(), s) };
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi")]
unsafe fn vbmi_three(s: &Strip) {
    // SAFETY: as the caller promises.
    unsafe { split::<Once, 3, 1>(Avx512Vbmi::new_unchecked(), s) };
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi")]
unsafe fn vbmi_five(s: &Strip) {
    // SAFETY: as the caller promises.
    unsafe { split::<Once, 5, 2>(Avx512Vbmi::new_unchecked(), s) };
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn row(s: &Strip) {
    // SAFETY: as the caller promises.
    unsafe { split_row::<Twice>(Avx512::new_unchecked(), s) };
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi")]
unsafe fn vbmi_row(s: &Strip) {
    // SAFETY: as the caller promises.
    unsafe { split_row::<Once>(Avx512Vbmi::new_unchecked(), s) };
}

/// # Safety
/// As for [`windows`].
#[inline(always)]
unsafe fn split_row<T: Turn>(isa: T::Isa, s: &Strip) {
    // SAFETY: as the caller promises.
    unsafe {
        if s.split {
            windows::<Lines<T, 2>>(isa, s);
        } else {
            windows::<Lines<T, 1>>(isa, s);
        }
    }
}

/// # Safety
/// As for [`strip`].
#[inline(always)]
unsafe fn split<T: Turn, const SIDE: usize, const WORDS: usize>(isa: T::Isa, s: &Strip) {
    // SAFETY: as the caller promises.
    unsafe {
        if s.split {
            strip::<Lines<T, 2>, SIDE, WORDS, 4>(isa, s);
        } else {
            strip::<Lines<T, 1>, SIDE, WORDS, 4>(isa, s);
        }
    }
}

/// Four lines: those of a channel in each lane. Weights have so many parts.
#[derive(Clone, Copy)]
struct Lines<T, const PARTS: usize>(__m512i, PhantomData<T>);

impl<T: Turn, const PARTS: usize> Lines<T, PARTS> {
    #[inline(always)]
    const fn of(lines: __m512i) -> Self {
        Self(lines, PhantomData)
    }
}

impl<T: Turn, const PARTS: usize> Word for Lines<T, PARTS> {
    type Isa = T::Isa;
    type Sums = __m512i;
    type Order = T;
    type Finish = (Avx512QuickLanes, Narrow);

    const LINES: usize = 4;
    const PARTS: usize = PARTS;
    const QUICK: bool = true;
    const AHEAD: bool = true;

    #[inline(always)]
    unsafe fn apart<J: Job<Isa = T::Isa>>(isa: T::Isa, s: &Strip) {
        // SAFETY: as the caller promises.
        unsafe { T::apart::<J>(isa, s) };
    }

    #[inline(always)]
    fn order(isa: T::Isa) -> T {
        T::new(isa)
    }

    #[inline(always)]
    unsafe fn finish(_: T::Isa, scaling: &Channels) -> (Avx512QuickLanes, Narrow) {
        // SAFETY: as the caller promises; the first isn't looked at unless all channels are quick.
        unsafe { (Avx512QuickLanes::load(scaling, 0), Narrow::new(scaling.range())) }
    }

    #[inline(always)]
    unsafe fn sums(_: T::Isa, from: *const i32) -> __m512i {
        // SAFETY: as the caller promises.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn weights(_: T::Isa, from: *const i32) -> Self {
        // SAFETY: as the caller promises.
        Self::of(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn lines(_: T::Isa, order: &T, from: *const u8, line: usize, count: usize) -> Self {
        // SAFETY: as the caller promises.
        unsafe {
            let row = |at: usize| _mm_loadu_si128(from.add(at * line).cast());
            let mut all = _mm512_castsi128_si512(row(0));
            if count > 1 {
                all = _mm512_inserti32x4::<1>(all, row(1));
            }
            if count > 2 {
                all = _mm512_inserti32x4::<2>(all, row(2));
            }
            if count > 3 {
                all = _mm512_inserti32x4::<3>(all, row(3));
            }
            Self::of(order.turned(all))
        }
    }

    #[inline(always)]
    fn lowered(self, before: Option<Self>) -> Self {
        // SAFETY: a word is proof of the instruction set.
        unsafe {
            let down = _mm512_slli_epi32::<8>(self.0);
            Self::of(match before {
                Some(before) => _mm512_or_si512(down, _mm512_srli_epi32::<24>(before.0)),
                None => down,
            })
        }
    }

    #[inline(always)]
    fn dot(self, weights: Self, sums: __m512i) -> __m512i {
        // SAFETY: a word is proof of the instruction set.
        unsafe { _mm512_dpbusd_epi32(sums, self.0, weights.0) }
    }

    #[inline(always)]
    unsafe fn store<const FINISH: u8, const PIXELS: usize>(
        (quick, narrow): &(Avx512QuickLanes, Narrow),
        scaling: &Channels,
        sums: [__m512i; PIXELS],
        to: *mut u8,
        step: usize,
    ) {
        // SAFETY: as the caller promises.
        unsafe {
            let mut values = [sums[0]; 4];
            unrolled!(4: p < PIXELS, { values[p] = sums[p] });
            if FINISH == GENERAL {
                general(scaling, &mut values[..PIXELS], 1);
            } else {
                unrolled!(4: p < PIXELS, {
                    values[p] = if FINISH == NEGATIVE {
                        quick.rounded::<true>(values[p])
                    } else {
                        quick.rounded::<false>(values[p])
                    };
                });
            }
            let all = narrow.bytes(values);
            _mm_storeu_si128(to.cast(), _mm512_castsi512_si128(all));
            if PIXELS == 4 {
                _mm_storeu_si128(to.add(step).cast(), _mm512_extracti32x4_epi32::<1>(all));
                _mm_storeu_si128(to.add(2 * step).cast(), _mm512_extracti32x4_epi32::<2>(all));
                _mm_storeu_si128(to.add(3 * step).cast(), _mm512_extracti32x4_epi32::<3>(all));
            }
        }
    }
}

/// A permutation of sixteen bytes of each of four lines, after which a lane has those of one
/// channel. The order is hidden from the compiler, which makes eight shuffles of it otherwise.
trait Turn: Copy {
    /// The proof of the instruction set.
    type Isa: Copy;

    /// Runs a job as compiled for the instruction set.
    ///
    /// # Safety
    /// As for the job.
    unsafe fn apart<J: Job<Isa = Self::Isa>>(isa: Self::Isa, s: &Strip);

    fn new(isa: Self::Isa) -> Self;

    fn turned(&self, lines: __m512i) -> __m512i;
}

/// Words of four bytes first, which may change places over the whole vector, then bytes within
/// them.
#[derive(Clone, Copy)]
struct Twice {
    words: __m512i,
    bytes: __m512i,
}

impl Turn for Twice {
    type Isa = Avx512;

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn apart<J: Job<Isa = Avx512>>(isa: Avx512, s: &Strip) {
        // SAFETY: as the caller promises.
        unsafe { J::run(isa, s) };
    }

    #[inline(always)]
    fn new(_: Avx512) -> Self {
        // SAFETY: `Avx512` proves the instruction set.
        unsafe {
            let words = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            let bytes = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            Self { words: black_box(words), bytes: black_box(_mm512_broadcast_i32x4(bytes)) }
        }
    }

    #[inline(always)]
    fn turned(&self, lines: __m512i) -> __m512i {
        // SAFETY: the order is proof of the instruction set.
        unsafe { _mm512_shuffle_epi8(_mm512_permutexvar_epi32(self.words, lines), self.bytes) }
    }
}

/// Bytes may change places over the whole vector.
#[derive(Clone, Copy)]
struct Once {
    bytes: __m512i,
}

impl Turn for Once {
    type Isa = Avx512Vbmi;

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi")]
    unsafe fn apart<J: Job<Isa = Avx512Vbmi>>(isa: Avx512Vbmi, s: &Strip) {
        // SAFETY: as the caller promises.
        unsafe { J::run(isa, s) };
    }

    #[inline(always)]
    fn new(_: Avx512Vbmi) -> Self {
        // SAFETY: `Avx512Vbmi` proves the instruction set; sixty-four bytes of our own.
        unsafe { Self { bytes: black_box(_mm512_loadu_si512(TURNED.as_ptr().cast())) } }
    }

    #[inline(always)]
    fn turned(&self, lines: __m512i) -> __m512i {
        // SAFETY: the order is proof of the instruction set.
        unsafe { _mm512_permutexvar_epi8(self.bytes, lines) }
    }
}

/// The source of each byte: byte `line` of lane `channel` is the channel's of that line.
const TURNED: [u8; 64] = {
    let (mut order, mut at) = ([0; 64], 0u8);
    while at < 64 {
        order[at as usize] = at % 4 * 16 + at / 4;
        at += 1;
    }
    order
};
