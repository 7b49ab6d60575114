//! Files of few operators, imported for the extension and run once.

use nnburst_executor::{Control, Input, Output};
use nnburst_hal::{View, ViewMut};
use nnburst_tflite::testing::TfliteFile;
use nnburst_tflite::{ImportOptions, Imported};

use crate::plan;

/// Imports a file with the extension, in its own types.
pub(crate) fn import(file: &TfliteFile) -> Result<Imported, String> {
    let options = ImportOptions { extension: true, file_types: true, ..ImportOptions::default() };
    Imported::from_bytes_with(&file.build(), options).map_err(|error| error.to_string())
}

/// The outputs of an imported file, or why it does not run; one whose size the file leaves open may
/// have `room` bytes.
pub(crate) fn outputs(
    imported: &Imported,
    inputs: &[Vec<u8>],
    room: usize,
) -> Result<Vec<Vec<u8>>, String> {
    let plan = plan::compile(imported).map_err(|error| error.to_string())?;
    let sizes = imported.outputs.iter().map(|info| info.byte_len().unwrap_or(room));
    let mut outputs: Vec<Vec<u8>> = sizes.map(|size| vec![0; size]).collect();
    let given: Vec<_> = inputs.iter().map(|bytes| Input::new(View::of(bytes))).collect();
    let taken: Vec<_> = outputs.iter_mut().map(|it| Output::new(ViewMut::of(it))).collect();
    let ran = plan.session().run(&given, &taken, &Control::default());
    ran.map_err(|error| error.to_string())?;
    drop(taken);
    Ok(outputs)
}
