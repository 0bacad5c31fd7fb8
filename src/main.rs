//! `rcb`: the command-line tool. Parses and dispatches; everything else is in the library.

use std::process::ExitCode;

use redis_client_bench::cli;
use redis_client_bench::measure::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn main() -> ExitCode {
    cli::run()
}
