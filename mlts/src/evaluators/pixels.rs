//! Segmentation: classes of pixels.

use crate::num::real;

/// The share of pixels that have the same class; 0 where the pictures differ in size.
pub(crate) fn agreement(actual: &[usize], expected: &[usize]) -> f64 {
    if actual.len() != expected.len() || expected.is_empty() {
        return 0.0;
    }
    let equal = actual.iter().zip(expected).filter(|(got, want)| got == want).count();
    real(equal) / real(expected.len())
}

/// The intersection over union of a class; 1 where neither has it.
pub(crate) fn iou(actual: &[usize], expected: &[usize], class: usize) -> f64 {
    let (mut both, mut either) = (0_usize, 0_usize);
    for (got, want) in actual.iter().zip(expected) {
        let (got, want) = (*got == class, *want == class);
        both += usize::from(got && want);
        either += usize::from(got || want);
    }
    if either == 0 { 1.0 } else { real(both) / real(either) }
}

/// The classes in a picture of one byte to a pixel (a BMP file that is not compressed), row by row
/// from the top; `None` of any other file.
pub(crate) fn mask_classes(file: &[u8]) -> Option<Vec<usize>> {
    let number = |at: usize| {
        let bytes = file.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let is_plain = file.starts_with(b"BM") && number(28)? & 0xffff == 8 && number(30)? == 0;
    if !is_plain {
        return None;
    }
    let start = usize::try_from(number(10)?).ok()?;
    let width = usize::try_from(number(18)?).ok()?;
    let height = i32::from_le_bytes(number(22)?.to_le_bytes());
    let rows = usize::try_from(height.unsigned_abs()).ok()?;
    // Rows are filled up to four bytes, and begin at the bottom unless the height is negative.
    let stride = width.checked_next_multiple_of(4)?;
    let mut classes = Vec::new();
    for row in 0..rows {
        let place = if height < 0 { row } else { rows - 1 - row };
        let at = start.checked_add(place.checked_mul(stride)?)?;
        let line = file.get(at..at.checked_add(width)?)?;
        classes.extend(line.iter().map(|&class| usize::from(class)));
    }
    Some(classes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_pixels() {
        let (a, b) = ([0, 1, 1, 2], [0, 1, 2, 2]);
        assert_eq!(agreement(&a, &b), 0.75);
        assert_eq!(agreement(&a, &b[1..]), 0.0);
        assert_eq!((iou(&a, &b, 1), iou(&a, &b, 0), iou(&a, &b, 9)), (0.5, 1.0, 1.0));
    }

    #[test]
    fn a_mask_is_read_from_the_bottom_up_without_the_filling() {
        let mut file = vec![0; 54];
        file[..2].copy_from_slice(b"BM");
        (file[10], file[18], file[22], file[28]) = (54, 3, 2, 8);
        file.extend([4, 5, 6, 0, 1, 2, 3, 0]);
        assert_eq!(mask_classes(&file), Some(vec![1, 2, 3, 4, 5, 6]));
        file[30] = 1;
        assert_eq!(mask_classes(&file), None, "compressed");
        file[30] = 0;
        assert_eq!(mask_classes(&file[..58]), None, "cut short");
        assert_eq!(mask_classes(b"BM"), None);
    }

    /// The bird of the data against the mask that people drew of it: what its manifest says.
    #[test]
    fn the_bird_overlaps_its_mask_as_the_manifest_says() {
        let Some(folder) = nnburst_conformance::shared_dir("mlts") else { return };
        let mask = std::fs::read(folder.join("pictures/bird_segmentation_mask.bmp")).unwrap();
        let golden =
            std::fs::read(folder.join("deeplabv3_mnv2_dm05_pascal_quant/bird.out0")).unwrap();
        let classes: Vec<_> =
            golden.as_chunks::<4>().0.iter().map(|one| usize::from(one[0])).collect();
        let found = iou(&classes, &mask_classes(&mask).unwrap(), 3);
        assert!((found - 0.8374).abs() < 5e-5, "{found}");
    }
}
