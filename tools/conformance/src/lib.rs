//! Conformance cases: small models with their inputs and the outputs a correct driver produces.
//!
//! ```text
//!   <version>/<spec>.json.gz ──load_dir──► Case { model, inputs, outputs, .. }
//!                                           │ dynamic_shapes(), signed_twin(), .. (derived cases)
//!                                           │ request() ──► Request over two memories ──► driver
//!                                           └ compare(output, dimensions, bytes) ◄── what came out
//! ```
//!
//! The format is that of the folder's own README: gzip-packed JSON, tensors in base64. Cases are
//! read in place, one file at a time. The rules for what counts as right are those of the reference
//! suites; they live in [`Case::compare`] and nowhere else.
//!
//! ```
//! use nnburst_conformance::load_str;
//!
//! let json = r#"{"spec": "V1_0/floor", "cases": [{
//!     "name": "floor", "isRelaxed": false, "expectFailure": false, "minSupportedVersion": "V1_0",
//!     "expectedMultinomialDistributionTolerance": 0, "referenced": [],
//!     "main": {"operands": [
//!         {"type": "TENSOR_FLOAT32", "dimensions": [1], "numberOfConsumers": 1, "scale": 0,
//!          "zeroPoint": 0, "lifetime": "SUBGRAPH_INPUT", "channelQuant": null,
//!          "isIgnored": false, "data": "AADAPw=="},
//!         {"type": "TENSOR_FLOAT32", "dimensions": [1], "numberOfConsumers": 0, "scale": 0,
//!          "zeroPoint": 0, "lifetime": "SUBGRAPH_OUTPUT", "channelQuant": null,
//!          "isIgnored": false, "data": "AACAPw=="}],
//!       "operations": [{"type": "FLOOR", "inputs": [0], "outputs": [1]}],
//!       "inputIndexes": [0], "outputIndexes": [1]}}]}"#;
//! let cases = load_str(json).unwrap();
//! assert_eq!(cases[0].inputs[0].bytes, 1.5f32.to_le_bytes());
//! assert!(cases[0].compare(0, &[1], &1.0f32.to_le_bytes()).is_ok());
//! let wrong = cases[0].compare(0, &[1], &2.0f32.to_le_bytes()).unwrap_err();
//! assert!(wrong.to_string().contains("element 0 is 2"));
//! ```
#![forbid(unsafe_code)]

mod compare;
mod failures;
mod load;
mod read;
mod request;
#[cfg(any(test, feature = "testing"))]
mod testing;
mod variants;
mod write;

pub use compare::Mismatch;
pub use load::{Cases, LoadError, load_dir, load_file, load_str};
pub use request::CaseRequest;
#[cfg(any(test, feature = "testing"))]
pub use testing::shared_dir;
pub use write::{to_json, write_file};

use nnburst_hal::{Model, OperandType, OperationType, Version};

/// A model with what to feed it and what to expect.
#[derive(Clone, Debug)]
pub struct Case {
    /// The specification's file, such as `V1_2/softmax_v1_2`.
    pub spec: String,
    /// Unique over all files; says which variation it is.
    pub name: String,
    /// The model; its `CONSTANT_REFERENCE` operands lie in one pool, each at a multiple of 4 bytes.
    pub model: Model,
    /// One per model input, in order.
    pub inputs: Vec<Value>,
    /// One per model output, in order.
    pub outputs: Vec<Expected>,
    /// A correct driver refuses the model or fails the execution; see [`Case::loops_forever`].
    pub expect_failure: bool,
    /// FLOAT32 may be computed with the precision of FLOAT16.
    pub is_relaxed: bool,
    /// The first version that can express the model; `None` where no claim is made.
    pub min_version: Option<Version>,
    /// Not 0: outputs are draws, judged by their distribution within this absolute tolerance.
    pub multinomial_tolerance: f32,
}

impl Case {
    /// A case of a model of known shapes: with these bytes as inputs these have to come out.
    pub fn of_values(
        spec: &str,
        name: &str,
        model: Model,
        inputs: Vec<Vec<u8>>,
        outputs: Vec<Vec<u8>>,
    ) -> Self {
        let operand = |&index: &u32| {
            let found = usize::try_from(index).ok().and_then(|at| model.main.operands.get(at));
            found.map_or((OperandType::TensorFloat32, Vec::new()), |operand| {
                (operand.kind, operand.dimensions.clone())
            })
        };
        let inputs = model.main.input_indexes.iter().map(operand).zip(inputs);
        let inputs = inputs.map(|((kind, dimensions), bytes)| Value { kind, dimensions, bytes });
        let outputs = model.main.output_indexes.iter().map(operand).zip(outputs);
        let outputs = outputs.map(|((kind, dimensions), bytes)| Expected {
            kind,
            dimensions,
            bytes,
            is_ignored: false,
        });
        Self {
            spec: spec.to_owned(),
            name: name.to_owned(),
            inputs: inputs.collect(),
            outputs: outputs.collect(),
            is_relaxed: model.relax_computation_float32_to_float16,
            model,
            expect_failure: false,
            min_version: None,
            multinomial_tolerance: 0.0,
        }
    }
}

/// The value of a model input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Type of the operand.
    pub kind: OperandType,
    /// Extents of the operand in the model.
    pub dimensions: Vec<u32>,
    /// Row-major elements, little-endian. Empty: the argument is passed as omitted.
    pub bytes: Vec<u8>,
}

/// The expected value of a model output.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// Type of the operand.
    pub kind: OperandType,
    /// The shape that has to come out.
    pub dimensions: Vec<u32>,
    /// Row-major elements, little-endian; empty for a zero-sized result.
    pub bytes: Vec<u8>,
    /// Produced, but not compared.
    pub is_ignored: bool,
}

impl Case {
    /// Returns whether any graph of the model has an operation of this kind.
    pub fn has_operation(&self, kind: OperationType) -> bool {
        self.graphs().flat_map(|graph| &graph.operations).any(|operation| operation.kind == kind)
    }

    /// Returns whether any graph of the model has an operand of this kind.
    pub fn has_operand(&self, kind: OperandType) -> bool {
        self.graphs().flat_map(|graph| &graph.operands).any(|operand| operand.kind == kind)
    }

    /// An expected failure of the other kind: the model is valid and must be accepted, its WHILE
    /// never ends, and the loop timeout (1 ms in the reference suites) has to stop it with a missed
    /// deadline.
    pub fn loops_forever(&self) -> bool {
        let first = self.model.main.operations.first();
        self.expect_failure && first.is_some_and(|first| first.kind == OperationType::While)
    }

    fn graphs(&self) -> impl Iterator<Item = &nnburst_hal::Subgraph> {
        std::iter::once(&self.model.main).chain(&self.model.referenced)
    }
}
