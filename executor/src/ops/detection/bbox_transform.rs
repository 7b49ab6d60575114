//! AXIS_ALIGNED_BBOX_TRANSFORM: regions refined by the deltas of each class.
//!
//! Source: NNAPI, since HAL 1.2; signed 8-bit deltas since 1.3.

use nnburst_kernels::tensor::{OpError, Shape, poll};

use super::boxes::{Corners, in_order, transform};
use super::numbers::Numbers;
use crate::lowering::{Io, Lowered, OpBuilder};
use crate::ops::Op;
use crate::ops::support::plain;

pub(in crate::ops) static AXIS_ALIGNED_BBOX_TRANSFORM: Op = Op { lower };

fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let (rois, deltas, batches, image) = (op.input(0)?, op.input(1)?, op.input(2)?, op.input(3)?);
    let (&[count, 4], &[delta_count, columns]) = (&rois.shape[..], &deltas.shape[..]) else {
        let what = format!("regions of {:?}, deltas of {:?}", rois.shape, deltas.shape);
        return Err(OpError::rule(what).into());
    };
    let &[images, 2] = &image.shape[..] else {
        return Err(OpError::input(3, format!("is of {:?}, not [images, 2]", image.shape)).into());
    };
    if delta_count != count || columns % 4 != 0 || batches.shape[..] != [count] {
        let what = format!(
            "{count} regions, deltas of {:?}, indexes of {:?}",
            deltas.shape, batches.shape
        );
        return Err(OpError::rule(what).into());
    }
    let classes = columns / 4;
    let numbers = [Numbers::of(0, &rois)?, Numbers::of(1, &deltas)?, Numbers::of(3, &image)?];
    op.set_output(0, Shape::new([count, columns])?)?;
    let out = Numbers::of(0, &op.output(0)?)?;
    op.emit(plain("bbox_transform", &deltas.shape, 0), move |io: Io<'_>| {
        let [rois, deltas, image] = numbers;
        for region in poll::each(0..count, 32) {
            let batch = image_index(io.input::<i32>(2).get(region), images)?;
            let four = |from: Numbers, input: usize, at: usize| -> Corners {
                std::array::from_fn(|k| from.get(io.input_bytes(input), at + k))
            };
            let corners = four(rois, 0, region * 4);
            if !in_order(corners) {
                return Err(format!("region {region} is {corners:?}, its corners out of order"));
            }
            let height = image.get(io.input_bytes(3), batch * 2);
            let width = image.get(io.input_bytes(3), batch * 2 + 1);
            for class in poll::each(0..classes, 100) {
                let at = (region * classes + class) * 4;
                let moved = transform(corners, four(deltas, 1, at), height, width);
                for (k, value) in moved.into_iter().enumerate() {
                    out.set(io.output_bytes(0), at + k, value);
                }
            }
        }
        Ok(())
    });
    Ok(())
}

/// An image's number, checked against how many there are.
pub(super) fn image_index(index: i32, images: usize) -> Result<usize, String> {
    let checked = usize::try_from(index).ok().filter(|&index| index < images);
    checked.ok_or_else(|| format!("batch index {index} of {images} images"))
}
