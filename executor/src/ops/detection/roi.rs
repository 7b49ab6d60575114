//! The common parts of ROI_ALIGN and ROI_POOLING: operands, and regions brought to the feature
//! map's scale.

use nnburst_kernels::tensor::{OpError, Tensor};

use super::bbox_transform::image_index;
use super::boxes::{Corners, in_order};
use super::numbers::Numbers;
use crate::lowering::{Io, Lowered, OpBuilder};
use crate::ops::support::Image;

/// The operands both operations start with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Regions {
    pub(super) features: Image,
    pub(super) out: Image,
    rois: Numbers,
    stride_h: f32,
    stride_w: f32,
}

impl Regions {
    /// Lines of the output, those of all regions.
    pub(super) fn lines(&self) -> usize {
        self.out.batches * self.out.height
    }

    /// Reads inputs 0 to 6 and the layout flag; states the output's shape.
    pub(super) fn read(op: &mut OpBuilder<'_>, features: &Tensor, layout: usize) -> Lowered<Self> {
        let nchw = op.bool(layout)?;
        let image = Image::of(0, &features.shape, nchw)?;
        let (rois, batches) = (op.input(1)?, op.input(2)?);
        let &[count, 4] = &rois.shape[..] else {
            return Err(
                OpError::input(1, format!("is of {:?}, not [regions, 4]", rois.shape)).into()
            );
        };
        if batches.shape[..] != [count] {
            let what = format!("is of {:?} for {count} regions", batches.shape);
            return Err(OpError::input(2, what).into());
        }
        let (height, width) = (op.extent(3, 1)?, op.extent(4, 1)?);
        let stride = |index: usize| -> Lowered<f32> {
            let stride = op.f32(index)?;
            if stride > 0.0 {
                Ok(stride)
            } else {
                Err(OpError::input(index, format!("is a stride of {stride}")).into())
            }
        };
        let (stride_h, stride_w) = (stride(5)?, stride(6)?);
        let out = Image::new([count, height, width, image.channels], nchw);
        op.set_output(0, out.shape()?)?;
        Ok(Self { features: image, out, rois: Numbers::of(1, &rois)?, stride_h, stride_w })
    }

    /// A region's image and its corners in the feature map's pixels.
    ///
    /// # Errors
    /// The index, the order or the place of the corners is out of bounds.
    pub(super) fn region(&self, io: &Io<'_>, region: usize) -> Result<(usize, Corners), String> {
        let batch = image_index(io.input::<i32>(2).get(region), self.features.batches)?;
        let corner = |k: usize| self.rois.get(io.input_bytes(1), region * 4 + k);
        let [x1, y1, x2, y2]: Corners = std::array::from_fn(corner);
        let (scale_x, scale_y) = (1.0 / self.stride_w, 1.0 / self.stride_h);
        let corners = [x1 * scale_x, y1 * scale_y, x2 * scale_x, y2 * scale_y];
        #[expect(clippy::cast_precision_loss, reason = "extents of a feature map")]
        let (height, width) = (self.features.height as f32, self.features.width as f32);
        let [x1, y1, x2, y2] = corners;
        let inside = x1 >= 0.0 && y1 >= 0.0 && x2 <= width && y2 <= height;
        if inside && in_order(corners) {
            Ok((batch, corners))
        } else {
            Err(format!("region {region} is {corners:?} on a feature map of {height} x {width}"))
        }
    }
}
