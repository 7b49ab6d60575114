//! From pixels to the values that a model takes.

use nnburst::f16;
use nnburst::hal::{OperandType, ViewMut};

use crate::model::{ModelError, PictureInput};

/// The real values that pixels stand for: a pixel `p` of channel `c` is `(p - mean[c]) * scale[c]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalisation {
    mean: [f32; 3],
    scale: [f32; 3],
}

impl Normalisation {
    /// Pixels stand for -1 to 1, as `nnburst run` has it.
    const SIGNED: Self = Self { mean: [127.5; 3], scale: [1.0 / 127.5; 3] };

    /// The normalisation of the properties `mean`, `scale` and `ranges`; `None` where none is set.
    ///
    /// # Errors
    /// [`ModelError::Property`] for values that are no numbers.
    pub fn parse(
        mean: Option<&str>,
        scale: Option<&str>,
        ranges: Option<&str>,
    ) -> Result<Option<Self>, ModelError> {
        if let Some(ranges) = ranges {
            return Self::from_ranges(ranges).map(Some);
        }
        if mean.is_none() && scale.is_none() {
            return Ok(None);
        }
        let values = |property, value: Option<&str>, default| match value {
            None => Ok([default; 3]),
            Some(value) => per_channel(value, ',').ok_or_else(|| ModelError::Property {
                property,
                value: value.to_owned(),
                expected: "a number, or three with commas between them",
            }),
        };
        Ok(Some(Self { mean: values("mean", mean, 0.0)?, scale: values("scale", scale, 1.0)? }))
    }

    /// `LOW,HIGH` for all channels, or three of them with semicolons between: the values of a pixel
    /// of 0 and of 255.
    fn from_ranges(ranges: &str) -> Result<Self, ModelError> {
        let error = || ModelError::Property {
            property: "ranges",
            value: ranges.to_owned(),
            expected: "LOW,HIGH, or three of them with semicolons between",
        };
        let range = |text: &str| {
            let (low, high) = text.split_once(',')?;
            Some((number(low)?, number(high)?)).filter(|(low, high)| low != high)
        };
        let parsed: Option<Vec<_>> = ranges.split(';').map(range).collect();
        let all = match parsed.as_deref() {
            Some(&[one]) => [one; 3],
            Some(&[red, green, blue]) => [red, green, blue],
            _ => return Err(error()),
        };
        let scale = all.map(|(low, high)| (high - low) / 255.0);
        let mean = std::array::from_fn(|channel| -all[channel].0 / scale[channel]);
        Ok(Self { mean, scale })
    }

    fn real(&self, pixel: u8, channel: usize) -> f32 {
        (f32::from(pixel) - self.mean[channel]) * self.scale[channel]
    }
}

fn number(text: &str) -> Option<f32> {
    text.trim().parse().ok().filter(|value: &f32| value.is_finite())
}

fn per_channel(text: &str, separator: char) -> Option<[f32; 3]> {
    let values: Option<Vec<_>> = text.split(separator).map(number).collect();
    match *values.as_deref()? {
        [one] => Some([one; 3]),
        [red, green, blue] => Some([red, green, blue]),
        _ => None,
    }
}

/// The values of a model's input for each value of a pixel.
#[derive(Clone, Debug)]
pub enum PixelTables {
    /// The input takes pixels as they are.
    Same,
    /// Bytes of the input for each channel and pixel.
    Quantised(Box<[[u8; 256]; 3]>),
    /// Values of a FLOAT16 input for each channel and pixel.
    Half(Box<[[f16; 256]; 3]>),
    /// Values of a FLOAT32 input for each channel and pixel.
    Float(Box<[[f32; 256]; 3]>),
}

impl PixelTables {
    /// The values for an input. Where no normalisation is given, pixels of a quantised input are
    /// its stored values (less 128 where those are signed), and of others -1 to 1.
    pub fn of(input: &PictureInput, normalisation: Option<Normalisation>) -> Self {
        match (input.kind, normalisation) {
            (OperandType::TensorQuant8Asymm, None) => Self::Same,
            (OperandType::TensorQuant8AsymmSigned, None) => {
                Self::Quantised(table(|pixel, _| pixel ^ 0x80))
            }
            (OperandType::TensorQuant8Asymm, Some(normalisation)) => {
                Self::Quantised(table(|pixel, channel| {
                    stored(normalisation.real(pixel, channel), input, 0)
                }))
            }
            (OperandType::TensorQuant8AsymmSigned, Some(normalisation)) => {
                Self::Quantised(table(|pixel, channel| {
                    stored(normalisation.real(pixel, channel), input, 128) ^ 0x80
                }))
            }
            (OperandType::TensorFloat16, given) => {
                let normalisation = given.unwrap_or(Normalisation::SIGNED);
                Self::Half(table(|p, channel| f16::from_f32(normalisation.real(p, channel))))
            }
            (_, None) => Self::Float(table(|pixel, _| f32::from(pixel) / 127.5 - 1.0)),
            (_, Some(normalisation)) => {
                Self::Float(table(|pixel, channel| normalisation.real(pixel, channel)))
            }
        }
    }

    /// Returns whether a model can read pixels where they lie.
    pub fn are_same(&self) -> bool {
        matches!(self, Self::Same)
    }

    /// Writes rows of pixels as a model's input. `stride` is the distance between rows of `plane`
    /// in bytes; `None` where it ends too early, or the input is of another size.
    pub fn write(
        &self,
        picture: &PictureInput,
        plane: &[u8],
        stride: usize,
        input: ViewMut<'_>,
        scratch: &mut Vec<u8>,
    ) -> Option<()> {
        let row_bytes = picture.row_bytes();
        if self.are_same() && stride == row_bytes {
            input.copy_from_slice(plane.get(..input.len())?);
            return Some(());
        }
        let written = row_bytes.checked_mul(picture.element_bytes())?;
        let channels = if picture.channels == 1 { 1 } else { 3 };
        for row in 0..picture.rows() {
            let start = row.checked_mul(stride)?;
            let pixels = plane.get(start..start.checked_add(row_bytes)?)?;
            let values = match self {
                Self::Same => pixels,
                Self::Quantised(table) => gather(scratch, pixels, table, channels, |b| [*b]),
                Self::Half(table) => gather(scratch, pixels, table, channels, |h| h.to_le_bytes()),
                Self::Float(table) => gather(scratch, pixels, table, channels, |f| f.to_le_bytes()),
            };
            let from = row.checked_mul(written)?;
            input.slice(from..from.checked_add(written)?)?.copy_from_slice(values);
        }
        Some(())
    }
}

/// The little-endian values of a row of pixels.
fn gather<'a, T, const BYTES: usize>(
    scratch: &'a mut Vec<u8>,
    pixels: &[u8],
    table: &[[T; 256]; 3],
    channels: usize,
    bytes: impl Fn(&T) -> [u8; BYTES],
) -> &'a [u8] {
    scratch.resize(pixels.len() * BYTES, 0);
    let places = scratch.as_chunks_mut::<BYTES>().0;
    for (pixels, places) in pixels.chunks_exact(channels).zip(places.chunks_exact_mut(channels)) {
        for ((place, &pixel), channel) in places.iter_mut().zip(pixels).zip(table) {
            *place = bytes(&channel[usize::from(pixel)]);
        }
    }
    scratch
}

/// The value for each channel and pixel.
fn table<T: Copy + Default>(value: impl Fn(u8, usize) -> T) -> Box<[[T; 256]; 3]> {
    let mut table = Box::new([[T::default(); 256]; 3]);
    for (channel, values) in table.iter_mut().enumerate() {
        for (pixel, place) in (0..=u8::MAX).zip(values) {
            *place = value(pixel, channel);
        }
    }
    table
}

/// The stored value of a real one, plus `offset` that makes it positive.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped")]
fn stored(real: f32, input: &PictureInput, offset: i32) -> u8 {
    let zero = f64::from(input.zero_point) + f64::from(offset);
    (f64::from(real) / f64::from(input.scale) + zero).round().clamp(0.0, 255.0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(kind: OperandType, channels: u32) -> PictureInput {
        PictureInput { width: 2, height: 2, channels, kind, scale: 1.0 / 128.0, zero_point: 128 }
    }

    fn written(pixels: &PixelTables, input: &PictureInput, plane: &[u8], stride: usize) -> Vec<u8> {
        let mut out = vec![0; input.row_bytes() * input.rows() * input.element_bytes()];
        pixels.write(input, plane, stride, ViewMut::of(&mut out), &mut Vec::new()).unwrap();
        out
    }

    #[test]
    fn padded_rows_are_packed() {
        let input = input(OperandType::TensorQuant8Asymm, 3);
        let plane: Vec<u8> = (0..16).collect();
        let out = written(&PixelTables::of(&input, None), &input, &plane, 8);
        assert_eq!(out, [0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13]);
    }

    #[test]
    fn a_plane_that_ends_early_is_refused() {
        let input = input(OperandType::TensorQuant8Asymm, 3);
        let (mut out, pixels) = ([0; 12], PixelTables::of(&input, None));
        for (plane, stride) in [(13, 8), (11, 6), (0, 0), (12, usize::MAX)] {
            let plane = vec![0; plane];
            let view = ViewMut::of(&mut out);
            assert!(pixels.write(&input, &plane, stride, view, &mut Vec::new()).is_none());
        }
    }

    #[test]
    fn floats_are_as_nnburst_run_has_them_unless_told_otherwise() {
        let input = input(OperandType::TensorFloat32, 1);
        let floats = |pixels: &PixelTables| -> Vec<f32> {
            let bytes = written(pixels, &input, &[0, 51, 204, 255], 2);
            bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
        };
        assert_eq!(floats(&PixelTables::of(&input, None)), [-1.0, -0.6, 0.6, 1.0]);
        let ranges = Normalisation::parse(None, None, Some("0,1")).unwrap();
        for (got, want) in floats(&PixelTables::of(&input, ranges)).iter().zip([0.0, 0.2, 0.8, 1.0])
        {
            assert!((got - want).abs() < 1e-6, "{got} {want}");
        }
        let mean = Normalisation::parse(Some("51"), Some("2"), None).unwrap();
        assert_eq!(floats(&PixelTables::of(&input, mean)), [-102.0, 0.0, 306.0, 408.0]);
    }

    #[test]
    fn quantised_inputs_take_pixels_or_what_they_stand_for() {
        let signed = PictureInput {
            kind: OperandType::TensorQuant8AsymmSigned,
            scale: 1.0 / 255.0,
            zero_point: -128,
            ..input(OperandType::TensorQuant8AsymmSigned, 1)
        };
        let out = written(&PixelTables::of(&signed, None), &signed, &[0, 1, 128, 255], 2);
        assert_eq!(out, [0x80, 0x81, 0, 0x7f], "-128, -127, 0, 127");
        let unit = Normalisation::parse(None, None, Some("0,1;0,1;0,1")).unwrap();
        assert_eq!(written(&PixelTables::of(&signed, unit), &signed, &[0, 1, 128, 255], 2), out);
        let unsigned = input(OperandType::TensorQuant8Asymm, 1);
        let pixels =
            PixelTables::of(&unsigned, Normalisation::parse(None, None, Some("-1,1")).unwrap());
        assert_eq!(written(&pixels, &unsigned, &[0, 127, 128, 255], 2), [0, 127, 129, 255]);
    }

    #[test]
    fn properties_that_are_no_numbers_are_named() {
        for (mean, scale, ranges) in [
            (Some("x"), None, None),
            (Some("1,2"), None, None),
            (None, Some("1;2;3"), None),
            (None, Some("inf"), None),
            (None, None, Some("1")),
            (None, None, Some("1,1")),
            (None, None, Some("0,1;0,1")),
        ] {
            let error = Normalisation::parse(mean, scale, ranges).unwrap_err().to_string();
            let name = ["mean", "scale", "ranges"].iter().find(|name| error.starts_with(**name));
            assert!(name.is_some(), "{error}");
        }
    }
}
