//! The places of the largest or the smallest of many elements, found for some rows, for some
//! columns or in some parts of a row side by side.

use nnburst_kernels::kernels::plain::Loop;
use nnburst_kernels::simd::Isa;
use nnburst_kernels::tensor::{Element, In, Out, poll};

/// Rows, columns or parts of a row side by side.
const LANES: usize = 64;

/// Elements of a lane that are copied at a time.
const DEEP: usize = 128;

/// Extremes along the second axis of `[outer, extent, inner]`. The first of equals wins, and a NaN
/// is neither larger nor smaller than anything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extremes {
    isa: Isa,
    outer: usize,
    extent: usize,
    inner: usize,
    largest: bool,
}

impl Extremes {
    pub(super) fn new(isa: Isa, around: (usize, usize, usize), largest: bool) -> Self {
        let (outer, extent, inner) = around;
        Self { isa, outer, extent, inner, largest }
    }

    /// Scratch memory, in elements.
    pub(super) fn scratch_len(&self) -> usize {
        let lanes = if self.inner == 1 { self.outer } else { self.inner };
        let lanes = if self.is_long() { LANES } else { lanes.min(LANES) };
        lanes * self.extent.min(DEEP)
    }

    /// Returns whether rows are so long that a few parts of one are looked at side by side.
    fn is_long(&self) -> bool {
        self.inner == 1 && self.extent > DEEP
    }

    /// Writes the place of each extreme; `own` has the length of the scratch memory. What others
    /// may change is copied there, and read once.
    ///
    /// # Errors
    /// The execution is to end.
    pub(super) fn find<T: Element>(
        &self,
        input: In<'_, T>,
        output: Out<'_, i32>,
        own: &mut [T],
    ) -> Result<(), poll::Halted> {
        let Self { outer, extent, inner, .. } = *self;
        if self.is_long() {
            for row in 0..outer {
                let place = self.of_row(input.slice(row * extent..(row + 1) * extent), own)?;
                output.set(row, i32::try_from(place).unwrap_or(i32::MAX));
            }
        } else if inner == 1 {
            for first in (0..outer).step_by(LANES) {
                let rows = first..outer.min(first + LANES);
                let own = &mut own[..rows.len() * extent];
                poll::work(own.len() / 2)?;
                input.slice(rows.start * extent..rows.end * extent).copy_to(own);
                let mut best = Best::new();
                best.start(own.iter().step_by(extent));
                self.follow(
                    &mut best,
                    Part { own, lanes: rows.len(), apart: extent, deep: extent, step: 1 },
                );
                output.slice(rows.clone()).copy_from(In::of(&best.places[..rows.len()]));
            }
        } else {
            for at in 0..outer {
                let image = input.slice(at * extent * inner..(at + 1) * extent * inner);
                let places = output.slice(at * inner..(at + 1) * inner);
                self.of_columns(image, places, own)?;
            }
        }
        Ok(())
    }

    /// The place in a long row.
    fn of_row<T: Element>(&self, row: In<'_, T>, own: &mut [T]) -> Result<usize, poll::Halted> {
        let mut best = Best::new();
        for first in (0..row.len()).step_by(own.len()) {
            let own = &mut own[..(row.len() - first).min(LANES * DEEP)];
            poll::work(own.len() / 2)?;
            row.slice(first..first + own.len()).copy_to(own);
            if first == 0 {
                best.start(std::iter::repeat_n(&own[0], LANES));
            }
            let (whole, rest) = own.split_at(own.len() / LANES * LANES);
            self.follow(
                &mut best,
                Part { own: whole, lanes: LANES, apart: 1, deep: whole.len() / LANES, step: LANES },
            );
            self.follow(
                &mut best,
                Part {
                    own: rest,
                    lanes: rest.len(),
                    apart: 1,
                    deep: usize::from(!rest.is_empty()),
                    step: LANES,
                },
            );
        }
        Ok(best.of_turns(self.largest))
    }

    /// The places in all columns of an image.
    fn of_columns<T: Element>(
        &self,
        image: In<'_, T>,
        places: Out<'_, i32>,
        own: &mut [T],
    ) -> Result<(), poll::Halted> {
        for first in (0..self.inner).step_by(LANES) {
            let columns = LANES.min(self.inner - first);
            let mut best = Best::new();
            for line in (0..self.extent).step_by(DEEP) {
                let lines = line..self.extent.min(line + DEEP);
                let own = &mut own[..lines.len() * columns];
                poll::work(own.len() / 2 + lines.len())?;
                for (to, line) in own.chunks_exact_mut(columns).zip(lines.clone()) {
                    let from = line * self.inner + first;
                    image.slice(from..from + columns).copy_to(to);
                }
                if line == 0 {
                    best.start(own.iter());
                }
                self.follow(
                    &mut best,
                    Part { own, lanes: columns, apart: 1, deep: lines.len(), step: columns },
                );
            }
            places.slice(first..first + columns).copy_from(In::of(&best.places[..columns]));
        }
        Ok(())
    }

    fn follow<T: Element>(&self, best: &mut Best<T>, part: Part<'_, T>) {
        if self.largest {
            self.isa.run(Follow { best, part, is_better: |a, b| a > b });
        } else {
            self.isa.run(Follow { best, part, is_better: |a, b| a < b });
        }
    }
}

/// The extremes of the lanes so far.
struct Best<T> {
    values: [T; LANES],
    /// Which of its lane each is.
    places: [i32; LANES],
    /// Which of their lanes the elements to come are.
    next: i32,
}

impl<T: Element> Best<T> {
    fn new() -> Self {
        Self { values: [T::default(); LANES], places: [0; LANES], next: 0 }
    }

    /// Sets what lanes begin with: the element at place 0.
    fn start<'a>(&mut self, values: impl Iterator<Item = &'a T>) {
        self.values.iter_mut().zip(values).for_each(|(to, &value)| *to = value);
    }

    /// The place in a row whose elements are in all lanes in turns.
    fn of_turns(&self, largest: bool) -> usize {
        let places = self.places.iter().zip(0..);
        let places = places.map(|(&turn, lane)| usize::try_from(turn).unwrap_or(0) * LANES + lane);
        let best = self.values.iter().zip(places).reduce(|best, it| {
            let is_better = if largest { it.0 > best.0 } else { it.0 < best.0 };
            if is_better || (it.0 == best.0 && it.1 < best.1) { it } else { best }
        });
        best.map_or(0, |(_, place)| place)
    }
}

/// So many elements of each lane: `apart` elements from lane to lane, and `step` from one of a lane
/// to the next.
struct Part<'a, T> {
    own: &'a [T],
    lanes: usize,
    apart: usize,
    deep: usize,
    step: usize,
}

struct Follow<'a, T, F> {
    best: &'a mut Best<T>,
    part: Part<'a, T>,
    is_better: F,
}

impl<T: Element, F: Fn(T, T) -> bool> Loop for Follow<'_, T, F> {
    #[inline(always)]
    fn run(self) {
        let Self { best, part: Part { own, lanes, apart, deep, step }, is_better } = self;
        let Best { mut values, mut places, mut next } = *best;
        for position in 0..deep {
            let from = &own[position * step..];
            // A lane that there is not is never better than itself.
            let mut found = values;
            if apart == 1 {
                found[..lanes].copy_from_slice(&from[..lanes]);
            } else {
                let all = found[..lanes].iter_mut().zip(from.iter().step_by(apart));
                all.for_each(|(to, &x)| *to = x);
            }
            for ((value, place), &found) in values.iter_mut().zip(&mut places).zip(&found) {
                let is_better = is_better(found, *value);
                *value = if is_better { found } else { *value };
                *place = if is_better { next } else { *place };
            }
            next = next.wrapping_add(1);
        }
        *best = Best { values, places, next };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds each by itself.
    fn wanted<T: Element>(
        x: &[T],
        (outer, extent, inner): (usize, usize, usize),
        largest: bool,
    ) -> Vec<i32> {
        let mut places = Vec::new();
        for place in 0..outer * inner {
            let value = |at: usize| x[(place / inner * extent + at) * inner + place % inner];
            let better = |a: T, b: T| if largest { a > b } else { a < b };
            let best = (0..extent)
                .reduce(|best, at| if better(value(at), value(best)) { at } else { best });
            places.push(i32::try_from(best.unwrap()).unwrap());
        }
        places
    }

    fn check<T: Element>(number: impl Fn(usize) -> T) {
        let rows = [
            (1, 1, 1),
            (3, 21, 1),
            (64, 21, 1),
            (131, 2, 1),
            (2, 128, 1),
            (1, 129, 1),
            (3, 1001, 1),
            (2, 9000, 1),
        ];
        let columns = [(1, 5, 7), (2, 300, 3), (3, 21, 64), (1, 9, 131)];
        for around in rows.into_iter().chain(columns) {
            let x: Vec<T> = (0..around.0 * around.1 * around.2).map(&number).collect();
            for (isa, largest) in Isa::all().flat_map(|isa| [(isa, true), (isa, false)]) {
                let extremes = Extremes::new(isa, around, largest);
                let mut places = vec![-1; around.0 * around.2];
                let mut own = vec![T::default(); extremes.scratch_len()];
                extremes.find(In::of(&x), Out::of(&mut places), &mut own).unwrap();
                assert_eq!(places, wanted(&x, around, largest), "{around:?} {isa:?} {largest}");
            }
        }
    }

    #[test]
    fn places_are_those_of_a_plain_search() {
        let random = |at: usize| {
            let [a, b, ..] = (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
            i16::from_be_bytes([a, b])
        };
        check(|at| random(at).to_le_bytes()[0]);
        check(|at| i8::try_from(random(at) % 7).unwrap());
        check(|at| i32::from(random(at)) * 1000);
        check(|at| f32::from(random(at)));
    }

    #[test]
    fn a_nan_is_found_where_it_comes_first_alone() {
        let random = |at: usize| u8::try_from((at.wrapping_mul(2_654_435_761) >> 9) % 11).unwrap();
        check(|at| if random(at) < 4 { f32::NAN } else { f32::from(random(at)) });
    }
}
