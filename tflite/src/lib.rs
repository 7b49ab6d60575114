//! Reads .tflite files into models of the Android Neural Networks HAL.
//!
//! ```text
//!   bytes ─flatbuffer─► tables ──schema──► tensors, operators ──lower──► operations ─► hal::Model
//!         every offset         every index           every operator            + states, names
//!         is checked           is in range           mapped or reported
//! ```
//!
//! The reader verifies as it reads: a hostile file gives an error that names the field. Operators
//! that the HAL hasn't are put together from those it has; whatever can't be mapped is reported,
//! all at once, with its reason. Variable tensors become explicit inputs and outputs, listed as
//! [`StatePair`]s.
//!
//! ```no_run
//! let imported = nnburst_tflite::Imported::open("mobilenet.tflite")?;
//! for input in &imported.inputs {
//!     println!("{}: {} {:?}", input.name, input.kind, input.dims);
//! }
//! // imported.model goes to a device; of imported.states each output is the next input.
//! # Ok::<(), nnburst_tflite::ImportError>(())
//! ```

#![forbid(unsafe_code)]

mod contents;
mod dilate;
mod entry;
mod error;
mod file;
mod file_bytes;
mod finish;
mod flatbuffer;
mod graph;
mod list_items;
mod lower;
mod model;
mod operand;
mod packed_files;
mod registry;
mod reshape;
mod schema;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use contents::{Contents, FileOperator, FileTensor};
pub use error::{ImportError, UnsupportedOperator};
pub use file::{ModelFile, PartRequest};
pub use flatbuffer::{FormatError, Problem};
pub use model::{ImportOptions, Imported, Route, StatePair, TensorInfo};
pub use registry::{CustomCall, CustomOperator, CustomOperators, CustomValue};
pub use schema::{MetadataEntry, Signature, SignatureTensor, TensorKind};
