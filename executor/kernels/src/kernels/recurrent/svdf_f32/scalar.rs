//! Plain Rust.

use super::Row;

pub(super) unsafe fn filter(row: &Row) {
    let last = row.memory - 1;
    for feature in 0..row.units * row.rank {
        let first = feature * row.memory;
        let mut sum = 0.0;
        for slot in 0..row.memory {
            // SAFETY: within the row.
            unsafe {
                let value = match slot {
                    slot if slot == last => row.newest.add(feature).read_unaligned(),
                    slot => row.state.add(first + slot).read_unaligned(),
                };
                sum += value * row.weights.add(first + slot).read_unaligned();
                if slot > 0 {
                    row.next.add(first + slot - 1).write_unaligned(value);
                }
            }
        }
        // SAFETY: within the row.
        unsafe {
            row.next.add(first + last).write_unaligned(0.0);
            *row.sums.add(feature / row.rank) += sum;
        }
    }
}
