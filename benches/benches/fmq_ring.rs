//! Costs of the queue's calls on one core, beside other rings:
//! `cargo bench -p benches -- fmq_ring/push_pop`.

#![expect(clippy::unwrap_used, reason = "a bench that fails should say so at once")]

use std::hint::black_box;

use bytemuck::Pod;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use crossbeam_queue::ArrayQueue;
use nnburst_fmq::Queue;

/// Bytes of every ring.
const RING: usize = 16 * 1024;

fn push_pop<T: Pod + std::fmt::Debug>(c: &mut Criterion) {
    let mut group = c.benchmark_group("fmq_ring/push_pop");
    let (item, bytes) = (T::zeroed(), size_of::<T>());
    for (form, flag) in [("fmq", false), ("fmq+flag", true)] {
        let (mut producer, mut consumer) =
            Queue::<T>::builder(RING / bytes).event_flag(flag).pair().unwrap();
        group.bench_function(BenchmarkId::new(form, bytes), |b| {
            b.iter(|| {
                producer.try_push(black_box(item)).unwrap();
                consumer.try_pop().unwrap()
            });
        });
    }
    let (mut producer, mut consumer) = rtrb::RingBuffer::<T>::new(RING / bytes);
    group.bench_function(BenchmarkId::new("rtrb", bytes), |b| {
        b.iter(|| {
            producer.push(black_box(item)).unwrap();
            consumer.pop().unwrap()
        });
    });
    let queue = ArrayQueue::new(RING / bytes);
    group.bench_function(BenchmarkId::new("crossbeam", bytes), |b| {
        b.iter(|| {
            queue.push(black_box(item)).unwrap();
            queue.pop().unwrap()
        });
    });
    group.finish();
}

/// Batches of burst elements (24 bytes), written and read whole.
fn batch(c: &mut Criterion) {
    let mut group = c.benchmark_group("fmq_ring/batch");
    for items in [8_usize, 42, 200] {
        group.throughput(Throughput::Elements(items as u64));
        let (mut producer, mut consumer) = Queue::<[u64; 3]>::builder(RING / 24).pair().unwrap();
        let mut elements = vec![[7_u64; 3]; items];
        group.bench_function(BenchmarkId::new("fmq", items), |b| {
            b.iter(|| {
                producer.try_write(black_box(&elements)).unwrap();
                consumer.try_read(&mut elements).unwrap();
            });
        });
    }
    group.finish();
}

/// The zero-copy form of the same.
fn transaction(c: &mut Criterion) {
    let mut group = c.benchmark_group("fmq_ring/transaction");
    let (mut producer, mut consumer) = Queue::<[u64; 3]>::builder(RING / 24).pair().unwrap();
    let elements = [[7_u64; 3]; 42];
    group.bench_function(BenchmarkId::new("fmq", 42), |b| {
        b.iter(|| {
            let mut slots = producer.write_transaction(42).unwrap();
            slots.copy_from(0, black_box(&elements)).unwrap();
            slots.commit();
            let slots = consumer.read_transaction(42).unwrap();
            let last = slots.item(41).unwrap();
            slots.commit();
            last
        });
    });
    group.finish();
}

criterion_group!(benches, push_pop::<u64>, push_pop::<[u64; 8]>, batch, transaction);
criterion_main!(benches);
