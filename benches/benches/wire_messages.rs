//! Costs of the control connection's messages on one core: what a request and a model take to be
//! encoded and decoded, `cargo bench -p benches -- wire_message/decode`.

#![expect(clippy::unwrap_used, reason = "a bench that fails should say so at once")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nnburst::builtin;
use nnburst_hal::{DataLocation, OutputShape, RequestArgument};
use nnburst_hal_ipc::{decode, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Encodes and decodes one message.
fn message<T: Serialize + DeserializeOwned>(c: &mut Criterion, name: &str, message: &T) {
    let bytes = encode(message).unwrap();
    let mut group = c.benchmark_group("wire_message/encode");
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function(BenchmarkId::new(name, bytes.len()), |b| {
        b.iter(|| encode(black_box(message)).unwrap());
    });
    group.finish();
    let mut group = c.benchmark_group("wire_message/decode");
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function(BenchmarkId::new(name, bytes.len()), |b| {
        b.iter(|| decode::<T>(black_box(&bytes)).unwrap());
    });
    group.finish();
}

fn messages(c: &mut Criterion) {
    let argument = |pool_index| RequestArgument {
        has_no_value: false,
        location: DataLocation { pool_index, offset: 0, length: 4 },
        dimensions: vec![1, 1, 1, 4],
    };
    message(c, "arguments", &(0..9).map(argument).collect::<Vec<_>>());
    let shape = OutputShape { dimensions: vec![1, 1, 1, 4], is_sufficient: true };
    message(c, "output_shapes", &vec![shape]);
    message(c, "graph", &builtin::model("mobilenet_v2_1.0_224").unwrap().main);
}

criterion_group!(benches, messages);
criterion_main!(benches);
