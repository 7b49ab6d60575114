//! Images on their way to kernels, which take them in NHWC, in single precision or bytes, with a
//! channel for each filter. What lies otherwise (FLOAT16, NCHW, groups of channels, several filters
//! for a channel, transposed convolutions) is brought there in scratch memory, and the result back:
//! a copy of two images, where plain code would go through every product one by one.

use std::sync::Arc;

use nnburst_kernels::kernels::lines::Convolution;
use nnburst_kernels::tensor::memory::ALIGN;
use nnburst_kernels::tensor::{Element, In, Out, Real, check_lengths, poll};

use crate::lowering::{Label, OpBuilder};
use crate::ops::support::Image;

/// Where an operation's images lie, and what kernels want of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Staged {
    input: Image,
    output: Image,
    /// The first and the number of channels that are read and written.
    read: (usize, usize),
    written: (usize, usize),
    /// The number of times that each channel is wanted.
    repeat: usize,
    canvas: Option<Canvas>,
}

/// A larger image that an input's pixels are spread over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Canvas {
    /// Height and width.
    pub(super) rows: Spread,
    pub(super) columns: Spread,
    /// Every byte between the pixels.
    pub(super) zero: u8,
}

/// Where pixels come to lie along one axis of a canvas.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    pub(super) extent: usize,
    pub(super) stride: usize,
    /// Place of the first; in front of the canvas if it is less than `origin`, which is place 0.
    pub(super) first: usize,
    pub(super) origin: usize,
}

impl Spread {
    /// The place of a pixel, if it is on the canvas.
    fn place(self, pixel: usize) -> Option<usize> {
        let place = (self.first + pixel * self.stride).checked_sub(self.origin)?;
        (place < self.extent).then_some(place)
    }
}

impl Staged {
    /// All of both images.
    pub(super) fn new(input: Image, output: Image) -> Self {
        let (read, written) = ((0, input.channels), (0, output.channels));
        Self { input, output, read, written, repeat: 1, canvas: None }
    }

    /// Each channel so many times.
    pub(super) fn repeated(self, repeat: usize) -> Self {
        Self { repeat, ..self }
    }

    /// One of the groups of channels.
    pub(super) fn group(self, group: usize, read: usize, written: usize) -> Self {
        Self { read: (group * read, read), written: (group * written, written), ..self }
    }

    /// The input spread over a canvas.
    pub(super) fn over(self, canvas: Canvas) -> Self {
        Self { canvas: Some(canvas), ..self }
    }

    /// Adds a step. `compute` gets the input and the place for the output as elements `S`, in NHWC,
    /// and `scratch_bytes` of memory of its own.
    pub(super) fn emit<T: Element, S: Element, M: Element>(
        self,
        op: &mut OpBuilder<'_>,
        label: Label,
        scratch_bytes: usize,
        convert: Convert<T, S>,
        compute: impl Fn(In<'_, S>, Out<'_, S>, &mut [M]) -> Result<(), String> + Send + Sync + 'static,
    ) {
        let (height, width) = self.extents();
        let product = |extents: &[usize]| extents.iter().copied().fold(1, usize::saturating_mul);
        let inputs = product(&[self.input.batches, height, width, self.read.1, self.repeat]);
        let Image { batches, height, width, .. } = self.output;
        let outputs = product(&[batches, height, width, self.written.1]);
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
            if let Some(canvas) = &self.canvas {
                poll::fill(image, canvas.zero)?;
            }
            let image = &mut bytemuck::cast_slice_mut::<u8, S>(image)[..inputs];
            let product = &mut bytemuck::cast_slice_mut::<u8, S>(product)[..outputs];
            self.bring(input, image, convert.read);
            compute(In::of(image), Out::of(product), bytemuck::cast_slice_mut(own))?;
            self.fetch(product, output, convert.write);
            Ok(())
        });
    }

    /// Adds a step that computes a convolution of all of it.
    pub(super) fn convolve<T: Element, C: Convolution + 'static>(
        self,
        op: &mut OpBuilder<'_>,
        label: Label,
        convert: Convert<T, C::Element>,
        packed: C,
    ) {
        let (scratch_bytes, lines) = (packed.scratch_bytes(), packed.patches().lines());
        self.emit(op, label, scratch_bytes, convert, move |image, output, scratch| {
            packed.compute(image, output, 0..lines, scratch)
        });
    }

    /// Height and width of what kernels read.
    fn extents(&self) -> (usize, usize) {
        match &self.canvas {
            Some(canvas) => (canvas.rows.extent, canvas.columns.extent),
            None => (self.input.height, self.input.width),
        }
    }

    fn bring<T: Element, S: Element>(&self, input: In<'_, T>, to: &mut [S], read: fn(T) -> S) {
        let (first, count) = self.read;
        let whole = count == self.input.channels && self.repeat == 1 && self.canvas.is_none();
        if whole && !self.input.is_nchw() {
            poll::each(to.iter_mut(), 2).zip(input.iter()).for_each(|(to, x)| *to = read(x));
            return;
        }
        let (height, width) = self.extents();
        let size = count * self.repeat;
        each_pixel(&self.input, first, |[batch, y, x], at, step| {
            let place = match &self.canvas {
                Some(canvas) => canvas.rows.place(y).zip(canvas.columns.place(x)),
                None => Some((y, x)),
            };
            let Some((y, x)) = place else { return };
            let start = ((batch * height + y) * width + x) * size;
            let pixel = to[start..start + size].chunks_exact_mut(self.repeat);
            for (c, same) in poll::each(pixel.enumerate(), 4 + self.repeat) {
                same.fill(read(input.get(at + c * step)));
            }
        });
    }

    fn fetch<T: Element, S: Element>(&self, from: &[S], output: Out<'_, T>, write: fn(S) -> T) {
        let (first, count) = self.written;
        let mut pixels = from.chunks_exact(count);
        each_pixel(&self.output, first, |_, at, step| {
            for (c, &y) in poll::each(pixels.next().unwrap_or_default().iter().enumerate(), 4) {
                output.set(at + c * step, write(y));
            }
        });
    }
}

/// Adds a step that computes a convolution line by line, or of images that have to be brought to
/// it.
pub(super) fn convolve<T: Element, C: Convolution + 'static>(
    op: &mut OpBuilder<'_>,
    label: Label,
    staged: Option<Staged>,
    convert: Convert<T, C::Element>,
    packed: C,
) {
    if let Some(staged) = staged {
        return staged.convolve(op, label, convert, packed);
    }
    let packed = Arc::new(packed);
    let lines = Arc::<C>::clone(&packed);
    let (scratch_bytes, count) = (packed.scratch_bytes(), packed.patches().lines());
    op.emit_bands(label, scratch_bytes, count, move |mut io, lines| {
        packed.compute(io.input_rows(0), io.output_rows(0), lines, io.scratch_slice())
    });
    op.join_lines(lines);
}

/// The conversions of elements that are read and written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Convert<T, S> {
    read: fn(T) -> S,
    write: fn(S) -> T,
}

/// Bytes stay what they are.
pub(super) const AS_IS: Convert<u8, u8> = Convert { read: |byte| byte, write: |byte| byte };

/// Real numbers are widened, and rounded when they are written.
pub(super) fn in_single_precision<T: Real>() -> Convert<T, f32> {
    Convert { read: T::to_f32, write: T::from_f32 }
}

/// Calls `each(pixel, position of its channel `first`, elements to its next channel)`, line by
/// line.
fn each_pixel(image: &Image, first: usize, mut each: impl FnMut([usize; 3], usize, usize)) {
    let step = if image.is_nchw() { image.height * image.width } else { 1 };
    for batch in poll::each(0..image.batches, 8) {
        for y in poll::each(0..image.height, 8) {
            for x in poll::each(0..image.width, 8) {
                each([batch, y, x], image.at(batch, y, x, first), step);
            }
        }
    }
}
