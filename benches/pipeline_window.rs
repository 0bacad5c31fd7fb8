//! `cargo bench --bench pipeline_window`: the pipeline window over every client. What is swept is in `bench.toml`.

use std::process::ExitCode;

use redis_client_bench::measure::CountingAllocator;

mod support;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() -> ExitCode {
    support::run("pipeline_window", redis_client_bench::plan::pipeline_window)
}
