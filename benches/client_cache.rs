//! `cargo bench --bench client_cache`: what a read by a client's cache costs, hit or miss, and the same client's read without
//! one. What is swept is in `bench.toml`.

use std::process::ExitCode;

use redis_client_bench::measure::CountingAllocator;

mod support;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() -> ExitCode {
    support::run("client_cache", redis_client_bench::plan::client_cache)
}
