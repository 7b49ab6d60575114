//! STABLEHLO_GATHER and STABLEHLO_SCATTER: windows of a tensor at places that indices give, by
//! lists of the dimensions that mean one or the other.

use half::f16;
use nnburst_kernels::tensor::{OpError, Shape, poll};

use super::arg::{Arg, ElementKind, OperatorCall, by_kind, sizes};
use super::combine::{Combination, Fold, fold_behind};
use super::index::{check_index_kind, index_at};
use crate::lowering::{Io, Lowered};

/// A list of dimensions below `rank`, none of them twice; empty where it is left out.
fn dimensions(call: &OperatorCall<'_, '_>, index: usize, rank: usize) -> Lowered<Vec<usize>> {
    let list = if call.has(index) { call.ints(index)? } else { Vec::new() };
    let mut dimensions = Vec::new();
    for axis in sizes(&list)? {
        if axis >= rank || dimensions.contains(&axis) {
            return Err(OpError::input(index, format!("is {list:?} of {rank}")).into());
        }
        dimensions.push(axis);
    }
    Ok(dimensions)
}

/// The dimensions below `rank` that are not in a list.
fn others(rank: usize, list: &[usize]) -> Vec<usize> {
    (0..rank).filter(|axis| !list.contains(axis)).collect()
}

/// Positions among indices: each is read along one dimension.
#[derive(Debug)]
struct Positions {
    input: usize,
    kind: ElementKind,
    /// Strides of the dimensions that count the positions.
    strides: Vec<usize>,
    extents: Vec<usize>,
    /// From one entry of a position to the next, and the tensor's dimension that each is for.
    stride: usize,
    axes: Vec<usize>,
}

impl Positions {
    /// `axes` are the dimensions of the tensor that entries along `dimension` stand for.
    fn new(
        input: usize,
        indices: &Arg,
        dimension: usize,
        axes: Vec<usize>,
    ) -> Result<Self, OpError> {
        check_index_kind(input, indices.kind)?;
        let rank = indices.shape.rank();
        let entries = match indices.shape.get(dimension) {
            Some(&entries) => entries,
            None if dimension == rank => 1, // each index is a position
            None => return Err(OpError::rule(format!("no dimension {dimension} of {rank}"))),
        };
        if entries != axes.len() {
            return Err(OpError::rule(format!("{entries} indices for {} dimensions", axes.len())));
        }
        let strides = indices.shape.strides();
        let counting = others(rank, &[dimension]);
        Ok(Self {
            input,
            kind: indices.kind,
            strides: counting.iter().map(|&axis| strides[axis]).collect(),
            extents: counting.iter().map(|&axis| indices.shape[axis]).collect(),
            stride: strides.get(dimension).copied().unwrap_or(1),
            axes,
        })
    }

    /// Entry `entry` of the position that these numbers count.
    fn entry(&self, io: &Io<'_>, count: &[usize], entry: usize) -> i64 {
        let place: usize = count.iter().zip(&self.strides).map(|(at, stride)| at * stride).sum();
        index_at(io, self.input, self.kind, place + entry * self.stride)
    }
}

/// The place of element `at` of a shape along each dimension.
fn unravel(mut at: usize, extents: &[usize], places: &mut [usize]) {
    for (place, &extent) in places.iter_mut().zip(extents).rev() {
        *place = at % extent.max(1);
        at /= extent.max(1);
    }
}

/// The most dimensions of a tensor here.
const MOST_RANK: usize = 16;

fn check_rank(shape: &Shape) -> Result<(), OpError> {
    match shape.rank() > MOST_RANK {
        true => Err(OpError::rule(format!("{} dimensions", shape.rank()))),
        false => Ok(()),
    }
}

/// STABLEHLO_GATHER: tensor and positions; dimensions of the result that are a window's, those of
/// a window that fall away, the tensor's that positions are for, and a window's sizes. Windows that
/// would reach beyond the tensor begin earlier.
pub(super) fn gather(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, indices) = (call.arg(0)?, call.arg(1)?);
    call.same(&input, 0)?;
    let rank = input.shape.rank();
    let (dimension, axes) = (call.count(0, 0)?, dimensions(call, 4, rank)?);
    let positions = Positions::new(1, &indices, dimension, axes)?;
    let gone = dimensions(call, 3, rank)?;
    let window = sizes(&if call.has(5) { call.ints(5)? } else { Vec::new() })?;
    let kept = others(rank, &gone);
    let result_rank = positions.extents.len() + kept.len();
    let offsets = dimensions(call, 2, result_rank)?;
    let fits = window.len() == rank
        && offsets.len() == kept.len()
        && offsets.is_sorted()
        && window.iter().zip(input.shape.iter()).all(|(size, extent)| size <= extent)
        && gone.iter().all(|&axis| window[axis] == 1);
    if !fits {
        return Err(OpError::rule(format!("windows of {window:?} in {:?}", input.shape)).into());
    }
    let counting = others(result_rank, &offsets);
    let mut extents = vec![0; result_rank];
    counting.iter().zip(&positions.extents).for_each(|(&axis, &count)| extents[axis] = count);
    offsets.iter().zip(&kept).for_each(|(&axis, &own)| extents[axis] = window[own]);
    let shape = call.set(0, &extents)?;
    check_rank(&shape)?;
    check_rank(&input.shape)?;
    let (strides, width) = (input.shape.strides(), input.kind.bytes());
    call.step(&shape, move |io| {
        let (from, to) = (io.input::<u8>(0), io.output::<u8>(0));
        let mut places = [0; MOST_RANK];
        let mut count = [0; MOST_RANK];
        for at in poll::each(0..to.len() / width, 10 * (result_rank + 2)) {
            unravel(at, &extents, &mut places[..result_rank]);
            for (count, &axis) in count.iter_mut().zip(&counting) {
                *count = places[axis];
            }
            let mut source = 0;
            for (entry, &axis) in positions.axes.iter().enumerate() {
                let most = input.shape[axis] - window[axis];
                let index = positions.entry(&io, &count[..counting.len()], entry);
                let start = usize::try_from(index.max(0)).unwrap_or(usize::MAX).min(most);
                source += start * strides[axis];
            }
            for (&axis, &own) in offsets.iter().zip(&kept) {
                source += places[axis] * strides[own];
            }
            let element = from.slice(source * width..(source + 1) * width);
            to.slice(at * width..(at + 1) * width).copy_from(element);
        }
        Ok(())
    });
    Ok(())
}

/// STABLEHLO_SCATTER: tensor, positions and updates, each combined with what is there, one after
/// another; dimensions of the updates that are a window's, those of the tensor that a window has
/// not, and those that positions are for. What lies beyond the tensor is left out.
pub(super) fn scatter(call: &mut OperatorCall<'_, '_>) -> Lowered {
    let (input, indices, updates) = (call.arg(0)?, call.arg(1)?, call.arg(2)?);
    input.same_kind(&updates)?;
    call.same(&input, 0)?;
    let (rank, own) = (input.shape.rank(), updates.shape.rank());
    let (dimension, axes) = (call.count(0, 0)?, dimensions(call, 5, rank)?);
    let how = Combination::of(call.int(1)?)?;
    let positions = Positions::new(1, &indices, dimension, axes)?;
    let (window, gone) = (dimensions(call, 3, own)?, dimensions(call, 4, rank)?);
    let (counting, kept) = (others(own, &window), others(rank, &gone));
    let counted: Vec<usize> = counting.iter().map(|&axis| updates.shape[axis]).collect();
    if kept.len() != window.len() || counted != positions.extents {
        let what = format!("updates of {:?} for {:?}", updates.shape, indices.shape);
        return Err(OpError::rule(what).into());
    }
    check_rank(&input.shape)?;
    check_rank(&updates.shape)?;
    let extents = input.shape.to_vec();
    let shape = call.set(0, &extents)?;
    let own = updates.shape.to_vec();
    let fold: Fold = by_kind!(
        input.kind,
        [F16 f16, F32 f32, F64 f64, I8 i8, U8 u8, I16 i16, U16 u16, I32 i32, U32 u32, I64 i64, U64 u64],
        T => fold_behind::<T>
    );
    let bytes = input.kind.bytes();
    let plan = Updates { positions, window, counting, kept, extents, own, how, fold, bytes };
    call.step(&shape, move |io| {
        io.output::<u8>(0).copy_from(io.input(0));
        plan.run(&io)
    });
    Ok(())
}

/// The places that updates go to.
struct Updates {
    positions: Positions,
    /// The updates' dimensions that are a window's, and those that count positions.
    window: Vec<usize>,
    counting: Vec<usize>,
    /// The tensor's dimensions that a window has.
    kept: Vec<usize>,
    /// The extents of the tensor, and of the updates.
    extents: Vec<usize>,
    own: Vec<usize>,
    how: Combination,
    fold: Fold,
    /// Bytes of an element.
    bytes: usize,
}

impl Updates {
    fn run(&self, io: &Io<'_>) -> Result<(), String> {
        let (from, to) = (io.input::<u8>(2), io.output::<u8>(0));
        let (mut places, mut count) = ([0; MOST_RANK], [0; MOST_RANK]);
        let element = |at: usize| at * self.bytes..(at + 1) * self.bytes;
        for at in poll::each(0..from.len() / self.bytes, 10 * (self.own.len() + 2)) {
            unravel(at, &self.own, &mut places[..self.own.len()]);
            for (count, &axis) in count.iter_mut().zip(&self.counting) {
                *count = places[axis];
            }
            let mut goal = [0i64; MOST_RANK];
            for (entry, &axis) in self.positions.axes.iter().enumerate() {
                goal[axis] = self.positions.entry(io, &count[..self.counting.len()], entry);
            }
            for (&axis, &own) in self.kept.iter().zip(&self.window) {
                let offset = i64::try_from(places[own]).unwrap_or(i64::MAX);
                goal[axis] = goal[axis].saturating_add(offset);
            }
            let place = self.extents.iter().zip(goal).try_fold(0, |place, (&extent, index)| {
                let index = usize::try_from(index).ok().filter(|&index| index < extent)?;
                Some(place * extent + index)
            });
            if let Some(place) = place {
                (self.fold)(self.how, from.slice(element(at)), to.slice(element(place)));
            }
        }
        Ok(())
    }
}
