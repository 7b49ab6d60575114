//! A panel's sums are two pairs of vectors.

super::dots::dot_kernel!(NeonDot, "neon,dotprod", vectors: 2, side: 2, rows: 2, signed: true);
