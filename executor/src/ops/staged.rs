//! Images on their way to kernels, which take them in NHWC, in single precision or bytes, with a channel for each
//! filter. What lies otherwise (FLOAT16, NCHW, several filters for a channel) is brought there in scratch memory, and
//! the result back: a copy of two images, where plain code would go through every product one by one.

use crate::element::{Element, Real};
use crate::io::{In, Out};
use crate::kernels::check_lengths;
use crate::memory::ALIGN;
use crate::ops::support::Image;
use crate::plan::{Label, OpBuilder};

/// Where an operation's images lie, and how often kernels want each channel of the input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Staged {
    pub(super) input: Image,
    pub(super) output: Image,
    pub(super) repeat: usize,
}

impl Staged {
    /// Adds a step. `compute` gets the input and the place for the output as elements `S`, in NHWC, and
    /// `scratch_bytes` of memory of its own; `read` and `write` convert.
    pub(super) fn emit<T: Element, S: Element, M: Element>(
        self,
        op: &mut OpBuilder<'_>,
        label: Label,
        scratch_bytes: usize,
        (read, write): Convert<T, S>,
        compute: impl Fn(In<'_, S>, Out<'_, S>, &mut [M]) -> Result<(), String> + Send + Sync + 'static,
    ) {
        let elements = |image: &Image| image.batches * image.height * image.width * image.channels;
        let (inputs, outputs) =
            (elements(&self.input).saturating_mul(self.repeat), elements(&self.output));
        let room = |count: usize| count.saturating_mul(size_of::<S>()).next_multiple_of(ALIGN);
        let (input_room, output_room) = (room(inputs), room(outputs));
        let bytes = input_room.saturating_add(output_room).saturating_add(scratch_bytes);
        op.emit_with_scratch(label, bytes, move |mut io| {
            if outputs == 0 {
                return Ok(()); // and there is no scratch memory
            }
            let (input, output) = (io.input::<T>(0), io.output::<T>(0));
            let scratch = io.scratch_slice::<u8>();
            check_lengths(scratch.len(), bytes)?;
            let (image, rest) = scratch.split_at_mut(input_room);
            let (product, own) = rest.split_at_mut(output_room);
            let image = &mut bytemuck::cast_slice_mut::<u8, S>(image)[..inputs];
            let product = &mut bytemuck::cast_slice_mut::<u8, S>(product)[..outputs];
            self.bring(input, image, read);
            compute(In::of(image), Out::of(product), bytemuck::cast_slice_mut(own))?;
            self.fetch(product, output, write);
            Ok(())
        });
    }

    fn bring<T: Element, S: Element>(&self, input: In<'_, T>, to: &mut [S], read: fn(T) -> S) {
        if !self.input.is_nchw() && self.repeat == 1 {
            to.iter_mut().zip(input.iter()).for_each(|(to, x)| *to = read(x));
            return;
        }
        let mut pixels = to.chunks_exact_mut(self.input.channels * self.repeat);
        each_pixel(&self.input, |at, step| {
            let Some(pixel) = pixels.next() else { return };
            for (c, same) in pixel.chunks_exact_mut(self.repeat).enumerate() {
                same.fill(read(input.get(at + c * step)));
            }
        });
    }

    fn fetch<T: Element, S: Element>(&self, from: &[S], output: Out<'_, T>, write: fn(S) -> T) {
        let mut pixels = from.chunks_exact(self.output.channels);
        each_pixel(&self.output, |at, step| {
            for (c, &y) in pixels.next().unwrap_or_default().iter().enumerate() {
                output.set(at + c * step, write(y));
            }
        });
    }
}

/// How elements are read and written.
pub(super) type Convert<T, S> = (fn(T) -> S, fn(S) -> T);

/// Bytes stay what they are.
pub(super) const AS_IS: Convert<u8, u8> = (|byte| byte, |byte| byte);

/// Real numbers are widened, and rounded when they are written.
pub(super) fn in_single_precision<T: Real>() -> Convert<T, f32> {
    (T::to_f32, T::from_f32)
}

/// Calls `each(position of a pixel's first channel, elements to its next)`, line by line.
fn each_pixel(image: &Image, mut each: impl FnMut(usize, usize)) {
    let step = if image.is_nchw() { image.height * image.width } else { 1 };
    for batch in 0..image.batches {
        for y in 0..image.height {
            for x in 0..image.width {
                each(image.at(batch, y, x, 0), step);
            }
        }
    }
}
