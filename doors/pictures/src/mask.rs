//! Segmentation: the class of each pixel.

use nnburst::hal::OperandType;
use nnburst_tflite::TensorInfo;

use crate::tensor::OutputTensor;

/// The class of each pixel of a picture, row by row. Classes above 255 count as 255.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mask {
    /// Its columns.
    pub width: u32,
    /// Its rows.
    pub height: u32,
    /// A class for each pixel.
    pub classes: Vec<u8>,
}

impl Mask {
    /// The classes that there are, with the share of pixels that each has, largest first.
    pub fn shares(&self) -> Vec<(usize, f64)> {
        let mut counts = [0u32; 256];
        for &class in &self.classes {
            counts[usize::from(class)] += 1;
        }
        let all = f64::from(self.width) * f64::from(self.height);
        let mut shares: Vec<_> = counts
            .into_iter()
            .enumerate()
            .filter(|(_, count)| *count > 0)
            .map(|(class, count)| (class, f64::from(count) / all))
            .collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        shares
    }
}

/// The shape of an output that masks are made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MaskShape {
    width: u32,
    height: u32,
    /// Scores of a pixel; 1 where there is its class already.
    classes: usize,
}

impl MaskShape {
    pub(crate) fn of(outputs: &[TensorInfo]) -> Option<Self> {
        let [output] = outputs else { return None };
        let is_integer = output.kind == OperandType::TensorInt32;
        let (height, width, classes) = match *output.dims.as_slice() {
            [1, height, width] | [1, height, width, 1] if is_integer => (height, width, 1),
            [1, height, width, classes] if !is_integer && classes >= 2 => (height, width, classes),
            _ => return None,
        };
        let classes = usize::try_from(classes).ok()?;
        (width > 1 && height > 1).then_some(Self { width, height, classes })
    }

    /// The best class of each pixel; of equals the lowest.
    pub(crate) fn decode(self, output: &OutputTensor<'_>) -> Mask {
        let Self { width, height, classes } = self;
        let best: Vec<u8> = match output.kind() {
            _ if classes == 1 => {
                let values = output.bytes().as_chunks::<4>().0.iter();
                values.map(|b| narrow(i32::from_le_bytes(*b))).collect()
            }
            // Stored values are in the order of the real ones, as scales are positive.
            OperandType::TensorQuant8Asymm => best_of(output.bytes(), classes, |a, b| a > b),
            OperandType::TensorQuant8AsymmSigned => {
                best_of(output.bytes(), classes, |a, b| a.cast_signed() > b.cast_signed())
            }
            _ => best_of(&output.values(), classes, |a, b| a > b),
        };
        Mask { width, height, classes: best }
    }
}

fn best_of<T: Copy>(scores: &[T], classes: usize, is_better: impl Fn(T, T) -> bool) -> Vec<u8> {
    let best = |scores: &[T]| {
        let mut best = 0;
        for (class, &score) in scores.iter().enumerate() {
            if is_better(score, scores[best]) {
                best = class;
            }
        }
        u8::try_from(best).unwrap_or(u8::MAX)
    };
    scores.chunks_exact(classes).map(best).collect()
}

fn narrow(class: i32) -> u8 {
    u8::try_from(class.max(0)).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::tests::output;

    #[test]
    fn each_pixel_has_its_best_class() {
        let info = output(OperandType::TensorQuant8AsymmSigned, &[1, 2, 2, 2]);
        let layout = MaskShape::of(std::slice::from_ref(&info)).unwrap();
        let scores = [-1i8, 1, 5, 4, 7, 7, -128, 127].map(i8::cast_unsigned);
        let mask = layout.decode(&OutputTensor::new(&info, &scores));
        assert_eq!((mask.width, mask.height, mask.classes.as_slice()), (2, 2, &[1, 0, 0, 1][..]));
        assert_eq!(mask.shares(), [(0, 0.5), (1, 0.5)]);
    }

    #[test]
    fn classes_that_the_model_chose_are_kept() {
        let info = output(OperandType::TensorInt32, &[1, 2, 2]);
        let layout = MaskShape::of(std::slice::from_ref(&info)).unwrap();
        let classes: Vec<u8> =
            [3, -4, 1000, 3].iter().flat_map(|c: &i32| c.to_le_bytes()).collect();
        let mask = layout.decode(&OutputTensor::new(&info, &classes));
        assert_eq!(mask.classes, [3, 0, 255, 3]);
        assert_eq!(mask.shares()[0], (3, 0.5));
    }
}
