//! Costs of a burst's packets and of its slot cache on one core:
//! `cargo bench -p benches -- burst_packet/deserialize_request`.

#![expect(clippy::unwrap_used, reason = "a bench that fails should say so at once")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nnburst_burst::packet::{
    BurstAnswer, BurstPool, BurstRequest, Dialect, deserialize_answer, deserialize_request,
    serialize_answer, serialize_request,
};
use nnburst_burst::{MAX_SLOTS, SlotCache};
use nnburst_hal::{
    DataLocation, ErrorStatus, ExecutionOptions, OutputShape, Request, RequestArgument,
};

/// Both forms of the protocol.
const DIALECTS: [(&str, Dialect); 2] =
    [("android", Dialect::Android), ("extended", Dialect::Extended)];

/// A request with one output and so many inputs, each with four dimensions and a pool of its own.
fn request(inputs: u32) -> (Request, Vec<BurstPool>) {
    let argument = |pool_index| RequestArgument {
        has_no_value: false,
        location: DataLocation { pool_index, offset: 0, length: 4 },
        dimensions: vec![1, 1, 1, 4],
    };
    let request = Request {
        inputs: (0..inputs).map(argument).collect(),
        outputs: vec![argument(inputs)],
        pools: Vec::new(),
    };
    let slots = (0..).map(BurstPool::Slot);
    (request, slots.take(usize::try_from(inputs).unwrap() + 1).collect())
}

fn requests(c: &mut Criterion) {
    let options = ExecutionOptions::default();
    for (dialect, form) in DIALECTS {
        for inputs in [1, 8] {
            let (request, pools) = request(inputs);
            let mut packet = Vec::new();
            serialize_request(&request, &pools, &options, form, &mut packet).unwrap();
            let elements = packet.len();

            let mut group = c.benchmark_group("burst_packet/serialize_request");
            group.throughput(Throughput::Elements(elements as u64));
            let mut written = packet.clone();
            group.bench_function(BenchmarkId::new(dialect, elements), |b| {
                let request = black_box(&request);
                b.iter(|| serialize_request(request, &pools, &options, form, &mut written));
            });
            group.finish();

            let mut group = c.benchmark_group("burst_packet/deserialize_request");
            group.throughput(Throughput::Elements(elements as u64));
            let mut received = BurstRequest::default();
            group.bench_function(BenchmarkId::new(dialect, elements), |b| {
                b.iter(|| deserialize_request(black_box(&packet), form, &mut received));
            });
            group.finish();
        }
    }
}

fn answers(c: &mut Criterion) {
    let shape = OutputShape { dimensions: vec![1, 1001], is_sufficient: true };
    for (dialect, form) in DIALECTS {
        let answer = BurstAnswer {
            status: ErrorStatus::None,
            output_shapes: vec![shape.clone(); 4],
            ..BurstAnswer::default()
        };
        let mut packet = Vec::new();
        serialize_answer(&answer, form, &mut packet).unwrap();
        let elements = packet.len();

        let mut group = c.benchmark_group("burst_packet/serialize_answer");
        group.throughput(Throughput::Elements(elements as u64));
        let mut written = packet.clone();
        group.bench_function(BenchmarkId::new(dialect, elements), |b| {
            b.iter(|| serialize_answer(black_box(&answer), form, &mut written));
        });
        group.finish();

        let mut group = c.benchmark_group("burst_packet/deserialize_answer");
        group.throughput(Throughput::Elements(elements as u64));
        let mut received = BurstAnswer::default();
        group.bench_function(BenchmarkId::new(dialect, elements), |b| {
            b.iter(|| deserialize_answer(black_box(&packet), form, &mut received));
        });
        group.finish();
    }
}

/// Looking a slot up, as every frame does for each of its memories; and filling and freeing one.
fn slot_cache(c: &mut Criterion) {
    for slots in [2, MAX_SLOTS] {
        let mut cache = SlotCache::new();
        let last = i32::try_from(slots - 1).unwrap();
        (0..=last).for_each(|slot| cache.insert(slot, u64::from(slot.cast_unsigned())).unwrap());
        let mut group = c.benchmark_group("slot_cache");
        group.bench_function(BenchmarkId::new("get", slots), |b| {
            b.iter(|| cache.get(black_box(last)).copied());
        });
        group.bench_function(BenchmarkId::new("insert_remove", slots), |b| {
            b.iter(|| (cache.insert(black_box(last), 7), cache.remove(last)));
        });
        group.finish();
    }
}

criterion_group!(benches, requests, answers, slot_cache);
criterion_main!(benches);
