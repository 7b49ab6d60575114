//! Scaled dot-product attention of floats: `SOFTMAX(Q K^T, with terms added or multiplied) V`, a
//! block of rows at a time. The scores of a block stay in L2, where those of all heads are read
//! from memory and written back by each of the operations.
//!
//! The results are the bits of the kernels one after the other: a row of scores doesn't depend on
//! those beside it.

use crate::kernels::NO_CLAMP;
use crate::kernels::binary_f32::{Arithmetic, Binary, Operand};
use crate::kernels::gemm_f32::{Layout, Matrix, MatrixProduct, Part, copied_stride};
use crate::kernels::softmax_f32::Softmax;
use crate::kernels::transcendental_f32::{Function, Map};
use crate::simd::Isa;
use crate::tensor::{In, Out, check_lengths, poll};

/// Bytes of a block's scores, about: they share L2 with keys and values.
const BLOCK_BYTES: usize = 64 << 10;

/// The extents of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extents {
    /// Rows of queries and of the result.
    pub rows: usize,
    /// Elements of a query and of a key.
    pub depth: usize,
    /// Keys, and values: the columns of the scores.
    pub columns: usize,
    /// Elements of a value and of a row of the result.
    pub width: usize,
}

/// What is done to the scores, or to the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// An arithmetic with an operand.
    Binary {
        /// The function.
        arithmetic: Arithmetic,
        /// True if the scores, or the keys, are its second operand.
        is_second: bool,
    },
    /// A function of each.
    Map(Function),
}

/// A term in its best variant.
#[derive(Clone, Copy, Debug)]
enum TermKernel {
    Binary(Binary, bool),
    Map(Map),
}

impl TermKernel {
    fn new(isa: Isa, term: Term) -> Self {
        match term {
            Term::Binary { arithmetic, is_second } => {
                Self::Binary(Binary::new(isa, arithmetic, NO_CLAMP), is_second)
            }
            Term::Map(function) => Self::Map(Map::new(isa, function)),
        }
    }
}

/// Attention of a head.
#[derive(Debug)]
pub struct Attention {
    extents: Extents,
    /// Rows of a block.
    block: usize,
    scores: MatrixProduct,
    /// What is done to the keys.
    of_keys: Option<TermKernel>,
    terms: Vec<TermKernel>,
    softmax: Softmax,
    mix: MatrixProduct,
}

/// What heads share: keys and values.
#[derive(Clone, Copy, Debug)]
pub struct KeyValues<'a> {
    /// The transposed keys.
    pub keys: Matrix<'a>,
    /// One element, the operand of what is done to the keys; where nothing is, it isn't read.
    pub number: In<'a, f32>,
    /// The values.
    pub values: Matrix<'a>,
}

/// The operands of some rows.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// From the first query of these rows on.
    pub queries: Matrix<'a>,
    /// One for each term that has an operand, from its element of the first score of these rows on.
    pub terms: [Operand<'a>; Attention::MOST_TERMS],
    /// From the first element of these rows on.
    pub output: Out<'a, f32>,
    /// Elements from one row of the output to the next.
    pub stride: usize,
}

impl Attention {
    /// Terms of the scores, at most.
    pub const MOST_TERMS: usize = 8;

    /// No operands of terms.
    pub const NO_TERMS: [Operand<'static>; Self::MOST_TERMS] =
        [Operand { all: In::of(&[]), step: 0, stride: 0 }; Self::MOST_TERMS];

    /// Takes the best variants up to `isa`. The `layouts` are those of queries, of the transposed
    /// keys and of values. The keys are those that `of_keys` makes of them and a number. `None`
    /// where an extent is 0 or too large for a part of it, or there are more than
    /// [`Attention::MOST_TERMS`] terms.
    pub fn new(
        isa: Isa,
        extents: Extents,
        layouts: [Layout; 3],
        of_keys: Option<Term>,
        terms: &[Term],
        beta: f32,
    ) -> Option<Self> {
        let Extents { rows, depth, columns, width } = extents;
        let [queries, keys, values] = layouts;
        if terms.len() > Self::MOST_TERMS {
            return None;
        }
        let scores = MatrixProduct::new(isa, [rows, depth, columns], queries, keys)?;
        let mix = MatrixProduct::new(isa, [rows, columns, width], Layout::RowMajor, values)?;
        let softmax = Softmax::new(isa, columns, beta)?;
        // Whole tiles, as even as can be.
        let tile = scores.tile_rows();
        let most = (BLOCK_BYTES / (columns * size_of::<f32>()) / tile).max(1) * tile;
        let block = rows.div_ceil(rows.div_ceil(most)).next_multiple_of(tile).min(rows);
        let of_keys = of_keys.map(|term| TermKernel::new(isa, term));
        let terms = terms.iter().map(|&term| TermKernel::new(isa, term)).collect();
        Some(Self { extents, block, scores, of_keys, terms, softmax, mix })
    }

    /// The variant that was chosen for the products.
    pub fn isa(&self) -> Isa {
        self.scores.isa()
    }

    /// Rows that are worked on at a time.
    pub fn block_rows(&self) -> usize {
        self.block
    }

    /// Elements from one row of scores to the next.
    fn stride(&self) -> usize {
        copied_stride(self.extents.columns)
    }

    /// Floats that packed keys and values take.
    pub fn packed_len(&self) -> usize {
        self.scores.packed_len() + self.mix.packed_len()
    }

    /// Floats of scratch memory for a block of queries of this stride.
    pub fn scratch_len(&self, stride: usize) -> usize {
        self.block * self.stride() + self.scores.copied_len(self.block, stride)
    }

    /// Packs the transposed keys and the values of a head.
    ///
    /// # Errors
    /// Memory is missing.
    pub fn pack(&self, of: KeyValues<'_>, packed: &mut [f32]) -> Result<(), String> {
        check_lengths(packed.len(), self.packed_len())?;
        let (of_keys, of_values) = packed.split_at_mut(self.scores.packed_len());
        self.scores.pack_mapped(of.keys, of_keys, |lines| self.map_keys(of.number, lines))?;
        self.mix.pack(of.values, of_values)
    }

    /// What is done to the keys, for some of them.
    fn map_keys(&self, number: In<'_, f32>, keys: &mut [f32]) -> Result<(), String> {
        let keys = Out::of(keys);
        let own = keys.as_in();
        match self.of_keys {
            None => Ok(()),
            Some(TermKernel::Binary(binary, true)) => binary.compute(number, own, keys),
            Some(TermKernel::Binary(binary, false)) => binary.compute(own, number, keys),
            Some(TermKernel::Map(map)) => {
                map.compute(own, keys);
                Ok(())
            }
        }
    }

    /// Computes `count` rows, no more than a block, by packed keys and values. The scratch memory
    /// has [`Attention::scratch_len`] elements.
    ///
    /// # Errors
    /// Memory is missing, or the run is to end.
    pub fn compute(
        &self,
        rows: Rows<'_>,
        count: usize,
        packed: &[f32],
        scratch: &mut [f32],
    ) -> Result<(), String> {
        let Rows { queries, output, stride, .. } = rows;
        check_lengths(self.block, count)?;
        check_lengths(packed.len(), self.packed_len())?;
        check_lengths(scratch.len(), self.scratch_len(queries.stride))?;
        let (keys, values) = packed.split_at(self.scores.packed_len());
        let (scores, copied) = scratch.split_at_mut(self.block * self.stride());
        let (scores, apart) = (Out::of(scores), self.stride());
        let part = Part { left: queries, output: scores, stride: apart };
        self.scores.compute_rows(part, keys, count, copied)?;
        self.apply(&rows, count, scores)?;
        self.softmax.compute_in_place(scores, count, apart)?;
        let left = Matrix { all: scores.as_in(), stride: apart };
        self.mix.compute_rows(Part { left, output, stride }, values, count, &mut [])
    }

    /// Floats of scratch memory that [`Attention::compute_heads`] takes for queries of this stride.
    pub fn heads_scratch_len(&self, heads: usize, stride: usize) -> usize {
        let rows = self.extents.rows;
        let each = rows * self.stride() + self.scores.copied_len(rows, stride);
        self.scores.panel_len().max(self.mix.panel_len()) + heads * each
    }

    /// Computes all rows of several heads that share keys and values, which are packed a panel at a
    /// time: for few rows, in which packing them to memory takes longest. The scratch memory has
    /// [`Attention::heads_scratch_len`] elements; all queries are of one stride.
    ///
    /// # Errors
    /// Memory is missing, or the run is to end.
    pub fn compute_heads<'a>(
        &self,
        of: KeyValues<'_>,
        heads: usize,
        head: impl Fn(usize) -> Rows<'a>,
        scratch: &mut [f32],
    ) -> Result<(), String> {
        let (rows, apart) = (self.extents.rows, self.stride());
        check_lengths(scratch.len(), self.heads_scratch_len(heads, head(0).queries.stride))?;
        let panel_len = self.scores.panel_len().max(self.mix.panel_len());
        let (panel, scratch) = scratch.split_at_mut(panel_len);
        let (scores, copied) = scratch.split_at_mut(heads * rows * apart);
        let scores = Out::of(scores);
        let of_head = |at: usize| scores.slice(at * rows * apart..(at + 1) * rows * apart);
        let map = |lines: &mut [f32]| self.map_keys(of.number, lines);
        let part = |at| Part { left: head(at).queries, output: of_head(at), stride: apart };
        self.scores.compute_parts(of.keys, map, [heads, rows], part, panel, copied)?;
        for at in 0..heads {
            self.apply(&head(at), rows, of_head(at))?;
        }
        self.softmax.compute_in_place(scores, heads * rows, apart)?;
        let part = |at| {
            let Rows { output, stride, .. } = head(at);
            Part { left: Matrix { all: of_head(at).as_in(), stride: apart }, output, stride }
        };
        self.mix.compute_parts(of.values, |_| Ok(()), [heads, rows], part, panel, &mut [])
    }

    /// Has the terms act on the scores of `count` rows.
    fn apply(&self, rows: &Rows<'_>, count: usize, scores: Out<'_, f32>) -> Result<(), String> {
        for (term, &operand) in self.terms.iter().zip(&rows.terms) {
            self.apply_term(*term, operand, count, scores)?;
        }
        Ok(())
    }

    /// Has a term act on the scores of `count` rows.
    fn apply_term(
        &self,
        term: TermKernel,
        operand: Operand<'_>,
        count: usize,
        scores: Out<'_, f32>,
    ) -> Result<(), String> {
        let (columns, stride) = (self.extents.columns, self.stride());
        let own = Operand { all: scores.as_in(), step: 1, stride };
        let rows = [count, columns, stride];
        match term {
            TermKernel::Binary(binary, is_second) => {
                poll::work(count * (columns + 16))?;
                let operands = if is_second { [operand, own] } else { [own, operand] };
                binary.compute_rows(operands, scores, rows)
            }
            TermKernel::Map(map) => {
                for row in 0..count {
                    poll::work(columns + 16)?;
                    let scores = scores.slice(row * stride..row * stride + columns);
                    map.compute(scores.as_in(), scores);
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
