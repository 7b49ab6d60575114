//! Recurrent operations. States are plain inputs and outputs: nothing is kept between executions.

mod curves;
mod direction;
mod linear;
mod lstm;
mod lstm_cell;
mod math;
mod operands;
mod quantized_16bit_lstm;
mod quantized_lstm;
mod rnn;
mod sequence;
mod svdf;

pub(super) use lstm::{BIDIRECTIONAL_SEQUENCE_LSTM, LSTM, UNIDIRECTIONAL_SEQUENCE_LSTM};
pub(super) use quantized_16bit_lstm::{NextCell, QUANTIZED_16BIT_LSTM};
pub(super) use quantized_lstm::QUANTIZED_LSTM;
pub(crate) use quantized_lstm::{Cell as QuantizedCell, Steps as QuantizedSteps};
pub(super) use rnn::{BIDIRECTIONAL_SEQUENCE_RNN, RNN, UNIDIRECTIONAL_SEQUENCE_RNN};
pub(super) use svdf::SVDF;
