//! Products of a row that is quantised on the fly by the weights of an RNN's or LSTM's gates.

use nnburst_kernels::kernels::gemv_i8::ToFloats;
use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::{In, OpError, Out, poll};

use super::arg::{ElementKind, OperatorCall, refused};
use super::math::f32_of;
use super::on_the_fly::{OnTheFly, RowScale};
use super::products::{ByteProducts, RowBytes};
use crate::lowering::{Io, Lowered};

/// Weights of bytes with one scale.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByteWeights {
    pub(super) input: usize,
    pub(super) scale: f32,
}

impl ByteWeights {
    pub(super) fn new(call: &OperatorCall<'_, '_>, input: usize, shape: &[usize]) -> Lowered<Self> {
        let weights = call.arg(input)?;
        if weights.kind != ElementKind::I8 || weights.channels.is_some() {
            return Err(refused(input, weights.kind).into());
        }
        if weights.shape[..] != *shape {
            let what = format!("is of {:?}, not of {shape:?}", weights.shape);
            return Err(OpError::input(input, what).into());
        }
        Ok(Self { input, scale: weights.scale })
    }
}

/// The weights `[units, depth]` of each gate, and how rows are quantised for them.
#[derive(Debug)]
pub(super) struct RowProducts {
    gates: Vec<ByteWeights>,
    units: usize,
    depth: usize,
    way: OnTheFly,
    isa: Isa,
    /// All gates' weights, one behind the other, where they are constant.
    packed: Option<Packed>,
}

#[derive(Debug)]
struct Packed {
    products: ByteProducts,
    /// Of each unit of all gates, filled up to whole vectors.
    scales: Vec<f32>,
    sums_of_weights: Vec<i32>,
}

impl RowProducts {
    /// Checks and packs the weights, which are `inputs` of the operation.
    pub(super) fn new(
        call: &mut OperatorCall<'_, '_>,
        inputs: &[usize],
        [units, depth]: [usize; 2],
        way: OnTheFly,
    ) -> Lowered<Self> {
        let weights = |&input| ByteWeights::new(call, input, &[units, depth]);
        let gates = inputs.iter().map(weights).collect::<Lowered<Vec<_>>>()?;
        let packed = Packed::new(call, &gates, [units, depth])?;
        Ok(Self { gates, units, depth, way, isa: call.isa(), packed })
    }

    /// Bytes of work memory.
    pub(super) fn scratch(&self) -> usize {
        self.packed.as_ref().map_or(self.depth, |packed| packed.products.scratch_bytes())
    }

    /// Quantises a row and adds its products with each gate's weights to `sums`, in which those of
    /// a gate are behind those of the one before. Work memory begins at a multiple of four bytes.
    pub(super) fn add(
        &self,
        io: &Io<'_>,
        row: In<'_, f32>,
        sums: &mut [f32],
        scratch: &mut [u8],
    ) -> Result<(), String> {
        let &Self { depth, way, isa, .. } = self;
        if let Some(Packed { products, scales, sums_of_weights }) = &self.packed {
            let (kept, room) = products.split(scratch);
            let RowScale { scale, zero_point } =
                way.quantise(isa, row, products.flip(), &mut kept[..depth]);
            let output = Out::of(sums);
            let (bias, range) = (output.as_in(), (f32::NEG_INFINITY, f32::INFINITY));
            let to_floats = ToFloats { scales, sums_of_weights, scale, zero_point, bias, range };
            return products.compute_floats(kept, &to_floats, room, output);
        }
        let bytes = &mut scratch[..depth];
        let of = way.quantise(isa, row, 0, bytes);
        for (weights, sums) in self.gates.iter().zip(sums.chunks_exact_mut(self.units)) {
            poll::work(self.units * depth / 8)?;
            let scale = of.scale * weights.scale;
            let (row, zero_point) = (&*bytes, of.zero_point);
            let weights = io.input::<i8>(weights.input);
            isa.run(AddProducts { row, zero_point, weights, scale, sums });
        }
        Ok(())
    }
}

impl Packed {
    fn new(
        call: &mut OperatorCall<'_, '_>,
        gates: &[ByteWeights],
        [units, depth]: [usize; 2],
    ) -> Lowered<Option<Self>> {
        let mut all = Vec::with_capacity(gates.len() * units * depth);
        for gate in gates {
            let Some(weights) = call.constant(gate.input) else { return Ok(None) };
            all.extend_from_slice(weights.typed::<i8>());
        }
        let rows = RowBytes::SIGNED;
        let Some(products) = ByteProducts::packed(call, &all, depth, rows, None)? else {
            return Ok(None);
        };
        call.claim(8 * products.sum_stride())?;
        let mut sums_of_weights = products.sums_of_weights().to_vec();
        sums_of_weights.resize(products.sum_stride(), 0);
        let mut scales: Vec<f32> =
            gates.iter().flat_map(|gate| std::iter::repeat_n(gate.scale, units)).collect();
        scales.resize(products.sum_stride(), 0.0);
        Ok(Some(Self { products, scales, sums_of_weights }))
    }
}

/// Adds the products of a row of bytes with rows of weights to the sums of all units.
struct AddProducts<'a> {
    row: &'a [u8],
    zero_point: i32,
    weights: In<'a, i8>,
    scale: f32,
    sums: &'a mut [f32],
}

impl Loop for AddProducts<'_> {
    #[inline(always)]
    fn run(self) {
        const LANES: usize = 16;
        let Self { row, zero_point, .. } = self;
        let product =
            |weight: i8, byte: u8| i32::from(weight) * (i32::from(byte.cast_signed()) - zero_point);
        let (blocks, rest) = row.as_chunks::<LANES>();
        let whole = row.len() - rest.len();
        for (unit, sum) in self.sums.iter_mut().enumerate() {
            let own = self.weights.slice(unit * row.len()..(unit + 1) * row.len());
            let mut lanes = [0i32; LANES];
            for (at, bytes) in blocks.iter().enumerate() {
                let weights = own.block::<LANES>(at * LANES);
                for ((lane, weight), &byte) in lanes.iter_mut().zip(weights).zip(bytes) {
                    *lane = lane.wrapping_add(product(weight, byte));
                }
            }
            let rest = rest.iter().enumerate();
            let rest = rest.map(|(at, &byte)| product(own.get(whole + at), byte));
            let total = lanes.into_iter().chain(rest).fold(0, i32::wrapping_add);
            *sum += f32_of(total) * self.scale;
        }
    }
}
