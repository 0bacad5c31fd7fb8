//! `cargo bench --bench commands`: GET, SET and HKEYS through each client as it ships. What is swept is in `bench.toml`.

use std::process::ExitCode;

use redis_client_bench::measure::CountingAllocator;

mod support;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() -> ExitCode {
    support::run("commands", redis_client_bench::plan::commands)
}
