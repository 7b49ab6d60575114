//! The choice for each operator between NNAPI's operations and the extension's.

use nnburst_hal::{
    Operand, OperandLifeTime, OperandType, Operation, OperationType, operation_since,
};

use super::{Import, Lower, Refusal};
use crate::error::{ImportError, UnsupportedOperator};
use crate::graph::is_open;
use crate::model::Route;
use crate::operand::is_quantized;
use crate::schema::options::softmax;
use crate::schema::{Builtin, Operator, Tensor, TensorKind};

/// Lowers every operator; those that can't be are all reported, not only the first. `places` are
/// the operators' indices in the file.
pub(crate) fn lower_all(
    import: &mut Import<'_>,
    places: &[usize],
) -> Result<Vec<Route>, ImportError> {
    let graph = import.graph;
    let mut unsupported = Vec::new();
    let mut routes = Vec::new();
    for (index, op) in graph.operators.iter().enumerate() {
        import.builder.source = index;
        let why = match import.lower_one(op) {
            Ok(route) => {
                routes.push(route);
                continue;
            }
            Err(Refusal::Format(error)) => return Err(error.into()),
            Err(Refusal::Unsupported(why)) => why,
        };
        let name = import.file.codes[op.code].name();
        let index = places.get(index).copied().unwrap_or(index);
        unsupported.push(UnsupportedOperator { index, name, why });
        import.assume_outputs(op);
    }
    if unsupported.is_empty() {
        return Ok(routes);
    }
    Err(ImportError::Unsupported { operators: unsupported })
}

impl<'a> Import<'a> {
    /// Lowers an operator to nothing where its results follow from constants and shapes, to NNAPI's
    /// operations where they have TFLite's results, else to the extension's, if it may be used and
    /// has it; else to NNAPI's whatever their results are.
    pub(crate) fn lower_one(&mut self, op: &'a Operator<'a>) -> Result<Route, Refusal> {
        let import = self;
        if let Some(why) = (Lower { import: &mut *import, op }).mixes_batch() {
            return Err(Refusal::Unsupported(why));
        }
        if let Some((operator, registry)) = import.registered(op) {
            return import.by_program(op, operator, registry);
        }
        if let Some(why) = (Lower { import: &mut *import, op }).misfit() {
            return Err(Refusal::Unsupported(why));
        }
        let mut lower = Lower { import: &mut *import, op };
        let is_done = lower.windows_without_elements()?
            || lower.results_without_elements()?
            || lower.fold()?
            || lower.fold_channels()?
            || lower.quantise_nibbles()?;
        if is_done {
            return Ok(Route::Nnapi);
        }
        if !import.options.extension {
            return import.by_nnapi(op).map(|_| Route::Nnapi);
        }
        let mark = import.mark();
        let differs = Lower { import: &mut *import, op }.differs();
        let why = match differs {
            Some(why) => why.to_owned(),
            None => match import.by_nnapi(op) {
                Ok(first) if !(Lower { import: &mut *import, op }).goes_by_floats(first) => {
                    return Ok(Route::Nnapi);
                }
                Ok(_) => "NNAPI computes it in floats".to_owned(),
                Err(Refusal::Unsupported(why)) => why,
                Err(error) => return Err(error),
            },
        };
        import.rewind(&mark);
        let refusal = match (Lower { import: &mut *import, op }).extension() {
            Ok(()) => return Ok(Route::Extension(why)),
            Err(Refusal::Unsupported(refusal)) => refusal,
            Err(error) => return Err(error),
        };
        import.rewind(&mark);
        match import.by_nnapi(op) {
            Err(Refusal::Unsupported(why)) => {
                import.rewind(&mark);
                Err(Refusal::Unsupported(format!("{why}; {refusal}")))
            }
            other => other.map(|_| Route::Nnapi),
        }
    }

    /// Lowers an operator to NNAPI's operations; the place of the first.
    fn by_nnapi(&mut self, op: &'a Operator<'a>) -> Result<usize, Refusal> {
        let first = self.builder.graph.operations.len();
        (Lower { import: &mut *self, op }).run()?;
        (Lower { import: &mut *self, op }).open_results();
        self.check_operations(first)?;
        Ok(first)
    }

    /// Holds the operations from `first` on against the HAL's signatures: types and ranks that an
    /// operator has in the file need not be among those of its NNAPI namesake.
    pub(super) fn check_operations(&self, first: usize) -> Result<(), Refusal> {
        let graph = &self.builder.graph;
        for operation in graph.operations.iter().skip(first) {
            let operands = operation.inputs.iter().chain(&operation.outputs);
            if matches!(operation.kind, OperationType::Extension(_)) {
                continue;
            }
            let refers = matches!(operation.kind, OperationType::If | OperationType::While);
            let operands = operands.filter(|_| !refers);
            for kind in operands.map(|&index| self.builder.operand(index).kind) {
                if kind.is_extension() {
                    let why = "NNAPI has no tensors of its types";
                    return Err(Refusal::Unsupported(why.to_owned()));
                }
            }
            if self.moves_between_scales(operation) {
                let why = "NNAPI moves no values from one scale to another";
                return Err(Refusal::Unsupported(why.to_owned()));
            }
            operation_since(operation, graph)
                .map_err(|rule| Refusal::Unsupported(format!("{}: {rule}", operation.kind)))?;
        }
        Ok(())
    }

    /// Returns whether an operation moves stored values to a tensor of another scale or zero point:
    /// TFLite's kernels leave them as they are, and NNAPI refuses that.
    fn moves_between_scales(&self, operation: &Operation) -> bool {
        use OperationType as O;
        let moves = matches!(
            operation.kind,
            O::Reshape
                | O::ExpandDims
                | O::Squeeze
                | O::Slice
                | O::StridedSlice
                | O::Split
                | O::Transpose
                | O::Tile
                | O::Gather
                | O::SpaceToDepth
                | O::DepthToSpace
                | O::SpaceToBatchNd
                | O::BatchToSpaceNd
                | O::ResizeNearestNeighbor
        );
        let Some(input) = operation.inputs.first().filter(|_| moves) else { return false };
        let from = self.builder.operand(*input);
        let differs = |to: &Operand| (to.scale, to.zero_point) != (from.scale, from.zero_point);
        is_quantized(from.kind)
            && operation.outputs.iter().any(|&output| differs(self.builder.operand(output)))
    }

    /// Goes on behind an operator that could not be mapped, so that all of them are found.
    fn assume_outputs(&mut self, op: &Operator<'_>) {
        for &index in &op.outputs {
            if self.values[index].is_none() {
                let tensor = &self.graph.tensors[index];
                let assumed = self.own_operand(tensor);
                let assumed = assumed.unwrap_or_else(|_| {
                    Operand::tensor(OperandType::TensorFloat32, tensor.shape.clone())
                });
                self.values[index] = Some(self.builder.add(assumed));
            }
        }
    }
}

impl Import<'_> {
    /// Returns whether any layer of the graph quantises floats on the fly.
    pub(super) fn quantises_on_the_fly(&self) -> bool {
        let kind = |op: &Operator<'_>, argument: usize| {
            let index = op.inputs.get(argument).copied().flatten()?;
            Some(self.graph.tensors[index].kind)
        };
        let is_hybrid = |op: &Operator<'_>| {
            let input = match self.file.codes[op.code].builtin {
                Builtin::FullyConnected | Builtin::Conv2d | Builtin::DepthwiseConv2d => 0,
                Builtin::TransposeConv => 2,
                _ => return false,
            };
            let packed = [TensorKind::Int8, TensorKind::Uint8, TensorKind::Int4, TensorKind::Int2];
            kind(op, input) == Some(TensorKind::Float32)
                && kind(op, 1).is_some_and(|kind| packed.contains(&kind))
        };
        let any = || self.graph.operators.iter().any(is_hybrid);
        !self.options.widened_hybrid && *self.has_hybrid.get_or_init(any)
    }
}

impl Lower<'_, '_> {
    /// The reason why the extension's arithmetic is wanted where NNAPI has an operation; `None`
    /// where NNAPI's results are TFLite's.
    fn differs(&self) -> Option<&'static str> {
        let kind = |argument: usize| self.tensor(argument).ok().map(|tensor| tensor.kind);
        let is_stored =
            |kind| matches!(kind, Some(TensorKind::Int8 | TensorKind::Uint8 | TensorKind::Int16));
        let is_byte = |kind| matches!(kind, Some(TensorKind::Int8 | TensorKind::Uint8));
        let is_packed =
            |kind| is_stored(kind) || matches!(kind, Some(TensorKind::Int4 | TensorKind::Int2));
        let input = kind(0);
        let builtin = self.builtin();
        let mut arguments = (0..self.op.inputs.len()).filter_map(|at| self.optional_tensor(at));
        if arguments.any(|index| self.import.has_no_elements(index)) {
            return Some("NNAPI reduces nothing without elements");
        }
        let may_be_empty = self.optional_tensor(0).and_then(|index| self.import.values[index]);
        let may_be_empty = may_be_empty.map(|value| self.import.builder.operand(value));
        let may_be_empty = may_be_empty.is_some_and(|operand| {
            operand.lifetime == OperandLifeTime::TemporaryVariable && is_open(&operand.dimensions)
        });
        Some(match builtin {
            Builtin::Mean
            | Builtin::Sum
            | Builtin::ReduceProd
            | Builtin::ReduceMax
            | Builtin::ReduceMin
            | Builtin::ReduceAny
            | Builtin::ReduceAll
                if may_be_empty =>
            {
                "NNAPI reduces nothing without elements"
            }
            Builtin::Svdf if input == Some(TensorKind::Int8) => "NNAPI computes it in floats",
            Builtin::Svdf | Builtin::Rnn | Builtin::UnidirectionalSequenceRnn
                if input == Some(TensorKind::Float32)
                    && [kind(1), kind(2)] == [Some(TensorKind::Int8); 2]
                    && !self.import.options.widened_hybrid =>
            {
                "NNAPI does not quantise activations on the fly"
            }
            Builtin::EmbeddingLookup
                if self.tensor(1).is_ok_and(|it| it.quantization.blockwise.is_some()) =>
            {
                "NNAPI has no scales of blocks"
            }
            Builtin::Lstm if input == Some(TensorKind::Uint8) => "NNAPI rounds otherwise",
            Builtin::Lstm | Builtin::UnidirectionalSequenceLstm
                if input == Some(TensorKind::Float32)
                    && kind(3) == Some(TensorKind::Int8)
                    && !self.import.options.widened_hybrid =>
            {
                "NNAPI does not quantise activations on the fly"
            }
            Builtin::BidirectionalSequenceLstm | Builtin::BidirectionalSequenceRnn
                if input == Some(TensorKind::Float32)
                    && [kind(2), kind(3)].contains(&Some(TensorKind::Int8))
                    && !self.import.options.widened_hybrid =>
            {
                "NNAPI does not quantise activations on the fly"
            }
            Builtin::FullyConnected if is_stored(input) => "NNAPI rounds twice",
            Builtin::FullyConnected
            | Builtin::BatchMatmul
            | Builtin::Conv2d
            | Builtin::DepthwiseConv2d
                if input == Some(TensorKind::Float32)
                    && is_packed(kind(1))
                    && !self.import.options.widened_hybrid =>
            {
                "NNAPI does not quantise activations on the fly"
            }
            Builtin::TransposeConv
                if kind(2) == Some(TensorKind::Float32)
                    && kind(1) == Some(TensorKind::Int8)
                    && self.is_given(1)
                    && !self.import.options.widened_hybrid =>
            {
                "NNAPI does not quantise activations on the fly"
            }
            Builtin::Conv2d | Builtin::DepthwiseConv2d
                if input == Some(TensorKind::Float32)
                    && kind(1) == Some(TensorKind::Float32)
                    && self.import.quantises_on_the_fly() =>
            {
                "layers behind it quantise its sums on the fly, whose order then counts"
            }
            Builtin::AveragePool2d | Builtin::Mean
                if input == Some(TensorKind::Float32) && self.import.quantises_on_the_fly() =>
            {
                "layers behind it quantise its sums on the fly, whose order then counts"
            }
            Builtin::Logistic | Builtin::Sin | Builtin::Cos
                if input == Some(TensorKind::Float32) && self.import.quantises_on_the_fly() =>
            {
                "layers behind it quantise its results on the fly, whose last bit then counts"
            }
            Builtin::Logistic if input == Some(TensorKind::Float16) => {
                "TFLite takes the exponential for small results"
            }
            Builtin::BatchMatmul if is_stored(input) => "NNAPI rounds otherwise",
            Builtin::Mean | Builtin::Sum if is_stored(input) => "NNAPI rounds otherwise",
            Builtin::Quantize if input != Some(TensorKind::Float32) => {
                "NNAPI quantises floats alone"
            }
            Builtin::ResizeBilinear if input == Some(TensorKind::Int8) => {
                "NNAPI interpolates in floats"
            }
            Builtin::Maximum | Builtin::Minimum
                if is_stored(input) && self.has_several_scales(0) =>
            {
                "NNAPI compares real values, TFLite what is stored"
            }
            Builtin::Select | Builtin::SelectV2
                if is_stored(kind(1)) && self.has_several_scales(1) =>
            {
                "NNAPI brings values to one scale, TFLite leaves them as they are stored"
            }
            Builtin::Mul if is_byte(input) => "TFLite divides the scales in single precision",
            Builtin::Sub if is_byte(input) && self.is_result_finer() => {
                "NNAPI takes no result whose scale is so small beside the operands'"
            }
            Builtin::Rsqrt | Builtin::Div if is_stored(input) => "NNAPI computes it in floats",
            Builtin::Cast
                if matches!(input, Some(TensorKind::Int32 | TensorKind::Int64))
                    && is_byte(self.output_tensor(0).ok().map(|tensor| tensor.kind)) =>
            {
                "NNAPI saturates, TFLite keeps the low bits"
            }
            Builtin::Logistic | Builtin::Tanh if is_byte(input) => {
                "NNAPI computes it in fixed point, TFLite by a table of floats"
            }
            Builtin::Softmax if self.is_beyond_softmax(is_byte(input)) => {
                "NNAPI takes no scale so small, and no factor that is not positive"
            }
            Builtin::L2Normalization | Builtin::LogSoftmax if is_stored(input) => {
                "NNAPI rounds otherwise"
            }
            Builtin::TopkV2 => "NNAPI orders equals otherwise",
            Builtin::ReverseV2 => "NNAPI gathers what it turns, axis by axis",
            Builtin::Div if input == Some(TensorKind::Int32) => "NNAPI rounds quotients down",
            Builtin::Add | Builtin::Sub | Builtin::Mul if input == Some(TensorKind::Int32) => {
                "NNAPI fuses no activation with INT32"
            }
            Builtin::Less
            | Builtin::LessEqual
            | Builtin::Greater
            | Builtin::GreaterEqual
            | Builtin::Equal
            | Builtin::NotEqual
                if is_stored(input) =>
            {
                "NNAPI compares otherwise"
            }
            _ => return None,
        })
    }

    /// Returns whether not all of two inputs, from `first` on, and a result are quantised alike.
    fn has_several_scales(&self, first: usize) -> bool {
        let quantization = |tensor: &Tensor| {
            let quantization = &tensor.quantization;
            (quantization.scales.first().copied(), quantization.zero_points.first().copied())
        };
        let tensors = [self.tensor(first), self.tensor(first + 1), self.output_tensor(0)];
        let mut tensors = tensors.into_iter().flatten().map(quantization);
        let first = tensors.next();
        tensors.any(|other| Some(other) != first)
    }

    /// Returns whether the multiplier of a sum of two bytes, which have 20 bits to spare, is at
    /// least 1.
    fn is_result_finer(&self) -> bool {
        let scale = |tensor: Option<&Tensor>| {
            let scale = tensor.and_then(|it| it.quantization.scales.first().copied());
            f64::from(scale.unwrap_or(1.0))
        };
        let [a, b] = [0, 1].map(|argument| scale(self.tensor(argument).ok()));
        2.0 * a.max(b) >= scale(self.output_tensor(0).ok()) * f64::from(1 << 20)
    }

    /// Returns whether NNAPI's SOFTMAX, in fixed point where it `is_byte`, refuses the factor.
    fn is_beyond_softmax(&self, is_byte: bool) -> bool {
        let beta = self.options(softmax::KIND).and_then(|it| Ok(it.float(softmax::BETA)?));
        let scale = self.tensor(0).ok().and_then(|it| it.quantization.scales.first().copied());
        let (beta, scale) = (beta.unwrap_or(0.0), scale.unwrap_or(1.0));
        let is_small = f64::from(beta) * f64::from(scale) * f64::from(1 << 26) <= 1.0;
        beta <= 0.0 || (is_byte && is_small)
    }

    /// Returns whether operations from `first` on go by way of floats where the operator is of
    /// integers.
    fn goes_by_floats(&self, first: usize) -> bool {
        let builtin = self.builtin();
        if matches!(builtin, Builtin::Quantize | Builtin::Dequantize) {
            return false;
        }
        let tensors = &self.import.graph.tensors;
        let result = self.op.outputs.first().map(|&index| tensors[index].kind);
        let is_stored =
            matches!(result, Some(TensorKind::Int8 | TensorKind::Uint8 | TensorKind::Int16));
        let made = self.import.builder.graph.operations.iter().skip(first);
        is_stored && made.into_iter().any(|it| it.kind == OperationType::Dequantize)
    }
}
