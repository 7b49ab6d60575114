//! A type for each operation, with setters for what it can do without being told.
//!
//! They come from the methods of [`ModelBuilder`](crate::ModelBuilder):
//! `graph.conv_2d(input, filter, bias)` is a [`Conv2d`] with one pixel as stride and no padding,
//! `stride` and `padding` change that, `done` adds it to the model. Names are those of NNAPI, as
//! are meanings; what they compute is said there and in short here.
//!
//! | argument            | given as |
//! |---------------------|---|
//! | a tensor            | an [`OperandId`](crate::OperandId), an input, constant or output |
//! | a number or flag    | itself, or an operand that holds it |
//! | a list of numbers   | an array, or an operand that holds it |
//! | width and height    | one number for both, or `(width, height)` |
//! | what an LSTM learnt | [`LstmWeights`], gate by gate |
//!
//! Scalars take the type that goes with the tensors: `0.5` is a FLOAT16 where they are.

mod detection;
mod elementwise;
mod images;
mod reductions;
mod sequences;
mod shapes;

use nnburst_hal::{Operand, OperandType, OperationType};

pub use super::arguments::{
    Activation, Flag, Float, HeightFirst, Int, Ints, MaybeInts, MaybeTensor, NmsKernel, Number,
    Padding, Pairs, Projection, Ratio, Resize, Size, Tensors, TransposePadding,
};
use super::call::{Arguments, Told};
pub use super::recurrent::{
    CellActivation, GateScales, Gates, LstmState, LstmWeights, MaybeGates, OutputProjection,
    Peephole, RnnWeights,
};
use super::{ModelBuilder, OperandId};
pub use detection::*;
pub use elementwise::*;
pub use images::*;
pub use reductions::*;
pub use sequences::*;
pub use shapes::*;

/// The common part of operations that are being made.
#[derive(Debug)]
struct Pending<'g> {
    graph: &'g mut ModelBuilder,
    told: Told,
}

impl<'g> Pending<'g> {
    fn new(graph: &'g mut ModelBuilder) -> Self {
        Self { graph, told: Told::default() }
    }
}

/// An operation of which all is said.
struct Ready<'g> {
    pending: Pending<'g>,
    kind: OperationType,
    arguments: Arguments,
}

impl Ready<'_> {
    fn add<const N: usize>(self) -> [OperandId; N] {
        let ids = self.add_many(N);
        std::array::from_fn(|at| ids[at])
    }

    fn add_many(self, outputs: usize) -> Vec<OperandId> {
        let Pending { graph, told } = self.pending;
        graph.call(self.kind, self.arguments, outputs, &told)
    }
}

/// Methods and types of operations. A row is
///
/// ```text
///   AveragePool2d average_pool_2d(input: OperandId; filter: Size)
///   │             │                { padding: Padding = ..., filter, ... }
///   │             └ the method     [ nchw: Flag = false ]
///   └ the type, and                => one;
///     OperationType::...
/// ```
///
/// In parentheses are the inputs that must be given: those first in NNAPI's order, and behind `;`
/// those further on. In braces is the rest in NNAPI's order: with a default, or one of those above.
/// In brackets are those that a list can end without. Then come the outputs: `one`, `many` (then
/// the type has `outputs`, their number) or a struct's name and fields.
macro_rules! operations {
    ($(
        $(#[$doc:meta])*
        $kind:ident $name:ident(
            $($pre:ident: $pre_type:ident),* $(; $($late:ident: $late_type:ident),+)?
        )
        $({ $($(#[$slot_doc:meta])* $slot:ident $(: $type:ident = $default:expr)?),+ $(,)? })?
        $([ $($(#[$trail_doc:meta])* $trail:ident: $trail_type:ident = $trail_default:expr),+ $(,)? ])?
        => $($result:ident)? $({ $struct:ident: $($(#[$output_doc:meta])* $output:ident),+ })?;
    )*) => {
        impl ModelBuilder { $(
            $(#[$doc])*
            pub fn $name(
                &mut self,
                $($pre: impl Into<$pre_type>,)*
                $($($late: impl Into<$late_type>,)+)?
            ) -> $kind<'_> {
                $kind {
                    pending: Pending::new(self),
                    $($pre: $pre.into(),)*
                    $($($late: $late.into(),)+)?
                    $($($($slot: <$type>::from($default),)?)+)?
                    $($($trail: None,)+)?
                }
            }
        )* }

        $(
            #[doc = concat!(stringify!($kind), " in the making: see [`ModelBuilder::", stringify!($name), "`].")]
            #[derive(Debug)]
            #[must_use = "an operation is part of the model once it is `done`"]
            pub struct $kind<'g> {
                pending: Pending<'g>,
                $($pre: $pre_type,)*
                $($($late: $late_type,)+)?
                $($($($slot: $type,)?)+)?
                $($($trail: Option<$trail_type>,)+)?
            }

            impl<'g> $kind<'g> {
$($(
                    setter! { $(#[$slot_doc])* $slot $($type = $default)? }
                )+)?
                $($(
                    $(#[$trail_doc])*
                    ///
                    #[doc = concat!("Else `", stringify!($trail_default), "`.")]
                    pub fn $trail(mut self, $trail: impl Into<$trail_type>) -> Self {
                        self.$trail = Some($trail.into());
                        self
                    }
                )+)?

                /// Scale and zero point of the first output, where it is quantised and they don't
                /// follow from the inputs.
                pub fn quantized(mut self, scale: f32, zero_point: i32) -> Self {
                    self.pending.told.quantization = Some((scale, zero_point));
                    self
                }

                /// The type of the first output, where the operation leaves a choice.
                pub fn to(mut self, kind: OperandType) -> Self {
                    self.pending.told.kind = Some(kind);
                    self
                }

                /// All of an output by its position: type, shape and quantisation, in place of what
                /// follows from the inputs.
                pub fn output(mut self, position: usize, operand: Operand) -> Self {
                    self.pending.told.outputs.push((position, operand));
                    self
                }

                fn ready(self) -> Ready<'g> {
                    let mut arguments = Arguments::default();
                    $(arguments.push(stringify!($pre), self.$pre);)*
                    $($(arguments.push(stringify!($slot), self.$slot);)+)?
                    $($(arguments.push_trailing(stringify!($trail), self.$trail, || {
                        <$trail_type>::from($trail_default)
                    });)+)?
                    Ready { pending: self.pending, kind: OperationType::$kind, arguments }
                }

                $(done! { $result })?
                $(
                    /// Adds the operation to the model; its outputs.
                    pub fn done(self) -> $struct {
                        let [$($output),+] = self.ready().add();
                        $struct { $($output),+ }
                    }
                )?
            }

            $(
                #[doc = concat!("What ", stringify!($kind), " gives.")]
                #[derive(Clone, Copy, Debug, PartialEq, Eq)]
                pub struct $struct { $($(#[$output_doc])* pub $output: OperandId),+ }
            )?
        )*
    };
}

macro_rules! setter {
    ($slot:ident) => {};
    ($(#[$doc:meta])* $slot:ident Padding = $default:expr) => {
        /// Sets the padding around the picture; see also `same`. Else [`Padding::Valid`].
        pub fn $slot(mut self, $slot: impl Into<Padding>) -> Self {
            self.$slot = $slot.into();
            self
        }

        /// Pads so that the output has `input / stride` pixels, rounded up: [`Padding::Same`].
        pub fn same(self) -> Self {
            self.$slot(Padding::Same)
        }
    };
    ($(#[$doc:meta])* $slot:ident Activation = $default:expr) => {
        /// The activation behind the operation; see also `relu`, `relu1` and `relu6`. Else there is
        /// none.
        pub fn $slot(mut self, $slot: impl Into<Activation>) -> Self {
            self.$slot = $slot.into();
            self
        }

        /// `max(x, 0)` behind the operation.
        pub fn relu(self) -> Self {
            self.$slot(FusedActivation::Relu)
        }

        /// `min(max(x, -1), 1)` behind the operation.
        pub fn relu1(self) -> Self {
            self.$slot(FusedActivation::Relu1)
        }

        /// `min(max(x, 0), 6)` behind the operation.
        pub fn relu6(self) -> Self {
            self.$slot(FusedActivation::Relu6)
        }
    };
    ($(#[$doc:meta])* $slot:ident $type:ident = $default:expr) => {
        $(#[$doc])*
        ///
        #[doc = concat!("Else `", stringify!($default), "`.")]
        pub fn $slot(mut self, $slot: impl Into<$type>) -> Self {
            self.$slot = $slot.into();
            self
        }
    };
}

macro_rules! done {
    (one) => {
        /// Adds the operation to the model; its output.
        pub fn done(self) -> OperandId {
            let [output] = self.ready().add();
            output
        }
    };
    (many) => {
        /// Adds the operation to the model; its outputs.
        pub fn done(self) -> Vec<OperandId> {
            let outputs = self.outputs();
            self.ready().add_many(outputs)
        }
    };
}

use {done, operations, setter};
