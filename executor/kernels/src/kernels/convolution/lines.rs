//! Convolutions that are computed by lines of their outputs: each of elements of its own, and all
//! alike for those that compute several one behind the other.

use std::ops::Range;

use crate::kernels::patches::Patches;
use crate::tensor::rows::{Pitched, Rows};
use crate::tensor::{Element, In, Out, check_lengths};

/// A convolution, packed, that can be computed by lines of its output.
pub trait Convolution: std::fmt::Debug + Send + Sync {
    /// Elements of input and output.
    type Element: Element;
    /// Elements of the scratch memory.
    type Scratch: Element;

    /// True if each channel is computed of one channel.
    const DEPTHWISE: bool;

    /// Returns the placement of windows.
    fn patches(&self) -> &Patches;

    /// Channels of the output.
    fn channels(&self) -> usize;

    /// Scratch memory of a computation.
    fn scratch_bytes(&self) -> usize;

    /// Bytes of weights that each computation reads.
    fn weight_bytes(&self) -> usize;

    /// Computes some lines of the output.
    ///
    /// # Safety
    /// `image` and `output` are where their first elements would be; readable and writable is what
    /// these lines need of them, at any alignment. `scratch` is as long as
    /// [`Convolution::scratch_bytes`] says.
    unsafe fn run(
        &self,
        image: Pitched<*const Self::Element>,
        output: Pitched<*mut Self::Element>,
        lines: Range<usize>,
        scratch: &mut [Self::Scratch],
    );

    /// Computes some lines of the output, those of the patches being all.
    ///
    /// # Errors
    /// Memory is missing.
    fn compute<'a>(
        &self,
        image: impl Into<Rows<In<'a, Self::Element>>>,
        output: impl Into<Rows<Out<'a, Self::Element>>>,
        lines: Range<usize>,
        scratch: &mut [Self::Scratch],
    ) -> Result<(), String> {
        let p = self.patches();
        let image = image.into().pitched(p.pixels(), p.channels)?;
        let output = output.into().pitched(p.rows(), self.channels())?;
        check_lengths(p.lines(), lines.end)?;
        check_lengths(size_of_val(scratch), self.scratch_bytes())?;
        if p.rows() == 0 {
            return Ok(());
        }
        // SAFETY: the lengths are what is asked for.
        unsafe { self.run(image, output, lines, scratch) };
        Ok(())
    }
}

/// A [`Convolution`] of any elements.
pub trait Lines: std::fmt::Debug + Send + Sync {
    /// Returns the placement of windows.
    fn patches(&self) -> &Patches;

    /// Bytes of an element, in input and output.
    fn element_bytes(&self) -> usize;

    /// Channels of the output.
    fn channels(&self) -> usize;

    /// Returns whether each channel is computed of one channel.
    fn is_depthwise(&self) -> bool;

    /// Scratch memory that [`Lines::lines`] takes.
    fn scratch_bytes(&self) -> usize;

    /// Bytes of weights that each call reads.
    fn weight_bytes(&self) -> usize;

    /// Computes some lines of the output.
    ///
    /// # Safety
    /// `image` and `output` are where their first pixels would be, bytes apart; what these lines
    /// need of them is readable and writable, at any alignment. The scratch memory is as long as
    /// stated and starts at a multiple of 64.
    unsafe fn lines(
        &self,
        image: Pitched<*const u8>,
        output: Pitched<*mut u8>,
        lines: Range<usize>,
        scratch: &mut [u8],
    );
}

impl<C: Convolution> Lines for C {
    fn patches(&self) -> &Patches {
        Convolution::patches(self)
    }

    fn element_bytes(&self) -> usize {
        size_of::<C::Element>()
    }

    fn channels(&self) -> usize {
        Convolution::channels(self)
    }

    fn is_depthwise(&self) -> bool {
        C::DEPTHWISE
    }

    fn scratch_bytes(&self) -> usize {
        Convolution::scratch_bytes(self)
    }

    fn weight_bytes(&self) -> usize {
        Convolution::weight_bytes(self)
    }

    unsafe fn lines(
        &self,
        image: Pitched<*const u8>,
        output: Pitched<*mut u8>,
        lines: Range<usize>,
        scratch: &mut [u8],
    ) {
        // The scratch memory is aligned, as is said above.
        let scratch = bytemuck::try_cast_slice_mut(scratch).unwrap_or_default();
        // SAFETY: as the caller promises.
        unsafe { self.run(image.cast(), output.cast(), lines, scratch) };
    }
}
