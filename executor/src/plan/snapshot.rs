//! The part of a plan that a compilation cache keeps: the model, the constants that steps or shapes
//! depend on, and the packed weights. The steps are made anew; that is quick once nothing is
//! packed.

use std::collections::HashSet;
use std::sync::Arc;

use nnburst_hal::{DataLocation, Memory, Model, OperandLifeTime, Subgraph};
use nnburst_kernels::tensor::AlignedBytes;
use nnburst_kernels::tensor::packed::{Packed, PackedEntry, Packs};

use super::{CompileOptions, Plan};
use crate::lowering::{CompileError, Control};

/// A plan, taken apart to be kept. [`Plan::restore`] puts it together again, on a machine with the
/// same instruction sets, with the same options and the same build of this crate
/// ([`crate::FINGERPRINT`]).
#[derive(Debug)]
pub struct Snapshot {
    /// The model, without memories. Constants are copied ones, but for those that are wholly in
    /// packed weights: they refer to a memory 0 that nobody needs any more.
    pub model: Model,
    /// Bytes of that memory.
    pub absent: u64,
    /// The places of the packed weights, if those of [`Snapshot::weights`] start each at a multiple
    /// of 64.
    pub entries: Vec<PackedEntry>,
    weights: Vec<Packed>,
}

impl Snapshot {
    /// The packed weights, in the order of their entries.
    pub fn weights(&self) -> impl Iterator<Item = &[u8]> {
        self.weights.iter().map(Packed::as_slice)
    }
}

impl Plan {
    /// Takes the plan apart; `model` is what it was compiled of. `None` where its constants take
    /// more than 4 GiB together.
    pub fn snapshot(&self, model: &Model) -> Option<Snapshot> {
        let absorbed = super::absorbed_in(self.first.as_deref());
        let mut values = Constants::default();
        let mut absent = 0usize;
        let mut copy = Model { operand_values: Vec::new(), pools: Vec::new(), ..model.clone() };
        let graphs = std::iter::once(&mut copy.main).chain(&mut copy.referenced);
        for (at, (graph, compiled)) in graphs.zip(&self.context.graphs).enumerate() {
            let is_absent = absent_operands(at, graph, &absorbed);
            for (index, constant) in compiled.constants.iter().enumerate() {
                let (Some(constant), Some(operand)) = (constant, graph.operands.get_mut(index))
                else {
                    continue;
                };
                if is_absent.get(index) == Some(&true) {
                    operand.lifetime = OperandLifeTime::ConstantReference;
                    operand.location = location(absent, constant.len())?;
                    absent = absent.checked_add(constant.len())?;
                } else {
                    operand.lifetime = OperandLifeTime::ConstantCopy;
                    operand.location = values.add(constant.bytes()?.as_slice())?;
                }
            }
        }
        let absent = u64::try_from(absent).ok()?;
        copy.operand_values = values.0;
        let (entries, weights) =
            if self.is_static() { self.context.packs.lay_out() } else { Default::default() };
        Some(Snapshot { model: copy, absent, entries, weights })
    }

    /// Puts a plan together from the parts of a [`Snapshot`], which need not be trusted: the model
    /// is validated like any other, and the weights are numbers to compute with. Also gives back
    /// the model.
    ///
    /// # Errors
    /// As for [`Plan::compile_under`], and [`CompileError::Cache`] if the parts don't belong
    /// together.
    pub fn restore(
        mut model: Model,
        absent: u64,
        entries: &[PackedEntry],
        weights: AlignedBytes,
        options: &CompileOptions,
        control: &Control<'_>,
    ) -> Result<(Self, Model), CompileError> {
        let weights = Arc::new(weights);
        let packs = match entries {
            [] if absent == 0 => Packs::default(),
            entries => Packs::cached(entries, &weights).ok_or(CompileError::Cache)?,
        };
        model.pools = match absent {
            0 => Vec::new(),
            // Of that size, for the rules; nobody reads it.
            _ => vec![Memory::absent(absent).map_err(|_| CompileError::Cache)?],
        };
        let plan = Self::compile_with(&model, options, packs, Some(&weights), control)?;
        weights.settle(options.memory.as_ref());
        Ok((plan, model))
    }
}

/// For each operand of a graph, whether it is a constant of which everything is in packed weights.
fn absent_operands(
    graph: usize,
    subgraph: &Subgraph,
    absorbed: &HashSet<(usize, usize, usize)>,
) -> Vec<bool> {
    let mut uses = vec![(0usize, 0usize); subgraph.operands.len()];
    for (at, operation) in subgraph.operations.iter().enumerate() {
        for (input, &operand) in operation.inputs.iter().enumerate() {
            if let Some((all, packed)) = uses.get_mut(operand as usize) {
                *all += 1;
                *packed += usize::from(absorbed.contains(&(graph, at, input)));
            }
        }
    }
    uses.iter().map(|&(all, packed)| all > 0 && all == packed).collect()
}

#[derive(Default)]
struct Constants(Vec<u8>);

impl Constants {
    fn add(&mut self, bytes: &[u8]) -> Option<DataLocation> {
        let location = location(self.0.len(), bytes.len())?;
        self.0.extend_from_slice(bytes);
        Some(location)
    }
}

fn location(offset: usize, length: usize) -> Option<DataLocation> {
    u32::try_from(offset.checked_add(length)?).ok()?;
    let (offset, length) = (u32::try_from(offset).ok()?, u32::try_from(length).ok()?);
    Some(DataLocation { pool_index: 0, offset, length })
}

#[cfg(test)]
mod tests {
    use nnburst_hal::{Operand, OperandType, Operation, OperationType, View, ViewMut};

    use super::*;
    use crate::testing::through_a_cache;
    use crate::{Input, Output};

    /// Two units over three inputs: weights, recurrent weights, bias.
    fn rnn() -> Model {
        let tensor = |dimensions: &[u32], lifetime| {
            Operand::tensor(OperandType::TensorFloat32, dimensions.to_vec()).with_lifetime(lifetime)
        };
        let constant = |operand: Operand, offset, length| Operand {
            location: DataLocation { pool_index: 0, offset, length },
            ..operand
        };
        let copied = OperandLifeTime::ConstantCopy;
        let mut operands = vec![
            tensor(&[1, 3], OperandLifeTime::SubgraphInput),
            constant(tensor(&[2, 3], copied), 0, 24),
            constant(tensor(&[2, 2], copied), 24, 16),
            constant(tensor(&[2], copied), 40, 8),
            tensor(&[1, 2], OperandLifeTime::SubgraphInput),
            constant(Operand::scalar(OperandType::Int32).with_lifetime(copied), 48, 4),
            tensor(&[1, 2], OperandLifeTime::SubgraphOutput),
            tensor(&[1, 2], OperandLifeTime::SubgraphOutput),
        ];
        operands.iter_mut().take(6).for_each(|operand| operand.number_of_consumers = 1);
        let operation =
            Operation { kind: OperationType::Rnn, inputs: (0..6).collect(), outputs: vec![6, 7] };
        let main = Subgraph {
            operands,
            operations: vec![operation],
            input_indexes: vec![0, 4],
            output_indexes: vec![6, 7],
        };
        let weights = (1..=12u8).flat_map(|weight| f32::from(weight).to_le_bytes());
        let operand_values = weights.chain(0i32.to_le_bytes()).collect();
        Model { main, operand_values, ..Model::default() }
    }

    fn run(plan: &Plan) -> [u8; 8] {
        let bytes = |values: &[f32]| -> Vec<u8> {
            values.iter().flat_map(|value| value.to_le_bytes()).collect()
        };
        let (x, h) = (bytes(&[1.0, -2.0, 3.0]), bytes(&[0.5, -0.25]));
        let (mut state, mut output) = ([0; 8], [0; 8]);
        let inputs = [Input::new(View::of(&x)), Input::new(View::of(&h))];
        let outputs = [Output::new(ViewMut::of(&mut state)), Output::new(ViewMut::of(&mut output))];
        plan.session().run(&inputs, &outputs, &Control::default()).unwrap();
        output
    }

    /// Convolutions of floats of one image, with SAME padding and strides of 1, a result each.
    struct Convolutions {
        graph: Subgraph,
        values: Vec<u8>,
    }

    impl Convolutions {
        fn new(image: &[u32]) -> Self {
            let (graph, values) = (Subgraph::default(), Vec::new());
            let mut made = Self { graph, values };
            made.graph.input_indexes = vec![made.add(image, OperandLifeTime::SubgraphInput)];
            made
        }

        fn add(&mut self, dimensions: &[u32], lifetime: OperandLifeTime) -> u32 {
            let kind = OperandType::TensorFloat32;
            self.push(Operand::tensor(kind, dimensions.to_vec()).with_lifetime(lifetime))
        }

        fn push(&mut self, operand: Operand) -> u32 {
            self.graph.operands.push(operand);
            u32::try_from(self.graph.operands.len() - 1).unwrap()
        }

        fn constant(&mut self, operand: Operand, bytes: &[u8]) -> u32 {
            let location = location(self.values.len(), bytes.len()).unwrap();
            self.values.extend(bytes);
            let operand = operand.with_lifetime(OperandLifeTime::ConstantCopy);
            self.push(Operand { location, number_of_consumers: 1, ..operand })
        }

        fn floats(&mut self, dimensions: &[u32], value: impl Fn(u32) -> f32) -> u32 {
            let count = dimensions.iter().product();
            let bytes: Vec<u8> = (0..count).flat_map(|at| value(at).to_le_bytes()).collect();
            let kind = OperandType::TensorFloat32;
            self.constant(Operand::tensor(kind, dimensions.to_vec()), &bytes)
        }

        /// Its operands are the image, `tensors` and then `numbers`.
        fn convolve(&mut self, kind: OperationType, tensors: &[u32], numbers: &[i32], out: &[u32]) {
            let mut inputs = vec![0];
            inputs.extend(tensors);
            for number in numbers {
                let scalar = Operand::scalar(OperandType::Int32);
                inputs.push(self.constant(scalar, &number.to_le_bytes()));
            }
            let output = self.add(out, OperandLifeTime::SubgraphOutput);
            self.graph.output_indexes.push(output);
            self.graph.operands[0].number_of_consumers += 1;
            self.graph.operations.push(Operation { kind, inputs, outputs: vec![output] });
        }

        /// A depthwise one of 3x3 pixels of 256 channels.
        fn depthwise(&mut self, weight: impl Fn(u32) -> f32, bias: f32) {
            let (filter, bias) =
                (self.floats(&[1, 3, 3, CHANNELS], weight), self.floats(&[CHANNELS], |_| bias));
            let numbers = [1, 1, 1, 1, 0];
            self.convolve(OperationType::DepthwiseConv2d, &[filter, bias], &numbers, &IMAGE);
        }

        /// A transposed one of a pixel, to one channel.
        fn transposed(&mut self) {
            let (filter, bias) =
                (self.floats(&[1, 1, 1, CHANNELS], |at| at as f32), self.floats(&[1], |_| 0.5));
            let shape = Operand::tensor(OperandType::TensorInt32, vec![4]);
            let output = [1u32, 3, 3, 1];
            let extents: Vec<u8> = output.iter().flat_map(|extent| extent.to_le_bytes()).collect();
            let shape = self.constant(shape, &extents);
            let layout = self.constant(Operand::scalar(OperandType::Bool), &[0]);
            let (kind, numbers) = (OperationType::TransposeConv2d, [1, 1, 1, 0]);
            self.convolve(kind, &[filter, bias, shape], &numbers, &output);
            self.graph.operations.last_mut().unwrap().inputs.push(layout);
        }

        /// A dense layer of all of the image, of 128 units.
        fn dense(&mut self, weight: impl Fn(u32) -> f32) {
            let (filter, bias) =
                (self.floats(&[128, 9 * CHANNELS], weight), self.floats(&[128], |at| at as f32));
            self.convolve(OperationType::FullyConnected, &[filter, bias], &[0], &[1, 128]);
        }

        fn model(self) -> Model {
            Model { main: self.graph, operand_values: self.values, ..Model::default() }
        }
    }

    const CHANNELS: u32 = 256;
    const IMAGE: [u32; 4] = [1, 3, 3, CHANNELS];

    /// Sees that a plan from a cache that lacks so many bytes of constants computes what it did.
    fn check_restored(model: &Model, lacking: u32) {
        let plan = Plan::compile(model, &CompileOptions::default()).unwrap();
        let (restored, absent) = through_a_cache(&plan, model, &CompileOptions::default()).unwrap();
        assert_eq!(absent, u64::from(lacking));
        let run = |plan: &Plan| {
            let image = [0x3f; 9 * 1024];
            let mut results = vec![[0xA5u8; 9 * 1024]; model.main.output_indexes.len()];
            let inputs = [Input::new(View::of(&image))];
            let outputs: Vec<_> =
                results.iter_mut().map(|it| Output::new(ViewMut::of(it))).collect();
            plan.session().run(&inputs, &outputs, &Control::default()).unwrap();
            results
        };
        assert!(run(&restored) == run(&plan));
    }

    #[test]
    fn weights_that_are_no_numbers_are_seen_in_what_a_cache_has() {
        let mut made = Convolutions::new(&IMAGE);
        // In the last tap, which isn't among the bytes that stand in for the weights once they are
        // packed.
        made.depthwise(|at| if at == 8 * CHANNELS + 7 { f32::INFINITY } else { 0.5 }, 0.0);
        check_restored(&made.model(), 9 * CHANNELS * 4);
    }

    #[test]
    fn weights_are_numbers_whatever_stands_in_for_them() {
        let mut made = Convolutions::new(&IMAGE);
        // What stands in for any is what was packed first: here a bias.
        made.depthwise(|_| 0.5, f32::INFINITY);
        made.transposed();
        check_restored(&made.model(), 10 * CHANNELS * 4);
    }

    #[test]
    fn weights_of_half_the_bits_are_what_they_were_in_what_a_cache_has() {
        let weight = |at: u32| (at.wrapping_mul(2_654_435_761) % 1000) as f32 / 7e3 - 0.05;
        for narrowed in [
            (|weight| half::f16::from_f32(weight).to_f32()) as fn(f32) -> f32,
            |weight| half::bf16::from_f32(weight).to_f32(),
            |weight| weight,
        ] {
            let mut made = Convolutions::new(&IMAGE);
            made.dense(|at| narrowed(weight(at)));
            check_restored(&made.model(), 128 * 9 * CHANNELS * 4);
        }
    }

    #[test]
    fn the_matrices_of_a_recurrent_cell_are_kept_packed_and_only_so() {
        let model = rnn();
        let plan = Plan::compile(&model, &CompileOptions::default()).unwrap();
        let (restored, absent) =
            through_a_cache(&plan, &model, &CompileOptions::default()).unwrap();
        assert_eq!(absent, 24 + 16, "both matrices, not the bias");
        assert_eq!(run(&restored), run(&plan));
    }
}
