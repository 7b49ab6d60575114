//! Blocks of up to 128 bytes whose elements change places, each block in the same way: small
//! matrices that are transposed, channels that are shuffled.

#[cfg(target_arch = "x86_64")]
mod avx512;

use crate::simd::{Isa, Variant, Variants, variants};
use crate::tensor::{In, Out, check_lengths, poll};

/// The most bytes of a block: as many as two registers have.
pub const MOST_BYTES: usize = 128;

/// Blocks one behind the other, and where they go.
#[derive(Clone, Copy, Debug)]
struct Blocks<'a> {
    input: *const u8,
    output: *mut u8,
    /// Bytes of all blocks.
    len: usize,
    /// The element of the input for each one of a block.
    elements: &'a [u8],
    /// Bytes of an element.
    width: usize,
    /// The byte of the input for each one of several whole blocks.
    bytes: &'a [u8; MOST_BYTES],
    /// Bytes of these.
    together: usize,
}

/// # Safety
/// `len` bytes, which are whole blocks, are readable at the input and writable at the output, and
/// the two don't overlap; places are within a block; the machine has the instruction set.
type Run = unsafe fn(&Blocks<'_>);

/// Best first. Without VBMI no instruction chooses from more than sixteen bytes.
const VARIANTS: Variants<Run> = variants! {
    Avx512Vbmi: avx512::permute,
    Scalar: scalar,
};

/// A permutation of the elements of blocks in its best variant.
#[derive(Clone, Debug)]
pub struct BlockPermutation {
    variant: Variant<Run>,
    elements: Box<[u8]>,
    width: usize,
    bytes: Box<[u8; MOST_BYTES]>,
    together: usize,
}

impl BlockPermutation {
    /// Takes the best variant up to `isa`. `places` has for each element of a block the one of the
    /// input that it is, of `width` bytes each. `None` where a place is outside of the block, or
    /// the block is of more than [`MOST_BYTES`] or none.
    pub fn new(isa: Isa, width: usize, places: &[usize]) -> Option<Self> {
        let block = places.len().checked_mul(width).filter(|len| (1..=MOST_BYTES).contains(len))?;
        let of_element = |&place: &usize| u8::try_from(place).ok().filter(|_| place < places.len());
        let elements: Box<[u8]> = places.iter().map(of_element).collect::<Option<_>>()?;
        let together = MOST_BYTES / block * block;
        let mut bytes = Box::new([0; MOST_BYTES]);
        for (at, byte) in bytes.iter_mut().enumerate().take(together) {
            let (first, within) = (at / block * block, at % block);
            let from = first + places[within / width] * width + within % width;
            *byte = u8::try_from(from).ok()?;
        }
        Some(Self { variant: VARIANTS.best(isa), elements, width, bytes, together })
    }

    /// The variant that was chosen.
    pub fn isa(&self) -> Isa {
        self.variant.isa
    }

    /// Permutes whole blocks, which do not lie over the output.
    ///
    /// # Errors
    /// The input is shorter than the output, or that is no whole blocks, or the run is to end.
    pub fn compute(&self, input: In<'_, u8>, output: Out<'_, u8>) -> Result<(), String> {
        let Self { variant, elements, width, bytes, together } = self;
        let block = elements.len() * width;
        check_lengths(input.len(), output.len())?;
        check_lengths(output.len() / block * block, output.len())?;
        // As many as are moved between two reports of work.
        let part = poll::CHUNK / together * together;
        for at in (0..output.len()).step_by(part) {
            let len = part.min(output.len() - at);
            poll::work(len)?;
            let (input, output) = (input.slice(at..at + len), output.slice(at..at + len));
            let (input, output) = (input.as_ptr(), output.as_mut_ptr());
            let (width, together) = (*width, *together);
            let blocks = Blocks { input, output, len, elements, width, bytes, together };
            // SAFETY: lengths and places as checked, of tensors that are no views of one another;
            // `best` chose what the machine has.
            unsafe { (variant.run)(&blocks) };
        }
        Ok(())
    }
}

/// The scalar reference.
///
/// # Safety
/// As for [`Run`].
unsafe fn scalar(blocks: &Blocks<'_>) {
    // SAFETY: as the caller promises.
    unsafe {
        match blocks.width {
            1 => by::<1>(blocks),
            2 => by::<2>(blocks),
            4 => by::<4>(blocks),
            8 => by::<8>(blocks),
            _ => by_bytes(blocks),
        }
    }
}

/// # Safety
/// As for [`Run`], of elements of `N` bytes.
unsafe fn by<const N: usize>(&Blocks { input, output, len, elements, .. }: &Blocks<'_>) {
    for first in (0..len).step_by(elements.len() * N) {
        for (at, &from) in elements.iter().enumerate() {
            // SAFETY: within the block.
            unsafe {
                let element = input.add(first + usize::from(from) * N).cast::<[u8; N]>().read();
                output.add(first + at * N).cast::<[u8; N]>().write(element);
            }
        }
    }
}

/// # Safety
/// As for [`Run`].
unsafe fn by_bytes(&Blocks { input, output, len, bytes, together, .. }: &Blocks<'_>) {
    for first in (0..len).step_by(together) {
        for (at, &from) in bytes.iter().enumerate().take(together.min(len - first)) {
            // SAFETY: within the blocks.
            unsafe { *output.add(first + at) = *input.add(first + usize::from(from)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_puts_elements_where_they_belong() {
        let bytes: Vec<u8> = (0..=255).cycle().take(12_000).collect();
        for variant in VARIANTS.all() {
            for width in [1, 2, 3, 4, 8] {
                for elements in (1..=40).filter(|elements| elements * width <= MOST_BYTES) {
                    let places: Vec<usize> =
                        (0..elements).map(|at| (at * 7 + 3) % elements).collect();
                    let kernel = BlockPermutation::new(variant.isa, width, &places).unwrap();
                    assert_eq!(kernel.isa(), variant.isa);
                    let block = elements * width;
                    for count in (0..=9).chain([11_000 / block]) {
                        let input = &bytes[5..5 + count * block];
                        let blocks = input.chunks_exact(block);
                        let want: Vec<u8> = blocks
                            .flat_map(|block| {
                                places.iter().flat_map(|at| &block[at * width..][..width])
                            })
                            .copied()
                            .collect();
                        let mut got = vec![77; count * block + 1];
                        let to = Out::of(&mut got[..count * block]);
                        kernel.compute(In::of(input), to).unwrap();
                        assert_eq!(got.pop(), Some(77), "{:?} wrote behind the end", variant.isa);
                        let what = format!("{:?}, {count} of {elements} of {width}", variant.isa);
                        assert_eq!(got, want, "{what}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_no_block_is_none() {
        let isa = Isa::best();
        assert!(BlockPermutation::new(isa, 4, &[]).is_none());
        assert!(BlockPermutation::new(isa, 4, &[0, 2]).is_none());
        assert!(BlockPermutation::new(isa, 4, &[0; 33]).is_none());
        let kernel = BlockPermutation::new(isa, 2, &[1, 0, 2]).unwrap();
        assert!(kernel.compute(In::of(&[1; 7]), Out::of(&mut [0; 7])).is_err());
        assert!(kernel.compute(In::of(&[1; 6]), Out::of(&mut [0; 12])).is_err());
    }
}
