//! Bilinear resampling as Pillow does it: a triangle filter as wide as the reduction, so that
//! nothing of the picture is skipped, in two passes of integers.
//!
//! The coefficients have 22 fractional bits and each pass rounds to whole steps, so their order
//! shows: rows come first, but for pictures that lose more than twice as many lines as columns.
//! With that, results equal those of Pillow 13's `resize(.., BILINEAR)` bit for bit; the order was
//! found by comparing.

use super::Picture;

/// `picture` at another size.
pub(super) fn resize(picture: &Picture, width: usize, height: usize) -> Picture {
    let lost_lines = picture.height.saturating_sub(height);
    // Negative where the picture gets wider: then any loss of lines is enough.
    let columns_first = lost_lines > 0 && picture.height + 2 * width > height + 2 * picture.width;
    if columns_first {
        resize_rows(&resize_columns(picture, height), width)
    } else {
        resize_columns(&resize_rows(picture, width), height)
    }
}

const PRECISION_BITS: u32 = 32 - 8 - 2;
const CHANNELS: usize = 3;

/// The samples that make up one of the result, with their weights.
#[derive(Debug)]
struct Window {
    first: usize,
    weights: Vec<i64>,
}

fn resize_rows(picture: &Picture, width: usize) -> Picture {
    if width == picture.width {
        return picture.clone();
    }
    let windows = windows(picture.width, width);
    let mut pixels = Vec::with_capacity(width * picture.height * CHANNELS);
    for row in picture.pixels.chunks_exact(picture.width * CHANNELS) {
        for window in &windows {
            for channel in 0..CHANNELS {
                let samples = row.iter().skip(window.first * CHANNELS + channel).step_by(CHANNELS);
                pixels.push(weighted(window, samples));
            }
        }
    }
    Picture { width, height: picture.height, pixels }
}

fn resize_columns(picture: &Picture, height: usize) -> Picture {
    if height == picture.height {
        return picture.clone();
    }
    let row_bytes = picture.width * CHANNELS;
    let mut pixels = Vec::with_capacity(row_bytes * height);
    for window in windows(picture.height, height) {
        for column in 0..row_bytes {
            let samples =
                picture.pixels.iter().skip(window.first * row_bytes + column).step_by(row_bytes);
            pixels.push(weighted(&window, samples));
        }
    }
    Picture { width: picture.width, height, pixels }
}

fn weighted<'a>(window: &Window, samples: impl Iterator<Item = &'a u8>) -> u8 {
    let half = 1 << (PRECISION_BITS - 1);
    let sum = window
        .weights
        .iter()
        .zip(samples)
        .fold(half, |sum, (&weight, &sample)| sum + weight * i64::from(sample));
    u8::try_from((sum >> PRECISION_BITS).clamp(0, 255)).unwrap_or(0)
}

/// One window per sample of the result.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the rule is defined in doubles truncated to integers; picture sizes fit both"
)]
fn windows(from: usize, to: usize) -> Vec<Window> {
    let scale = from as f64 / to as f64;
    // Enlarging interpolates between neighbours, reducing averages over all that is covered.
    let support = scale.max(1.0);
    let window = |at: usize| {
        let center = (at as f64 + 0.5) * scale;
        let first = (center - support + 0.5).max(0.0) as usize;
        let end = ((center + support + 0.5) as usize).min(from);
        let triangle =
            |x: usize| (1.0 - ((x as f64 - center + 0.5) * (1.0 / support)).abs()).max(0.0);
        let total: f64 = (first..end).map(triangle).sum();
        let one = f64::from(1u32 << PRECISION_BITS);
        let weight = |x| (triangle(x) / total * one + 0.5) as i64;
        Window { first, weights: (first..end).map(weight).collect() }
    };
    (0..to).map(window).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(samples: &[u8]) -> Picture {
        Picture {
            width: samples.len(),
            height: 1,
            pixels: samples.iter().flat_map(|&sample| [sample; 3]).collect(),
        }
    }

    #[test]
    fn known_rows_come_out_as_pillow_makes_them() {
        struct Case {
            what: &'static str,
            from: &'static [u8],
            want: &'static [u8],
        }
        let cases = [
            Case { what: "the same size", from: &[1, 2, 3], want: &[1, 2, 3] },
            Case { what: "halved", from: &[0, 0, 255, 255], want: &[36, 219] },
            Case { what: "doubled", from: &[0, 100], want: &[0, 25, 75, 100] },
            Case {
                what: "seven to three",
                from: &[9, 200, 30, 77, 255, 1, 128],
                want: &[95, 111, 101],
            },
        ];
        for Case { what, from, want } in cases {
            let resized = resize(&row(from), want.len(), 1);
            let got: Vec<_> = resized.pixels.iter().step_by(3).copied().collect();
            assert_eq!(got, want, "{what}");
        }
    }

    #[test]
    fn pictures_that_lose_many_lines_lose_them_first() {
        let resized = |width, height| {
            let samples =
                (0..height).flat_map(|y| (0..width).map(move |x| (x * 37 + y * 91) % 256));
            let pixels =
                samples.flat_map(|sample: usize| [u8::try_from(sample).unwrap(); 3]).collect();
            let picture = resize(&Picture { width, height, pixels }, 3, 3);
            picture.pixels.iter().step_by(3).copied().collect::<Vec<_>>()
        };
        assert_eq!(resized(4, 8), [91, 106, 120, 116, 118, 120, 116, 131, 145], "lines first");
        assert_eq!(resized(8, 4), [68, 143, 123, 137, 117, 109, 83, 122, 156], "columns first");
    }
}
