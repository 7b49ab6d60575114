//! Streams of messages, and how long to leave their sender alone.

use crate::sync::spin_loop;

/// Detects a stream of the peer, and how long to leave the peer alone then.
///
/// Whoever catches up with a stream looks at the peer's counter after each message, takes the lines
/// from the peer that it is writing just then, and both are slow. Hanging back for a moment lets
/// the peer get ahead, and then both run; how long is enough depends on how far apart the two cores
/// are, so it is found by trying. It lasts while there is at least a message for each turn, which
/// is more than could go back and forth one by one. Who exchanges single messages finds one at a
/// time and never hangs back.
#[derive(Debug, Default)]
pub(crate) struct StreamBackoff {
    in_a_row: u32,
    /// The time to hang back, in turns of a polling loop: some 20 to 60 ns each.
    turns: u32,
}

impl StreamBackoff {
    /// Messages at the end of a wait that make a stream.
    const SEVERAL: u32 = 4;
    /// Such waits in a row, before one hangs back.
    const FEW: u32 = 3;
    /// The shortest time to hang back: as long as two cores far apart take for a message.
    const LEAST: u32 = 16;
    const MOST: u32 = 128;

    pub(crate) fn hang_back(&self) {
        for _ in 0..self.turns {
            spin_loop();
        }
    }

    /// A wait for `message` bytes has ended with `usable` bytes to do, in a ring of `ring` bytes.
    ///
    /// It multiplies rather than divides: it runs between the coming of a message and its being
    /// read, where two divisions are a tenth of an exchange between near cores.
    #[inline]
    pub(crate) fn learn(&mut self, usable: usize, message: usize, ring: usize) {
        let several = usize::try_from(self.turns.max(Self::SEVERAL)).unwrap_or(usize::MAX);
        if usable < message.max(1).saturating_mul(several) {
            *self = Self::default();
            return;
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        if self.in_a_row < Self::FEW {
            return;
        }
        // A quarter to a half of the ring: both sides then have something to do while the other one
        // works.
        self.turns = if usable < ring / 4 {
            (self.turns * 2).clamp(Self::LEAST, Self::MOST)
        } else if usable > ring / 2 {
            self.turns / 2
        } else {
            self.turns
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_several_messages_several_times_in_a_row_make_a_stream() {
        let mut stream = StreamBackoff::default();
        for (messages, turns) in [(9, 0), (9, 0), (1, 0), (4, 0), (4, 0), (4, 16), (3, 0)] {
            stream.learn(messages * 8, 8, 2048 * 8);
            assert_eq!(stream.turns, turns, "{messages} messages");
        }
    }

    #[test]
    fn one_hangs_back_for_longer_until_there_is_enough_to_do() {
        let mut stream = StreamBackoff { in_a_row: 2, turns: 0 };
        let steps =
            [(40, 16), (40, 32), (40, 64), (70, 128), (200, 128), (600, 128), (1100, 64), (50, 0)];
        for (messages, turns) in steps {
            stream.learn(messages * 8, 8, 2048 * 8);
            assert_eq!(stream.turns, turns, "{messages} messages");
        }
    }
}
