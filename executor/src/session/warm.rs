//! Keeping near what a run reads: packed weights and scratch memory, a few lines at a time.

use nnburst_kernels::tensor::packed::Packed;

/// Read at a time: some hundred nanoseconds from L3.
const PIECE: usize = 2 << 10;

/// The most bytes that are touched. Of larger models the first weights: those that come later are
/// fetched while the first are used, and all of them again and again would keep memory busy for
/// nothing.
const MOST: usize = 4 << 20;

/// The bytes that the machine fetches at a time.
const LINE: usize = 64;

/// The progress of a round of touching.
#[derive(Debug)]
pub(super) struct Warmth {
    /// In the order they are touched: what the first steps use comes last, so as to stay in the
    /// nearest cache.
    weights: Vec<Packed>,
    /// Which of them is next, and from which byte on; the arena comes behind the last.
    next: usize,
    from: usize,
}

impl Warmth {
    /// `weights` are in the order of their use.
    pub(super) fn new(weights: Vec<Packed>) -> Self {
        let mut room = MOST;
        let fits = |weights: &Packed| {
            let left = room.checked_sub(weights.as_slice().len());
            room = left.unwrap_or(0);
            left.is_some()
        };
        let mut weights: Vec<_> = weights.into_iter().take_while(fits).collect();
        weights.reverse();
        Self { weights, next: 0, from: 0 }
    }

    /// Touches a piece; `false` if it was the last of a round.
    pub(super) fn touch(&mut self, arena: &[u8]) -> bool {
        let whole = self.weights.get(self.next).map_or(arena, Packed::as_slice);
        let end = self.from.saturating_add(PIECE);
        let piece = whole.get(self.from..end.min(whole.len()).min(MOST)).unwrap_or_default();
        std::hint::black_box(piece.iter().step_by(LINE).fold(0, |all, byte| all ^ byte));
        self.from = end;
        if end < whole.len().min(MOST) {
            return true;
        }
        (self.next, self.from) = (self.next + 1, 0);
        if self.next <= self.weights.len() {
            return true;
        }
        self.next = 0;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nnburst_kernels::tensor::AlignedBytes;

    fn weights(bytes: usize) -> Packed {
        Packed::new("test", bytes, |_| ()).unwrap()
    }

    /// The number of pieces of a round.
    fn round(warmth: &mut Warmth, arena: &AlignedBytes) -> usize {
        1 + std::iter::repeat_with(|| warmth.touch(arena.as_slice()))
            .take_while(|&more| more)
            .count()
    }

    #[test]
    fn a_round_touches_every_piece_of_weights_and_arena_once() {
        let arena = AlignedBytes::zeroed(PIECE + 1);
        let mut warmth = Warmth::new(vec![weights(3 * PIECE), weights(1), weights(PIECE)]);
        for _ in 0..3 {
            assert_eq!(round(&mut warmth, &arena), 3 + 1 + 1 + 2);
        }
        assert_eq!(round(&mut Warmth::new(Vec::new()), &AlignedBytes::zeroed(0)), 1);
    }

    #[test]
    fn a_round_has_an_end_whatever_the_size_of_the_model() {
        let arena = AlignedBytes::zeroed(3 * MOST);
        let mut warmth = Warmth::new(vec![weights(MOST / 2), weights(MOST), weights(1)]);
        assert_eq!(round(&mut warmth, &arena), (MOST / 2 + MOST) / PIECE);
    }
}
