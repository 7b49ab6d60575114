//! Parts of tensors, and borders around them.

use nnburst_hal::{OperandType, OperationType};

use super::{Lower, Lowered, MAX_MADE_ELEMENTS, axis_of, int_of, signed};
use crate::schema::TensorKind;
use crate::schema::options;

/// A strided slice with one entry for each dimension of the input.
#[derive(Debug)]
pub(super) struct SlicePlan {
    extents: Vec<u32>,
    begin: Vec<i32>,
    end: Vec<i32>,
    strides: Vec<i32>,
    begin_mask: i32,
    end_mask: i32,
    shrink_mask: i32,
    /// True if the result has extents of 1 that the input has not.
    new_axes: bool,
}

impl SlicePlan {
    /// First index, step and count along an axis; `None` where the file contradicts itself.
    pub(super) fn range(&self, axis: usize) -> Option<(i64, i64, i64)> {
        let extent = i64::from(*self.extents.get(axis)?);
        let stride = i64::from(*self.strides.get(axis)?);
        let masked = |mask: i32| mask & (1 << axis) != 0;
        let clamp = |value: i32| {
            let value = i64::from(value);
            let value = if value < 0 { value + extent } else { value };
            if stride > 0 { value.clamp(0, extent) } else { value.clamp(-1, extent - 1) }
        };
        let first = if stride > 0 { 0 } else { extent - 1 };
        let begin = if masked(self.begin_mask) { first } else { clamp(*self.begin.get(axis)?) };
        let past = if stride > 0 { extent } else { -1 };
        let end = if masked(self.end_mask) { past } else { clamp(*self.end.get(axis)?) };
        if masked(self.shrink_mask) {
            return Some((begin, 1, 1));
        }
        let span = if stride > 0 { end - begin } else { begin - end };
        (stride != 0).then(|| (begin, stride, (span.max(0) + stride.abs() - 1) / stride.abs()))
    }
}

impl Lower<'_, '_> {
    pub(super) fn split(&mut self) -> Lowered {
        let input = self.input(1)?;
        let rank = self.import.builder.dims(input).len();
        let axis = self.constant_axis(0, rank)?;
        let count = self.op.outputs.len();
        let axis = self.builder().int(int_of(axis)?);
        let number = self.builder().int(int_of(count)?);
        let outputs = (0..count).map(|i| self.output(i, None)).collect::<Lowered<Vec<u32>>>()?;
        self.emit(OperationType::Split, &[input, axis, number], &outputs);
        Ok(())
    }

    /// Parts of different sizes: NNAPI's split has equal ones, so each part is a slice.
    pub(super) fn split_v(&mut self) -> Lowered {
        let input = self.input(0)?;
        let dims = self.known_dims(input)?;
        let axis = self.constant_axis(2, dims.len())?;
        let sizes = self.constant_ints(1)?;
        if sizes.len() != self.op.outputs.len()
            || sizes.iter().filter(|&&size| size < 0).count() > 1
        {
            return Err(format!("it splits into parts of {sizes:?}").into());
        }
        let known = sizes.iter().filter(|&&size| size > 0);
        let known = known.fold(0i64, |sum, &size| sum.saturating_add(size));
        let mut at = 0i64;
        for (result, &size) in sizes.iter().enumerate() {
            let size = if size < 0 { i64::from(dims[axis]).saturating_sub(known) } else { size };
            let past = || format!("it splits {dims:?} into parts of {sizes:?}");
            let extent = u32::try_from(size).map_err(|_| past())?;
            let mut part = dims.clone();
            part[axis] = extent;
            let mut begin = vec![0; dims.len()];
            begin[axis] = i32::try_from(at).map_err(|_| past())?;
            at = at.checked_add(size).ok_or_else(past)?;
            let lengths = signed(&part)?;
            let (begin, lengths) = (self.builder().ints(&begin), self.builder().ints(&lengths));
            let output = self.output(result, Some(&part))?;
            self.emit(OperationType::Slice, &[input, begin, lengths], &[output]);
        }
        Ok(())
    }

    pub(super) fn slice(&mut self) -> Lowered {
        let inputs = [self.input(0)?, self.input(1)?, self.input(2)?];
        let output = self.output(0, None)?;
        self.emit(OperationType::Slice, &inputs, &[output]);
        Ok(())
    }

    /// Begin, end and stride of each entry of the file's slice.
    fn slice_bounds(&self) -> Lowered<Vec<[i32; 3]>> {
        let lists = [self.constant_ints(1)?, self.constant_ints(2)?, self.constant_ints(3)?];
        let [begins, ends, strides] = &lists;
        if begins.len() != ends.len() || ends.len() != strides.len() {
            return Err("its bounds are of different lengths".into());
        }
        // What lies beyond 32 bits lies beyond the tensor in either case.
        let clamp = |value: i64| {
            i32::try_from(value).unwrap_or(if value < 0 { i32::MIN } else { i32::MAX })
        };
        let bounds = begins.iter().zip(ends).zip(strides);
        Ok(bounds.map(|((&begin, &end), &stride)| [begin, end, stride].map(clamp)).collect())
    }

    /// The slice with one entry per dimension: the file may give fewer, skip some with an ellipsis
    /// and insert new axes; NNAPI knows neither.
    pub(super) fn slice_plan(&self, dims: &[u32]) -> Lowered<SlicePlan> {
        use options::strided_slice as o;
        let options = self.options(o::KIND)?;
        let mask = |field| options.int(field, 0);
        let (ellipsis, new_axis) = (mask(o::ELLIPSIS_MASK)?, mask(o::NEW_AXIS_MASK)?);
        let (begin_mask, end_mask) = (mask(o::BEGIN_MASK)?, mask(o::END_MASK)?);
        let shrink = mask(o::SHRINK_AXIS_MASK)?;
        let bounds = self.slice_bounds()?;
        if ellipsis.count_ones() > 1 || bounds.len() > 8 || dims.len() > 8 {
            return Err("it has several ellipses or more than 8 dimensions".into());
        }
        let entries = bounds.len();
        let taken = (0..entries).filter(|i| (ellipsis | new_axis) & (1 << i) == 0).count();
        let skipped = dims.len().checked_sub(taken).ok_or("it has more bounds than dimensions")?;
        let mut plan = SlicePlan {
            extents: dims.to_vec(),
            begin: Vec::new(),
            end: Vec::new(),
            strides: Vec::new(),
            begin_mask: 0,
            end_mask: 0,
            shrink_mask: 0,
            new_axes: false,
        };
        for (entry, [begin, end, stride]) in bounds.into_iter().enumerate() {
            let bit = 1 << entry;
            if ellipsis & bit != 0 {
                (0..skipped).for_each(|_| plan.whole());
            } else if new_axis & bit != 0 {
                plan.new_axes = true;
            } else {
                let to = 1 << plan.begin.len();
                let moved = |mask: i32| if mask & bit != 0 { to } else { 0 };
                plan.begin_mask |= moved(begin_mask);
                plan.end_mask |= moved(end_mask);
                plan.shrink_mask |= moved(shrink);
                plan.begin.push(begin);
                plan.end.push(end);
                plan.strides.push(stride);
            }
        }
        while plan.begin.len() < dims.len() {
            plan.whole();
        }
        plan.tidy_shrunk();
        Ok(plan)
    }

    pub(super) fn strided_slice(&mut self) -> Lowered {
        let input = self.input(0)?;
        let dims = self.known_dims(input)?;
        let plan = self.slice_plan(&dims)?;
        let output = self.output(0, None)?;
        let kind = self.kind(input);
        let counts = (0..dims.len()).map(|axis| plan.range(axis).map(|(_, _, count)| count));
        let counts = counts.collect::<Option<Vec<i64>>>().ok_or("its strides are 0")?;
        let extents = counts.iter().map(|&count| u32::try_from(count).unwrap_or(0));
        let extents = extents.collect::<Vec<u32>>();
        if extents.contains(&0) {
            return Err(format!("its result has the shape {extents:?}").into());
        }
        // NNAPI's strided slice takes no integers, its slice does.
        if kind == OperandType::TensorInt32 {
            return self.slice_ints(&plan, input, &extents, output);
        }
        let result = if plan.new_axes {
            let kept = |(axis, &extent): (usize, &u32)| {
                (plan.shrink_mask & (1 << axis) == 0).then_some(extent)
            };
            let mut dims: Vec<u32> = extents.iter().enumerate().filter_map(kept).collect();
            if dims.is_empty() {
                dims.push(1);
            }
            self.builder().like(output, dims)
        } else {
            output
        };
        let mut inputs = vec![input];
        for values in [&plan.begin, &plan.end, &plan.strides] {
            inputs.push(self.builder().ints(values));
        }
        for mask in [plan.begin_mask, plan.end_mask, plan.shrink_mask] {
            inputs.push(self.builder().int(mask));
        }
        self.emit(OperationType::StridedSlice, &inputs, &[result]);
        if result != output {
            self.reshape_into(result, output)?;
        }
        Ok(())
    }

    fn slice_ints(
        &mut self,
        plan: &SlicePlan,
        input: u32,
        extents: &[u32],
        output: u32,
    ) -> Lowered {
        let ranges = (0..extents.len()).filter_map(|axis| plan.range(axis));
        let begins = ranges.clone().map(|(begin, _, _)| i32::try_from(begin).unwrap_or(0));
        let begins = begins.collect::<Vec<i32>>();
        if ranges.into_iter().any(|(_, stride, count)| stride != 1 && count > 1) {
            return Err("NNAPI takes no strided slices of integers".into());
        }
        let sizes = signed(extents)?;
        let (begin, sizes) = (self.builder().ints(&begins), self.builder().ints(&sizes));
        if self.import.builder.dims(output) == extents {
            self.emit(OperationType::Slice, &[input, begin, sizes], &[output]);
            return Ok(());
        }
        let part = self.builder().like(input, extents.to_vec());
        self.emit(OperationType::Slice, &[input, begin, sizes], &[part]);
        self.reshape_into(part, output)
    }

    pub(super) fn pad(&mut self) -> Lowered {
        let inputs = [self.input(0)?, self.input(1)?];
        let output = self.output(0, None)?;
        self.same_quantization(inputs[0], output)?;
        self.emit(OperationType::Pad, &inputs, &[output]);
        Ok(())
    }

    /// The value is a tensor in the file, a scalar in NNAPI; for quantised tensors the stored
    /// integer.
    pub(super) fn pad_v2(&mut self) -> Lowered {
        let (input, paddings) = (self.input(0)?, self.input(1)?);
        let index = self.tensor_index(2)?;
        let tensor = self.tensor(2)?;
        let bytes = self.import.file.data(tensor).filter(|_| self.import.is_constant(index));
        let value = match (tensor.kind, bytes.unwrap_or_default()) {
            (TensorKind::Float32, &[a, b, c, d]) => {
                self.builder().float(f32::from_le_bytes([a, b, c, d]))
            }
            (TensorKind::Uint8, &[byte]) => self.builder().int(i32::from(byte)),
            (TensorKind::Int8, &[byte]) => self.builder().int(i32::from(byte.cast_signed())),
            (kind, _) => return Err(format!("its value is no constant of {}", kind.name()).into()),
        };
        let output = self.output(0, None)?;
        self.same_quantization(input, output)?;
        self.emit(OperationType::PadV2, &[input, paddings, value], &[output]);
        Ok(())
    }

    /// Along each axis that grows, the indexes of what stands there are gathered.
    pub(super) fn mirror_pad(&mut self) -> Lowered {
        use options::mirror_pad as o;
        // REFLECT (0) leaves the border itself out, SYMMETRIC (1) repeats it.
        let skip = i64::from(self.options(o::KIND)?.byte(o::MODE)? == 0);
        let mut value = self.input(0)?;
        let mut dims = self.known_dims(value)?;
        let paddings = self.constant_ints(1)?;
        if paddings.len() != 2 * dims.len() {
            return Err(format!("its paddings are {paddings:?} for {dims:?}").into());
        }
        let output = self.output(0, None)?;
        let grown: Vec<usize> =
            (0..dims.len()).filter(|&axis| paddings[2 * axis..2 * axis + 2] != [0, 0]).collect();
        for &axis in &grown {
            let extent = i64::from(dims[axis]);
            let (before, after) = (paddings[2 * axis], paddings[2 * axis + 1]);
            let most = extent - skip;
            check_index_count(extent)?;
            if !(0..=most).contains(&before) || !(0..=most).contains(&after) {
                return Err(format!("its paddings are {paddings:?} for {dims:?}").into());
            }
            let mirrored = |at: i64| match at {
                at if at < 0 => -at - 1 + skip,
                at if at >= extent => 2 * extent - 1 - skip - at,
                at => at,
            };
            let indexes =
                (-before..extent + after).map(|at| i32::try_from(mirrored(at)).unwrap_or(0));
            let indexes = indexes.collect::<Vec<i32>>();
            dims[axis] = u32::try_from(indexes.len()).map_err(|_| "it grows too large")?;
            let last = grown.last() == Some(&axis);
            let to = if last { output } else { self.builder().like(output, dims.clone()) };
            let indexes = self.builder().ints(&indexes);
            let axis = self.builder().int(int_of(axis)?);
            self.emit(OperationType::Gather, &[value, axis, indexes], &[to]);
            value = to;
        }
        if grown.is_empty() {
            return self.reshape_into(value, output);
        }
        Ok(())
    }

    /// Gathers the last index first.
    pub(super) fn reverse(&mut self) -> Lowered {
        let mut value = self.input(0)?;
        let dims = self.known_dims(value)?;
        let axes = self.constant_ints(1)?;
        let output = self.output(0, Some(&dims))?;
        for (i, &axis) in axes.iter().enumerate() {
            let axis = axis_of(axis, dims.len())?;
            check_index_count(i64::from(dims[axis]))?;
            let extent = int_of(dims[axis] as usize)?;
            let indexes: Vec<i32> = (0..extent).rev().collect();
            let last = i + 1 == axes.len();
            let to = if last { output } else { self.builder().like(output, dims.clone()) };
            let indexes = self.builder().ints(&indexes);
            let axis = self.builder().int(int_of(axis)?);
            self.emit(OperationType::Gather, &[value, axis, indexes], &[to]);
            value = to;
        }
        if axes.is_empty() {
            return self.reshape_into(value, output);
        }
        Ok(())
    }
}

impl SlicePlan {
    /// Returns whether a dimension is dropped.
    pub(super) fn shrinks(&self, axis: usize) -> bool {
        self.shrink_mask & (1 << axis) != 0
    }

    /// One more dimension, all of it.
    fn whole(&mut self) {
        let bit = 1 << self.begin.len();
        self.begin_mask |= bit;
        self.end_mask |= bit;
        self.begin.push(0);
        self.end.push(0);
        self.strides.push(1);
    }

    /// A dimension that is dropped has one element, whatever its end says; NNAPI wants the end to
    /// say so.
    fn tidy_shrunk(&mut self) {
        for axis in 0..self.extents.len() {
            let bit = 1 << axis;
            if self.shrink_mask & bit == 0 {
                continue;
            }
            let begin = self.range(axis).map_or(0, |(begin, _, _)| begin);
            let begin = i32::try_from(begin).unwrap_or(0);
            self.begin[axis] = begin;
            self.end[axis] = begin.saturating_add(1);
            self.strides[axis] = 1;
            self.begin_mask &= !bit;
            self.end_mask &= !bit;
        }
    }
}

/// Extents size what is made of them, so they are looked at first.
fn check_index_count(extent: i64) -> Lowered {
    let most = i64::try_from(MAX_MADE_ELEMENTS).unwrap_or(i64::MAX);
    if extent > most {
        Err(format!("its extent of {extent} is more than {most}").into())
    } else {
        Ok(())
    }
}
