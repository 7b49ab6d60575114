//! Images on their way to kernels, which take them in NHWC, in single precision or bytes, with a
//! channel for each filter. What lies otherwise (FLOAT16, NCHW, groups of channels, several filters
//! for a channel, transposed convolutions) is brought there in scratch memory, and the result back:
//! a copy of two images, where plain code would go through every product one by one.

use std::ops::Range;
use std::sync::Arc;

use nnburst_kernels::kernels::lines::Convolution;
use nnburst_kernels::tensor::memory::ALIGN;
use nnburst_kernels::tensor::{Element, In, Out, Real, check_lengths, poll};

use crate::lowering::{Label, OpBuilder};
use crate::ops::support::Image;

/// Groups of channels that become a step each; more of them are small, and each step copies images.
pub(super) const MAX_GROUPS: usize = 64;

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
    tiled: Option<Tiled>,
}

/// Convolutions whose every pixel holds those of a part of a tile of the output: as many channels
/// for each of them as the output has, line by line. The input lies on an image with a border, and
/// with a line and a pixel more behind it.
///
/// Tiles are cut in two both ways, so that there are up to four such convolutions, one behind the
/// other: those of the upper left parts, the upper right ones, the lower left ones and the rest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tiled {
    /// Height and width.
    pub(super) rows: Tiles,
    pub(super) columns: Tiles,
    /// Every byte of the border, where a step of [`Staged::emit`] makes it.
    pub(super) zero: u8,
}

/// One axis of an image and its tiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tiles {
    /// Pixels with the border, and the one of them that the input's first is; in front of the image
    /// if it is less than `origin`, which is pixel 0.
    pub(super) extent: usize,
    pub(super) first: usize,
    pub(super) origin: usize,
    /// The number of tiles, and the output's pixels in each.
    pub(super) count: usize,
    pub(super) size: usize,
    /// Those of the first part of a tile; all of them where there is no other.
    pub(super) cut: usize,
    /// Pixels of the first tile that are in front of the output.
    pub(super) head: usize,
}

impl Tiles {
    /// The place of one of the input's pixels, if it is on the image.
    fn place(self, pixel: usize) -> Option<usize> {
        let place = (self.first + pixel).checked_sub(self.origin)?;
        (place < self.extent).then_some(place)
    }

    /// Those of so many pixels of the input that are on the image.
    fn on_image(self, pixels: usize) -> Range<usize> {
        let end = (self.extent + self.origin).saturating_sub(self.first).min(pixels);
        self.origin.saturating_sub(self.first).min(end)..end
    }

    /// The tile of one of the output's pixels, and its place there.
    fn tile(self, pixel: usize) -> (usize, usize) {
        let at = pixel + self.head;
        (at / self.size, at % self.size)
    }

    /// The part of a tile that a place is in: the first place of it, and how many it has.
    fn part(self, place: usize) -> (usize, usize) {
        if place < self.cut { (0, self.cut) } else { (self.cut, self.size - self.cut) }
    }
}

impl Tiled {
    /// Tiles of all images.
    fn count(&self, batches: usize) -> usize {
        batches.saturating_mul(self.rows.count).saturating_mul(self.columns.count)
    }

    /// The first of the results of the parts that begin at these places, in pixels of the output.
    pub(super) fn first_of_part(&self, batches: usize, [row, column]: [usize; 2]) -> usize {
        let Self { rows, columns, .. } = self;
        let above = row * columns.size;
        let beside = column * rows.part(row).1;
        self.count(batches).saturating_mul(above + beside)
    }
}

impl Staged {
    /// All of both images.
    pub(super) fn new(input: Image, output: Image) -> Self {
        let (read, written) = ((0, input.channels), (0, output.channels));
        Self { input, output, read, written, repeat: 1, tiled: None }
    }

    /// Each channel so many times.
    pub(super) fn repeated(self, repeat: usize) -> Self {
        Self { repeat, ..self }
    }

    /// One of the groups of channels.
    pub(super) fn group(self, group: usize, read: usize, written: usize) -> Self {
        Self { read: (group * read, read), written: (group * written, written), ..self }
    }

    /// All of both images, the output of a convolution that gives tiles of it.
    pub(super) fn tiled(self, tiled: Tiled) -> Self {
        Self { tiled: Some(tiled), ..self }
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
        let (inputs, outputs) = self.elements();
        let room = |count: usize| {
            let bytes = count.saturating_mul(size_of::<S>());
            bytes.checked_next_multiple_of(ALIGN).unwrap_or(usize::MAX)
        };
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
            if let Some(tiled) = &self.tiled {
                poll::fill(image, tiled.zero)?;
            }
            let image = &mut bytemuck::cast_slice_mut::<u8, S>(image)[..inputs];
            let product = &mut bytemuck::cast_slice_mut::<u8, S>(product)[..outputs];
            self.bring(input, image, convert);
            compute(In::of(image), Out::of(product), bytemuck::cast_slice_mut(own))?;
            self.fetch(product, output, convert);
            Ok(())
        });
    }

    /// Elements of the image that kernels read, and of what they give.
    pub(super) fn elements(&self) -> (usize, usize) {
        let (height, width) = self.extents();
        let product = |extents: &[usize]| extents.iter().copied().fold(1, usize::saturating_mul);
        let pixels = product(&[self.input.batches, height, width]);
        let behind = if self.tiled.is_some() { width + 1 } else { 0 };
        let inputs = product(&[pixels.saturating_add(behind), self.read.1, self.repeat]);
        let Image { batches, height, width, .. } = self.output;
        let outputs = match self.tiled {
            Some(tiled) => {
                let tile = [tiled.rows.size, tiled.columns.size, self.written.1];
                product(&[tiled.count(batches), product(&tile)])
            }
            None => product(&[batches, height, width, self.written.1]),
        };
        (inputs, outputs)
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
        match &self.tiled {
            Some(tiled) => (tiled.rows.extent, tiled.columns.extent),
            None => (self.input.height, self.input.width),
        }
    }

    /// Brings an input to where kernels read it. A border is left as it is.
    pub(super) fn bring<T: Element, S: Element>(
        &self,
        input: In<'_, T>,
        to: &mut [S],
        convert: Convert<T, S>,
    ) {
        let read = convert.read;
        let (first, count) = self.read;
        let whole = count == self.input.channels && self.tiled.is_none();
        if whole && self.repeat == 1 && !self.input.is_nchw() {
            for (at, to) in poll::each(to.chunks_mut(PIECE).enumerate(), PIECE) {
                read(input.slice(at * PIECE..at * PIECE + to.len()), to);
            }
            return;
        }
        if whole && !self.input.is_nchw() {
            let mut values = [S::default(); PIECE];
            let work = PIECE * (1 + self.repeat / 4);
            for (at, to) in poll::each(to.chunks_mut(PIECE * self.repeat).enumerate(), work) {
                let values = &mut values[..to.len() / self.repeat];
                read(input.slice(at * PIECE..at * PIECE + values.len()), values);
                repeat(values, self.repeat, to);
            }
            return;
        }
        let (height, width) = self.extents();
        let size = count * self.repeat;
        let place = |y: usize, x: usize| match &self.tiled {
            Some(tiled) => tiled.rows.place(y).zip(tiled.columns.place(x)),
            None => Some((y, x)),
        };
        if let Some(tiled) = &self.tiled
            && self.repeat == 1
            && !self.input.is_nchw()
        {
            // Pixels of a line stay neighbours.
            let pixels = tiled.columns.on_image(self.input.width);
            for (batch, line) in lines(self.input) {
                let Some((y, x)) = place(line, pixels.start) else { continue };
                let at = self.input.at(batch, line, pixels.start, 0);
                let line = input.slice(at..at + pixels.len() * count);
                let start = ((batch * height + y) * width + x) * count;
                let to = to[start..start + line.len()].chunks_mut(PIECE).enumerate();
                for (piece, to) in poll::each(to, PIECE) {
                    read(line.slice(piece * PIECE..piece * PIECE + to.len()), to);
                }
            }
            return;
        }
        each_pixel(&self.input, first, |[batch, y, x], at, step| {
            let place = place(y, x);
            let Some((y, x)) = place else { return };
            let start = ((batch * height + y) * width + x) * size;
            let pixel = &mut to[start..start + size];
            if step == 1 && self.repeat == 1 {
                let pieces = pixel.chunks_mut(PIECE).enumerate();
                return poll::each(pieces, PIECE).for_each(|(piece, to)| {
                    let from = at + piece * PIECE;
                    read(input.slice(from..from + to.len()), to);
                });
            }
            let pixel = pixel.chunks_exact_mut(self.repeat);
            for (c, same) in poll::each(pixel.enumerate(), 4 + self.repeat) {
                let (at, one) = (at + c * step, &mut same[..1]);
                read(input.slice(at..at + 1), one);
                let x = same[0];
                same.fill(x);
            }
        });
    }

    /// Puts what kernels gave where it belongs.
    pub(super) fn fetch<T: Element, S: Element>(
        &self,
        from: &[S],
        output: Out<'_, T>,
        convert: Convert<T, S>,
    ) {
        let write = convert.write;
        if let Some(tiled) = &self.tiled {
            return self.fetch_tiles(tiled, from, output, write);
        }
        let (first, count) = self.written;
        if count == self.output.channels && !self.output.is_nchw() {
            for (at, from) in poll::each(from.chunks(PIECE).enumerate(), PIECE) {
                write(from, output.slice(at * PIECE..at * PIECE + from.len()));
            }
            return;
        }
        let mut pixels = from.chunks_exact(count);
        each_pixel(&self.output, first, |_, at, step| {
            write_pixel(pixels.next().unwrap_or_default(), output, at, step, write);
        });
    }

    /// The pixels of tiles line by line. Those of a tile that stand side by side are few: they are
    /// brought together first.
    fn fetch_tiles<T: Element, S: Element>(
        &self,
        tiled: &Tiled,
        from: &[S],
        output: Out<'_, T>,
        write: fn(&[S], Out<'_, T>),
    ) {
        let Tiled { rows, columns, .. } = tiled;
        let Image { batches, channels: count, .. } = self.output;
        let mut together = [S::default(); PIECE];
        for (batch, y) in lines(self.output) {
            let (row, place) = rows.tile(y);
            let (above, high) = rows.part(place);
            let first = (batch * rows.count + row) * columns.count;
            // Of either part of a tile the line's first pixel, and pixels from tile to tile.
            let [left, right] = [0, columns.cut].map(|left| {
                let wide = columns.part(left).1;
                let part = tiled.first_of_part(batches, [above, left]);
                (part + first * high * wide + (place - above) * wide, high * wide)
            });
            let (mut column, mut place) = columns.tile(0);
            if high == 1 && columns.cut == columns.size && !self.output.is_nchw() {
                // The pixels of a line are neighbours as they are.
                let first = (left.0 + column * columns.size + place) * count;
                let line = &from[first..first + self.output.width * count];
                let (to, _) = self.place(batch, y, 0);
                for (at, from) in poll::each(line.chunks(PIECE).enumerate(), PIECE) {
                    let to = to + at * PIECE;
                    write(from, output.slice(to..to + from.len()));
                }
                continue;
            }
            let mut x = 0;
            while x < self.output.width {
                let (start, mut end) = (x, x);
                let mut len = 0;
                let mut source = 0;
                // Whole parts, but for the first and the last of a line.
                while end < self.output.width {
                    let (beside, wide) = columns.part(place);
                    let (line, apart) = if beside == 0 { left } else { right };
                    let pixels = (beside + wide - place).min(self.output.width - end);
                    source = (line + column * apart + place - beside) * count;
                    if len + pixels * count > PIECE {
                        break;
                    }
                    let to = &mut together[len..len + pixels * count];
                    to.iter_mut().zip(&from[source..]).for_each(|(to, &y)| *to = y);
                    len += pixels * count;
                    end += pixels;
                    place += pixels;
                    if place == columns.size {
                        (column, place) = (column + 1, 0);
                    }
                }
                if end == start {
                    // More channels than are brought together.
                    let pixel = &from[source..source + count];
                    let (to, step) = self.place(batch, y, x);
                    write_pixel(pixel, output, to, step, write);
                    end = x + 1;
                    place += 1;
                    if place == columns.size {
                        (column, place) = (column + 1, 0);
                    }
                } else if self.output.is_nchw() {
                    let pixels = together[..len].chunks_exact(count).zip(start..end);
                    pixels.for_each(|(pixel, x)| {
                        let (to, step) = self.place(batch, y, x);
                        write_pixel(pixel, output, to, step, write);
                    });
                } else {
                    let (to, _) = self.place(batch, y, start);
                    write(&together[..len], output.slice(to..to + len));
                }
                x = end;
                // A run that is to end leaves the rest as it is.
                if poll::work(len + 8).is_err() {
                    return;
                }
            }
        }
    }

    /// The place of an output's pixel, and elements from one of its channels to the next.
    fn place(&self, batch: usize, y: usize, x: usize) -> (usize, usize) {
        let image = &self.output;
        let step = if image.is_nchw() { image.height * image.width } else { 1 };
        (image.at(batch, y, x, 0), step)
    }
}

/// Puts each value so many times one behind the other. Few of them are stored at once.
pub(super) fn repeat<S: Element>(values: &[S], times: usize, to: &mut [S]) {
    fn by<S: Element, const TIMES: usize>(values: &[S], to: &mut [S]) {
        let (to, _) = to.as_chunks_mut::<TIMES>();
        to.iter_mut().zip(values).for_each(|(to, &value)| *to = [value; TIMES]);
    }
    match times {
        2 => by::<S, 2>(values, to),
        4 => by::<S, 4>(values, to),
        8 => by::<S, 8>(values, to),
        16 => by::<S, 16>(values, to),
        _ => {
            let to = to.chunks_exact_mut(times);
            to.zip(values).for_each(|(to, &value)| to.fill(value));
        }
    }
}

/// Writes the channels of a pixel, `step` elements apart from `at` on.
fn write_pixel<T: Element, S: Element>(
    pixel: &[S],
    output: Out<'_, T>,
    at: usize,
    step: usize,
    write: fn(&[S], Out<'_, T>),
) {
    if step == 1 {
        let pieces = pixel.chunks(PIECE).enumerate();
        return poll::each(pieces, PIECE).for_each(|(piece, from)| {
            let to = at + piece * PIECE;
            write(from, output.slice(to..to + from.len()));
        });
    }
    for (c, y) in poll::each(pixel.chunks(1).enumerate(), 4) {
        let at = at + c * step;
        write(y, output.slice(at..at + 1));
    }
}

/// The lines of an image: batch and position.
fn lines(image: Image) -> impl Iterator<Item = (usize, usize)> {
    (0..image.batches).flat_map(move |batch| (0..image.height).map(move |y| (batch, y)))
}

/// Elements that are brought or fetched at once: between two such pieces a run may end.
const PIECE: usize = 1024;

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

/// The conversions of elements that are read and written, as many as both lists have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Convert<T, S> {
    read: fn(In<'_, T>, &mut [S]),
    write: fn(&[S], Out<'_, T>),
}

/// Bytes stay what they are.
pub(super) const AS_IS: Convert<u8, u8> =
    Convert { read: |from, to| from.copy_to(to), write: |from, to| to.copy_from(In::of(from)) };

/// Real numbers are widened, and rounded when they are written.
pub(super) fn in_single_precision<T: Real>() -> Convert<T, f32> {
    Convert {
        read: |from, to| to.iter_mut().zip(from.iter()).for_each(|(to, x)| *to = x.to_f32()),
        write: |from, to| {
            from.iter().enumerate().for_each(|(at, &y)| to.set(at, T::from_f32(y)));
        },
    }
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
