//! A panel's sums are one vector.

super::dots::dot_kernel!(
    Avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni",
    vectors: 1, side: 8, rows: 4, signed: false
);
