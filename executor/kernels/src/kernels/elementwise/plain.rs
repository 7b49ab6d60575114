//! Loops in plain Rust, compiled for every instruction set: where the compiler finds the vectors by
//! itself, one loop says all that a kernel of each would say.
//!
//! Elements go through blocks of our own: an operand that is written over may not be told from one
//! that merely overlaps, which would keep the compiler from making vectors at all.

use std::marker::PhantomData;

use crate::simd::{Isa, Neon};
use crate::tensor::{Element, In, Out};

/// The loop to run. Its body must be `#[inline(always)]`, as it is compiled where it ends up.
pub trait Loop: Sized {
    /// Runs the loop.
    fn run(self);

    /// Runs it where there are no vectors to speak of: a loop that is written for them, in ways for
    /// operands of many kinds, takes a shorter way here. Most of its code would be for machines
    /// that hardly any are left of.
    #[inline(always)]
    fn run_scalar(self) {
        self.run();
    }
}

impl Isa {
    /// The instruction set that a loop is compiled for when it is run for this one.
    pub fn of_loops(self) -> Self {
        match self {
            Self::Avx512Vbmi(isa) => Self::Avx512(isa.avx512()),
            Self::NeonDot(_) => Neon::detect().map_or(self, Self::Neon),
            isa => isa,
        }
    }

    /// Runs a loop as compiled for this instruction set.
    pub fn run(self, work: impl Loop) {
        match self {
            // SAFETY: the value proves the instruction set.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) | Self::Avx512Vbmi(_) => unsafe { avx512(work) },
            // SAFETY: the value proves the instruction set.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) | Self::AvxVnni(_) => unsafe { avx2(work) },
            #[cfg(target_arch = "aarch64")]
            Self::Neon(_) | Self::NeonDot(_) => neon(work),
            _ => scalar(work),
        }
    }
}

/// Out of line, as the others have to be: one copy of a loop for all that run it.
#[inline(never)]
fn scalar(work: impl Loop) {
    work.run_scalar();
}

/// Advanced SIMD, which plain code is compiled for.
#[cfg(target_arch = "aarch64")]
#[inline(never)]
fn neon(work: impl Loop) {
    work.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn avx512(work: impl Loop) {
    work.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2(work: impl Loop) {
    work.run();
}

/// Elements of a block, at most.
pub(super) const BLOCK: usize = 64;

/// Bytes of a block, at most.
const BLOCK_BYTES: usize = BLOCK * 8;

/// Elements that take less time one by one than a block that is filled up.
const FEW: usize = 16;

/// A block on the stack, where a vector that lay across two lines would take several times as long
/// to be read back.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Aligned<const BYTES: usize = BLOCK_BYTES>([u8; BYTES]);

impl<const BYTES: usize> Aligned<BYTES> {
    /// The first element, which has so many bytes, as often as fits.
    fn of(isa: Isa, element: In<'_, u8>, size: usize) -> Self {
        let mut filled = Self([0; BYTES]);
        isa.run(Repeat { element, size, to: Out::of(&mut filled.0) });
        filled
    }
}

/// An element that fills whole vectors: read as such at once, narrower ones would have to reach the
/// cache first.
struct Repeat<'a> {
    element: In<'a, u8>,
    size: usize,
    to: Out<'a, u8>,
}

impl Loop for Repeat<'_> {
    #[inline(always)]
    fn run(self) {
        match self.size {
            1 => self.by::<u8, 64>(),
            2 => self.by::<u16, 32>(),
            4 => self.by::<u32, 16>(),
            _ => self.by::<u64, 8>(),
        }
    }
}

impl Repeat<'_> {
    #[inline(always)]
    fn by<T: Element, const N: usize>(self) {
        let (block, to) = ([self.element.cast::<T>().get(0); N], self.to.cast::<T>());
        for at in (0..to.len()).step_by(N) {
            to.set_block(at, block);
        }
    }
}

/// A function of elements, in blocks of `N` and one by one. Its methods must be
/// `#[inline(always)]`.
trait Elements {
    /// Elements of the result.
    fn len(&self) -> usize;

    /// Computes `N` elements from the one `at` on.
    fn block<const N: usize>(&self, at: usize);
}

/// Goes over elements in blocks of `N`, of which the last lies over the one before; fewer are
/// computed one by one.
struct Blocks<const N: usize, E>(E);

impl<const N: usize, E: Elements> Loop for Blocks<N, E> {
    #[inline(always)]
    fn run(self) {
        let len = self.0.len();
        if len < N {
            for at in 0..len {
                self.0.block::<1>(at);
                // They are few: the compiler would make vectors of them, too.
                std::hint::black_box(());
            }
            return;
        }
        let mut at = 0;
        while at < len {
            self.0.block::<N>(at.min(len - N));
            if N == 1 {
                std::hint::black_box(());
            }
            at += N;
        }
    }
}

impl Isa {
    /// Elements of a block: four vectors of floats, and twice as many where there are twice as many
    /// registers for their width.
    fn block_len(self) -> usize {
        match self {
            Self::Avx512(_) | Self::Avx512Vbmi(_) => BLOCK,
            Self::Avx2(_) | Self::AvxVnni(_) | Self::Neon(_) | Self::NeonDot(_) => BLOCK / 2,
            Self::Scalar => 1,
        }
    }

    /// Computes elements in blocks of [`Isa::block_len`].
    fn run_blocks(self, elements: impl Elements) {
        match self {
            // SAFETY: the value proves the instruction set.
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) | Self::Avx512Vbmi(_) => unsafe {
                avx512(Blocks::<BLOCK, _>(elements));
            },
            // SAFETY: the value proves the instruction set.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) | Self::AvxVnni(_) => unsafe {
                avx2(Blocks::<{ BLOCK / 2 }, _>(elements));
            },
            #[cfg(target_arch = "aarch64")]
            Self::Neon(_) | Self::NeonDot(_) => neon(Blocks::<{ BLOCK / 2 }, _>(elements)),
            _ => scalar(Blocks::<1, _>(elements)),
        }
    }
}

/// What is done to some elements of operands and of the output, as bytes. An object of `dyn Fn`
/// would have code to be called by value as well, for each function of elements.
trait EachElements<const OPERANDS: usize> {
    fn each(&self, operands: &[In<'_, u8>; OPERANDS], output: Out<'_, u8>);
}

/// How elements are gone over.
#[derive(Clone, Copy)]
struct BlockWalk {
    isa: Isa,
    /// Elements of a block.
    block: usize,
    /// Bytes of an element of the operands, and of one of the output.
    sizes: [usize; 2],
}

impl BlockWalk {
    fn of<T, U>(isa: Isa) -> Self {
        Self { isa, block: isa.block_len(), sizes: [size_of::<T>(), size_of::<U>()] }
    }

    /// True for so many elements as are whole blocks, or computed one by one.
    fn takes_all(self, len: usize) -> bool {
        len.is_multiple_of(self.block) || len <= FEW
    }

    /// Calls `each` with all elements, or with parts of them and with blocks that are filled up: a
    /// few elements are computed one by one, and where results are written over operands, blocks
    /// may not lie over each other. Compiled once for all functions of elements.
    ///
    /// Operands are as long as the output, or a block that stands for all others.
    fn elements<const OPERANDS: usize>(
        self,
        operands: &[In<'_, u8>; OPERANDS],
        output: Out<'_, u8>,
        each: &dyn EachElements<OPERANDS>,
    ) {
        let Self { block, sizes: [size, size_out], .. } = self;
        let len = output.len() / size_out;
        let rest = len % block;
        let apart = |of: In<'_, u8>| {
            let (from, to) = (of.as_ptr().addr(), output.as_mut_ptr().addr());
            from + of.len() <= to || to + output.len() <= from
        };
        if self.takes_all(len) || len > block && operands.iter().all(|&of| apart(of)) {
            return each.each(operands, output);
        }
        let mut results = Aligned::<BLOCK_BYTES>([0; BLOCK_BYTES]);
        let last = Out::of(&mut results.0[..block * size_out]);
        if len < block {
            let mut begun = [Aligned::<BLOCK_BYTES>([0; BLOCK_BYTES]); OPERANDS];
            begun.iter_mut().zip(operands).for_each(|(begun, of)| of.copy_to(&mut begun.0));
            let begun = std::array::from_fn(|of| In::of(&begun[of].0[..block * size]));
            each.each(&begun, last);
            return output.copy_from(last.as_in().slice(0..len * size_out));
        }
        let part = |from: usize, to: usize| {
            let moves = |of: In<'_, u8>| of.len() == len * size;
            operands.map(|of| if moves(of) { of.slice(from * size..to * size) } else { of })
        };
        // The last block is read before those that it lies over are written.
        each.each(&part(len - block, len), last);
        let whole = len - rest;
        each.each(&part(0, whole), output.slice(0..whole * size_out));
        let (from, to) = ((block - rest) * size_out, whole * size_out);
        output.slice(to..len * size_out).copy_from(last.as_in().slice(from..block * size_out));
    }

    /// As [`BlockWalk::elements`], of operands that are as long as the output or one element for
    /// all.
    fn repeated_elements(
        self,
        operands: [In<'_, u8>; 2],
        output: Out<'_, u8>,
        each: &dyn EachElements<2>,
    ) {
        // To fill a block takes as long as to compute one.
        match self.block * self.sizes[0] {
            0..=64 => self.repeated_in::<64>(operands, output, each),
            65..=256 => self.repeated_in::<256>(operands, output, each),
            _ => self.repeated_in::<BLOCK_BYTES>(operands, output, each),
        }
    }

    /// Likewise, where a block has up to so many bytes.
    fn repeated_in<const BYTES: usize>(
        self,
        [mut a, mut b]: [In<'_, u8>; 2],
        output: Out<'_, u8>,
        each: &dyn EachElements<2>,
    ) {
        let Self { isa, block, sizes: [size, size_out] } = self;
        let len = output.len() / size_out * size;
        let (repeated_a, repeated_b): (Aligned<BYTES>, Aligned<BYTES>);
        if a.len() != len {
            repeated_a = Aligned::of(isa, a, size);
            a = In::of(&repeated_a.0[..block * size]);
        }
        if b.len() != len {
            repeated_b = Aligned::of(isa, b, size);
            b = In::of(&repeated_b.0[..block * size]);
        }
        self.elements(&[a, b], output, each);
    }
}

/// Each element of `output` from the one of `input` at its place, which it may be written over.
pub fn map<T: Element, U: Element>(
    isa: Isa,
    input: In<'_, T>,
    output: Out<'_, U>,
    each: impl Fn(T) -> U,
) {
    let len = input.len().min(output.len());
    let (input, output) = (input.slice(0..len), output.slice(0..len));
    let walk = BlockWalk::of::<T, U>(isa);
    if walk.takes_all(len) {
        return isa.run_blocks(Map { input, output, each: &each });
    }
    walk.elements(&[input.bytes()], output.bytes(), &Mapped(isa, each, PhantomData));
}

/// A function of one operand.
struct Mapped<F, T, U>(Isa, F, PhantomData<fn(T) -> U>);

impl<T: Element, U: Element, F: Fn(T) -> U> EachElements<1> for Mapped<F, T, U> {
    fn each(&self, [input]: &[In<'_, u8>; 1], output: Out<'_, u8>) {
        self.0.run_blocks(Map { input: input.cast(), output: output.cast(), each: &self.1 });
    }
}

struct Map<'a, T, U, F> {
    input: In<'a, T>,
    output: Out<'a, U>,
    each: &'a F,
}

impl<T: Element, U: Element, F: Fn(T) -> U> Elements for Map<'_, T, U, F> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.output.len()
    }

    #[inline(always)]
    fn block<const N: usize>(&self, at: usize) {
        let xs = self.input.block::<N>(at);
        let mut ys = [U::default(); N];
        // An index: hundreds of functions are compiled here, and iterators are more of each.
        for i in 0..N {
            ys[i] = (self.each)(xs[i]);
        }
        self.output.set_block(at, ys);
    }
}

/// Each element of `output` from those of `a` and `b` at its place; each of these is as long, or
/// one number for all. Of an operand that is as long, each element may be written over.
pub fn zip<T: Element, U: Element>(
    isa: Isa,
    a: In<'_, T>,
    b: In<'_, T>,
    output: Out<'_, U>,
    each: impl Fn(T, T) -> U,
) {
    let (walk, len) = (BlockWalk::of::<T, U>(isa), output.len());
    if walk.takes_all(len) && a.len() == len && b.len() == len {
        return isa.run_blocks(Zip::new([a, b], output, &each));
    }
    let operands = [a.bytes(), b.bytes()];
    walk.repeated_elements(operands, output.bytes(), &Zipped(isa, each, PhantomData));
}

/// A function of two operands.
struct Zipped<F, T, U>(Isa, F, PhantomData<fn(T) -> U>);

impl<T: Element, U: Element, F: Fn(T, T) -> U> EachElements<2> for Zipped<F, T, U> {
    fn each(&self, [a, b]: &[In<'_, u8>; 2], output: Out<'_, u8>) {
        self.0.run_blocks(Zip::<T, U, F>::new([a.cast(), b.cast()], output.cast(), &self.1));
    }
}

/// Two operands that move along, or are a block that stands for all.
struct Zip<'a, T, U, F> {
    operands: [In<'a, T>; 2],
    /// The bits of a place that are kept: none where an operand stands for all, which is read again
    /// and again. A condition would make four loops of one.
    moves: [usize; 2],
    output: Out<'a, U>,
    each: &'a F,
}

/// The bits of a place that are kept of an operand of so many elements.
fn moves(operand: usize, output: usize) -> usize {
    if operand == output { usize::MAX } else { 0 }
}

impl<'a, T: Element, U: Element, F> Zip<'a, T, U, F> {
    fn new(operands: [In<'a, T>; 2], output: Out<'a, U>, each: &'a F) -> Self {
        let len = output.len();
        let moves = [moves(operands[0].len(), len), moves(operands[1].len(), len)];
        Self { operands, moves, output, each }
    }
}

impl<T: Element, U: Element, F: Fn(T, T) -> U> Elements for Zip<'_, T, U, F> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.output.len()
    }

    #[inline(always)]
    fn block<const N: usize>(&self, at: usize) {
        let [a, b] = self.operands;
        let (xs, ys) = (a.block::<N>(at & self.moves[0]), b.block::<N>(at & self.moves[1]));
        let mut zs = [U::default(); N];
        for i in 0..N {
            zs[i] = (self.each)(xs[i], ys[i]);
        }
        self.output.set_block(at, zs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_gives_the_same_in_place_too() {
        let numbers: Vec<i32> = (0..200).map(|i| i * i - 700).collect();
        for isa in Isa::all() {
            for len in (0..=130).chain([200]) {
                let want: Vec<i32> = numbers[..len].iter().map(|x| x * 3 + 1).collect();
                let mut got = numbers[..len].to_vec();
                let output = Out::of(&mut got);
                map(isa, output.as_in(), output, |x: i32| x * 3 + 1);
                assert_eq!(got, want, "{isa:?}");
                let want: Vec<i32> = numbers[..len].iter().zip(&want).map(|(x, y)| x - y).collect();
                let output = Out::of(&mut got);
                let b = output.as_in();
                zip(isa, In::of(&numbers[..len]), b, output, |x: i32, y: i32| x - y);
                assert_eq!(got, want, "{isa:?}");
                let want: Vec<i32> = want.iter().map(|y| 5 * y).collect();
                let output = Out::of(&mut got);
                let b = output.as_in();
                zip(isa, In::of(&[5]), b, output, |x: i32, y: i32| x * y);
                assert_eq!(got, want, "{isa:?}");
            }
        }
    }
}
