//! From a message to a model's input: tensors as they are, pictures decoded and scaled.

use std::borrow::Cow;
use std::io::Cursor;

use dora_node_api::{DoraArray, MetadataParameters, get_integer_param, get_string_param};
use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use image::{ImageReader, Limits};
use nnburst::hal::OperandType;
use nnburst::{Frame, RuntimeError};
use nnburst_pictures::{Normalisation, PictureInput, PixelTables};
use nnburst_tflite::TensorInfo;

use crate::node::Message;

/// The format of a picture's bytes, as dora's own nodes name it.
pub(crate) const ENCODING: &str = "encoding";
pub(crate) const WIDTH: &str = "width";
pub(crate) const HEIGHT: &str = "height";

/// The longest side of a picture in pixels.
const LONGEST_SIDE: u32 = 16_384;
/// The most bytes of a picture that is decoded.
const MOST_BYTES: u64 = 1 << 28;

/// Why a message is no input of a model.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    /// Elements or their number are wrong.
    #[error(
        "{elements} elements of {given}, expected {expected} of {kind}, or a picture with the \
         parameter `encoding`"
    )]
    Tensor {
        /// Those that came.
        elements: usize,
        /// Their type.
        given: String,
        /// The number that the model takes.
        expected: usize,
        /// Their type.
        kind: OperandType,
    },
    /// The model takes no pictures.
    #[error("a picture ({0}), and the model takes {1}")]
    NoPictures(String, String),
    /// The format is unknown.
    #[error("encoding is {0:?}, expected rgb8, bgr8, mono8, jpeg or png")]
    Encoding(String),
    /// The picture has not the bytes of its size.
    #[error("{bytes} bytes of {encoding}, width {width:?}, height {height:?}")]
    Size {
        /// Those that came.
        bytes: usize,
        /// Their format.
        encoding: String,
        /// The parameter `width`.
        width: Option<i64>,
        /// The parameter `height`.
        height: Option<i64>,
    },
    /// It can't be decoded.
    #[error("{0}")]
    Decode(#[from] image::ImageError),
    /// It can't be scaled.
    #[error("{0}")]
    Scale(String),
    /// The frame refused it.
    #[error("{0}")]
    Runtime(#[from] RuntimeError),
}

/// The pixels of a picture, without padding.
struct Pixels<'a> {
    bytes: Cow<'a, [u8]>,
    width: u32,
    height: u32,
    channels: u32,
}

/// Writes messages into the input of a model.
pub(crate) struct InputWriter {
    info: TensorInfo,
    index: usize,
    picture: Option<Picture>,
}

struct Picture {
    input: PictureInput,
    tables: PixelTables,
    resizer: Resizer,
    scratch: Vec<u8>,
}

impl InputWriter {
    /// For the input of a model's frames with this index.
    pub(crate) fn new(info: &TensorInfo, index: usize, given: Option<Normalisation>) -> Self {
        let picture = PictureInput::of(std::slice::from_ref(info)).ok().map(|input| Picture {
            tables: PixelTables::of(&input, given),
            input,
            resizer: Resizer::new(),
            scratch: Vec::new(),
        });
        Self { info: info.clone(), index, picture }
    }

    /// Writes a message's values or picture into a frame.
    ///
    /// # Errors
    /// See [`InputError`].
    pub(crate) fn write(&mut self, message: &Message, frame: &mut Frame) -> Result<(), InputError> {
        let parameters = &message.metadata.parameters;
        if let Some(encoding) = get_string_param(parameters, ENCODING) {
            let Some(picture) = &mut self.picture else {
                let takes = format!("{} {:?}", self.info.kind, self.info.dims);
                return Err(InputError::NoPictures(encoding.to_owned(), takes));
            };
            let pixels = Pixels::of(&message.data, encoding, parameters)?;
            return picture.write(pixels, frame, self.index);
        }
        if let Some(bytes) = tensor_bytes(&message.data, self.info.kind)
            && Some(bytes.len()) == self.info.byte_len()
        {
            return Ok(frame.write_bytes(self.index, &bytes)?);
        }
        // Bytes of the size of the picture that the model takes.
        if let Some(picture) = &mut self.picture
            && let Ok(bytes) = <&[u8]>::try_from(&message.data)
            && bytes.len() == picture.input.row_bytes() * picture.input.rows()
        {
            let PictureInput { width, height, channels, .. } = picture.input;
            let pixels = Pixels { bytes: Cow::Borrowed(bytes), width, height, channels };
            return picture.write(pixels, frame, self.index);
        }
        let extents = self.info.dims.iter().map(|&extent| usize::try_from(extent).unwrap_or(0));
        Err(InputError::Tensor {
            elements: message.data.len(),
            given: message.data.type_name(),
            expected: extents.product(),
            kind: self.info.kind,
        })
    }
}

/// The little-endian bytes of an array whose elements are those of a tensor's type.
fn tensor_bytes(data: &DoraArray, kind: OperandType) -> Option<Cow<'_, [u8]>> {
    macro_rules! copied {
        ($element:ty) => {{
            let values = <&[$element]>::try_from(data).ok()?;
            Cow::Owned(values.iter().flat_map(|value| value.to_le_bytes()).collect())
        }};
    }
    Some(match kind {
        OperandType::TensorQuant8Asymm | OperandType::TensorBool8 => {
            Cow::Borrowed(<&[u8]>::try_from(data).ok()?)
        }
        OperandType::TensorQuant8AsymmSigned | OperandType::TensorQuant8Symm => copied!(i8),
        OperandType::TensorFloat32 => copied!(f32),
        OperandType::TensorFloat16 => copied!(nnburst::f16),
        OperandType::TensorInt32 => copied!(i32),
        OperandType::TensorQuant16Asymm => copied!(u16),
        OperandType::TensorQuant16Symm => copied!(i16),
        _ => return None,
    })
}

impl<'a> Pixels<'a> {
    fn of(
        data: &'a DoraArray,
        encoding: &str,
        parameters: &MetadataParameters,
    ) -> Result<Self, InputError> {
        let bytes = <&[u8]>::try_from(data).map_err(|_| InputError::Size {
            bytes: 0,
            encoding: format!("{encoding} in {}", data.type_name()),
            width: None,
            height: None,
        })?;
        let raw = |channels| Self::raw(bytes, encoding, channels, parameters);
        match encoding {
            "rgb8" => raw(3),
            "mono8" => raw(1),
            "bgr8" => {
                let mut pixels = raw(3)?;
                for pixel in pixels.bytes.to_mut().as_chunks_mut::<3>().0 {
                    pixel.swap(0, 2);
                }
                Ok(pixels)
            }
            "jpeg" | "jpg" | "png" => Self::decoded(bytes),
            other => Err(InputError::Encoding(other.to_owned())),
        }
    }

    fn raw(
        bytes: &'a [u8],
        encoding: &str,
        channels: u32,
        parameters: &MetadataParameters,
    ) -> Result<Self, InputError> {
        let [width, height] = [WIDTH, HEIGHT].map(|name| get_integer_param(parameters, name));
        let side = |given: Option<i64>| {
            u32::try_from(given?).ok().filter(|side| (1..=LONGEST_SIDE).contains(side))
        };
        if let (Some(columns), Some(rows)) = (side(width), side(height))
            && u64::from(columns) * u64::from(rows) * u64::from(channels) == bytes.len() as u64
        {
            return Ok(Self {
                bytes: Cow::Borrowed(bytes),
                width: columns,
                height: rows,
                channels,
            });
        }
        let encoding = encoding.to_owned();
        Err(InputError::Size { bytes: bytes.len(), encoding, width, height })
    }

    fn decoded(bytes: &[u8]) -> Result<Self, InputError> {
        let mut reader = ImageReader::new(Cursor::new(bytes))
            .with_guessed_format()
            .map_err(image::ImageError::IoError)?;
        let mut limits = Limits::default();
        limits.max_image_width = Some(LONGEST_SIDE);
        limits.max_image_height = Some(LONGEST_SIDE);
        limits.max_alloc = Some(MOST_BYTES);
        reader.limits(limits);
        let picture = reader.decode()?.into_rgb8();
        let (width, height) = picture.dimensions();
        Ok(Self { bytes: Cow::Owned(picture.into_raw()), width, height, channels: 3 })
    }

    /// The same pixels with so many channels.
    fn with_channels(self, channels: u32) -> Self {
        let bytes: Vec<u8> = match (self.channels, channels) {
            (1, 3) => self.bytes.iter().flat_map(|&grey| [grey; 3]).collect(),
            (3, 1) => self.bytes.as_chunks::<3>().0.iter().map(luma).collect(),
            _ => return self,
        };
        Self { bytes: Cow::Owned(bytes), channels, ..self }
    }
}

/// The brightness of a pixel (ITU-R BT.601).
fn luma([red, green, blue]: &[u8; 3]) -> u8 {
    let [red, green, blue] = [*red, *green, *blue].map(u32::from);
    u8::try_from((299 * red + 587 * green + 114 * blue + 500) / 1000).unwrap_or(u8::MAX)
}

impl Picture {
    fn write(
        &mut self,
        pixels: Pixels<'_>,
        frame: &mut Frame,
        index: usize,
    ) -> Result<(), InputError> {
        let Self { input, tables, resizer, scratch } = self;
        let (width, height) = (input.width, input.height);
        let pixels = if (pixels.width, pixels.height) == (width, height) {
            pixels
        } else {
            scaled(resizer, &pixels, width, height)?
        };
        let pixels = pixels.with_channels(input.channels);
        tables
            .write(input, &pixels.bytes, input.row_bytes(), frame.input(index)?, scratch)
            .ok_or_else(|| InputError::Scale("the picture is too small".into()))
    }
}

/// A picture of another size: all of it, without regard to its sides' ratio.
fn scaled(
    resizer: &mut Resizer,
    pixels: &Pixels<'_>,
    width: u32,
    height: u32,
) -> Result<Pixels<'static>, InputError> {
    let kind = if pixels.channels == 1 { PixelType::U8 } else { PixelType::U8x3 };
    let failed = |error: &dyn std::fmt::Display| InputError::Scale(error.to_string());
    let from = ImageRef::new(pixels.width, pixels.height, &pixels.bytes, kind)
        .map_err(|error| failed(&error))?;
    let mut to = Image::new(width, height, kind);
    let options = ResizeOptions::new()
        .resize_alg(ResizeAlg::Convolution(FilterType::Bilinear))
        .use_alpha(false);
    resizer.resize(&from, &mut to, &options).map_err(|error| failed(&error))?;
    let bytes = Cow::Owned(to.into_vec());
    Ok(Pixels { bytes, width, height, channels: pixels.channels })
}

#[cfg(test)]
mod tests {
    use dora_node_api::IntoArrow;

    use super::*;
    use crate::stamp::{integer, set};

    fn parameters(encoding: &str, width: i64, height: i64) -> MetadataParameters {
        let mut parameters = MetadataParameters::new();
        let encoding = dora_node_api::Parameter::String(encoding.to_owned());
        set(&mut parameters, ENCODING, encoding);
        set(&mut parameters, WIDTH, integer(width));
        set(&mut parameters, HEIGHT, integer(height));
        parameters
    }

    fn pixels(bytes: &[u8], encoding: &str, width: i64, height: i64) -> Result<Vec<u8>, String> {
        let data = bytes.to_vec().into_arrow();
        let pixels = Pixels::of(&data, encoding, &parameters(encoding, width, height));
        pixels.map(|pixels| pixels.bytes.into_owned()).map_err(|error| error.to_string())
    }

    #[test]
    fn raw_pictures_are_read_and_wrong_sizes_named() {
        assert_eq!(pixels(&[1, 2, 3, 4, 5, 6], "rgb8", 2, 1).unwrap(), [1, 2, 3, 4, 5, 6]);
        assert_eq!(pixels(&[1, 2, 3, 4, 5, 6], "bgr8", 1, 2).unwrap(), [3, 2, 1, 6, 5, 4]);
        for (encoding, width, height, expected) in [
            ("rgb8", 3, 1, "6 bytes of rgb8, width Some(3), height Some(1)"),
            ("rgb8", -2, -1, "width Some(-2)"),
            ("rgb8", i64::MAX, i64::MAX, "6 bytes of rgb8"),
            ("yuv420", 2, 1, "encoding is \"yuv420\""),
            ("jpeg", 2, 1, "format"),
        ] {
            let error = pixels(&[0; 6], encoding, width, height).unwrap_err();
            assert!(error.contains(expected), "{encoding} {width}x{height}: {error}");
        }
        let floats = vec![1.0_f32; 6].into_arrow();
        assert!(Pixels::of(&floats, "rgb8", &parameters("rgb8", 2, 1)).is_err());
    }

    #[test]
    fn pictures_are_scaled_and_change_their_channels() {
        let bytes = Cow::Owned([10, 20, 30].repeat(8 * 4));
        let picture = Pixels { bytes, width: 8, height: 4, channels: 3 };
        let small = scaled(&mut Resizer::new(), &picture, 3, 2).unwrap();
        assert_eq!(small.bytes.as_ref(), [10, 20, 30].repeat(6));
        let grey = small.with_channels(1);
        assert_eq!(grey.bytes.as_ref(), [18; 6]);
        assert_eq!(grey.with_channels(3).bytes.as_ref(), [18; 18]);
    }

    #[test]
    fn tensors_have_the_types_of_the_model() {
        let floats = vec![1.0_f32, -2.0].into_arrow();
        let bytes = tensor_bytes(&floats, OperandType::TensorFloat32).unwrap();
        assert_eq!(bytes.as_ref(), [0, 0, 128, 63, 0, 0, 0, 192]);
        assert!(tensor_bytes(&floats, OperandType::TensorQuant8Asymm).is_none());
        assert!(tensor_bytes(&().into_arrow(), OperandType::TensorFloat32).is_none());
    }
}
