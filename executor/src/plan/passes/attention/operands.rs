//! What an attention is of: where the matrices of each head lie, and what is done to them.

use nnburst_kernels::kernels::attention_f32::{Attention, Extents, Term};
use nnburst_kernels::kernels::gemm_f32::Layout;
use nnburst_kernels::simd::Isa;

use super::{Values, moves};
use crate::lowering::draft::{Draft, DraftPlace};
use crate::lowering::walk::Walk;

/// The matrices of an operand, one for each head, where they lie.
pub(super) struct Heads {
    pub(super) place: DraftPlace,
    pub(super) starts: Vec<usize>,
    /// Elements from one line to the next, and along a line.
    pub(super) strides: [usize; 2],
}

impl Heads {
    /// The same in what the operand is moved from.
    pub(super) fn through(
        &self,
        walk: &Walk,
        place: &DraftPlace,
        extents: [usize; 2],
    ) -> Option<Self> {
        let [lines, elements] = extents;
        let lines = [(lines, self.strides[0]), (elements, self.strides[1])];
        let (starts, strides) = walk.matrices(&self.starts, lines)?;
        let is_one_piece = place.apart().is_none();
        (is_one_piece && strides.contains(&1)).then(|| Self {
            place: place.clone(),
            starts,
            strides,
        })
    }

    /// Follows the operand back through steps that only move it, which are dropped then.
    pub(super) fn back(
        mut self,
        draft: &Draft,
        values: &Values,
        extents: [usize; 2],
        dropped: &mut Vec<usize>,
    ) -> Self {
        while let Some(maker) = values.only_for(draft, &self.place)
            && let Some((walk, from)) = moves(&draft.steps[maker])
            && let Some(moved) = self.through(&walk, from, extents)
        {
            dropped.push(maker);
            self = moved;
        }
        self
    }

    /// How each matrix lies, if its lines are rows, and from one line to the next.
    pub(super) fn layout(&self) -> Option<(Layout, usize)> {
        match self.strides {
            [stride, 1] => Some((Layout::RowMajor, stride)),
            [1, stride] => Some((Layout::ColumnMajor, stride)),
            _ => None,
        }
    }
}

/// What is done to the scores, with an operand that is spread over them; a function has none.
pub(super) struct ScoreTerm {
    pub(super) term: Term,
    pub(super) place: DraftPlace,
    pub(super) starts: Vec<usize>,
    /// Elements from one row to the next, and from one column to the next: 0 or 1.
    pub(super) strides: [usize; 2],
}

/// An arithmetic of the keys and a number.
pub(super) struct KeyTerm {
    pub(super) term: Term,
    pub(super) place: DraftPlace,
    /// The element of the place.
    pub(super) at: usize,
}

/// The operands of all heads.
pub(super) struct AttentionOperands {
    pub(super) extents: Extents,
    pub(super) queries: Heads,
    pub(super) keys: Heads,
    pub(super) of_keys: Option<KeyTerm>,
    pub(super) values: Heads,
    pub(super) terms: Vec<ScoreTerm>,
    pub(super) output: Heads,
}

impl AttentionOperands {
    pub(super) fn heads(&self) -> usize {
        self.queries.starts.len()
    }

    /// Bytes of tables of where the matrices of each operand start.
    pub(super) fn table_bytes(&self) -> usize {
        (self.terms.len() + 4) * self.heads() * size_of::<usize>()
    }

    /// How many heads one behind the other share keys and values, each time.
    pub(super) fn sharers(&self) -> usize {
        let memory: Vec<_> = self.keys.starts.iter().zip(&self.values.starts).collect();
        let count = memory.iter().take_while(|of| memory.first() == Some(of)).count().max(1);
        let mut each = memory.chunks(count);
        let are_even = each.all(|of| of.len() == count && of.iter().all(|it| it == &of[0]));
        if are_even { count } else { 1 }
    }

    /// Makes heads that share keys and values the rows of one, where theirs are as far apart as
    /// those of a head are.
    pub(super) fn join_heads(&mut self) {
        let (rows, count) = (self.extents.rows, self.sharers());
        if count < 2 {
            return;
        }
        let apart = |starts: &[usize], stride| rows_apart(starts, count, rows, stride);
        let (queries, output) = (&self.queries, &self.output);
        let of_terms: Option<Vec<usize>> =
            self.terms.iter().map(|term| apart(&term.starts, term.strides[0])).collect();
        let (Some(of_queries), Some(of_output), Some(of_terms)) = (
            apart(&queries.starts, queries.strides[0]).filter(|_| queries.strides[1] == 1),
            apart(&output.starts, output.strides[0]).filter(|&apart| apart >= self.extents.width),
            of_terms,
        ) else {
            return;
        };
        self.extents.rows *= count;
        self.queries.strides[0] = of_queries;
        self.output.strides[0] = of_output;
        self.terms.iter_mut().zip(of_terms).for_each(|(term, apart)| term.strides[0] = apart);
        let of_all = [&mut self.queries, &mut self.keys, &mut self.values, &mut self.output];
        let of_all = of_all.into_iter().map(|heads| &mut heads.starts);
        for starts in of_all.chain(self.terms.iter_mut().map(|term| &mut term.starts)) {
            *starts = starts.iter().copied().step_by(count).collect();
        }
    }

    pub(super) fn attention(&self, isa: Isa, beta: f32) -> Option<Attention> {
        let terms: Vec<Term> = self.terms.iter().map(|it| it.term).collect();
        let (by_keys, _) = self.keys.layout()?;
        // A key is a column of the right matrix.
        let by_keys = match by_keys {
            Layout::RowMajor => Layout::ColumnMajor,
            Layout::ColumnMajor => Layout::RowMajor,
        };
        let layouts = [self.queries.layout()?.0, by_keys, self.values.layout()?.0];
        let of_keys = self.of_keys.as_ref().map(|it| it.term);
        Attention::new(isa, self.extents, layouts, of_keys, &terms, beta)
    }
}

/// Elements from one row to the next where the `rows` of each `count` heads are rows of one matrix;
/// `stride` is what it is within a head. `None` where they aren't.
fn rows_apart(starts: &[usize], count: usize, rows: usize, stride: usize) -> Option<usize> {
    let all = starts.chunks(count).map(|of| of.windows(2).map(|two| two[1].checked_sub(two[0])));
    let mut all = all.flatten();
    let apart = all.next()??;
    let is_one = all.all(|other| other == Some(apart));
    match rows {
        1 => is_one.then_some(apart),
        _ => (is_one && rows.checked_mul(stride) == Some(apart)).then_some(stride),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_several_heads_are_of_one_matrix_where_all_are_as_far_apart() {
        for (starts, count, rows, stride, want) in [
            (&[0, 8, 16, 24][..], 2, 1, 99, Some(8)),
            (&[0, 0, 0, 0], 4, 1, 99, Some(0)),
            (&[0, 8, 100, 108], 2, 1, 99, Some(8)),
            (&[0, 8, 100, 107], 2, 1, 99, None),
            (&[0, 8, 16, 25], 4, 1, 99, None),
            (&[8, 0], 2, 1, 99, None),
            (&[0, 24, 48], 3, 3, 8, Some(8)),
            (&[0, 8, 16], 3, 3, 8, None),
            (&[0, 0, 0], 3, 3, 0, Some(0)),
        ] {
            let got = rows_apart(starts, count, rows, stride);
            assert_eq!(got, want, "{starts:?} by {count}, {rows} rows {stride} apart");
        }
    }
}
