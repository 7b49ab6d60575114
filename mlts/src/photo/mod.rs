//! From a photo in a file to what a classifier takes: decode, cut out the centre, resize, scale.
//!
//! The goldens of the photos were made with Pillow, so every step equals Pillow's: the decoder
//! (`jpeg`), the cut (87.5 % of each side, its edges rounded half to even) and the filter
//! (`resample`).

mod formats;
mod jpeg;
mod resample;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use nnburst::hal::{Operand, OperandType};

/// Why a file is no picture, or a picture no input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PhotoError {
    /// The bytes are no JPEG or PNG.
    #[error("neither a JPEG nor a PNG file")]
    Format,
    /// The JPEG is damaged or of a kind that can't be decoded.
    #[error("the JPEG can't be decoded: {0}")]
    Jpeg(#[from] zune_jpeg::errors::DecodeErrors),
    /// The PNG is damaged.
    #[error("the PNG can't be decoded: {0}")]
    Png(#[from] png::DecodingError),
    /// The picture has more pixels than are decoded.
    #[error("the picture is larger than 512 MiB")]
    Large,
    /// The picture has a side of no pixels.
    #[error("the picture has no pixels")]
    Empty,
    /// The model's input has another shape than a picture's.
    #[error(
        "a picture needs a model with an input of shape [1, height, width, 3], this one's is {0:?}"
    )]
    Shape(Vec<u32>),
    /// The model's input has a type that pixels have no value in.
    #[error("a picture can't be turned into a {0}")]
    Type(OperandType),
}

/// A picture of 8-bit red, green and blue.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Pixels of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Row by row, three to a pixel.
    pub pixels: Vec<u8>,
}

impl Picture {
    /// Decodes a JPEG or PNG file.
    ///
    /// # Errors
    /// It is neither, or has no pixels.
    pub fn decode(bytes: &[u8]) -> Result<Self, PhotoError> {
        if let Some(picture) = jpeg::decode(bytes) {
            return Ok(picture);
        }
        let picture = formats::decode(bytes)?;
        if picture.width == 0 || picture.height == 0 {
            return Err(PhotoError::Empty);
        }
        Ok(picture)
    }

    /// The picture as the bytes of a model's input: its centre, at the input's size.
    ///
    /// # Errors
    /// The input has another shape than a picture's, or a type without a value for pixels.
    pub fn to_input(&self, operand: &Operand) -> Result<Vec<u8>, PhotoError> {
        let &[1, height, width, 3] = operand.dimensions.as_slice() else {
            return Err(PhotoError::Shape(operand.dimensions.clone()));
        };
        let side = |extent| usize::try_from(extent).unwrap_or(0);
        let picture = resample::resize(&self.centre(), side(width), side(height));
        picture.encode(operand)
    }

    /// As [`Picture::to_input`], of the centre square of seven eighths of the shorter side, as
    /// Android's suite has it.
    ///
    /// # Errors
    /// As for [`Picture::to_input`].
    pub fn square_to_input(&self, operand: &Operand) -> Result<Vec<u8>, PhotoError> {
        let &[1, height, width, 3] = operand.dimensions.as_slice() else {
            return Err(PhotoError::Shape(operand.dimensions.clone()));
        };
        let side = |extent| usize::try_from(extent).unwrap_or(0);
        resample::resize(&self.square(), side(width), side(height)).encode(operand)
    }

    /// The picture with a longer side of at most 96 pixels, as a PNG in a data URI.
    pub fn thumbnail(&self) -> String {
        const LONGEST: usize = 96;
        let longest = self.width.max(self.height).max(1);
        let side = |side: usize| (side * LONGEST.min(longest) / longest).max(1);
        let file = resample::resize(self, side(self.width), side(self.height)).png();
        file.map(|file| format!("data:image/png;base64,{}", BASE64_STANDARD.encode(file)))
            .unwrap_or_default()
    }

    /// Encodes the picture as a PNG file.
    ///
    /// # Errors
    /// It has no pixels, or other than its size says.
    pub fn png(&self) -> Result<Vec<u8>, png::EncodingError> {
        let narrow = |side: usize| u32::try_from(side).unwrap_or(u32::MAX);
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, narrow(self.width), narrow(self.height));
        encoder.set_color(png::ColorType::Rgb);
        encoder.write_header()?.write_image_data(&self.pixels)?;
        Ok(file)
    }

    /// Returns the square in the middle. Half a pixel is lost at each end on its own: a picture of
    /// odd width and an even square are as far apart as two even ones.
    fn square(&self) -> Self {
        let side = (self.width.min(self.height) * 7 / 8).max(1);
        let start = |whole: usize| whole / 2 - side / 2;
        let (left, top) = (start(self.width), start(self.height));
        let rows = self.pixels.chunks_exact(self.width * 3).skip(top).take(side);
        let pixels = rows.flat_map(|row| row.iter().skip(left * 3).take(side * 3)).copied();
        Self { width: side, height: side, pixels: pixels.collect() }
    }

    /// Returns the picture without a sixteenth on each side.
    fn centre(&self) -> Self {
        let (left, right) = middle(self.width);
        let (top, bottom) = middle(self.height);
        let rows = self.pixels.chunks_exact(self.width * 3).skip(top).take(bottom - top);
        let pixels =
            rows.flat_map(|row| row.iter().take(right * 3).skip(left * 3)).copied().collect();
        Self { width: right - left, height: bottom - top, pixels }
    }

    fn encode(self, operand: &Operand) -> Result<Vec<u8>, PhotoError> {
        let real = |pixel: u8| f32::from(pixel) / 127.5 - 1.0;
        let quantised = |pixel: u8| {
            (f64::from(real(pixel)) / f64::from(operand.scale)).round()
                + f64::from(operand.zero_point)
        };
        let pixels = self.pixels.iter().copied();
        Ok(match operand.kind {
            OperandType::TensorFloat32 => {
                pixels.flat_map(|pixel| real(pixel).to_le_bytes()).collect()
            }
            OperandType::TensorFloat16 => {
                pixels.flat_map(|pixel| nnburst::f16::from_f32(real(pixel)).to_le_bytes()).collect()
            }
            OperandType::TensorQuant8Asymm => self.pixels,
            // The same number, counted from -128.
            OperandType::TensorQuant8AsymmSigned => pixels.map(|pixel| pixel ^ 0x80).collect(),
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "float casts saturate"
            )]
            OperandType::TensorQuant16Asymm => {
                pixels.flat_map(|pixel| (quantised(pixel) as u16).to_le_bytes()).collect()
            }
            #[expect(clippy::cast_possible_truncation, reason = "float casts saturate")]
            OperandType::TensorQuant16Symm => {
                pixels.flat_map(|pixel| (quantised(pixel) as i16).to_le_bytes()).collect()
            }
            kind => {
                return Err(PhotoError::Type(kind));
            }
        })
    }
}

/// Returns the bounds of the centre of `side`.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "picture sizes fit a double, and the result is within them"
)]
fn middle(side: usize) -> (usize, usize) {
    let edge = |share: f64| (side as f64 * share).round_ties_even() as usize;
    let (start, end) = (edge(0.0625), edge(0.9375));
    // A picture of a pixel or two is all centre.
    if end > start { (start, end) } else { (0, side) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_round_half_to_even() {
        for (side, want) in
            [(340, (21, 319)), (341, (21, 320)), (264, (16, 248)), (1, (0, 1)), (285, (18, 267))]
        {
            assert_eq!(middle(side), want, "{side} pixels");
        }
    }

    #[test]
    fn each_type_of_input_has_its_scale() {
        let picture = Picture { width: 1, height: 1, pixels: vec![0, 128, 255] };
        let encode = |kind, scale, zero_point| {
            let operand =
                Operand::tensor(kind, vec![1, 1, 1, 3]).with_quantization(scale, zero_point);
            picture.to_input(&operand).unwrap()
        };
        let floats = encode(OperandType::TensorFloat32, 0.0, 0);
        assert_eq!(floats[..4], (-1f32).to_le_bytes());
        assert_eq!(encode(OperandType::TensorQuant8Asymm, 1.0 / 128.0, 128), [0, 128, 255]);
        assert_eq!(encode(OperandType::TensorQuant8AsymmSigned, 1.0 / 127.5, -1), [0x80, 0, 0x7F]);
        let wide = encode(OperandType::TensorQuant16Symm, 1.0 / 32768.0, 0);
        assert_eq!(wide[4..], 32767i16.to_le_bytes());
    }

    /// Decoded, cut and resized photos equal the goldens' inputs to the last bit.
    #[test]
    fn photos_become_the_inputs_of_the_goldens() {
        let Some(models) = nnburst_conformance::shared_dir("models") else {
            return;
        };
        for (model, size) in
            [("mobilenet_v1_0.25_128_quant", 128), ("mobilenet_v2_1.0_224_quant", 224)]
        {
            for photo in [3, 4, 9] {
                let file =
                    std::fs::read(models.join(format!("photos/image-{photo}.jpeg"))).unwrap();
                let picture = Picture::decode(&file).unwrap();
                let operand =
                    Operand::tensor(OperandType::TensorQuant8Asymm, vec![1, size, size, 3]);
                let want = std::fs::read(models.join(format!("{model}/photo{photo}.in0"))).unwrap();
                assert_eq!(picture.to_input(&operand).unwrap(), want, "photo {photo} at {size}");
            }
        }
    }

    /// On photos prepared as for Android's suite the first class is the reference kernels' own, of
    /// every photo: a pixel further left it is not.
    #[test]
    fn squares_of_photos_have_the_reference_kernels_first_classes() {
        let (Some(models), Some(data)) =
            (nnburst_conformance::shared_dir("models"), nnburst_conformance::shared_dir("mlts"))
        else {
            return;
        };
        let name = "mobilenet_v1_0.25_128_quant";
        let known = std::fs::read_to_string(data.join("photos/accuracy.json")).unwrap();
        let known: serde_json::Value = serde_json::from_str(&known).unwrap();
        let known = known["models"][name]["reference_top5"].as_object().unwrap();
        let model = nnburst_tflite::Imported::open(models.join(name).join("model.tflite")).unwrap();
        let device = nnburst::Device::embedded("nnburst-cpu").unwrap();
        let model = device.compile(&model.model, nnburst::PrepareOptions::default()).unwrap();
        let mut frame = model.frame().unwrap();
        // Of every size that there is.
        for (file, classes) in known.iter().step_by(3) {
            let bytes = std::fs::read(data.join("photos").join(file)).unwrap();
            let input = Picture::decode(&bytes).unwrap().square_to_input(&model.inputs()[0]);
            frame.write_bytes(0, &input.unwrap()).unwrap();
            model.execution().compute(&mut frame).unwrap();
            let scores = frame.read_bytes(0).unwrap();
            let best =
                crate::evaluators::best_class(crate::evaluators::ElementType::Uint8, &scores);
            let best = best.map(|class| class as u64);
            assert_eq!(best, classes[0].as_u64(), "{file}");
        }
    }
}
