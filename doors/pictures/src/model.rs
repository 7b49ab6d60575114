//! Models whose input is a picture.

use std::path::Path;

use nnburst::hal::{Model, OperandType};
use nnburst_tflite::{ImportError, ImportOptions, Imported, StatePair, TensorInfo};

use crate::decoder::PictureSize;

/// Why a file is no model for pictures.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// It can't be read, or not all of it can be mapped.
    #[error("{0}")]
    Import(#[from] ImportError),
    /// It takes something else than a picture.
    #[error(
        "the model has inputs {0}, expected one of [1, height, width, 3] or [1, height, width, 1]"
    )]
    NoPicture(String),
    /// Pixels have no value in the type of the input.
    #[error("the model takes a picture of {0}, expected 8-bit quantised, FLOAT16 or FLOAT32")]
    Type(OperandType),
    /// The values of `mean`, `scale` or `ranges` can't be used.
    #[error("{property}: `{value}` is not {expected}")]
    Property {
        /// Its name.
        property: &'static str,
        /// The value that was given.
        value: String,
        /// The values that are right.
        expected: &'static str,
    },
}

/// A model whose first input is a picture, and all others states.
#[derive(Clone, Debug)]
pub struct PictureModel {
    /// The model; its inputs and outputs are those of the file, then the states.
    pub model: Model,
    /// Its picture.
    pub picture: PictureInput,
    /// The outputs that the file has, without states.
    pub outputs: Vec<TensorInfo>,
    /// Its states.
    pub states: Vec<StatePair>,
}

/// The shape and type of the input that takes the picture.
#[derive(Clone, Debug, PartialEq)]
pub struct PictureInput {
    /// Its columns.
    pub width: u32,
    /// Its rows.
    pub height: u32,
    /// 3 for RGB, 1 for grey.
    pub channels: u32,
    /// The type of the input.
    pub kind: OperandType,
    /// The scale of its stored values, where they are quantised.
    pub scale: f32,
    /// The stored value that stands for zero.
    pub zero_point: i32,
}

impl PictureModel {
    /// Reads a model, of NNAPI's operations alone if the device doesn't take the `extension`.
    ///
    /// # Errors
    /// See [`ModelError`].
    pub fn open(path: &Path, extension: bool) -> Result<Self, ModelError> {
        let options = ImportOptions { extension, ..ImportOptions::default() };
        let imported = Imported::open_with(path, options)?;
        let picture = PictureInput::of(&imported.inputs)?;
        let Imported { model, outputs, states, .. } = imported;
        Ok(Self { model, picture, outputs, states })
    }

    /// Type and shape of each output, such as `TENSOR_FLOAT32 1x10x4`.
    pub fn describe_outputs(&self) -> Vec<String> {
        let describe = |output: &TensorInfo| {
            let extents: Vec<_> = output.dims.iter().map(u32::to_string).collect();
            format!("{} {}", output.kind, extents.join("x"))
        };
        self.outputs.iter().map(describe).collect()
    }
}

impl PictureInput {
    /// Its extents.
    pub fn size(&self) -> PictureSize {
        PictureSize { width: self.width, height: self.height }
    }

    /// The picture that a model with these inputs takes.
    ///
    /// # Errors
    /// [`ModelError`] for models that take something else.
    pub fn of(inputs: &[TensorInfo]) -> Result<Self, ModelError> {
        let no_picture = || {
            let shapes = inputs.iter().map(|input| format!("{} {:?}", input.kind, input.dims));
            ModelError::NoPicture(shapes.collect::<Vec<_>>().join(", "))
        };
        let [input] = inputs else { return Err(no_picture()) };
        let &[1, height, width, channels @ (1 | 3)] = input.dims.as_slice() else {
            return Err(no_picture());
        };
        if height == 0 || width == 0 {
            return Err(no_picture()); // not known before the run
        }
        match input.kind {
            OperandType::TensorQuant8Asymm
            | OperandType::TensorQuant8AsymmSigned
            | OperandType::TensorFloat16
            | OperandType::TensorFloat32 => {}
            kind => return Err(ModelError::Type(kind)),
        }
        let (kind, scale, zero_point) = (input.kind, input.scale, input.zero_point);
        Ok(Self { width, height, channels, kind, scale, zero_point })
    }

    /// Bytes of a row of pixels without padding.
    pub fn row_bytes(&self) -> usize {
        usize::try_from(self.width.saturating_mul(self.channels)).unwrap_or(usize::MAX)
    }

    /// Rows of the picture.
    pub fn rows(&self) -> usize {
        usize::try_from(self.height).unwrap_or(usize::MAX)
    }

    /// Bytes of an element of the input.
    pub fn element_bytes(&self) -> usize {
        match self.kind {
            OperandType::TensorFloat32 => 4,
            OperandType::TensorFloat16 => 2,
            _ => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use nnburst_tflite::TensorKind;

    use super::*;

    fn input(kind: OperandType, dims: &[u32]) -> TensorInfo {
        let (name, file_kind) = (String::new(), TensorKind::Uint8);
        TensorInfo {
            tensor: 0,
            name,
            kind,
            file_kind,
            dims: dims.to_vec(),
            scale: 0.5,
            zero_point: 0,
        }
    }

    #[test]
    fn pictures_are_told_from_other_inputs() {
        let byte = OperandType::TensorQuant8Asymm;
        let picture = PictureInput::of(&[input(byte, &[1, 20, 30, 3])]).unwrap();
        assert_eq!((picture.width, picture.height, picture.row_bytes()), (30, 20, 90));
        for (what, inputs) in [
            ("no input", vec![]),
            ("two", vec![input(byte, &[1, 2, 2, 3]), input(byte, &[1, 2, 2, 3])]),
            ("sound", vec![input(byte, &[1, 640])]),
            ("two channels", vec![input(byte, &[1, 8, 8, 2])]),
            ("a batch", vec![input(byte, &[2, 8, 8, 3])]),
            ("unknown width", vec![input(byte, &[1, 8, 0, 3])]),
        ] {
            assert!(matches!(PictureInput::of(&inputs), Err(ModelError::NoPicture(_))), "{what}");
        }
        let words = [input(OperandType::TensorInt32, &[1, 8, 8, 3])];
        assert!(matches!(PictureInput::of(&words), Err(ModelError::Type(_))));
    }
}
