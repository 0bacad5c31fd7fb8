//! `cargo bench --bench publish`: one message, a batch, many callers or a window, through each client. What is swept is in `bench.toml`.

use std::process::ExitCode;

use redis_client_bench::measure::CountingAllocator;

mod support;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() -> ExitCode {
    support::pubsub::run("publish", redis_client_bench::plan::publish)
}
