//! Extents of results where the file's do not hold: its inputs were given other shapes.
//!
//! Graphs whose inputs were resized have no extents for what operators compute. What follows from
//! the extents of an operator's inputs, its options and its constants is worked out here; what
//! depends on values that are known at run time alone stays open.

mod elementwise;
mod empty;
mod layers;
mod windows;

use self::windows::{CONV, DEPTHWISE, positive};
use super::{Lower, axis_of, broadcast};
use crate::schema::Builtin;
use crate::schema::options::{self, OptionsKind};

/// The numbers that stand for extents that are not known: apart by more than anything divides them
/// by, and so small that their products fit.
const PROBES: [u32; 2] = [4099, 12289];

impl Lower<'_, '_> {
    /// The extents of a result, 0 where one is not known; `None` where nothing is known of them
    /// here.
    pub(super) fn inferred(&self, result: usize) -> Option<Vec<u32>> {
        let dims = self.known_result(result).or_else(|| self.probed_result(result))?;
        // A scalar is one element in one dimension here.
        Some(if dims.is_empty() { vec![1] } else { dims })
    }

    /// The extents of a result that do not depend on what is not known of the inputs'. They are
    /// those that stay the same whichever of some numbers stands for that.
    fn probed_result(&self, result: usize) -> Option<Vec<u32>> {
        let probe = |number: u32| {
            self.import.probe.set(number);
            let dims = self.known_result(result);
            self.import.probe.set(0);
            dims
        };
        let [first, second] = PROBES.map(probe);
        let (first, second) = (first?, second?);
        let known = |(a, b): (&u32, &u32)| if a == b { *a } else { 0 };
        let is_rank_known = first.len() == second.len();
        is_rank_known.then(|| first.iter().zip(&second).map(known).collect())
    }

    /// The extents of a result if all of the inputs' are known.
    pub(super) fn known_result(&self, result: usize) -> Option<Vec<u32>> {
        match self.builtin() {
            Builtin::Conv2d => self.conv_dims(&CONV),
            Builtin::DepthwiseConv2d => self.conv_dims(&DEPTHWISE),
            Builtin::AveragePool2d | Builtin::MaxPool2d | Builtin::L2Pool2d => self.pool_dims(),
            Builtin::TransposeConv => self.constant_dims(0),
            Builtin::FullyConnected => self.dense_dims(),
            Builtin::BatchMatmul => self.matmul_dims(),
            Builtin::Reshape => self.reshape_dims(),
            Builtin::Squeeze => self.squeeze_dims(),
            Builtin::ExpandDims => {
                let mut dims = self.dims(0)?;
                let axis = axis_of(self.one_int(1)?, dims.len() + 1).ok()?;
                dims.insert(axis, 1);
                Some(dims)
            }
            Builtin::Concatenation => self.joined_dims(),
            Builtin::Pack => {
                let mut dims = self.dims(0)?;
                let axis = self.options(options::pack::KIND).ok()?;
                let axis = axis.int(options::pack::AXIS, 0).ok()?;
                let axis = axis_of(i64::from(axis), dims.len() + 1).ok()?;
                dims.insert(axis, u32::try_from(self.op.inputs.len()).ok()?);
                Some(dims)
            }
            Builtin::Unpack => {
                let mut dims = self.dims(0)?;
                let axis = self.options(options::unpack::KIND).ok()?;
                let axis = axis.int(options::unpack::AXIS, 0).ok()?;
                dims.remove(axis_of(i64::from(axis), dims.len()).ok()?);
                Some(dims)
            }
            Builtin::Split => {
                let mut dims = self.dims(1)?;
                let axis = axis_of(self.one_int(0)?, dims.len()).ok()?;
                let parts = u32::try_from(self.op.outputs.len()).ok()?;
                dims[axis] = dims[axis].checked_div(parts)?;
                Some(dims)
            }
            Builtin::SplitV => self.split_v_dims(result),
            Builtin::Pad | Builtin::Padv2 | Builtin::MirrorPad => self.padded_dims(),
            Builtin::Slice => self.slice_dims(),
            Builtin::StridedSlice => self.strided_slice_dims(),
            Builtin::Transpose => {
                let (dims, order) = (self.dims(0)?, self.constant_ints(1).ok()?);
                order.iter().map(|&axis| dims.get(usize::try_from(axis).ok()?).copied()).collect()
            }
            Builtin::Tile => {
                let times = self.constant_dims(1)?;
                let dims = self.dims(0)?.into_iter().zip(times);
                dims.map(|(extent, times)| extent.checked_mul(times)).collect()
            }
            Builtin::Fill | Builtin::RandomUniform | Builtin::RandomStandardNormal => {
                self.constant_dims(0)
            }
            Builtin::BroadcastTo | Builtin::SparseToDense => self.constant_dims(1),
            Builtin::ScatterNd => self.constant_dims(2),
            Builtin::UnsortedSegmentSum
            | Builtin::UnsortedSegmentProd
            | Builtin::UnsortedSegmentMax
            | Builtin::UnsortedSegmentMin => {
                let (dims, ids) = (self.dims(0)?, self.dims(1)?);
                let segments = u32::try_from(self.one_int(2)?).ok()?;
                Some([&[segments], dims.get(ids.len()..)?].concat())
            }
            Builtin::Range => self.range_dims(),
            Builtin::Rfft2d => {
                let (dims, size) = (self.dims(0)?, self.constant_dims(1)?);
                let (&[ref outer @ .., _, _], &[height, width]) = (&dims[..], &size[..]) else {
                    return None;
                };
                Some([outer, &[height, (width / 2).checked_add(1)?]].concat())
            }
            Builtin::ResizeBilinear | Builtin::ResizeNearestNeighbor => {
                let (dims, size) = (self.dims(0)?, self.constant_dims(1)?);
                let (&[batch, _, _, channels], &[height, width]) = (&dims[..], &size[..]) else {
                    return None;
                };
                Some(vec![batch, height, width, channels])
            }
            Builtin::SpaceToDepth => self.block_dims(true),
            Builtin::DepthToSpace => self.block_dims(false),
            Builtin::SpaceToBatchNd => self.batch_dims(true),
            Builtin::BatchToSpaceNd => self.batch_dims(false),
            Builtin::Mean
            | Builtin::Sum
            | Builtin::ReduceProd
            | Builtin::ReduceMax
            | Builtin::ReduceMin
            | Builtin::ReduceAny
            | Builtin::ReduceAll => self.reduced_dims(),
            Builtin::ArgMax | Builtin::ArgMin => {
                let mut dims = self.dims(0)?;
                dims.remove(axis_of(self.one_int(1)?, dims.len()).ok()?);
                Some(dims)
            }
            Builtin::Gather => self.gather_dims(),
            Builtin::While => self.dims(result),
            Builtin::Rank => Some(Vec::new()),
            // Indices, scores in between, and a count.
            Builtin::NonMaxSuppressionV4 | Builtin::NonMaxSuppressionV5 => {
                match result + 1 == self.op.outputs.len() {
                    true => Some(Vec::new()),
                    false => Some(vec![u32::try_from(self.one_int(2)?).ok()?]),
                }
            }
            Builtin::Shape => Some(vec![u32::try_from(self.dims(0)?.len()).ok()?]),
            Builtin::TopkV2 => {
                let mut dims = self.dims(0)?;
                *dims.last_mut()? = u32::try_from(self.one_int(1)?).ok()?;
                Some(dims)
            }
            Builtin::GatherNd => {
                let (dims, places) = (self.dims(0)?, self.dims(1)?);
                let (&depth, places) = places.split_last()?;
                Some([places, dims.get(usize::try_from(depth).ok()?..)?].concat())
            }
            Builtin::HashtableLookup => {
                let (rows, table) = (self.dims(0)?, self.dims(2)?);
                let row = if result == 0 { table.get(1..)? } else { &[] };
                Some([rows.get(..1)?, row].concat())
            }
            Builtin::MatrixSetDiag => self.dims(0),
            Builtin::MatrixDiag => {
                let mut dims = self.dims(0)?;
                dims.push(*dims.last()?);
                Some(dims)
            }
            builtin => {
                self.elementwise_dims(builtin).or_else(|| self.recurrent_dims(builtin, result))
            }
        }
    }

    /// The extents of an argument in the file's sense, without dimensions for a scalar.
    pub(super) fn dims(&self, argument: usize) -> Option<Vec<u32>> {
        let index = self.optional_tensor(argument)?;
        let tensor = &self.import.graph.tensors[index];
        let dims = match self.import.values[index] {
            Some(value) => match self.import.builder.dims(value) {
                [1] if tensor.is_scalar() => return Some(Vec::new()),
                [] => return None,
                dims => dims,
            },
            None => &tensor.shape,
        };
        let mut dims = dims.to_vec();
        match self.import.probe.get() {
            _ if self.import.has_no_elements(index) => {
                return self.import.counts_empty.get().then_some(dims);
            }
            0 => {}
            probe => dims.iter_mut().filter(|extent| **extent == 0).for_each(|it| *it = probe),
        }
        let is_known = !dims.contains(&0) && (!dims.is_empty() || tensor.is_scalar());
        is_known.then_some(dims)
    }

    /// A constant that holds extents.
    pub(super) fn constant_dims(&self, argument: usize) -> Option<Vec<u32>> {
        let values = self.constant_ints(argument).ok()?;
        values.into_iter().map(|extent| u32::try_from(extent).ok()).collect()
    }

    /// The one value of a constant.
    pub(super) fn one_int(&self, argument: usize) -> Option<i64> {
        match self.constant_ints(argument).ok()?[..] {
            [value] => Some(value),
            _ => None,
        }
    }

    fn broadcast_of(&self, a: usize, b: usize) -> Option<Vec<u32>> {
        broadcast_dims(&self.dims(a)?, &self.dims(b)?)
    }

    fn dense_dims(&self) -> Option<Vec<u32>> {
        let (mut dims, weights) = (self.dims(0)?, self.dims(1)?);
        let &[units, depth] = &weights[..] else { return None };
        let keeps = options::FULLY_CONNECTED_KEEP_NUM_DIMS;
        if self.options(options::fully_connected::KIND).ok()?.boolean(keeps, false).ok()? {
            *dims.last_mut()? = units;
            return Some(dims);
        }
        Some(vec![product(&dims)?.checked_div(depth)?, units])
    }

    fn matmul_dims(&self) -> Option<Vec<u32>> {
        use options::batch_matmul as o;
        let options = self.options(o::KIND).ok()?;
        let (mut a, mut b) = (self.dims(0)?, self.dims(1)?);
        let ([a2, a1], [b2, b1]) = (last_two(&mut a)?, last_two(&mut b)?);
        let rows = if options.boolean(o::ADJ_X, false).ok()? { a1 } else { a2 };
        let columns = if options.boolean(o::ADJ_Y, false).ok()? { b2 } else { b1 };
        let mut dims = broadcast_dims(&a, &b)?;
        dims.extend([rows, columns]);
        Some(dims)
    }

    fn reshape_dims(&self) -> Option<Vec<u32>> {
        use options::reshape as o;
        let mut wanted = match self.constant_ints(1) {
            Ok(wanted) => wanted,
            Err(_) if self.has(1) => return None,
            Err(_) => {
                let wanted = self.options(o::KIND).ok()?.ints(o::NEW_SHAPE).ok()?;
                wanted.into_iter().map(i64::from).collect()
            }
        };
        self.batched_shape(&mut wanted);
        let known: Vec<u32> =
            wanted.iter().filter_map(|&extent| u32::try_from(extent).ok()).collect();
        let open = match known.len() == wanted.len() {
            true => 1,
            false => product(&self.dims(0)?)?.checked_div(product(&known)?)?,
        };
        Some(wanted.iter().map(|&extent| u32::try_from(extent).unwrap_or(open)).collect())
    }

    fn squeeze_dims(&self) -> Option<Vec<u32>> {
        let dims = self.dims(0)?;
        let axes = self.options(OptionsKind::new(30, "SqueezeOptions")).ok()?;
        let axes = axes.ints(options::SQUEEZE_DIMS).ok()?;
        let axes = axes.iter().map(|&axis| axis_of(i64::from(axis), dims.len()).ok());
        let axes = axes.collect::<Option<Vec<usize>>>()?;
        // Extents that are not known may be 1.
        if axes.is_empty() && self.import.probe.get() != 0 {
            return None;
        }
        let falls = |axis: usize| match axes.is_empty() {
            true => dims[axis] == 1,
            false => axes.contains(&axis),
        };
        Some((0..dims.len()).filter(|&axis| !falls(axis)).map(|axis| dims[axis]).collect())
    }

    fn joined_dims(&self) -> Option<Vec<u32>> {
        use options::concatenation as o;
        let mut dims = self.dims(0)?;
        let axis = self.options(o::KIND).ok()?.int(o::AXIS, 0).ok()?;
        let axis = axis_of(i64::from(axis), dims.len()).ok()?;
        for argument in 1..self.op.inputs.len() {
            let more = *self.dims(argument)?.get(axis)?;
            dims[axis] = dims[axis].checked_add(more)?;
        }
        Some(dims)
    }

    fn split_v_dims(&self, result: usize) -> Option<Vec<u32>> {
        let mut dims = self.dims(0)?;
        let axis = axis_of(self.one_int(2)?, dims.len()).ok()?;
        let sizes = self.split_sizes(usize::try_from(dims[axis]).ok()?)?;
        dims[axis] = u32::try_from(*sizes.get(result)?).ok()?;
        Some(dims)
    }

    /// The extents of SPLIT_V's parts, of which one may be what the others leave of the whole.
    pub(super) fn split_sizes(&self, whole: usize) -> Option<Vec<usize>> {
        let sizes = self.constant_ints(1).ok()?;
        let mut known = sizes.iter().filter_map(|&size| usize::try_from(size).ok());
        let known = known.try_fold(0, usize::checked_add)?;
        let own = |&size: &i64| match size {
            -1 => whole.checked_sub(known),
            size => usize::try_from(size).ok(),
        };
        sizes.iter().map(own).collect()
    }

    /// How many integers RANGE counts.
    fn range_dims(&self) -> Option<Vec<u32>> {
        let (from, to, step) = (self.one_int(0)?, self.one_int(1)?, self.one_int(2)?);
        let way = to.checked_sub(from)?.checked_mul(step.signum())?.max(0).unsigned_abs();
        let step = step.unsigned_abs();
        (step > 0).then(|| u32::try_from(way.div_ceil(step)).ok().map(|count| vec![count]))?
    }

    fn padded_dims(&self) -> Option<Vec<u32>> {
        let (dims, borders) = (self.dims(0)?, self.constant_dims(1)?);
        let (borders, rest) = borders.as_chunks::<2>();
        if borders.len() != dims.len() || !rest.is_empty() {
            return None;
        }
        let grown = dims.into_iter().zip(borders);
        grown.map(|(extent, [a, b])| extent.checked_add(*a)?.checked_add(*b)).collect()
    }

    fn slice_dims(&self) -> Option<Vec<u32>> {
        let (dims, begins) = (self.dims(0)?, self.constant_dims(1)?);
        let sizes = self.constant_ints(2).ok()?;
        let axes = dims.iter().zip(begins).zip(sizes);
        axes.map(|((extent, begin), size)| match size {
            -1 => extent.checked_sub(begin),
            size => u32::try_from(size).ok(),
        })
        .collect()
    }

    fn strided_slice_dims(&self) -> Option<Vec<u32>> {
        use options::strided_slice as o;
        let dims = self.dims(0)?;
        let plan = self.slice_plan(&dims).ok()?;
        if self.options(o::KIND).ok()?.int(o::NEW_AXIS_MASK, 0).ok()? != 0 {
            return None;
        }
        let kept = (0..dims.len()).filter(|axis| !plan.shrinks(*axis));
        // Of an extent that is not known there may be less than is asked for.
        let probe = self.import.probe.get();
        kept.map(|axis| match dims[axis] == probe {
            true => Some(probe),
            false => u32::try_from(plan.range(axis)?.2).ok().filter(|&it| it > 0),
        })
        .collect()
    }

    fn block_dims(&self, is_to_depth: bool) -> Option<Vec<u32>> {
        let dims = self.dims(0)?;
        let &[batch, height, width, depth] = &dims[..] else { return None };
        let (kind, field) = match is_to_depth {
            true => (options::space_to_depth::KIND, options::space_to_depth::BLOCK_SIZE),
            false => (options::depth_to_space::KIND, options::depth_to_space::BLOCK_SIZE),
        };
        let block = positive(&self.options(kind).ok()?, field, 0)?;
        let area = block.checked_mul(block)?;
        Some(match is_to_depth {
            true => vec![batch, height / block, width / block, depth.checked_mul(area)?],
            false => {
                let (height, width) = (height.checked_mul(block)?, width.checked_mul(block)?);
                vec![batch, height, width, depth / area]
            }
        })
    }

    /// What SPACE_TO_BATCH_ND makes of blocks behind borders, or BATCH_TO_SPACE_ND of batches less
    /// what it crops.
    fn batch_dims(&self, is_to_batch: bool) -> Option<Vec<u32>> {
        let mut dims = self.dims(0)?;
        let (blocks, borders) = (self.constant_dims(1)?, self.constant_dims(2)?);
        let (borders, rest) = borders.as_chunks::<2>();
        if borders.len() != blocks.len() || !rest.is_empty() || dims.len() <= blocks.len() {
            return None;
        }
        for (axis, (&block, [before, after])) in blocks.iter().zip(borders).enumerate() {
            let (batches, extent) = (dims[0], dims[axis + 1]);
            let border = before.checked_add(*after)?;
            (dims[0], dims[axis + 1]) = match is_to_batch {
                true => {
                    (batches.checked_mul(block)?, extent.checked_add(border)?.checked_div(block)?)
                }
                false => {
                    (batches.checked_div(block)?, extent.checked_mul(block)?.checked_sub(border)?)
                }
            };
        }
        Some(dims)
    }

    fn reduced_dims(&self) -> Option<Vec<u32>> {
        use options::reducer as o;
        let dims = self.dims(0)?;
        let keeps = self.options(o::KIND).ok()?.boolean(o::KEEP_DIMS, false).ok()?;
        let axes = self.constant_ints(1).ok()?;
        let axes = axes.iter().map(|&axis| axis_of(axis, dims.len()).ok());
        let axes = axes.collect::<Option<Vec<usize>>>()?;
        let left = dims.iter().enumerate().filter_map(|(axis, &extent)| {
            match (axes.contains(&axis), keeps) {
                (false, _) => Some(extent),
                (true, true) => Some(1),
                (true, false) => None,
            }
        });
        Some(left.collect())
    }

    fn gather_dims(&self) -> Option<Vec<u32>> {
        use options::gather as o;
        let (dims, indices) = (self.dims(0)?, self.dims(1)?);
        let options = self.options(o::KIND).ok()?;
        let axis = axis_of(i64::from(options.int(o::AXIS, 0).ok()?), dims.len()).ok()?;
        let batch = options.int(o::BATCH_DIMS, 0).ok()?;
        let batch = match batch {
            0 => 0,
            batch => axis_of(i64::from(batch), indices.len() + 1).ok()?,
        };
        let inner = indices.get(batch..)?;
        Some([&dims[..axis], inner, dims.get(axis + 1..)?].concat())
    }
}

fn product(dims: &[u32]) -> Option<u32> {
    dims.iter().try_fold(1u32, |all, &extent| all.checked_mul(extent))
}

/// Takes the last two extents off.
fn last_two(dims: &mut Vec<u32>) -> Option<[u32; 2]> {
    let (last, before) = (dims.pop()?, dims.pop()?);
    Some([before, last])
}

/// The shape that two shapes broadcast to, where no dimensions are those of a scalar.
fn broadcast_dims(a: &[u32], b: &[u32]) -> Option<Vec<u32>> {
    match (a, b) {
        ([], other) | (other, []) => Some(other.to_vec()),
        _ => broadcast(a, b),
    }
}
