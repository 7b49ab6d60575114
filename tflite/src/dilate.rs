//! Dilated convolutions that a file has as convolutions of batches.
//!
//! Converters write them as SPACE_TO_BATCH_ND, a convolution without padding, BATCH_TO_SPACE_ND:
//! each batch has the pixels at one place of every block, so that neighbours in a batch are a block
//! apart in the image. NNAPI's convolutions have dilations and paddings since HAL 1.2, with which
//! nothing needs to be moved. A sequence is an image of one line for the convolution alone, with
//! RESHAPEs between, and several convolutions may read the same batches.

use std::collections::BTreeSet;

use nnburst_hal::{OperandLifeTime, OperandType, Operation, OperationType};

use crate::file_bytes::FileBytes;
use crate::graph::{Builder, is_open};

/// Replaces them by one convolution of the same windows each, where shapes are known and nothing
/// else reads what lies between. `file` has the file's constants.
pub(crate) fn dilate(builder: &mut Builder, file: &FileBytes) {
    let (readers, makers) = (only_readers(builder), makers(builder));
    let (mut operations, mut operands) = (Vec::new(), Vec::new());
    let mut spreading = BTreeSet::new();
    for at in 0..builder.graph.operations.len() {
        let search = Search { builder: &*builder, file, readers: &readers, makers: &makers };
        let Some(chain) = search.chain(at) else { continue };
        let Some(inputs) = search.dilated(&chain) else { continue };
        let inputs = inputs.into_operands(builder);
        let conv = &mut builder.graph.operations[at];
        (conv.inputs, conv.outputs) = (inputs, vec![chain.output]);
        operations.extend(chain.behind);
        operands.extend(chain.between);
        spreading.extend(chain.ahead);
    }
    for at in unread(builder, &spreading) {
        operations.push(at);
        operands.extend(&builder.graph.operations[at].outputs);
    }
    builder.remove(&operations, &operands);
}

/// Those of some operations whose results nothing reads that stays.
fn unread(builder: &Builder, of: &BTreeSet<usize>) -> Vec<usize> {
    let graph = &builder.graph;
    let mut reads = vec![0usize; graph.operands.len()];
    let inputs = graph.operations.iter().flat_map(|operation| &operation.inputs);
    inputs.for_each(|&input| reads[input as usize] += 1);
    // An operation comes behind what it reads.
    let mut unread = Vec::new();
    for &at in of.iter().rev() {
        let operation = &graph.operations[at];
        let temporary = OperandLifeTime::TemporaryVariable;
        let is_unread = |&output: &u32| {
            let output = output as usize;
            reads[output] == 0 && graph.operands[output].lifetime == temporary
        };
        if operation.outputs.iter().all(is_unread) {
            operation.inputs.iter().for_each(|&input| reads[input as usize] -= 1);
            unread.push(at);
        }
    }
    unread
}

/// The operation that computes each operand.
fn makers(builder: &Builder) -> Vec<Option<usize>> {
    let graph = &builder.graph;
    let mut makers = vec![None; graph.operands.len()];
    for (at, operation) in graph.operations.iter().enumerate() {
        operation.outputs.iter().for_each(|&output| makers[output as usize] = Some(at));
    }
    makers
}

/// The operation that alone reads an operand, for temporaries that have one.
fn only_readers(builder: &Builder) -> Vec<Option<usize>> {
    let graph = &builder.graph;
    let mut readers = vec![Vec::new(); graph.operands.len()];
    for (at, operation) in graph.operations.iter().enumerate() {
        operation.inputs.iter().for_each(|&input| readers[input as usize].push(at));
    }
    let temporary = OperandLifeTime::TemporaryVariable;
    let readers = readers.iter().zip(&graph.operands);
    readers
        .map(|(readers, operand)| match readers[..] {
            [one] if operand.lifetime == temporary => Some(one),
            _ => None,
        })
        .collect()
}

/// The operations of a convolution of batches.
struct Chain {
    spread: usize,
    conv: usize,
    /// What spreads, and RESHAPEs behind it: others may read the results.
    ahead: Vec<usize>,
    /// What gathers, what crops that, and RESHAPEs between.
    behind: Vec<usize>,
    /// Results that only these read.
    between: Vec<u32>,
    output: u32,
    /// What is left of the gathered image: first element and count along each axis.
    crop: Option<[Vec<i32>; 2]>,
}

/// The convolution of an image that takes the place of a chain.
struct DilatedConv {
    image: u32,
    filter: u32,
    bias: u32,
    /// Along height and width.
    axes: [DilatedAxis; 2],
    /// The operands behind the strides: results of each channel if it is depthwise, activation.
    rest: Vec<u32>,
}

/// Paddings and dilation along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DilatedAxis {
    head: i32,
    tail: i32,
    dilation: i32,
}

impl DilatedConv {
    fn into_operands(self, builder: &mut Builder) -> Vec<u32> {
        let [height, width] = self.axes;
        let mut operands = vec![self.image, self.filter, self.bias];
        let numbers = [width.head, width.tail, height.head, height.tail, 1, 1];
        operands.extend(numbers.map(|number| builder.int(number)));
        operands.extend(self.rest);
        operands.push(builder.boolean(false));
        operands.extend([width, height].map(|axis| builder.int(axis.dilation)));
        operands
    }
}

/// The graph in which chains are looked for.
#[derive(Clone, Copy)]
struct Search<'a> {
    builder: &'a Builder,
    file: &'a FileBytes,
    readers: &'a [Option<usize>],
    makers: &'a [Option<usize>],
}

/// RESHAPEs between what spreads and a convolution, at most.
const RESHAPES: usize = 4;

impl<'a> Search<'a> {
    /// The chain around the convolution `conv`.
    fn chain(self, conv: usize) -> Option<Chain> {
        use OperationType as Op;
        let convolution = &self.builder.graph.operations[conv];
        if !matches!(convolution.kind, Op::Conv2d | Op::DepthwiseConv2d) {
            return None;
        }
        let ahead = self.ahead(*convolution.inputs.first()?)?;
        let spread = *ahead.last()?;
        let first = &self.builder.graph.operations[spread];
        let (mut behind, mut made) = (Vec::new(), Vec::new());
        let (gather, last) = self.reader_of_shape(convolution, &mut behind, &mut made)?;
        if last.kind != Op::BatchToSpaceNd {
            return None;
        }
        behind.push(gather);
        let &[image, block, _] = &first.inputs[..] else { return None };
        let (&[_, blocks], &[mut output]) = (&last.inputs[..], &last.outputs[..]) else {
            return None;
        };
        if self.ints(block)? != self.ints(blocks)? {
            return None;
        }
        let mut crop = None;
        if let Some((slice, cut)) = self.reader(last)
            && let (Op::Slice, &[whole, begin, size], &[part]) =
                (cut.kind, &cut.inputs[..], &cut.outputs[..])
        {
            crop = Some([self.ints(begin)?, self.ints(size)?]);
            behind.push(slice);
            made.push(whole);
            output = part;
        }
        let same = |a: u32, b: u32| {
            let [a, b] = [a, b].map(|it| self.builder.operand(it));
            let scales = a.scale.to_bits() == b.scale.to_bits();
            a.kind == b.kind && scales && a.zero_point == b.zero_point
        };
        let operations = &self.builder.graph.operations;
        let mut images = ahead.iter().flat_map(|&at| &operations[at].outputs);
        let is_moved =
            images.all(|&it| same(image, it)) && made.iter().all(|&result| same(result, output));
        is_moved.then_some(Chain { spread, conv, ahead, behind, between: made, output, crop })
    }

    /// What spreads an image that a convolution reads, and the RESHAPEs behind it, which leave its
    /// shape as it was: those come first.
    fn ahead(self, image: u32) -> Option<Vec<usize>> {
        let (mut ahead, mut read) = (Vec::new(), image);
        while ahead.len() <= RESHAPES {
            let at = self.makers[read as usize]?;
            let operation = &self.builder.graph.operations[at];
            ahead.push(at);
            match operation.kind {
                OperationType::SpaceToBatchNd => {
                    let is_same = self.builder.dims(read) == self.builder.dims(image);
                    return is_same.then_some(ahead);
                }
                OperationType::Reshape => read = *operation.inputs.first()?,
                _ => return None,
            }
        }
        None
    }

    /// The operation that alone reads what another computes, as its first input.
    fn reader(self, operation: &Operation) -> Option<(usize, &'a Operation)> {
        let &[output] = &operation.outputs[..] else { return None };
        let at = self.readers[output as usize]?;
        let reader = &self.builder.graph.operations[at];
        (reader.inputs.first() == Some(&output)).then_some((at, reader))
    }

    /// The operation that alone reads what another computes, in the same shape: that of a sequence
    /// goes through RESHAPEs. `skipped` gets these, `between` what all of them read.
    fn reader_of_shape(
        self,
        operation: &Operation,
        skipped: &mut Vec<usize>,
        between: &mut Vec<u32>,
    ) -> Option<(usize, &'a Operation)> {
        let &[computed] = &operation.outputs[..] else { return None };
        let (mut read, (mut at, mut reader)) = (computed, self.reader(operation)?);
        between.push(computed);
        while reader.kind == OperationType::Reshape {
            let &[reshaped] = &reader.outputs[..] else { return None };
            skipped.push(at);
            between.push(reshaped);
            (read, (at, reader)) = (reshaped, self.reader(reader)?);
        }
        (self.builder.dims(read) == self.builder.dims(computed)).then_some((at, reader))
    }

    /// The one convolution that gives what a chain gives.
    fn dilated(self, chain: &Chain) -> Option<DilatedConv> {
        let operations = &self.builder.graph.operations;
        let (first, conv) = (&operations[chain.spread], &operations[chain.conv]);
        let &[image, block, borders] = &first.inputs[..] else { return None };
        let is_depthwise = conv.kind == OperationType::DepthwiseConv2d;
        let (windows, rest) = conv.inputs.split_at_checked(6)?;
        let &[_, filter, bias, padding, stride_w, stride_h] = windows else { return None };
        let (rest, dilations) = rest.split_at_checked(1 + usize::from(is_depthwise))?;
        let dilations = match dilations {
            [] => [1, 1],
            &[layout, width, height] if self.bytes(layout)? == [0] => {
                [self.int(height)?, self.int(width)?]
            }
            _ => return None,
        };
        // Without padding (2), each pixel in turn.
        let is_plain = [(padding, 2), (stride_w, 1), (stride_h, 1)];
        is_plain.iter().all(|&(operand, value)| self.int(operand) == Some(value)).then_some(())?;
        let [image_dims, filter_dims] = [image, filter].map(|it| self.builder.dims(it));
        let (&[batches, height, width, _], &[outputs, rows, columns, depth]) =
            (image_dims, filter_dims)
        else {
            return None;
        };
        if is_open(image_dims) || is_open(filter_dims) {
            return None;
        }
        let (block, borders) = (self.ints(block)?, self.ints(borders)?);
        let (&[block_h, block_w], &[top, bottom, left, right]) = (&block[..], &borders[..]) else {
            return None;
        };
        let channels = if is_depthwise { depth } else { outputs };
        let [vertical, horizontal] = chain.crops([batches, channels])?;
        let axes = [
            Spread { extent: height, block: block_h, borders: [top, bottom] }.dilated(
                rows,
                dilations[0],
                vertical,
            )?,
            Spread { extent: width, block: block_w, borders: [left, right] }.dilated(
                columns,
                dilations[1],
                horizontal,
            )?,
        ];
        Some(DilatedConv { image, filter, bias, axes, rest: rest.to_vec() })
    }

    fn int(self, operand: u32) -> Option<i32> {
        match self.ints(operand)?[..] {
            [value] => Some(value),
            _ => None,
        }
    }

    /// The values of a constant of INT32.
    fn ints(self, operand: u32) -> Option<Vec<i32>> {
        let is_int = matches!(
            self.builder.operand(operand).kind,
            OperandType::Int32 | OperandType::TensorInt32
        );
        let (values, rest) = self.bytes(operand).filter(|_| is_int)?.as_chunks();
        rest.is_empty().then(|| values.iter().map(|&value| i32::from_le_bytes(value)).collect())
    }

    fn bytes(self, operand: u32) -> Option<&'a [u8]> {
        self.builder.bytes(operand, self.file)
    }
}

impl Chain {
    /// First element and count of what is left along height and width, `None` where all is;
    /// `None` in place of both where some of these batches or channels are cropped.
    fn crops(&self, [batches, channels]: [u32; 2]) -> Option<[Option<[i32; 2]>; 2]> {
        let Some(crop) = &self.crop else { return Some([None; 2]) };
        let [&[0, y, x, 0], &[n, height, width, c]] = crop.each_ref().map(|it| &it[..]) else {
            return None;
        };
        let is_whole = u32::try_from(n) == Ok(batches) && u32::try_from(c) == Ok(channels);
        is_whole.then_some([Some([y, height]), Some([x, width])])
    }
}

/// An axis of an image whose pixels are spread over batches.
struct Spread {
    extent: u32,
    block: i32,
    /// Padding in front and behind.
    borders: [i32; 2],
}

impl Spread {
    /// The windows of `filter` taps over the pixels of each batch as windows over all of them.
    /// Of their results, `crop` has the first that is left and how many.
    fn dilated(&self, filter: u32, dilation: i32, crop: Option<[i32; 2]>) -> Option<DilatedAxis> {
        let [head, tail] = self.borders.map(i64::from);
        let (extent, block) = (i64::from(self.extent), i64::from(self.block));
        let padded = extent + head + tail;
        if block < 1 || dilation < 1 || head < 0 || tail < 0 || padded % block != 0 {
            return None;
        }
        let dilation = i64::from(dilation) * block;
        let reach = i64::from(filter).checked_sub(1)?.checked_mul(dilation)?.checked_add(1)?;
        let results = padded.checked_sub(reach)?.checked_add(1)?;
        let [from, count] = crop.map_or([0, results], |crop| crop.map(i64::from));
        // As many positions in front fewer as results are cropped there, and behind so that the
        // last window ends with them.
        let (head, end) = (head - from, from + count);
        let tail = count.checked_add(reach - 1)? - extent - head;
        let is_within = from >= 0 && count > 0 && end <= results;
        // Kernels take no window over padding alone.
        let is_padding = |side: i64| (0..reach).contains(&side);
        let fits = is_within && is_padding(head) && is_padding(tail);
        let [head, tail, dilation] = [head, tail, dilation].map(i32::try_from);
        fits.then_some(DilatedAxis { head: head.ok()?, tail: tail.ok()?, dilation: dilation.ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_over_batches_are_dilated_ones_over_the_image() {
        let axis = |extent, block, borders| Spread { extent, block, borders };
        let dilated = |head, tail, dilation| Some(DilatedAxis { head, tail, dilation });
        // SAME of 3 taps, 2 apart: an image of 7 is padded to 12 for it, and 1 result is cropped.
        let of_seven = axis(7, 2, [2, 3]);
        assert_eq!(of_seven.dilated(3, 1, None), dilated(2, 3, 2));
        assert_eq!(of_seven.dilated(3, 1, Some([0, 7])), dilated(2, 2, 2));
        assert_eq!(of_seven.dilated(3, 1, Some([1, 7])), dilated(1, 3, 2));
        assert_eq!(of_seven.dilated(3, 1, Some([1, 8])), None, "more results than there are");
        assert_eq!(axis(7, 2, [2, 4]).dilated(3, 1, None), None, "no whole blocks");
        assert_eq!(axis(8, 2, [0, 0]).dilated(3, 1, Some([1, 3])), None, "no padding to crop");
        assert_eq!(axis(8, 2, [0, 0]).dilated(2, 2, None), dilated(0, 0, 4));
        assert_eq!(axis(4, 4, [4, 0]).dilated(1, 1, None), None, "windows over padding alone");
        assert_eq!(axis(8, 2, [0, 0]).dilated(u32::MAX, i32::MAX, None), None);
        assert_eq!(axis(8, 0, [0, 0]).dilated(3, 1, None), None);
    }
}
