//! `cargo bench --bench subscribe`: what a delivered message costs, by client, subscribers and payload. What is swept is in `bench.toml`.

use std::process::ExitCode;

use redis_client_bench::measure::CountingAllocator;

mod support;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() -> ExitCode {
    support::pubsub::run("subscribe", redis_client_bench::plan::subscribe)
}
