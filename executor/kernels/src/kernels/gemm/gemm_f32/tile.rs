//! The tiles that a variant computes at a time, and the addresses of their rows.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::simd::fetch;

/// Tiles of a product, one below the other: all their rows by `columns` columns of `output`.
///
/// Each row is made of `segments.0` by `segments.1` spans of `len` elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct TileStack {
    /// First element of the first row.
    pub(super) input: *const f32,
    /// Elements between rows.
    pub(super) row_stride: usize,
    pub(super) segments: (usize, usize),
    /// Elements between segments of a row.
    pub(super) input_steps: (usize, usize),
    /// Floats between the segments' weights.
    pub(super) weights_steps: (usize, usize),
    pub(super) len: usize,
    pub(super) bias: *const f32,
    /// For each segment `len` lines as wide as the panel.
    pub(super) weights: *const f32,
    /// What is asked for into L2 with the first element of depth, and the bytes from there to what
    /// is asked for with the next one.
    pub(super) ahead: *const f32,
    pub(super) ahead_step: usize,
    pub(super) output: *mut f32,
    /// Elements between rows of the output.
    pub(super) stride: usize,
    pub(super) heights: Heights,
    pub(super) columns: usize,
    pub(super) low: f32,
    pub(super) high: f32,
}

/// The rows of tiles: as many of each, but for the first few, which have one more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heights {
    pub(super) tiles: usize,
    pub(super) each: usize,
    pub(super) more: usize,
}

impl Heights {
    /// As even as can be: 49 rows in tiles of 12 at most are 10, 10, 10, 10, 9.
    pub(super) fn of(rows: usize, most: usize) -> Self {
        let tiles = rows.div_ceil(most);
        Self { tiles, each: rows / tiles.max(1), more: rows % tiles.max(1) }
    }

    /// So many tiles from the one `first` on.
    #[inline(always)]
    pub(super) fn part(self, first: usize, tiles: usize) -> Self {
        Self { tiles, more: self.more.saturating_sub(first).min(tiles), ..self }
    }

    /// Rows of a tile.
    #[inline(always)]
    pub(super) fn rows_of(self, tile: usize) -> usize {
        self.each + usize::from(tile < self.more)
    }

    /// Rows of the highest tile.
    #[inline(always)]
    pub(super) fn highest(self) -> usize {
        self.rows_of(0)
    }

    /// Rows of all tiles.
    #[inline(always)]
    pub(super) fn rows(self) -> usize {
        self.tiles * self.each + self.more
    }
}

/// The start of a segment of rows, and its weights.
pub(super) struct Segment {
    pub(super) rows: *const f32,
    pub(super) weights: *const f32,
}

impl TileStack {
    /// No rows of no columns.
    pub(super) const NONE: Self = Self {
        input: std::ptr::null(),
        row_stride: 0,
        segments: (0, 0),
        input_steps: (0, 0),
        weights_steps: (0, 0),
        len: 0,
        bias: std::ptr::null(),
        weights: std::ptr::null(),
        ahead: std::ptr::null(),
        ahead_step: 0,
        output: std::ptr::null_mut(),
        stride: 0,
        heights: Heights { tiles: 0, each: 0, more: 0 },
        columns: 0,
        low: f32::NEG_INFINITY,
        high: f32::INFINITY,
    };

    /// Asks for the lines that the next tile writes, below the `rows` by `width` of the one at
    /// `output`. Those of a large image are in no cache: the first convolutions of MobileNet v1
    /// took a fifth longer, waiting with each store.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[inline(always)]
    pub(super) fn fetch_next_outputs(&self, output: *mut f32, rows: usize, width: usize) {
        for row in rows..2 * rows {
            for column in (0..width).step_by(16) {
                fetch(output.wrapping_add(row * self.stride + column));
            }
        }
    }

    /// The segments of rows, of the first of which `input` is the first element.
    #[inline(always)]
    pub(super) fn segments(&self, input: *const f32) -> impl Iterator<Item = Segment> {
        let (lines, columns) = self.segments;
        (0..lines).flat_map(move |line| {
            (0..columns).map(move |column| Segment {
                rows: input.wrapping_add(line * self.input_steps.0 + column * self.input_steps.1),
                weights: self
                    .weights
                    .wrapping_add(line * self.weights_steps.0 + column * self.weights_steps.1),
            })
        })
    }
}

/// Rows that are addressed from one register: it, and once and twice the stride behind it.
pub(super) const ROWS_PER_BASE: usize = 3;

/// The distance in floats at which weights are prefetched: a panel is too large for the first
/// cache, and the machine's own prefetching ends with each page. For 49 rows it makes 100 GFLOP/s
/// of 94.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) const AHEAD: usize = 256;

/// Addresses of every third row.
///
/// Left to itself the compiler has an address for each row, and loads those of twelve that find no
/// register from the stack in each step. Where it can't see how the bases belong together, nor how
/// one step's belong to the last one's, it addresses rows from them. Ice Lake, which loads twice in
/// the time of two products, takes 0.84 to 0.98 of the time, with AVX2 0.80 to 1.00.
#[inline(always)]
pub(super) fn bases<const COUNT: usize>(first: *const f32, stride: usize) -> [*const f32; COUNT] {
    std::array::from_fn(|i| {
        let base = first.wrapping_add(i * ROWS_PER_BASE * stride);
        if ADDS_STRIDES { unseen(base) } else { std::hint::black_box(base) }
    })
}

/// The bases of the element `by` elements further.
#[inline(always)]
pub(super) fn further<const COUNT: usize>(
    bases: [*const f32; COUNT],
    by: usize,
) -> [*const f32; COUNT] {
    bases.map(|base| {
        let next = base.wrapping_add(by);
        if ADDS_STRIDES { unseen(next) } else { next }
    })
}

/// True if a load adds once and twice the stride to an address by itself.
const ADDS_STRIDES: bool = cfg!(target_arch = "x86_64");

/// The same address, of which the compiler doesn't know that.
#[inline(always)]
fn unseen(address: *const f32) -> *const f32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    let address = {
        let mut at = address.addr();
        // SAFETY: there is no instruction in it.
        unsafe {
            std::arch::asm!(
                "/* {0} */",
                inout(reg) at,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        address.with_addr(at)
    };
    address
}
