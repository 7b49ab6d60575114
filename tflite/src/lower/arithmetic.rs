//! Element by element: arithmetic, comparisons, logic, activations.

use nnburst_hal::{Operand, OperandType, OperationType};

use super::{Lower, Lowered, broadcast};
use crate::flatbuffer::Field;
use crate::operand::{is_quantized, operand_of};
use crate::schema::options::{self, OptionsKind};

impl Lower<'_, '_> {
    /// Both operands of an operator over pairs, constants widened to the type of the other.
    fn pair(&mut self) -> Lowered<(u32, u32)> {
        let (first, second) = (self.tensor_index(0)?, self.tensor_index(1)?);
        if self.import.is_constant(first) && !self.import.is_constant(second) {
            let b = self.input(1)?;
            return Ok((self.weights(0, b)?, b));
        }
        let a = self.input(0)?;
        Ok((a, self.weights(1, a)?))
    }

    fn pair_dims(&self, a: u32, b: u32) -> Option<Vec<u32>> {
        broadcast(self.import.builder.dims(a), self.import.builder.dims(b))
    }

    /// ADD and its kin: with an activation.
    pub(super) fn binary(
        &mut self,
        kind: OperationType,
        options: OptionsKind,
        activation: Field,
    ) -> Lowered {
        let options = self.options(options)?;
        let (a, b) = self.pair()?;
        let activation = self.activation(options.byte(activation)?)?;
        let dims = self.pair_dims(a, b);
        let output = self.output(0, dims.as_deref())?;
        if self.needs_float(kind, a, b, output) {
            return self.binary_in_float(kind, [a, b, activation], output);
        }
        self.emit(kind, &[a, b, activation], &[output]);
        Ok(())
    }

    /// Returns whether the HAL has no quantised form: division never, multiplication of unsigned
    /// numbers only where the product of the scales is finer than the result's.
    fn needs_float(&self, kind: OperationType, a: u32, b: u32, output: u32) -> bool {
        let [a, b, output] = [a, b, output].map(|index| self.import.builder.operand(index));
        match kind {
            OperationType::Div => is_quantized(output.kind),
            OperationType::Mul => is_quantized(output.kind) && output.scale <= a.scale * b.scale,
            _ => false,
        }
    }

    fn binary_in_float(
        &mut self,
        kind: OperationType,
        [a, b, activation]: [u32; 3],
        output: u32,
    ) -> Lowered {
        let (a, b) = (self.as_float(a), self.as_float(b));
        let dims = self.import.builder.dims(output).to_vec();
        let real = self.builder().temporary(OperandType::TensorFloat32, dims);
        self.emit(kind, &[a, b, activation], &[real]);
        self.emit(OperationType::Quantize, &[real], &[output]);
        Ok(())
    }

    /// A quantised value as FLOAT32; others as they are.
    pub(super) fn as_float(&mut self, value: u32) -> u32 {
        if !is_quantized(self.kind(value)) {
            return value;
        }
        let dims = self.import.builder.dims(value).to_vec();
        let real = self.builder().temporary(OperandType::TensorFloat32, dims);
        self.emit(OperationType::Dequantize, &[value], &[real]);
        real
    }

    /// Pairs without options.
    pub(super) fn plain_binary(&mut self, kind: OperationType) -> Lowered {
        let (a, b) = self.pair()?;
        let dims = self.pair_dims(a, b);
        let output = self.output(0, dims.as_deref())?;
        self.emit(kind, &[a, b], &[output]);
        Ok(())
    }

    /// One operand, same shape.
    pub(super) fn unary(&mut self, kind: OperationType) -> Lowered {
        let input = self.input(0)?;
        let dims = self.import.builder.dims(input).to_vec();
        let output = self.output(0, Some(&dims))?;
        self.unary_into(kind, input, output)
    }

    /// Operations whose quantised result has fixed parameters, or those of the input, give a result
    /// with others by way of FLOAT32.
    pub(super) fn unary_into(&mut self, kind: OperationType, input: u32, output: u32) -> Lowered {
        let [x, y] = [input, output].map(|index| self.import.builder.operand(index));
        let direct = match (kind, y.kind) {
            (_, y) if !is_quantized(y) => true,
            (OperationType::Logistic | OperationType::Softmax, OperandType::TensorQuant8Asymm) => {
                (y.scale, y.zero_point) == (1.0 / 256.0, 0)
            }
            (OperationType::Logistic | OperationType::Softmax, _) => {
                (y.scale, y.zero_point) == (1.0 / 256.0, -128)
            }
            (OperationType::Tanh, OperandType::TensorQuant8Asymm) => {
                (y.scale, y.zero_point) == (1.0 / 128.0, 128)
            }
            (OperationType::Tanh, _) => (y.scale, y.zero_point) == (1.0 / 128.0, 0),
            (OperationType::Relu | OperationType::Relu1 | OperationType::Relu6, _) => {
                (x.scale, x.zero_point) == (y.scale, y.zero_point)
            }
            (OperationType::HardSwish, _) => true,
            _ => false,
        };
        if direct {
            self.emit(kind, &[input], &[output]);
            return Ok(());
        }
        let dims = y.dimensions.clone();
        let real_input = self.as_float(input);
        let real = self.builder().temporary(OperandType::TensorFloat32, dims);
        self.emit(kind, &[real_input], &[real]);
        self.emit(OperationType::Quantize, &[real], &[output]);
        Ok(())
    }

    pub(super) fn add_n(&mut self) -> Lowered {
        let count = self.op.inputs.len();
        let mut sum = self.input(0)?;
        if count == 1 {
            let copy = self.import.copy(sum)?;
            return self.bind(0, copy);
        }
        let dims = self.import.builder.dims(sum).to_vec();
        let output = self.output(0, Some(&dims))?;
        let none = self.no_activation();
        for argument in 1..count {
            let next = self.input(argument)?;
            let last = argument + 1 == count;
            let to = if last { output } else { self.builder().like(output, dims.clone()) };
            self.emit(OperationType::Add, &[sum, next, none], &[to]);
            sum = to;
        }
        Ok(())
    }

    /// Integer division of the HAL rounds down already.
    pub(super) fn floor_div(&mut self) -> Lowered {
        let (a, b) = self.pair()?;
        let dims = self.pair_dims(a, b);
        let output = self.output(0, dims.as_deref())?;
        let none = self.no_activation();
        if self.kind(output) == OperandType::TensorInt32 {
            self.emit(OperationType::Div, &[a, b, none], &[output]);
            return Ok(());
        }
        let dims = self.import.builder.dims(output).to_vec();
        let quotient = self.builder().like(output, dims);
        self.emit(OperationType::Div, &[a, b, none], &[quotient]);
        self.emit(OperationType::Floor, &[quotient], &[output]);
        Ok(())
    }

    /// a - floor(a / b) * b.
    pub(super) fn floor_mod(&mut self) -> Lowered {
        let (a, b) = self.pair()?;
        let dims = self.pair_dims(a, b);
        let output = self.output(0, dims.as_deref())?;
        let none = self.no_activation();
        let dims = self.import.builder.dims(output).to_vec();
        let mut quotient = self.builder().like(output, dims.clone());
        self.emit(OperationType::Div, &[a, b, none], &[quotient]);
        if self.kind(output) != OperandType::TensorInt32 {
            let floor = self.builder().like(output, dims.clone());
            self.emit(OperationType::Floor, &[quotient], &[floor]);
            quotient = floor;
        }
        let product = self.builder().like(output, dims);
        self.emit(OperationType::Mul, &[quotient, b, none], &[product]);
        self.emit(OperationType::Sub, &[a, product, none], &[output]);
        Ok(())
    }

    pub(super) fn squared_difference(&mut self) -> Lowered {
        let (a, b) = self.pair()?;
        let dims = self.pair_dims(a, b);
        let output = self.output(0, dims.as_deref())?;
        let dims = self.import.builder.dims(output).to_vec();
        let (a, b) = (self.as_float(a), self.as_float(b));
        let none = self.no_activation();
        let difference = self.builder().like(a, dims);
        self.emit(OperationType::Sub, &[a, b, none], &[difference]);
        self.square_into(difference, output)
    }

    pub(super) fn square(&mut self) -> Lowered {
        let input = self.input(0)?;
        let dims = self.import.builder.dims(input).to_vec();
        let output = self.output(0, Some(&dims))?;
        let input = self.as_float(input);
        self.square_into(input, output)
    }

    fn square_into(&mut self, value: u32, output: u32) -> Lowered {
        let none = self.no_activation();
        if !is_quantized(self.kind(output)) {
            self.emit(OperationType::Mul, &[value, value, none], &[output]);
            return Ok(());
        }
        let dims = self.import.builder.dims(output).to_vec();
        let square = self.builder().temporary(OperandType::TensorFloat32, dims);
        self.emit(OperationType::Mul, &[value, value, none], &[square]);
        self.emit(OperationType::Quantize, &[square], &[output]);
        Ok(())
    }

    /// ceil(x) = -floor(-x).
    pub(super) fn ceil(&mut self) -> Lowered {
        let input = self.input(0)?;
        let dims = self.import.builder.dims(input).to_vec();
        let output = self.output(0, Some(&dims))?;
        let negative = self.builder().like(input, dims.clone());
        let floor = self.builder().like(input, dims);
        self.emit(OperationType::Neg, &[input], &[negative]);
        self.emit(OperationType::Floor, &[negative], &[floor]);
        self.emit(OperationType::Neg, &[floor], &[output]);
        Ok(())
    }

    /// cos(x) = sin(x + pi/2), to within the rounding of that sum.
    pub(super) fn cos(&mut self) -> Lowered {
        let input = self.input(0)?;
        let dims = self.import.builder.dims(input).to_vec();
        let output = self.output(0, Some(&dims))?;
        let quarter = self.builder().float_tensor(&[std::f32::consts::FRAC_PI_2], vec![1]);
        let none = self.no_activation();
        let shifted = self.builder().like(input, dims);
        self.emit(OperationType::Add, &[input, quarter, none], &[shifted]);
        self.emit(OperationType::Sin, &[shifted], &[output]);
        Ok(())
    }

    pub(super) fn relu_0_to_1(&mut self) -> Lowered {
        let input = self.input(0)?;
        let dims = self.import.builder.dims(input).to_vec();
        let output = self.output(0, Some(&dims))?;
        let (real, target) = self.float_detour(input, output);
        let [zero, one] = [0.0, 1.0].map(|bound| self.builder().float_tensor(&[bound], vec![1]));
        let above = self.builder().temporary(OperandType::TensorFloat32, dims);
        self.emit(OperationType::Maximum, &[real, zero], &[above]);
        self.emit(OperationType::Minimum, &[above, one], &[target]);
        self.end_detour(target, output);
        Ok(())
    }

    /// An input as FLOAT32, and where to put a FLOAT32 result that belongs into `output`.
    fn float_detour(&mut self, input: u32, output: u32) -> (u32, u32) {
        let real = self.as_float(input);
        let target = if is_quantized(self.kind(output)) {
            let dims = self.import.builder.dims(output).to_vec();
            self.builder().temporary(OperandType::TensorFloat32, dims)
        } else {
            output
        };
        (real, target)
    }

    fn end_detour(&mut self, target: u32, output: u32) {
        if target != output {
            self.emit(OperationType::Quantize, &[target], &[output]);
        }
    }

    /// PRELU with one slope for all; of the input's type, as PRELU wants it.
    pub(super) fn leaky_relu(&mut self) -> Lowered {
        use options::leaky_relu as o;
        let slope = self.options(o::KIND)?.float(o::ALPHA)?;
        let input = self.input(0)?;
        let dims = self.import.builder.dims(input).to_vec();
        let output = self.output(0, Some(&dims))?;
        if self.kind(input) == OperandType::TensorFloat32 {
            let slope = self.builder().float_tensor(&[slope], vec![1]);
            self.emit(OperationType::Prelu, &[input, slope], &[output]);
            return Ok(());
        }
        if !is_quantized(self.kind(input)) || !slope.is_finite() {
            return Err(format!("a slope of {slope} on {}", self.kind(input)).into());
        }
        // The slope is one step of its own scale away from the zero point, on the side of its sign.
        let scale = if slope == 0.0 { 1.0 } else { slope.abs() };
        let (zero_point, byte) = if slope > 0.0 {
            (0, 1)
        } else if slope < 0.0 {
            (1, 0)
        } else {
            (0, 0)
        };
        let operand =
            Operand::tensor(self.kind(input), vec![1]).with_quantization(scale, zero_point);
        let slope = self.builder().made_constant(operand, &[byte]);
        self.emit(OperationType::Prelu, &[input, slope], &[output]);
        Ok(())
    }

    pub(super) fn elu(&mut self) -> Lowered {
        let input = self.input(0)?;
        let dims = self.import.builder.dims(input).to_vec();
        let output = self.output(0, Some(&dims))?;
        let (real, target) = self.float_detour(input, output);
        let one = self.builder().float(1.0);
        self.emit(OperationType::Elu, &[real, one], &[target]);
        self.end_detour(target, output);
        Ok(())
    }

    /// NNAPI selects between equal shapes only.
    pub(super) fn select(&mut self) -> Lowered {
        let condition = self.input(0)?;
        let (yes, no) = (self.input(1)?, self.input(2)?);
        let [c, y, n] = [condition, yes, no].map(|index| self.import.builder.dims(index).to_vec());
        if c != y || y != n {
            return Err(
                format!("NNAPI selects between equal shapes, not {c:?}, {y:?} and {n:?}").into()
            );
        }
        let output = self.output(0, Some(&y))?;
        self.emit(OperationType::Select, &[condition, yes, no], &[output]);
        Ok(())
    }

    /// Refuses a result whose quantisation differs from its source where the HAL has none for that.
    pub(super) fn same_quantization(&self, input: u32, output: u32) -> Lowered {
        let [x, y] = [input, output].map(|index| self.import.builder.operand(index));
        if is_quantized(x.kind) && (x.scale, x.zero_point) != (y.scale, y.zero_point) {
            return Err(format!(
                "it goes from scale {} and zero point {} to {} and {}",
                x.scale, x.zero_point, y.scale, y.zero_point
            )
            .into());
        }
        Ok(())
    }

    /// Returns the file's declaration of a result, without making an operand of it.
    pub(super) fn declared(&self, result: usize) -> Lowered<Operand> {
        Ok(operand_of(self.output_tensor(result)?)?)
    }
}
