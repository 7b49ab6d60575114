//! Nothing but tests: `libneuralnetworks.so` under the crates `nnapi` and `nnapi-sys`.
