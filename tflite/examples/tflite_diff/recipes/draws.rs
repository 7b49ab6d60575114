//! Random numbers of given seeds, lookups by key, and hashes.

use nnburst_tflite::TensorKind::{Float32, Int8, Int32, Int64, Uint8};
use nnburst_tflite::testing::{Fields, Value};

use crate::net::{Net, byte};

/// Two seeds, one of which is beyond 32 bits now and then.
fn seeds(net: &mut Net) -> Fields {
    let seed = i64::from(net.random.within(1, 1 << 30));
    let high = i64::from(net.random.below(3)) << 35;
    vec![(0, Value::I64(seed - high)), (1, Value::I64(seed / 3 + high))]
}

pub(super) fn distributed(net: &mut Net, name: &'static str) {
    Float32.name().clone_into(&mut net.label);
    let shape = net.shape((1, 3));
    let extents = net.ints(&shape);
    let output = net.file.tensor("out", Float32, &shape);
    let seeds = seeds(net);
    net.operator(name, &[extents], &[output], 114, seeds);
}

pub(super) fn multinomial(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Int32, Int64]);
    let [batches, classes, samples] = [3, 9, 12].map(|most| net.random.within(1, most));
    let logits = net.plain_input(Float32, &[batches, classes]);
    let count = net.file.int_constant("samples", &[], &[samples]);
    let output = net.file.tensor("out", kind, &[batches, samples]);
    let seeds = seeds(net);
    net.operator(name, &[logits, count], &[output], 114, seeds);
}

pub(super) fn hashtable_lookup(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int8, Int32]);
    let (count, rows) = (net.random.within(1, 6), net.random.within(1, 9));
    let wanted: Vec<u8> = (0..count).flat_map(|_| net.random.below(12).to_le_bytes()).collect();
    let lookups = net.file.input("lookups", Int32, &[count]);
    net.inputs.push(wanted);
    let mut key = -1;
    let keys: Vec<i32> = (0..rows)
        .map(|_| {
            key += net.random.within(1, 2);
            key
        })
        .collect();
    let keys = net.ints(&keys);
    let rest = net.shape((0, 2));
    let values = net.bytes(kind, &[&[rows], &rest[..]].concat());
    let values = net.file.constant("values", kind, &[&[rows], &rest[..]].concat(), &values);
    let output = net.moved(&[values], kind, &[&[count], &rest[..]].concat());
    let hits = net.file.tensor("hits", Uint8, &[count]);
    net.operator(name, &[lookups, keys, values], &[output, hits], 0, Vec::new());
}

pub(super) fn lsh_projection(net: &mut Net, name: &'static str) {
    let kind = net.kind(&[Float32, Int32]);
    let (functions, bits) = (net.random.within(1, 4), net.random.within(1, 12));
    let input = net.shape((1, 3));
    let hash = net.bytes(Float32, &[functions, bits]);
    let hash = net.file.constant("hash", Float32, &[functions, bits], &hash);
    let mut inputs = vec![hash, net.plain_input(kind, &input)];
    if net.random.flag() {
        inputs.push(net.plain_input(Float32, &input[..1]));
    }
    let is_dense = net.random.flag();
    let count = if is_dense { functions * bits } else { functions };
    let output = net.file.tensor("out", Int32, &[count]);
    net.operator(name, &inputs, &[output], 4, vec![byte(0, 1 + i32::from(is_dense))]);
}
