//! A panel's sums are two vectors.

super::dots::dot_kernel!(AvxVnni, "avx2,fma,avxvnni", vectors: 2, side: 2, rows: 2, signed: false);
