//! HEATMAP_MAX_KEYPOINT: the peak of each heatmap, refined within its pixel by a quadratic fit.
//!
//! Source: NNAPI, since HAL 1.2; signed 8-bit heatmaps since 1.3.

use nnburst_hal::{OperandType, View};
use nnburst_kernels::tensor::{OpError, Shape, poll};

use super::boxes::{Corners, in_order};
use super::numbers::Numbers;
use crate::lowering::{Io, Lowered, OpBuilder};
use crate::ops::Op;
use crate::ops::support::{Image, plain};

pub(in crate::ops) static HEATMAP_MAX_KEYPOINT: Op = Op { lower };

fn lower(op: &mut OpBuilder<'_>) -> Lowered {
    let (heatmap, boxes) = (op.input(0)?, op.input(1)?);
    let image = Image::of(0, &heatmap.shape, op.bool(2)?)?;
    let (count, size, keypoints) = (image.batches, image.height, image.channels);
    if image.width != size || size < 2 {
        let what = format!("is of {:?}, not square of at least 2", heatmap.shape);
        return Err(OpError::input(0, what).into());
    }
    if boxes.shape[..] != [count, 4] {
        let what = format!("is of {:?} for {count} heatmaps", boxes.shape);
        return Err(OpError::input(1, what).into());
    }
    op.set_output(0, Shape::new([count, keypoints])?)?;
    op.set_output(1, Shape::new([count, keypoints, 2])?)?;
    let (map_numbers, box_numbers) = (Numbers::of(0, &heatmap)?, Numbers::of(1, &boxes)?);
    let out = [Numbers::of(0, &op.output(0)?)?, Numbers::of(1, &op.output(1)?)?];
    let epsilon = if heatmap.kind == OperandType::TensorFloat16 { 1e-3 } else { 1e-5 };
    op.emit(plain("heatmap_max_keypoint", &heatmap.shape, 0), move |io: Io<'_>| {
        for map in poll::each(0..count, 32) {
            let corner = |k: usize| box_numbers.get(io.input_bytes(1), map * 4 + k);
            let [x1, y1, x2, y2]: Corners = std::array::from_fn(corner);
            if !in_order([x1, y1, x2, y2]) {
                return Err(format!(
                    "box {map} is {:?}, its corners out of order",
                    [x1, y1, x2, y2]
                ));
            }
            for keypoint in poll::each(0..keypoints, 200) {
                let heat =
                    Heat { image, map, keypoint, numbers: map_numbers, bytes: io.input_bytes(0) };
                let peak = heat.peak(epsilon);
                let at = map * keypoints + keypoint;
                #[expect(clippy::cast_precision_loss, reason = "a heatmap's extent")]
                let size = size as f32;
                out[0].set(io.output_bytes(0), at, peak.score);
                let x = (peak.x + 0.5) / size * (x2 - x1) + x1;
                let y = (peak.y + 0.5) / size * (y2 - y1) + y1;
                out[1].set(io.output_bytes(1), at * 2, x);
                out[1].set(io.output_bytes(1), at * 2 + 1, y);
            }
        }
        Ok(())
    });
    Ok(())
}

/// One heatmap.
struct Heat<'a> {
    image: Image,
    map: usize,
    keypoint: usize,
    numbers: Numbers,
    bytes: View<'a>,
}

struct Peak {
    score: f32,
    x: f32,
    y: f32,
}

impl Heat<'_> {
    fn at(&self, y: usize, x: usize) -> f32 {
        self.numbers.get(self.bytes, self.image.at(self.map, y, x, self.keypoint))
    }

    #[expect(clippy::cast_precision_loss, reason = "positions in a heatmap")]
    fn peak(&self, epsilon: f32) -> Peak {
        let size = self.image.height;
        let (mut best, mut py, mut px) = (self.at(0, 0), 0, 0);
        for y in poll::each(0..size, 4) {
            for x in poll::each(0..size, 4) {
                if self.at(y, x) > best {
                    (best, py, px) = (self.at(y, x), y, x);
                }
            }
        }
        // The neighbourhood, mirrored at the edges.
        let near = |position: usize, offset: usize| match (position + offset).checked_sub(1) {
            None => 1,
            Some(at) if at >= size => size - 2,
            Some(at) => at,
        };
        let g: [[f32; 3]; 3] =
            std::array::from_fn(|dy| std::array::from_fn(|dx| self.at(near(py, dy), near(px, dx))));
        let (dx, dy, score) = fit(&g, epsilon);
        Peak { score, x: px as f32 + dx, y: py as f32 + dy }
    }
}

/// Where the quadratic through the neighbourhood peaks, from the middle of it, and how high.
fn fit(g: &[[f32; 3]; 3], epsilon: f32) -> (f32, f32, f32) {
    let bx = -(g[1][2] - g[1][0]) / 2.0;
    let by = -(g[2][1] - g[0][1]) / 2.0;
    let axx = g[1][0] - 2.0 * g[1][1] + g[1][2];
    let ayy = g[0][1] - 2.0 * g[1][1] + g[2][1];
    let axy = (g[2][2] - g[2][0] - g[0][2] + g[0][0]) / 4.0;
    let determinant = axx * ayy - axy * axy;
    if determinant.abs() < epsilon + epsilon * (axx * ayy) {
        return (0.0, 0.0, g[1][1]);
    }
    let (mut dx, mut dy) =
        ((ayy * bx - axy * by) / determinant, (axx * by - axy * bx) / determinant);
    let far = dx.abs().max(dy.abs());
    if far > 1.5 {
        (dx, dy) = (dx * 1.5 / far, dy * 1.5 / far);
    }
    let curve = (axx * dx + axy * dy) * dx + (axy * dx + ayy * dy) * dy;
    (dx, dy, g[1][1] - bx * dx - by * dy + curve / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_neighbourhood_keeps_its_middle() {
        assert_eq!(fit(&[[1.0; 3]; 3], 1e-5), (0.0, 0.0, 1.0));
    }

    #[test]
    fn the_peak_of_a_parabola_is_found() {
        let height = |x: f32, y: f32| 2.0 - (x - 0.25).powi(2) - (y + 0.5).powi(2);
        let g = [-1.0, 0.0, 1.0].map(|y| [-1.0, 0.0, 1.0].map(|x| height(x, y)));
        let (dx, dy, score) = fit(&g, 1e-5);
        assert!((dx - 0.25).abs() < 1e-6 && (dy + 0.5).abs() < 1e-6 && (score - 2.0).abs() < 1e-6);
    }
}
