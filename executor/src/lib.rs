//! Compiles NNAPI models into plans and runs them on the CPU.
//!
//! ```text
//!   hal::Model ──Plan::compile──► Plan (immutable, shared)
//!                                  │ session()
//!                                  ▼
//!   request's memory ──run──► Session (scratch, learnt shapes; one per execution) ──► outputs
//! ```
//!
//! A plan is a list of steps over an arena: shapes are worked out, weights packed and kernels
//! chosen when the model is compiled. What the model leaves open (unknown extents, shapes that are
//! computed, branches, loops) is compiled at run time from the request, and kept for the next.
//!
//! Where to look: `ops` has one file per operation or close family, with its shape rule and how it
//! becomes steps; `lowering` what they lower themselves with; `plan` and `session` how a plan comes
//! about and runs. The compute primitives, with a
//! variant per instruction set, and the tensors that they work on are a crate of their own,
//! `nnburst-kernels`.
//!
//! ```
//! use nnburst_executor::{CompileOptions, Control, Input, Output, Plan};
//! use nnburst_hal::{
//!     Model, Operand, OperandLifeTime, OperandType, Operation, OperationType, Subgraph, View,
//!     ViewMut,
//! };
//!
//! let kind = OperandType::TensorFloat32;
//! let tensor = |lifetime| Operand::tensor(kind, vec![2]).with_lifetime(lifetime);
//! let model = Model {
//!     main: Subgraph {
//!         operands: vec![
//!             Operand { number_of_consumers: 1, ..tensor(OperandLifeTime::SubgraphInput) },
//!             tensor(OperandLifeTime::SubgraphOutput),
//!         ],
//!         operations: vec![Operation {
//!             kind: OperationType::Relu,
//!             inputs: vec![0],
//!             outputs: vec![1],
//!         }],
//!         input_indexes: vec![0],
//!         output_indexes: vec![1],
//!     },
//!     ..Model::default()
//! };
//! let plan = Plan::compile(&model, &CompileOptions::default())?;
//! let mut session = plan.session();
//!
//! let input: Vec<u8> = [-1.0f32, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
//! let mut output = [0; 8];
//! session.run(
//!     &[Input::new(View::of(&input))],
//!     &[Output::new(ViewMut::of(&mut output))],
//!     &Control::default(),
//! )?;
//! assert_eq!(output[..4], 0.0f32.to_le_bytes());
//! assert_eq!(output[4..], 2.0f32.to_le_bytes());
//! assert_eq!(session.output_shapes()[0].dimensions, [2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod lowering;
mod ops;
mod plan;
mod session;
#[cfg(feature = "testing")]
pub mod testing;

/// Tells builds of this crate apart: what one packed or took apart ([`Snapshot`]) is of no use to
/// another.
pub const FINGERPRINT: u64 = include!(concat!(env!("OUT_DIR"), "/fingerprint.rs"))
    ^ nnburst_kernels::FINGERPRINT.rotate_left(1);

pub use lowering::{
    Checkpoint, CompileError, Control, DynamicOutput, ExtensionExecutor, ExtensionRegistry, Io,
    Label, Lowered, OpBuilder, RunError, Stop, Words,
};
pub use nnburst_kernels::kernels::plain::Loop;
pub use nnburst_kernels::simd::{Isa, IsaError, fetch};
pub use nnburst_kernels::tensor::packed::PackedEntry;
pub use nnburst_kernels::tensor::{
    AlignedBytes, Element, In, NoMemory, OpError, Out, Quantised, Real, Shape, Tensor, quant,
    quantised_range,
};
pub use ops::tflite::{TfliteExecutor, takes_tflite};
pub use plan::{CompileOptions, MAX_THREADS, Plan, Snapshot, is_implemented};
pub use session::{Bandwidth, Ceilings, Input, Output, Peak, Session, StepTime};
