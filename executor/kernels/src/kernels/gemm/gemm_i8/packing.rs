//! Weights into panels: a line of bias, then a line per word of a window, segment by segment; then
//! what signed bytes leave of them.
//!
//! A weight's difference from its zero point takes nine bits, but unless quantisation is lopsided
//! nearly all fit eight: of a panel one word or three have one that doesn't. What is left of these
//! is a word of its own, by which the window's word is multiplied once more. That takes the place
//! of sums of windows, which would correct for the zero point otherwise: another pass over the
//! image.

use super::bands::Bands;
use super::kernel::{Bytes, Encoding, Microkernel, difference};
use crate::tensor::poll;

/// Words of a panel that may leave something, at most: as many as an index line has room for.
const MOST_RESTS: usize = 7;

/// A row of weights and a bias per column.
pub(super) struct Unpacked<'a> {
    pub(super) weights: &'a [u8],
    pub(super) quantised: Bytes,
    pub(super) bias: &'a [i32],
    pub(super) image: Bytes,
    pub(super) depth: usize,
}

/// The lines of a panel: of bias, of words and of rests; then an index of the rests where there may
/// be some: one more than their number, or 0 where the weights leave too much, then the word that
/// each is of.
#[derive(Clone, Copy, Debug)]
pub(super) struct PanelLines {
    words: usize,
    /// Room for so many.
    rests: usize,
}

impl PanelLines {
    /// For windows of so many words. Told by the zero point alone: weights that come out of a cache
    /// aren't there to be looked at.
    pub(super) fn new(encoding: Encoding, quantised: Bytes, words: usize) -> Self {
        // Of 255 less 0 more than a byte would be left.
        let may_leave = quantised.zero_point != 128 && quantised.zero_point > 0;
        let has_rests = encoding == Encoding::Bytes && may_leave;
        Self { words, rests: if has_rests { words.min(MOST_RESTS) } else { 0 } }
    }

    pub(super) fn count(self) -> usize {
        1 + self.words + if self.rests == 0 { 0 } else { self.rests + 1 }
    }

    /// Returns the line of the index.
    fn index(self) -> usize {
        1 + self.words + self.rests
    }

    /// The words that a packed panel has rests of; `None` where windows must be summed. What a
    /// damaged file names instead are words of a window, too.
    pub(super) fn rests(self, panel: &[i32], width: usize) -> Option<impl Iterator<Item = usize>> {
        if self.rests == 0 {
            return None;
        }
        let (&count, words) = panel.get(self.index() * width..)?.split_first()?;
        let count = usize::try_from(count).ok()?.checked_sub(1)?.min(self.rests);
        let last = self.words.saturating_sub(1);
        let word = move |&word: &i32| usize::try_from(word).unwrap_or(last).min(last);
        Some(words[..count].iter().map(word))
    }
}

/// Fills `packed`, which is zeroed.
pub(super) fn pack(
    kernel: &Microkernel,
    bands: &Bands,
    rows: &Unpacked<'_>,
    lines: PanelLines,
    packed: &mut [i32],
) {
    let rests = rests(kernel, bands, rows, lines);
    // What signed bytes are differences from.
    let zero = if rests.is_some() { rows.quantised.zero_point } else { 128 };
    let mut packed = packed;
    let firsts = (0..rows.bias.len()).step_by(kernel.columns);
    for (panel, first) in firsts.enumerate() {
        let width = kernel.width(kernel.columns.min(rows.bias.len() - first));
        let rests = rests.as_ref().and_then(|rests| rests.get(panel));
        let (panel, rest) = packed.split_at_mut(width * lines.count());
        packed = rest;
        let columns = rows.weights.chunks_exact(rows.depth).zip(rows.bias).skip(first).take(width);
        for (column, (row, &bias)) in poll::each(columns.enumerate(), rows.depth * 2) {
            panel[column] = match kernel.encoding {
                Encoding::Bytes => bias.wrapping_add(correction(row, rows, zero)),
                Encoding::Differences => bias,
            };
            let segments = row.chunks_exact(rows.depth / bands.segments.len());
            let mut lines_of_words = panel[width..].chunks_exact_mut(width);
            for word in segments.flat_map(|segment| segment.chunks(kernel.encoding.per_word())) {
                if let Some(line) = lines_of_words.next() {
                    line[column] = match kernel.encoding {
                        Encoding::Bytes => {
                            bytes(word, |weight| most(weight_less(weight, rows, zero)))
                        }
                        Encoding::Differences => differences(word, rows.quantised),
                    };
                }
            }
            for (&word, line) in rests.into_iter().flatten().zip(1 + lines.words..) {
                let left = |weight| {
                    let all = weight_less(weight, rows, zero);
                    all - most(all)
                };
                panel[line * width + column] = bytes(word_of(bands, rows, row, word), left);
            }
        }
        if let Some(rests) = rests {
            let index = &mut panel[lines.index() * width..];
            let all = std::iter::once(rests.len() + 1).chain(rests.iter().copied());
            for (to, number) in index.iter_mut().zip(all) {
                *to = i32::try_from(number).unwrap_or(i32::MAX);
            }
        }
    }
}

/// Of each panel, the words that have a weight whose difference from the zero point is no signed
/// byte. `None` where one has too many of them, or no room is left for any.
fn rests(
    kernel: &Microkernel,
    bands: &Bands,
    rows: &Unpacked<'_>,
    lines: PanelLines,
) -> Option<Vec<Vec<usize>>> {
    if lines.rests == 0 {
        return None;
    }
    let segment = rows.depth / bands.segments.len();
    let leaves = |&weight: &u8| {
        let all = weight_less(weight, rows, rows.quantised.zero_point);
        all != most(all)
    };
    let mut panels = vec![Vec::new(); rows.bias.len().div_ceil(kernel.columns)];
    let all = rows.weights.chunks_exact(rows.depth).enumerate();
    for (column, row) in poll::each(all, rows.depth / 4) {
        // In a loop that the compiler makes vectors of, since few rows have any.
        if !row.iter().fold(false, |any, weight| any | leaves(weight)) {
            continue;
        }
        let words = &mut panels[column / kernel.columns];
        for (at, _) in row.iter().enumerate().filter(|&(_, weight)| leaves(weight)) {
            let word = at / segment * bands.segment_words + at % segment / 4;
            if !words.contains(&word) {
                words.push(word);
            }
            if words.len() > lines.rests {
                return None;
            }
        }
    }
    Some(panels)
}

/// The weights of a word of a window.
fn word_of<'a>(bands: &Bands, rows: &Unpacked<'_>, row: &'a [u8], word: usize) -> &'a [u8] {
    let (segment, at) = (word / bands.segment_words, word % bands.segment_words);
    let mut segments = row.chunks_exact(rows.depth / bands.segments.len());
    segments.nth(segment).and_then(|segment| segment.chunks(4).nth(at)).unwrap_or_default()
}

/// The difference between the products of differences and of bytes as stored, but for the part
/// that depends on windows. With weights `w` as differences from `zero` that is
/// `-zp_image * sum(w) + depth * zp_image * (zp_weights - zero)`.
fn correction(row: &[u8], rows: &Unpacked<'_>, zero: i32) -> i32 {
    let away = rows.quantised.zero_point - zero;
    let sum = row.iter().fold(0i32, |sum, &w| sum.wrapping_add(weight_less(w, rows, zero)));
    let depth = i32::try_from(rows.depth).unwrap_or(i32::MAX);
    rows.image.zero_point.wrapping_mul(depth.wrapping_mul(away).wrapping_sub(sum))
}

/// A weight read as unsigned, less a number.
fn weight_less(weight: u8, rows: &Unpacked<'_>, zero: i32) -> i32 {
    i32::from(weight ^ rows.quantised.flip) - zero
}

/// Returns the part of a number that fits an `i8`.
fn most(number: i32) -> i32 {
    number.clamp(-128, 127)
}

/// A word of signed bytes; what is missing of it is 0.
fn bytes(word: &[u8], byte: impl Fn(u8) -> i32) -> i32 {
    let mut four = [0u8; 4];
    four.iter_mut().zip(word).for_each(|(to, &weight)| *to = byte(weight).to_le_bytes()[0]);
    i32::from_le_bytes(four)
}

/// A word of differences, likewise.
fn differences(word: &[u8], quantised: Bytes) -> i32 {
    let mut two = [0u16; 2];
    two.iter_mut().zip(word).for_each(|(d, &w)| *d = difference(w, quantised).cast_unsigned());
    (u32::from(two[0]) | u32::from(two[1]) << 16).cast_signed()
}
