//! For tests: a writer of small .tflite files, and the promise that every import keeps.
//!
//! ```
//! use nnburst_tflite::testing::TfliteFile;
//! use nnburst_tflite::{Imported, TensorKind};
//!
//! let mut file = TfliteFile::new();
//! let x = file.input("x", TensorKind::Float32, &[2]);
//! let y = file.tensor("y", TensorKind::Float32, &[2]);
//! file.operator("ABS", &[x], &[y]);
//! file.outputs(&[y]);
//! let imported = Imported::from_bytes(&file.build())?;
//! assert_eq!(imported.inputs[0].name, "x");
//! # Ok::<(), nnburst_tflite::ImportError>(())
//! ```

mod flex;
mod writer;

pub use flex::{FlexNumber, flex_map, flex_numbers};
pub use writer::{Fields, Value, write};

use crate::contents::Contents;
use crate::file_bytes::FileBytes;
use crate::schema::{Builtin, TensorKind};
use crate::{ImportError, ImportOptions, Imported, ModelFile};

/// An omitted optional input of an operator.
pub const NONE: i32 = -1;

/// A .tflite file in the making, graph by graph.
#[derive(Clone, Debug, Default)]
pub struct TfliteFile {
    codes: Vec<(i32, Option<String>)>,
    tensors: Vec<Fields>,
    operators: Vec<Fields>,
    buffers: Vec<Vec<u8>>,
    inputs: Vec<i32>,
    outputs: Vec<i32>,
    graphs: Vec<Fields>,
    notes: Fields,
}

impl TfliteFile {
    /// A file with nothing in it.
    pub fn new() -> Self {
        Self { buffers: vec![Vec::new()], ..Self::default() }
    }

    /// Adds a tensor without a value; its index.
    pub fn tensor(&mut self, name: &str, kind: TensorKind, shape: &[i32]) -> i32 {
        self.add_tensor(name, kind, shape, 0)
    }

    fn add_tensor(&mut self, name: &str, kind: TensorKind, shape: &[i32], buffer: usize) -> i32 {
        self.tensors.push(vec![
            (0, Value::ints(shape)),
            (1, Value::I8(kind.code())),
            (2, Value::U32(u32::try_from(buffer).unwrap_or(u32::MAX))),
            (3, Value::text(name)),
        ]);
        i32::try_from(self.tensors.len()).unwrap_or(i32::MAX) - 1
    }

    /// Adds a tensor that the caller of the model gives.
    pub fn input(&mut self, name: &str, kind: TensorKind, shape: &[i32]) -> i32 {
        let tensor = self.tensor(name, kind, shape);
        self.inputs.push(tensor);
        tensor
    }

    /// Adds a tensor with a value.
    pub fn constant(&mut self, name: &str, kind: TensorKind, shape: &[i32], bytes: &[u8]) -> i32 {
        self.buffers.push(bytes.to_vec());
        self.add_tensor(name, kind, shape, self.buffers.len() - 1)
    }

    /// Adds a constant of 32-bit integers.
    pub fn int_constant(&mut self, name: &str, shape: &[i32], values: &[i32]) -> i32 {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(name, TensorKind::Int32, shape, &bytes)
    }

    /// Adds a constant of 32-bit floating point.
    pub fn float_constant(&mut self, name: &str, shape: &[i32], values: &[f32]) -> i32 {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(name, TensorKind::Float32, shape, &bytes)
    }

    /// Sets further fields of a tensor.
    pub fn tensor_fields(&mut self, tensor: i32, fields: Fields) {
        let tensor = usize::try_from(tensor).ok().and_then(|index| self.tensors.get_mut(index));
        if let Some(tensor) = tensor {
            tensor.extend(fields);
        }
    }

    /// Quantises a tensor; with several scales, per channel of a dimension.
    pub fn quantize(&mut self, tensor: i32, scales: &[f32], zero_points: &[i64], dimension: i32) {
        let quantization = vec![
            (2, Value::floats(scales)),
            (3, Value::longs(zero_points)),
            (6, Value::I32(dimension)),
        ];
        self.tensor_fields(tensor, vec![(4, Value::Table(quantization))]);
    }

    /// Makes a tensor a variable, which keeps its value.
    pub fn variable(&mut self, tensor: i32) {
        self.tensor_fields(tensor, vec![(5, Value::I8(1))]);
    }

    /// Adds a buffer of bytes; its index.
    pub fn buffer(&mut self, bytes: &[u8]) -> u32 {
        self.buffers.push(bytes.to_vec());
        u32::try_from(self.buffers.len() - 1).unwrap_or(u32::MAX)
    }

    /// Sets further fields of the file's root table.
    pub fn model_fields(&mut self, fields: Fields) {
        self.notes.extend(fields);
    }

    /// Adds an operator without options.
    pub fn operator(&mut self, name: &str, inputs: &[i32], outputs: &[i32]) {
        self.operator_with(name, inputs, outputs, 0, Vec::new());
    }

    /// Adds an operator with the options of a number in the union, none if it is 0.
    pub fn operator_with(
        &mut self,
        name: &str,
        inputs: &[i32],
        outputs: &[i32],
        options: u8,
        fields: Fields,
    ) {
        let code = Builtin::from_name(name).map_or(i32::MAX, Builtin::number);
        let index = self.codes.iter().position(|(known, _)| *known == code);
        let index = index.unwrap_or_else(|| {
            self.codes.push((code, (name == "CUSTOM").then(|| "Mystery".to_owned())));
            self.codes.len() - 1
        });
        let mut operator = vec![
            (0, Value::U32(u32::try_from(index).unwrap_or(u32::MAX))),
            (1, Value::ints(inputs)),
            (2, Value::ints(outputs)),
        ];
        if options != 0 {
            operator.extend([(3, Value::U8(options)), (4, Value::Table(fields))]);
        }
        self.operators.push(operator);
    }

    /// Adds an operator with options of a number in the second union.
    pub fn operator_with_second(
        &mut self,
        name: &str,
        inputs: &[i32],
        outputs: &[i32],
        options: u8,
        fields: Fields,
    ) {
        self.operator(name, inputs, outputs);
        self.operator_fields(vec![(11, Value::U8(options)), (12, Value::Table(fields))]);
    }

    /// Adds a custom operator with options in a format of its own.
    pub fn custom_operator(&mut self, name: &str, inputs: &[i32], outputs: &[i32], options: &[u8]) {
        let code = (Builtin::Custom.number(), Some(name.to_owned()));
        let index = self.codes.iter().position(|known| *known == code);
        let index = index.unwrap_or_else(|| {
            self.codes.push(code);
            self.codes.len() - 1
        });
        self.operators.push(vec![
            (0, Value::U32(u32::try_from(index).unwrap_or(u32::MAX))),
            (1, Value::ints(inputs)),
            (2, Value::ints(outputs)),
            (5, Value::Vector(1, options.to_vec())),
        ]);
    }

    /// Sets further fields of the operator added last.
    pub fn operator_fields(&mut self, fields: Fields) {
        if let Some(operator) = self.operators.last_mut() {
            operator.extend(fields);
        }
    }

    /// Says which tensors the model gives.
    pub fn outputs(&mut self, tensors: &[i32]) {
        self.outputs = tensors.to_vec();
    }

    /// Ends a graph and begins the next; the first one is what is executed. Tensors count anew.
    pub fn next_graph(&mut self) {
        let graph = self.graph();
        self.graphs.push(graph);
        self.tensors.clear();
        self.operators.clear();
        self.inputs.clear();
        self.outputs.clear();
    }

    fn graph(&self) -> Fields {
        vec![
            (0, Value::Tables(self.tensors.clone())),
            (1, Value::ints(&self.inputs)),
            (2, Value::ints(&self.outputs)),
            (3, Value::Tables(self.operators.clone())),
        ]
    }

    /// The bytes of the file.
    pub fn build(&self) -> Vec<u8> {
        let codes = self.codes.iter().map(|(code, custom)| {
            // The byte of old readers holds what fits.
            let old = i8::try_from(*code).unwrap_or(127);
            let mut fields = vec![(0, Value::I8(old)), (3, Value::I32(*code))];
            fields.extend(custom.iter().map(|name| (1, Value::text(name))));
            // Interpreters take its second version alone.
            if *code == Builtin::BroadcastTo.number() {
                fields.push((2, Value::I32(2)));
            }
            fields
        });
        let buffers = self.buffers.iter().map(|bytes| {
            if bytes.is_empty() { Vec::new() } else { vec![(0, Value::Bytes(bytes.clone()))] }
        });
        let mut graphs = self.graphs.clone();
        graphs.push(self.graph());
        let mut model = vec![
            (0, Value::U32(3)),
            (1, Value::Tables(codes.collect())),
            (2, Value::Tables(graphs)),
            (3, Value::text("made by a test")),
            (4, Value::Tables(buffers.collect())),
        ];
        model.extend(self.notes.clone());
        write(&model, *b"TFL3")
    }
}

/// The body of the fuzz target: whatever the bytes are, the import ends, and what it gives keeps
/// the HAL's rules, for the import itself validates it.
///
/// # Errors
/// As [`Imported::from_bytes`].
pub fn import_anything(bytes: &[u8]) -> Result<Imported, ImportError> {
    let described = Contents::read(&bytes.to_vec().into(), 0);
    let imported = Imported::from_bytes(bytes);
    // Read piece by piece, a file gives the same.
    if let Ok(memory) = crate::file::memory_of(bytes)
        && let Ok(descriptor) = memory.fd().try_clone_to_owned()
    {
        let pieces = FileBytes::with_large(descriptor.into(), bytes.len(), 16);
        let again = ModelFile::of(pieces).import(ImportOptions::default());
        debug_assert_eq!(again.is_ok(), imported.is_ok());
        if let (Ok(again), Ok(imported)) = (again, &imported) {
            debug_assert_eq!(again.model.main.operations, imported.model.main.operations);
        }
    }
    for signature in described.iter().flat_map(|contents| contents.signatures.iter().take(3)) {
        let options =
            ImportOptions { extension: true, shared_variables: true, ..ImportOptions::default() };
        if let Ok(file) = ModelFile::from_bytes(bytes).signature(&signature.key) {
            let _ = file.import(options);
        }
    }
    let imported = imported?;
    // Broken notes do not keep a model from being imported, yet its graph can be described.
    if let Ok(contents) = described {
        let labels = crate::packed_files::labels(&bytes.to_vec().into(), 0, 0);
        debug_assert!(
            labels.is_err() || labels.is_ok_and(|it| it.is_none_or(|it| it.len() <= bytes.len()))
        );
        debug_assert_eq!(contents.operators.len(), imported.operators.len());
        let ranges = contents.metadata.iter().map(|entry| &entry.range);
        let ranges = ranges.chain(contents.tensors.iter().filter_map(|it| it.data.as_ref()));
        debug_assert!(ranges.into_iter().all(|range| bytes.get(range.clone()).is_some()));
    }
    // Naming a state twice or losing a source would mislead sessions and reports.
    let pairs = imported.states.len();
    debug_assert_eq!(imported.model.main.input_indexes.len(), imported.inputs.len() + pairs);
    debug_assert_eq!(imported.model.main.output_indexes.len(), imported.outputs.len() + pairs);
    debug_assert_eq!(imported.sources.len(), imported.model.main.operations.len());
    Ok(imported)
}
