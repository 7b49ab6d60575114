//! Windows side by side in a line of an image: where their elements lie, and the parts in which
//! they are folded.

use crate::tensor::{Element, In, Out, check_lengths, poll};

/// Windows of one size, each some elements behind the one before, and their results.
#[derive(Clone, Copy, Debug)]
pub struct PoolWindows {
    /// Lines of a window; where there are none all windows are empty.
    pub rows: usize,
    /// Pixels of a line of it.
    pub columns: usize,
    /// Elements from line to line.
    pub line: usize,
    /// Elements from pixel to pixel.
    pub column: usize,
    /// Windows.
    pub count: usize,
    /// Elements from the first one of a window to the first of the next.
    pub distance: usize,
    /// Elements from result to result.
    pub pitch: usize,
    /// Elements of a pixel, each folded by itself.
    pub lanes: usize,
}

/// What a variant folds in one call: elements of windows, at any alignment.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowPart<T> {
    pub(super) input: *const T,
    pub(super) output: *mut T,
    pub(super) windows: PoolWindows,
    /// These are the first elements of their windows; else the output has what was folded so far.
    pub(super) begins: bool,
    /// These are the last.
    pub(super) ends: bool,
}

/// Elements of a window that are folded at once.
const MANY: usize = 1 << 12;

/// Elements that are folded between two reports of work.
const REPORTED: usize = poll::CHUNK * 4;

/// Lanes that aren't worth a vector, and elements from window to window that fill one well.
const FEW: usize = 4;
const NEAR: usize = 8;

/// Results that are computed to pick some of.
const PICKED_FROM: usize = 256;

impl PoolWindows {
    /// Calls `run` with parts that make up all of the windows. `input` and `output` begin with the
    /// first window's first element and result.
    ///
    /// # Errors
    /// The windows are over other elements than there are, or the run is to end.
    pub(super) fn each_part<T: Element>(
        self,
        input: In<'_, T>,
        output: Out<'_, T>,
        run: impl Fn(&WindowPart<T>),
    ) -> Result<(), String> {
        let last = self.last().ok_or("windows of more elements than memory has")?;
        check_lengths(input.len(), last.0)?;
        check_lengths(output.len(), last.1)?;
        if self.count == 0 || self.lanes == 0 {
            return Ok(());
        }
        if self.distance == self.lanes && self.pitch == self.lanes {
            // Results beside one another are those of one wide pixel.
            let lanes = self.lanes * self.count;
            return Self { lanes, count: 1, ..self }.each_piece(input, output, &run);
        }
        if self.count == 1 || self.lanes >= FEW || self.distance > NEAR {
            return self.each_piece(input, output, &run);
        }
        // Those of all elements, of which some are picked.
        let mut all = [T::default(); PICKED_FROM];
        let together = (PICKED_FROM - self.lanes) / self.distance + 1;
        for first in (0..self.count).step_by(together) {
            let taken = together.min(self.count - first);
            let lanes = (taken - 1) * self.distance + self.lanes;
            let from = input.slice((first * self.distance).min(input.len())..input.len());
            Self { lanes, count: 1, ..self }.each_piece(from, Out::of(&mut all), &run)?;
            for at in 0..taken {
                for lane in 0..self.lanes {
                    output.set((first + at) * self.pitch + lane, all[at * self.distance + lane]);
                }
            }
        }
        Ok(())
    }

    /// The number of elements up to the last one that is read, and up to the last result; `None` if
    /// there are no such numbers.
    pub(super) fn last(self) -> Option<(usize, usize)> {
        let (Some(count), true) = (self.count.checked_sub(1), self.lanes > 0) else {
            return Some((0, 0));
        };
        let results = count.checked_mul(self.pitch)?.checked_add(self.lanes)?;
        let (Some(rows), Some(columns)) = (self.rows.checked_sub(1), self.columns.checked_sub(1))
        else {
            return Some((0, results));
        };
        let place = rows.checked_mul(self.line)?.checked_add(columns.checked_mul(self.column)?)?;
        let first = count.checked_mul(self.distance)?;
        Some((first.checked_add(place)?.checked_add(self.lanes)?, results))
    }

    /// In pieces that take no longer than a report of work is to: some lanes of some windows, and
    /// of long windows some elements.
    fn each_piece<T: Element>(
        self,
        input: In<'_, T>,
        output: Out<'_, T>,
        run: &impl Fn(&WindowPart<T>),
    ) -> Result<(), String> {
        // Empty windows have results to write, too.
        let elements = self.rows.saturating_mul(self.columns).max(1);
        let work = elements.saturating_mul(self.count).saturating_mul(self.lanes);
        if elements <= MANY && work <= REPORTED {
            poll::work(self.count * (self.lanes + 16) * (elements + 2) / 8)?;
            let (input, output) = (input.as_ptr(), output.as_mut_ptr());
            run(&WindowPart { input, output, windows: self, begins: true, ends: true });
            return Ok(());
        }
        let columns = self.columns.clamp(1, MANY);
        let rows =
            if self.columns > MANY { 1 } else { (MANY / columns).clamp(1, self.rows.max(1)) };
        let lanes = (REPORTED / (rows * columns)).clamp(64, self.lanes.max(64));
        let count = (REPORTED / (rows * columns * lanes.min(self.lanes))).max(1);
        for lane in (0..self.lanes).step_by(lanes) {
            let lanes = lanes.min(self.lanes - lane);
            for window in (0..self.count).step_by(count) {
                let count = count.min(self.count - window);
                // Of empty windows one piece as well, which has no elements.
                for row in (0..self.rows.max(1)).step_by(rows) {
                    let rows = rows.min(self.rows - row);
                    for column in (0..self.columns.max(1)).step_by(columns) {
                        let columns = columns.min(self.columns - column);
                        poll::work(count * (lanes + 16) * (rows * columns + 2) / 8)?;
                        let place = row * self.line + column * self.column;
                        let from = window * self.distance + place + lane;
                        run(&WindowPart {
                            input: input.as_ptr().wrapping_add(from),
                            output: output.as_mut_ptr().wrapping_add(window * self.pitch + lane),
                            windows: Self { rows, columns, count, lanes, ..self },
                            begins: (row, column) == (0, 0),
                            ends: row + rows == self.rows && column + columns == self.columns,
                        });
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
impl PoolWindows {
    /// The places of a window's elements of a lane, in their order.
    pub(super) fn places(self, window: usize, lane: usize) -> impl Iterator<Item = usize> {
        let pixels =
            (0..self.rows).flat_map(move |row| (0..self.columns).map(move |column| (row, column)));
        let first = window * self.distance + lane;
        pixels.map(move |(row, column)| first + row * self.line + column * self.column)
    }

    /// For each element of an output that has one more: the window and the lane of which it is the
    /// result, if it is any.
    pub(super) fn results(self) -> impl Iterator<Item = Option<(usize, usize)>> {
        (0..=self.count * self.pitch).map(move |at| {
            let (window, lane) = (at / self.pitch, at % self.pitch);
            (window < self.count && lane < self.lanes).then_some((window, lane))
        })
    }

    /// Windows of several sizes, some of them empty, next to each other or apart, of pixels of so
    /// many elements.
    pub(super) fn of_lanes(lanes: usize) -> impl Iterator<Item = Self> {
        let sizes = [(1, 1), (2, 2), (3, 2), (3, 3), (0, 3), (2, 0)].into_iter();
        sizes.flat_map(move |(rows, columns)| {
            [(1, 0), (2, 0), (2, 3)].map(|(stride, gap)| {
                let (column, pitch) = (lanes + gap, lanes + gap);
                let (line, distance) = (12 * column, stride * column);
                Self { rows, columns, line, column, count: 5, distance, pitch, lanes }
            })
        })
    }

    /// Windows that are folded in several pieces.
    pub(super) fn long() -> Self {
        Self {
            rows: 70,
            columns: 80,
            line: 80 * 3,
            column: 3,
            count: 2,
            distance: 3 * 80 * 70,
            pitch: 4,
            lanes: 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    #[test]
    fn many_empty_windows_come_in_pieces_as_well() {
        let windows = PoolWindows { rows: 0, count: 1 << 18, ..PoolWindows::long() };
        let mut output = vec![0_u8; windows.count * windows.pitch];
        let (pieces, most) = (Cell::new(0), Cell::new(0));
        let add = |part: &WindowPart<u8>| {
            assert!(part.begins && part.ends);
            pieces.set(pieces.get() + 1);
            most.set(most.get().max(part.windows.count * part.windows.lanes));
        };
        windows.each_part(In::of(&[]), Out::of(&mut output), add).unwrap();
        assert!(pieces.get() > 8 && most.get() <= REPORTED, "{pieces:?} of {most:?}");
    }

    #[test]
    fn long_windows_come_in_pieces_in_their_order() {
        let windows = PoolWindows {
            rows: 3,
            columns: 5000,
            line: 10_000,
            column: 2,
            count: 2,
            distance: 1,
            pitch: 1,
            lanes: 2,
        };
        let input = vec![0_u8; 2 * 10_000 + 2 * 4999 + 3];
        let pieces = RefCell::new(Vec::new());
        let mut output = [0; 3];
        let add = |part: &WindowPart<u8>| {
            let from = part.input.addr() - input.as_ptr().addr();
            let WindowPart { windows, begins, ends, .. } = *part;
            pieces.borrow_mut().push((from, windows.columns, windows.count, begins, ends));
        };
        windows.each_part(In::of(&input), Out::of(&mut output), add).unwrap();
        let pieces = pieces.into_inner();
        let first: Vec<_> = pieces.iter().filter(|piece| piece.0 % 2 == 0).collect();
        assert!(first.iter().is_sorted_by_key(|piece| piece.0), "{pieces:?}");
        assert_eq!(first.iter().map(|piece| piece.1 * piece.2).sum::<usize>(), 3 * 5000);
        assert_eq!(first.iter().filter(|piece| piece.3).count(), 1);
        assert_eq!(first.iter().filter(|piece| piece.4).count(), 1);
        let short = In::of(&input[1..]);
        assert!(windows.each_part(short, Out::of(&mut output), |_| ()).is_err());
        assert!(windows.each_part(In::of(&input), Out::of(&mut output[1..]), |_| ()).is_err());
        let endless = PoolWindows { distance: usize::MAX, ..windows };
        assert!(endless.each_part(In::of(&input), Out::of(&mut output), |_| ()).is_err());
    }
}
