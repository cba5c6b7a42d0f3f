//! Both sides of a server connection. The properties are in `pooling::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pooling::fuzz::conversation(data));
