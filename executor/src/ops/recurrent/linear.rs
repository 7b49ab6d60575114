//! Products of rows by several weight matrices at once, the gates of a cell: packed where they are
//! constant.

use std::borrow::Cow;

use nnburst_kernels::kernels::gemv_f32::{Gemv, Start};
use nnburst_kernels::kernels::product_f32::Product;
use nnburst_kernels::kernels::{NO_CLAMP, Precision};
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::{In, Out, poll};

use super::math::add_batch_products;
use super::operands::{Id, Operands};

/// `[columns, width]`: matrices of `columns / matrices` rows each, one below the other.
#[derive(Debug)]
pub(super) struct Linear {
    matrices: Vec<Id>,
    /// Rows of one matrix.
    rows: usize,
    width: usize,
    packed: Option<Gemv>,
}

impl Linear {
    /// `matrices` are of `rows` by `width` each.
    pub(super) fn new(
        isa: Isa,
        operands: &Operands,
        matrices: Vec<Id>,
        rows: usize,
        width: usize,
    ) -> Self {
        let packed = stacked(operands, &matrices)
            .and_then(|weights| Gemv::new(isa, Precision::Single, &weights, width))
            .filter(|packed| packed.columns() == rows * matrices.len());
        Self { matrices, rows, width, packed }
    }

    /// Matrices that nobody looks at any more, being packed.
    pub(super) fn packed(&self) -> &[Id] {
        if self.packed.is_some() { &self.matrices } else { &[] }
    }

    /// Adds the products of `xs`, rows of `width`, to rows of sums that begin `stride` elements
    /// apart.
    pub(super) fn add(
        &self,
        operands: &Operands,
        copies: &[f32],
        xs: &[f32],
        sums: &mut [f32],
        stride: usize,
    ) -> Result<(), String> {
        let count = xs.len().checked_div(self.width).unwrap_or(0);
        if let Some(packed) = &self.packed {
            let (xs, sums) = (In::of(xs), Out::of(sums));
            return packed.compute(xs, count, Start::Output, sums, stride, NO_CLAMP);
        }
        for (x, sums) in xs.chunks_exact(self.width).zip(sums.chunks_mut(stride)) {
            poll::work(16)?;
            for (id, sums) in self.matrices.iter().zip(sums.chunks_exact_mut(self.rows)) {
                add_batch_products(operands.there(copies, *id), x, self.width, sums, self.rows);
            }
        }
        Ok(())
    }
}

/// The initial accumulators of the gates: for all rows of a sequence the products of the input, and
/// the bias.
#[derive(Debug)]
pub(super) struct Inputs {
    linear: Linear,
    /// One per matrix, of as many elements as that has rows; none: zeros.
    bias: Option<Vec<Id>>,
    /// The whole sequence in one product.
    packed: Option<Product>,
}

impl Inputs {
    /// For `count` rows of `width`; `matrices` of `rows` by `width` each.
    pub(super) fn new(
        isa: Isa,
        operands: &Operands,
        matrices: Vec<Id>,
        bias: Option<Vec<Id>>,
        rows: usize,
        width: usize,
        count: usize,
    ) -> Self {
        let columns = rows * matrices.len();
        let packed = stacked(operands, &matrices).and_then(|weights| {
            let bias = match &bias {
                Some(bias) => stacked(operands, bias)?,
                None => Cow::Owned(vec![0.0; columns]),
            };
            Product::new(isa, Precision::Single, count, width, &weights, &bias, NO_CLAMP)
        });
        let linear = Linear { matrices, rows, width, packed: None };
        Self { linear, bias, packed }
    }

    /// Matrices that nobody looks at any more, being packed.
    pub(super) fn packed(&self) -> &[Id] {
        if self.packed.is_some() { &self.linear.matrices } else { &[] }
    }

    /// The form that was chosen for the product.
    pub(super) fn isa(&self) -> Isa {
        self.packed.as_ref().map_or(Isa::Scalar, Product::isa)
    }

    /// Elements of scratch memory.
    pub(super) fn scratch(&self) -> usize {
        self.packed.as_ref().map_or(0, |packed| packed.scratch_bytes().div_ceil(4))
    }

    /// Fills the sums of all rows of `xs`.
    pub(super) fn start(
        &self,
        operands: &Operands,
        copies: &[f32],
        xs: &[f32],
        sums: &mut [f32],
        scratch: &mut [f32],
    ) -> Result<(), String> {
        if let Some(packed) = &self.packed {
            return packed.compute(In::of(xs), Out::of(sums), scratch);
        }
        let columns = self.linear.rows * self.linear.matrices.len();
        poll::fill(sums, 0.0)?;
        if let Some(bias) = &self.bias {
            for row in poll::each(sums.chunks_exact_mut(columns.max(1)), columns) {
                for (sums, id) in row.chunks_exact_mut(self.linear.rows).zip(bias) {
                    sums.copy_from_slice(operands.there(copies, *id));
                }
            }
        }
        self.linear.add(operands, copies, xs, sums, columns)
    }
}

/// Constants one behind the other; `None` where one isn't constant.
fn stacked<'o>(operands: &'o Operands, ids: &[Id]) -> Option<Cow<'o, [f32]>> {
    if let [only] = ids {
        return operands.constant(*only).map(Cow::Borrowed);
    }
    let mut all = Vec::new();
    for id in ids {
        all.extend_from_slice(operands.constant(*id)?);
    }
    Some(Cow::Owned(all))
}
